"""What a monitor writes: goodput, badput, windows and step deviations, as scalars under the peer's names."""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from ..log.store import tell, utc_now
from ..log.tensorboard import TensorBoard
from ..peer_rules.rules import CompatError
from ..peer_rules.steps import compat_deviations_from
from ..peer_rules.types import BadputTimes
from ..yield_hook import YieldHook
from .job import CompatJob

_PIECE = 64
MOST_AT_THE_END = 10_000
"""Step deviations that can be written while somebody waits: 0.1 s or so."""


class Scalar(NamedTuple):
    """A number at a step; TensorBoard shows it under `title`, by default under its tag."""

    tag: str
    value: float
    step: int
    title: str = ""


Find: TypeAlias = Callable[[YieldHook, bool], Iterator[list[Scalar]]]
"""Finds what there is to write, in pieces: a :data:`~.periodic_tasks.Work` but for the writing.

It is asked for the next piece when the last one is written: how far it has come, it counts then.
"""


def write(board: TensorBoard, find: Find, yield_hook: YieldHook, is_last: bool) -> None:
    """Write down what is found. Raises OSError, and whatever finding it raises."""
    for piece in find(yield_hook, is_last):
        for tag, value, step, title in piece:
            board.add_scalar(tag, value, step, display_name=title)
        board.flush()


def goodput(
    job: CompatJob,
    with_badput: bool,
    elastic: bool,
    with_slices: bool,
    _yield_hook: YieldHook,
    _is_last: bool,
) -> Iterator[list[Scalar]]:
    """Goodput of the job so far, its badput by type, and the slices of an elastic one."""
    account = job.account(utc_now().timestamp(), elastic=elastic)
    step = account.max_productive_step
    found = [Scalar("goodput/goodput", account.goodput_percent, step, "goodput")]
    if with_badput:
        found += _badput("badput", account.breakdown(), step)
    if with_slices and (efficiency := job.slice_efficiency(account.total_s)) is not None:
        found.append(Scalar("elastic/stepping_slice_efficiency", efficiency[0], step))
        found.append(Scalar("elastic/available_slice_efficiency", efficiency[1], step))
    yield found


class Deviations:
    """How far each step is from the ideal one: each is told once, from the first one on."""

    def __init__(
        self, job: CompatJob, ideal_step_time_s: float | None, most_at_the_end: int = MOST_AT_THE_END
    ) -> None:
        self._job = job
        self._most_at_the_end = most_at_the_end
        self._ideal_step_time_s = ideal_step_time_s
        self._told = 0

    def find(self, yield_hook: YieldHook, is_last: bool) -> Iterator[list[Scalar]]:
        """Those that were not told; as long as nobody waits for another work, and not too many at the end."""
        times_s = self._job.steps.times_s
        steps, deviations_s = compat_deviations_from(self._told, times_s, self._ideal_step_time_s, yield_hook)
        left_out = max(0, len(steps) - self._most_at_the_end) if is_last else 0
        if left_out:
            tell(f"of {left_out} steps no deviation is written: there is no time for more than the last ones")
            self._told += left_out
        for begin in range(left_out, len(steps), _PIECE):
            if yield_hook() and not is_last:
                return
            piece = slice(begin, begin + _PIECE)
            told_s = zip(steps[piece], deviations_s[piece].tolist(), strict=True)
            found = [Scalar("step_deviation", deviation_s, step) for step, deviation_s in told_s]
            yield found
            self._told += len(found)  # not if the write fails: nobody asks for more then


def rolling(
    job: CompatJob, windows_s: tuple[int, ...], elastic: bool, yield_hook: YieldHook, _is_last: bool
) -> Iterator[list[Scalar]]:
    """Goodput and badput of the last so many seconds; nothing of a window in which nothing happened."""
    now_s = utc_now().timestamp()
    for window_s in windows_s:
        with suppress(CompatError):
            account = job.window(now_s - window_s, now_s, elastic=elastic, yield_hook=yield_hook)
            step = account.max_productive_step
            share = Scalar(f"rolling_goodput/{window_s}s", account.goodput_percent, step)
            yield [share, *_badput(f"rolling_badput/{window_s}s", account.breakdown(), step)]


def _badput(label: str, badput: BadputTimes, step: int) -> Iterator[Scalar]:
    for kind, percent in badput.items():
        title = kind.name.lower()
        tag = f"{label}/{title}"
        if isinstance(percent, dict):
            for name, part in percent.items():
                yield Scalar(f"{tag}/{name.lower()}", part, step, name.lower())
        else:
            yield Scalar(tag, percent, step, title)
