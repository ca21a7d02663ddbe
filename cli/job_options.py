"""Options of the commands that start a job or describe one: what no observation can tell among them."""

from dataclasses import dataclass
from typing import NamedTuple

import click
from msgspec.structs import replace

from ..daemon.launch.environment import Trace
from ..daemon.launch.preload import Preload
from ..intents.declared import Declared
from ..units import parse_duration_s
from .options import option

_LARGEST = 2**31 - 1


class Bounds(NamedTuple):
    """At least and at most so many; None where there is no bound."""

    least: int | None = None
    most: int | None = None


def _bounds(text: str) -> Bounds:
    """Return the numbers of ``MIN``, ``MIN:MAX``, ``MIN:`` or ``:MAX``. Raises ValueError."""
    least, _, most = text.partition(":")
    if not (least or most) or not all(each.isascii() and each.isdigit() for each in (least, most) if each):
        raise ValueError(f"{text!r} is no MIN, MIN:MAX or :MAX, as in 5, 5:20 or :20")
    found = Bounds(*(int(each) if each else None for each in (least, most)))
    if max(filter(None, found), default=0) > _LARGEST:
        raise ValueError(f"{text!r}: {_LARGEST} at most")
    return found


@dataclass(frozen=True)
class Traced:
    """The option of a command that starts a job under DFTracer."""

    trace: Trace = option(
        "--trace",
        "How DFTracer gets in: preloaded, by the application's own initialize_log, or not at all;"
        " auto: preloaded where it can be paused.",
        default="auto",
    )


@dataclass(frozen=True)
class Preloaded:
    """The option of a command that prepares the environment of an application."""

    preload: Preload = option(
        "--preload",
        "libscrtune.so for C, C++ and Fortran: where it was built, always (a warning if not), or never.",
        default="auto",
    )


@dataclass(frozen=True)
class Declarations:
    """Options of the commands to which a user describes a job, one that ran before among them."""

    losses: int | None = option(
        "--tolerate-losses N",
        "How many nodes may be lost at once without a checkpoint in the cache being lost.",
        click.IntRange(0, _LARGEST),
    )
    keep: Bounds | None = option(
        "--keep-checkpoints MIN[:MAX]",
        "How many checkpoints stay in the prefix directory; SCR deletes older ones.  [default: all]",
        parse=_bounds,
    )
    checkpoints: Bounds | None = option(
        "--checkpoints MIN[:MAX]", "How many checkpoints the whole job shall take.", parse=_bounds
    )
    overhead: float | None = option(
        "--checkpoint-overhead PERCENT",
        "How much of the job's time checkpoints may take.",
        click.FloatRange(0, 100),
    )
    run_s: float | None = option(
        "--run-length TIME", "How long the whole job computes, as in 90m, 12h, 3d.", parse=parse_duration_s
    )

    @property
    def declared(self) -> Declared:
        """The same, as a job takes it."""
        (keep_least, keep_most), (least, most) = self.keep or Bounds(), self.checkpoints or Bounds()
        return Declared(
            losses=self.losses,
            keep_least=keep_least,
            keep_most=keep_most,
            checkpoints_least=least,
            checkpoints_most=most,
            overhead=None if self.overhead is None else self.overhead / 100,
            run_s=self.run_s,
        )


@dataclass(frozen=True)
class RunDeclarations(Declarations):
    """Options of the command that starts a job."""

    clean_start: bool = option(
        "--clean-start",
        "Delete what is in SCR's cache when the job starts for the first time, not at restarts.",
    )
    metric: str | None = option(
        "--watch-metric NAME", "The recorded metric that shall not diverge, as in loss."
    )

    @property
    def all_declared(self) -> Declared:
        """The same, as a job takes it."""
        return replace(self.declared, clean_start=self.clean_start, metric=self.metric or "")
