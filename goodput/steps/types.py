"""Result structs of the analysis of steps; apart from the arithmetic, which loads numpy."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class StepDeviations:
    """Each step's number and distance from the ideal (s), of a step that was computed again the last one."""

    def __init__(self, numbers: "NDArray[np.int64]", seconds: "NDArray[np.float64]") -> None:
        self._columns = numbers, seconds

    def __iter__(self) -> Iterator[tuple[int, float]]:
        return zip(*(column.tolist() for column in self._columns), strict=True)


class SlowStep(msgspec.Struct, frozen=True, kw_only=True):
    """A step that took long: its number, when it began (epoch seconds), in which run, by which writer.

    With sparse numbers it stands for `steps` steps from that number on, each of which took so long.
    """

    step: int
    steps: int
    took_s: float
    start_s: float
    run: int
    writer: str = ""


class Straggler(msgspec.Struct, frozen=True, kw_only=True):
    """`writer` took `took_s` a step, `excess_s` longer than the others, `ratio` times as long (medians, s).

    It was so in `slow` of the `steps` that it and at least one other rank recorded.
    """

    writer: str
    ratio: float
    excess_s: float
    took_s: float
    steps: int
    slow: int


class StepSummary(msgspec.Struct, frozen=True, kw_only=True):
    """The step times of a job, or of a window of it; all in seconds.

    `peers_ideal_s` is the ideal by ml-goodput-measurement's rules, `no_peers_ideal` says why it gives none.
    `deviation_s` is the mean distance of a step from the ideal, `rolling_deviation_s` that of the last
    `rolling` ones. `no_stragglers` says why it cannot be said who holds the others up.
    """

    steps: int
    stride: int = 1
    mean_s: float
    ideal_s: float
    peers_ideal_s: float | None
    no_peers_ideal: str
    deviation_s: float
    rolling_deviation_s: float
    rolling: int
    slowest: tuple[SlowStep, ...]
    stragglers: tuple[Straggler, ...]
    no_stragglers: str
    deviations_s: StepDeviations
