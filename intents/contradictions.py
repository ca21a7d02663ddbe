"""What the user declared and cannot be: told, with what counts instead. It never stops a job."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .declared import Declared
from .events import Durability, SettingsObserved
from .observe.faults.redundancy import FLOORS, declared_losses, keeps_floor, most_survived

if TYPE_CHECKING:  # `scrtune run` asks about declarations alone, before the application is there
    from .observe.intents import Intents


def contradictions(job: SettingsObserved, intents: "Intents") -> tuple[str, ...]:
    """Return what is contradictory in what was said of `job`, by itself and with what was observed."""
    return (*_unknown(job), *in_declared(job.declared), *_in_job(job, intents))


def _unknown(job: SettingsObserved) -> Iterator[str]:
    if job.floor and job.floor.upper() not in FLOORS:
        known = ", ".join(sorted(FLOORS))
        yield f"redundancy floor {job.floor!r} is not one of {known}; the user's scheme is the floor"
    if job.durability and job.durability not in set(Durability):
        known = ", ".join(Durability)
        yield f"durability {job.durability!r} is not one of {known}; it counts as not declared"


def in_declared(said: Declared) -> Iterator[str]:
    """Yield the contradictions that no job has to be known for."""
    if said.keep_least and said.keep_most is not None and said.keep_least > said.keep_most:
        yield (
            f"--keep-checkpoints {said.keep_least}:{said.keep_most}: at least {said.keep_least} and at most"
            f" {said.keep_most} cannot be; {said.keep_least} are kept"
        )
    elif said.keep_most == 0:
        yield "--keep-checkpoints: at most 0 would keep none; all are kept"
    least, most = said.checkpoints_least or 0, said.checkpoints_most
    if most is not None and least > most:
        yield f"--checkpoints {least}:{most}: at least {least} and at most {most} cannot be; {least} counts"
    elif most is not None and (said.keep_least or 0) > most:
        yield f"--keep-checkpoints {said.keep_least} of {most} checkpoints at most (--checkpoints) are all"
    if said.overhead == 0 and least > 0:
        yield f"--checkpoint-overhead 0 and at least {least} checkpoints (--checkpoints) cannot be"


def _in_job(job: SettingsObserved, intents: "Intents") -> Iterator[str]:
    losses, faults, begun = job.declared.losses, intents.faults, intents.clean_start
    if losses is not None and losses > (most := declared_losses(job)):
        yield (
            f"--tolerate-losses {losses}: a checkpoint in the cache survives {most} at most"
            f" ({most_survived(job)}); one in the prefix directory survives all (--durability)"
        )
    named = FLOORS.get(job.floor.upper(), "")
    if named == "RS" and faults.floor != "RS":
        yield f"--redundancy-floor {job.floor}: {most_survived(job)}; {faults.floor} counts"
    if losses is not None and named and not keeps_floor(named, faults.floor):
        yield f"--redundancy-floor {job.floor} survives less than --tolerate-losses {losses}, which counts"
    if begun.declared and begun.source and begun.runs == 1:
        yield (
            f"--clean-start, and yet the first run went on from {begun.restarted!r} ({begun.source}): it"
            " concerns the cache at the job's first start alone; for a job from scratch set SCR_FETCH=0, or"
            " another SCR_PREFIX"
        )
