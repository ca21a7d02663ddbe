"""The settings that a what-if compares: those that are asked for, else a grid around what the runs had."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import product
from math import prod
from typing import NamedTuple

import msgspec

from ...intents.events import Value, Values
from ...intents.observe.faults.redundancy import effective
from ...intents.settings import DEFAULTS, is_asynchronous, is_cached
from ...intents.tune.belief.shape import Shape
from .evidence import FACTS, RunEvidence, is_flushed
from .fit import Case

PARAMETERS = tuple(sorted(DEFAULTS.keys() - {"SCR_FLUSH_WIDTH", "SCRTUNE_DROP_BEHIND"}))
"""The parameters that may vary. SCR 3 ignores SCR_FLUSH_WIDTH; no trace says which pages were new."""
MOST = 20_000
_MIB = 1024**2
_SHAPE_FIELDS = {"cores_per_rank": "mask_cores", "interval": "between_s"}

Domains = Mapping[str, Sequence[Value]]


class Candidate(NamedTuple):
    """Settings that may be chosen: `shown` are those that have an effect, `job` what differs of the job."""

    case: Case
    shown: Values
    job: Values


def domains(like: RunEvidence, runs: Iterable[RunEvidence], asked: Domains) -> dict[str, tuple[Value, ...]]:
    """Return the values of each parameter that varies: those of `asked`, or of a grid if it names none.

    Raises ValueError for what the model does not know, and for more settings than anybody reads.
    """
    if unknown := sorted(asked.keys() - {*PARAMETERS, *FACTS}):
        raise ValueError(f"the model has no {unknown[0]}; it has {', '.join((*PARAMETERS, *FACTS))}")
    found = {name: tuple(dict.fromkeys(values)) for name, values in asked.items()}
    if found.keys() <= {*FACTS}:
        found = _grid(like, [run for run in runs if run.with_scr]) | found
    if (count := prod(map(len, found.values()))) > MOST:
        raise ValueError(f"{count:,} settings are too many ({MOST:,}): vary fewer parameters")
    return found


def _grid(like: RunEvidence, runs: Sequence[RunEvidence]) -> dict[str, tuple[Value, ...]]:
    """Return the values that runs had, and others that are worth a look."""
    shape = like.shape

    def seen(name: str, *others: Value) -> tuple[Value, ...]:
        had = [run.settings[name] for run in runs if name in relevant(run.settings, run.shape)]
        return tuple(dict.fromkeys((*had, *others)))

    idle = next((cpus for run in runs if (cpus := run.settings["SCRTUNE_FLUSH_CPUS"])), "idle")
    return {
        "SCR_CACHE_BYPASS": (0, 1),
        "SCR_COPY_TYPE": seen("SCR_COPY_TYPE", "SINGLE", *(("PARTNER", "XOR") if shape.nodes > 1 else ())),
        "SCR_FLUSH": tuple(every for every in seen("SCR_FLUSH", 1) if every),
        "SCR_FLUSH_TYPE": ("PTHREAD", "SYNC"),
        "SCR_FLUSH_ASYNC": (1, 0),
        "SCRTUNE_FLUSH_THREADS": seen("SCRTUNE_FLUSH_THREADS", 1, 2, 4, 16),
        "SCRTUNE_FLUSH_CPUS": ("", idle) if shape.bound else ("",),
        "SCR_FILE_BUF_SIZE": seen("SCR_FILE_BUF_SIZE", 1 * _MIB, 32 * _MIB),
        "SCR_CACHE_SIZE": seen("SCR_CACHE_SIZE", 1, 2),
    }


def candidates(like: RunEvidence, varied: Domains) -> list[Candidate]:
    """Return all settings that `varied` makes of those of `like`, each effect once; those of `like` first."""
    had = set(relevant(like.settings, like.shape)) if like.with_scr else set()
    own = {
        name: (like.settings[name], *values) if name in had else values
        for name, values in varied.items()
        if name in PARAMETERS
    }
    facts = [name for name in FACTS if name in varied]
    found: dict[object, Candidate] = {}
    for job in _products({name: varied[name] for name in facts}):
        shape = with_facts(like.shape, job)
        for chosen in _products(own):
            each = candidate(like, chosen, shape, job)
            found.setdefault((tuple(each.shown.items()), tuple(job.items())), each)
    return list(found.values())


def candidate(like: RunEvidence, chosen: Values, shape: Shape, job: Values) -> Candidate:
    """Return `chosen` laid over the settings of `like`, in a job of `shape`."""
    settings = like.settings | chosen
    shown = {name: settings[name] for name in relevant(settings, shape)}
    if "SCR_COPY_TYPE" in shown:
        shown["SCR_COPY_TYPE"] = effective(str(shown["SCR_COPY_TYPE"]), shape.nodes)
    return Candidate(Case(settings, shape, like.largest_file), shown, job)


def with_facts(shape: Shape, facts: Values) -> Shape:
    """Return `shape` with other :data:`FACTS`; a mask has no more cores than a node."""
    changed = msgspec.structs.replace(
        shape, **{_SHAPE_FIELDS.get(name, name): value for name, value in facts.items()}
    )
    if not shape.bound and "cores_per_rank" not in facts:
        return msgspec.structs.replace(changed, mask_cores=changed.cores)
    return msgspec.structs.replace(changed, mask_cores=min(changed.mask_cores, changed.cores))


def relevant(settings: Values, shape: Shape) -> Iterator[str]:
    """Yield the parameters that have an effect under `settings`."""
    yield "SCR_CACHE_BYPASS"
    if not is_cached(settings):
        return
    yield "SCR_COPY_TYPE"
    scheme = effective(str(settings["SCR_COPY_TYPE"]), shape.nodes)
    if scheme != "SINGLE":
        yield from ("SCR_MPI_BUF_SIZE", *(("SCR_SET_SIZE",) if scheme != "PARTNER" else ()))
    yield "SCR_FLUSH"
    if not is_flushed(settings):
        return
    yield from ("SCR_FLUSH_TYPE", "SCR_FILE_BUF_SIZE")
    if settings["SCR_FLUSH_TYPE"] != "SYNC":
        yield from ("SCR_FLUSH_ASYNC", "SCRTUNE_FLUSH_THREADS")
        if shape.bound:
            yield "SCRTUNE_FLUSH_CPUS"
    if is_asynchronous(settings):
        yield "SCR_CACHE_SIZE"


def _products(values: Domains) -> Iterator[Values]:
    for chosen in product(*values.values()):
        yield dict(zip(values, chosen, strict=True))
