"""The cost model (`intents/tune/belief/model.py`) against the LLNL study, row by row, with one set of rates.

python -m benchmarks.model_study

Megatron-DeepSpeed on 2 nodes x 8 ranks, 6 checkpoints, a heavy rank: 44 files of 0.14 GiB and one of 5.24.
Checkpoint seconds are of all 6 together, of the slowest rank; flush seconds of one thread and checkpoint. The
rates are fitted by hand to these very rows, so the errors are those of a fit and no forecast; those of a tier
are as if every rank were as heavy.
"""

from dataclasses import dataclass
from math import inf

import numpy as np

from scrtune.intents.events import Values
from scrtune.intents.settings import DEFAULTS
from scrtune.intents.tune.belief.model import GIB, PRIORS, predict
from scrtune.intents.tune.belief.shape import Columns, Shape

CHECKPOINTS = 6
SHAPE = Shape(
    nodes=2,
    ranks_per_node=8,
    rank_bytes=11.42 * GIB,
    files=45,
    between_s=100.0,
    cores=48,
    used_cores=1.0,
    mask_cores=1,
)
FITTED = {
    "cache_bytes_per_s": 4.34 * GIB,
    "cache_fixed_s": 0.0,
    "cache_file_s": 0.0815,
    "thread_bytes_per_s": 0.714 * GIB,
    "prefix_bytes_per_s": 6.88 * GIB,
    "prefix_file_s": 0.1556,
    "writer_share": 0.931,
    "bound_share": 0.468,
    "largest_file": 5.24 / 11.42,
    "encode_read_bytes_per_s": 20.75 * GIB,
    "encode_send_bytes_per_s": 20.75 * GIB,
    "encode_xor_bytes_per_s": 20.75 * GIB,
    "message_s": 0.0,
    "contention": 0.15,
    "thread_cores": 0.02,
    "interference": 0.0,
    "cache_misses": 0.0,
    "application_bytes_per_s": inf,
    "copy_bytes_per_s": 2.38 * GIB,
    "shared_bytes_per_s": inf,
    "create_s": 0.0,
}
"""Bytes a second, seconds, and shares, by the names of :data:`..intents.tune.belief.model.PRIORS`."""

WITHOUT_SCR = {"cache_file_s": 0.0, "prefix_file_s": 0.0}
"""SCR's file map is most of what a file costs: 20 s of the 24 s between `base SSD` and `SSD, SINGLE`."""


@dataclass(frozen=True)
class Row:
    """A configuration of the study, its settings, and what was measured; no `flush_s`: no flush."""

    name: str
    settings: Values
    checkpoints_s: float
    flush_s: float = 0.0
    is_scr: bool = True


@dataclass(frozen=True)
class Predicted:
    """What the model says of a row."""

    row: Row
    checkpoints_s: float
    flush_s: float

    @property
    def checkpoints_error(self) -> float:
        """Of the checkpoint seconds, relative."""
        return self.checkpoints_s / self.row.checkpoints_s - 1

    @property
    def flush_error(self) -> float | None:
        """Of the flush seconds, relative; None where nothing was flushed."""
        return self.flush_s / self.row.flush_s - 1 if self.row.flush_s else None


def _cached(threads: int = 16, *, mib: int = 32, unbound: bool = False, scheme: str = "SINGLE") -> Values:
    return {
        **DEFAULTS,
        "SCR_CACHE_BYPASS": 0,
        "SCR_FLUSH": 1,
        "SCR_FLUSH_ASYNC": 1,
        "SCR_FLUSH_TYPE": "PTHREAD",
        "SCR_COPY_TYPE": scheme,
        "SCR_FILE_BUF_SIZE": mib * 1024**2,
        "SCRTUNE_FLUSH_THREADS": threads,
        "SCRTUNE_FLUSH_CPUS": "0-47" if unbound else "",
    }


MAX_MIB = 1792
ROWS = (
    Row("base PFS", DEFAULTS, 103.1, is_scr=False),
    Row("base SSD", _cached(), 126.3, is_scr=False),
    Row("bypass", DEFAULTS, 145.1),
    Row("SSD, XOR", _cached(scheme="XOR"), 349.1),
    Row("SSD, SINGLE", _cached(), 153.4),
    Row("PFS, XOR", _cached(scheme="XOR"), 378.2, 34.2),
    Row("PFS, SINGLE, 16 threads, 32 MiB", _cached(), 167.2, 30.1),
    Row("PFS, SINGLE, 16 threads, 128 MiB", _cached(mib=128), 164.7, 30.8),
    Row("PFS, SINGLE, 1 thread", _cached(1, mib=128), 160.0, 41.1),
    Row("PFS, SINGLE, 2 threads", _cached(2, mib=128), 159.8, 34.8),
    Row("PFS, SINGLE, 1 thread, 1.75 GiB", _cached(1, mib=MAX_MIB), 156.9, 41.4),
    Row("PFS, SINGLE, 1 thread, unbound", _cached(1, mib=MAX_MIB, unbound=True), 148.0, 23.0),
    Row("PFS, SINGLE, 2 threads, unbound", _cached(2, mib=MAX_MIB, unbound=True), 150.3, 16.8),
    Row("PFS, SINGLE, 16 threads, unbound", _cached(mib=MAX_MIB, unbound=True), 145.8, 14.3),
)


def predicted(row: Row) -> Predicted:
    """Return the model's prediction of a row."""
    named = {**{name: prior.median for name, prior in PRIORS.items()}, **FITTED}
    if not row.is_scr:
        named |= WITHOUT_SCR
    rates = {name: np.array([value]) for name, value in named.items()}
    parts = predict(Columns.of([row.settings], SHAPE), SHAPE, rates)
    blocking_s = parts.write_s + parts.encode_s
    if row.flush_s:
        blocking_s = blocking_s + parts.wait_s + parts.slowdown_s
    return Predicted(row, CHECKPOINTS * blocking_s.item(), parts.flush_s.item())


def mean_errors(found: list[Predicted]) -> tuple[float, float]:
    """Return the mean absolute relative errors of checkpoint and flush seconds."""
    flushes = [abs(each.flush_error) for each in found if each.flush_error is not None]
    return float(np.mean([abs(each.checkpoints_error) for each in found])), float(np.mean(flushes))


def main() -> None:
    """Print measured, predicted and error of each row, and the means."""
    found = [predicted(row) for row in ROWS]
    print("| row | checkpoint s | model | error | flush s | model | error |\n|---|---|---|---|---|---|---|")
    for each in found:
        cells = [each.row.name, f"{each.row.checkpoints_s:.1f}", f"{each.checkpoints_s:.1f}"]
        cells.append(f"{each.checkpoints_error:+.1%}")
        if (error := each.flush_error) is not None:
            cells += [f"{each.row.flush_s:.1f}", f"{each.flush_s:.1f}", f"{error:+.1%}"]
        print("| " + " | ".join(cells + ["-"] * (7 - len(cells))) + " |")
    checkpoints, flushes = mean_errors(found)
    print(f"\nMean absolute error: {checkpoints:.1%} of checkpoint time, {flushes:.1%} of flush time.")


if __name__ == "__main__":
    main()
