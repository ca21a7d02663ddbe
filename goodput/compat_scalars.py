"""What a monitor writes: goodput, badput, windows and step deviations, as scalars under the peer's names."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TypeAlias

from .compat_job import CompatJob
from .compat_rules import CompatError
from .compat_steps import compat_deviations_from
from .compat_types import BadputTimes
from .store import tell, utc_now
from .tensorboard import TensorBoard
from .uploads import Rest

_FLUSHED_AT_ONCE = 4096
_PIECE = 64
_MOST_AT_THE_END = 10_000
"""Step deviations that can be written while somebody waits: 0.1 s or so."""

Scalar: TypeAlias = tuple[str, float, int]
"""Tag, value, step."""

Find: TypeAlias = Callable[[Rest, bool], Iterable[Scalar]]
"""Finds what there is to write: a :data:`~.uploads.Work` but for the writing."""


def write(board: TensorBoard, find: Find, rest: Rest, is_last: bool) -> None:
    """Write down what is found. Raises OSError, and whatever finding it raises."""
    for number, (tag, value, step) in enumerate(find(rest, is_last), 1):
        board.add_scalar(tag, value, step)
        if not number % _FLUSHED_AT_ONCE:
            board.flush()
    board.flush()


def goodput(
    job: CompatJob,
    with_badput: bool,
    elastic: bool,
    with_slices: bool,
    _rest: Rest,
    _is_last: bool,
) -> Iterator[Scalar]:
    """Goodput of the job so far, its badput by type, and the slices of an elastic one."""
    account = job.account(utc_now().timestamp(), elastic=elastic)
    step = account.max_productive_step
    yield "goodput/goodput", account.goodput_percent, step
    if with_badput:
        yield from _badput("badput", account.breakdown(), step)
    if with_slices and (efficiency := job.slice_efficiency(account.total_s)) is not None:
        yield "elastic/stepping_slice_efficiency", efficiency[0], step
        yield "elastic/available_slice_efficiency", efficiency[1], step


class Deviations:
    """How far each step is from the ideal one: each is told once, from the first one on."""

    def __init__(self, job: CompatJob, ideal_step_time_s: float | None) -> None:
        self._job = job
        self._ideal_step_time_s = ideal_step_time_s
        self._told = 0

    def find(self, rest: Rest, is_last: bool) -> Iterator[Scalar]:
        """Those that were not told; as long as nobody waits for another work, and not too many at the end."""
        times_s = self._job.steps.times_s
        steps, deviations_s = compat_deviations_from(self._told, times_s, self._ideal_step_time_s, rest)
        left_out = max(0, len(steps) - _MOST_AT_THE_END) if is_last else 0
        if left_out:
            tell(f"of {left_out} steps no deviation is written: there is no time for more than the last ones")
            self._told += left_out
        for begin in range(left_out, len(steps), _PIECE):
            if rest() and not is_last:
                return
            piece = steps[begin : begin + _PIECE]
            self._told += len(piece)
            for step, deviation_s in zip(piece, deviations_s[begin : begin + _PIECE].tolist(), strict=True):
                yield "step_deviation", deviation_s, step


def rolling(
    job: CompatJob, windows_s: tuple[int, ...], elastic: bool, rest: Rest, _is_last: bool
) -> Iterator[Scalar]:
    """Goodput and badput of the last so many seconds; nothing of a window in which nothing happened."""
    now_s = utc_now().timestamp()
    for window_s in windows_s:
        with suppress(CompatError):
            account = job.window(now_s - window_s, now_s, elastic=elastic, rest=rest)
            step = account.max_productive_step
            yield f"rolling_goodput/{window_s}s", account.goodput_percent, step
            yield from _badput(f"rolling_badput/{window_s}s", account.breakdown(), step)


def _badput(label: str, badput: BadputTimes, step: int) -> Iterator[Scalar]:
    for kind, percent in badput.items():
        tag = f"{label}/{kind.name.lower()}"
        if isinstance(percent, dict):
            for name, part in percent.items():
                yield f"{tag}/{name.lower()}", part, step
        else:
            yield tag, percent, step
