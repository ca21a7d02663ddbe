"""Snapshots as TensorBoard's scalars and as rows of a CSV file, each written on a thread of its own."""

import csv
import io
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import msgspec

from ...goodput.buckets import CUSTOM, PRODUCTIVE
from ...goodput.ledger.ledger import Account, Window
from ...goodput.log.append import AppendedFile
from ...goodput.log.tensorboard import TensorBoard
from .snapshot import Deviations, Snapshot

log = logging.getLogger("scrtune")

_PERCENT = 100.0
_HANGS_S = 10.0
_TIME = "time_s"
_MOST_DEVIATIONS = 10_000
"""Of steps that are not written yet: a disk that is full for days costs no more than a megabyte."""


Write: TypeAlias = Callable[[Snapshot], None]
"""Writes a snapshot. Raises whatever keeps it from that."""


def to_tensorboard(directory: Path) -> "Writer":
    """Writes scalars into event files in `directory`."""

    def opened() -> Write:
        try:
            return TensorBoardScalars(TensorBoard(directory)).write
        except Exception as error:  # not installed, or with a protobuf that it refuses
            raise ImportError(f"{error}; pip install --upgrade 'scrtune[monitoring]'") from error

    return Writer(f"scalars in {directory}", opened)


def to_csv(path: Path) -> "Writer":
    """Appends rows to the file at `path`."""

    def opened() -> Write:
        rows = CsvRows(path)
        with suppress(OSError):  # that is tried again with each write
            if path.is_file():
                rows.columns()
        return rows.write

    return Writer(f"rows in {path}", opened)


class Writer:
    """Writes each snapshot that it is given, on a thread of its own: one file system cannot hold up another.

    `open_output` is called there, for it may load a library; what it returns writes a snapshot. If it raises,
    nothing is ever written, and that is told. What cannot be written later is told, once while it stays the
    same, and tried again with the next snapshot. A snapshot that comes while the last one is still being
    written waits; a newer one takes its place, and has the steps of both.
    """

    def __init__(self, name: str, open_output: Callable[[], Write]) -> None:
        self.name = name
        self._open_output = open_output
        self._changed = threading.Condition()
        self._waiting: Snapshot | None = None
        self._over = False
        self._failure = ""
        self._began_s: float | None = None
        self._thread = threading.Thread(target=self._run, name="writer", daemon=True)
        self._thread.start()

    @property
    def failure(self) -> str:
        """Why the last snapshot is not written; empty when it is, or nothing had to be."""
        began_s = self._began_s
        if began_s is not None and (took_s := time.monotonic() - began_s) > _HANGS_S:
            return f"the last write has not ended for {took_s:.0f} s"
        return self._failure

    def give(self, snapshot: Snapshot) -> None:
        """Have this one written as soon as the last one is."""
        with self._changed:
            if self._waiting is not None:
                both = _newest(self._waiting.deviations + snapshot.deviations)
                snapshot = msgspec.structs.replace(snapshot, deviations=both)
            self._waiting = snapshot
            self._changed.notify()

    def finish(self) -> None:
        """Write what waits, and nothing after it."""
        with self._changed:
            self._over = True
            self._changed.notify()

    def join(self, timeout_s: float) -> bool:
        """Whether that was done in time."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        self._began_s = time.monotonic()
        try:
            write = self._open_output()
        except Exception as error:  # noqa: BLE001  monitoring never ends a job
            self._failed(f"nothing is written: {error}")
            return
        finally:
            self._began_s = None
        while (snapshot := self._next()) is not None:
            if not snapshot.is_begun:
                continue
            self._began_s = time.monotonic()
            try:
                write(snapshot)
            except Exception as error:  # noqa: BLE001  monitoring never ends a job
                self._failed(f"cannot be written: {error}; it is tried again")
            else:
                self._failure = ""
            self._began_s = None

    def _failed(self, why: str) -> None:
        """Tell it, once while it stays the same."""
        if why != self._failure:
            log.error("%s: %s", self.name, why)
        self._failure = why

    def _next(self) -> Snapshot | None:
        with self._changed:
            while self._waiting is None and not self._over:
                self._changed.wait()
            snapshot, self._waiting = self._waiting, None
            return snapshot


class TensorBoardScalars:
    """Goodput, badput and step deviations under ml-goodput-measurement's names, with our buckets, and more.

    Shares are in percent of the wall time, or of the window; the rest is in seconds. A step whose deviation
    could not be written is written with the next snapshot.
    """

    def __init__(self, writer: TensorBoard) -> None:
        self._writer = writer
        self._deviations: Deviations = ()

    def write(self, snapshot: Snapshot) -> None:
        """Add what `snapshot` says. Raises OSError."""
        for tag, value in _scalars(snapshot):
            self._writer.add_scalar(tag, value, snapshot.progress, snapshot.time_s)
        self._deviations = _newest(self._deviations + snapshot.deviations)
        for step, deviation_s in self._deviations:
            self._writer.add_scalar("step_deviation", deviation_s, step, snapshot.time_s)
        self._writer.flush()
        self._deviations = ()


def _newest(deviations: Deviations) -> Deviations:
    return deviations[-_MOST_DEVIATIONS:]


def _scalars(snapshot: Snapshot) -> Iterator[tuple[str, float]]:
    account = snapshot.account
    yield "goodput/goodput", _PERCENT * account.goodput
    yield "goodput/total_elapsed_time", account.wall_s
    yield "goodput/disruptions", max(0, account.runs - 1)
    yield "goodput/checkpoints", account.checkpoints
    if snapshot.ideal_step_s is not None:
        yield "goodput/max_productive_step", snapshot.last_step
        yield "goodput/ideal_step_time", snapshot.ideal_step_s
    if snapshot.checkpoint_cost_s:
        yield "checkpoint/cost_seconds", snapshot.checkpoint_cost_s
    yield "scrtune/settings_generation", snapshot.generation
    yield from _badput("badput", account)
    for window_s, window in snapshot.windows.items():
        yield f"rolling_goodput/{window_s}s", _PERCENT * window.goodput
        yield from _badput(f"rolling_badput/{window_s}s", window)


def _badput(label: str, account: Account | Window) -> Iterator[tuple[str, float]]:
    for bucket, spent_s in account.buckets.items():
        if bucket != PRODUCTIVE and account.wall_s > 0:
            yield f"{label}/{bucket.replace(CUSTOM, 'custom/').lower()}", _PERCENT * spent_s / account.wall_s


class CsvRows:
    """One row for all of the job and one for each window; times and buckets are in seconds.

    A file that is there already keeps its columns. The user's own intervals are one column.
    """

    def __init__(self, path: Path) -> None:
        self._file = AppendedFile(path, has_lines=True)

    def write(self, snapshot: Snapshot) -> None:
        """Append what `snapshot` says. Raises OSError, and ValueError for a file that has other things."""
        rows = [_row(snapshot, snapshot.account)]
        rows += [_row(snapshot, window, window_s) for window_s, window in snapshot.windows.items()]
        columns = self.columns()
        text = io.StringIO()
        writer = csv.DictWriter(text, columns or list(rows[0]), extrasaction="ignore", lineterminator="\n")
        if not columns:
            writer.writeheader()
        writer.writerows(rows)
        self._file.append(text.getvalue().encode())

    def columns(self) -> list[str]:
        """Those of the file that is there; none, when none is. Raises what a write does."""
        first_line = self._file.first_line()
        if first_line is None:
            return []
        columns = next(csv.reader([first_line]), [])
        if _TIME not in columns:
            raise ValueError(f"its first line names no column {_TIME}: it is left alone, name another file")
        return columns


def _row(snapshot: Snapshot, spent: Account | Window, window_s: int | str = "") -> dict[str, object]:
    """Seconds and goodput are those of `spent`; counts are always those of the whole job."""
    account = snapshot.account
    named = {name: spent_s for name, spent_s in spent.buckets.items() if not name.startswith(CUSTOM)}
    custom_s = sum(spent_s for name, spent_s in spent.buckets.items() if name.startswith(CUSTOM))
    return {
        _TIME: round(snapshot.time_s, 3),
        "job_id": snapshot.job_id,
        "window_s": window_s,
        "wall_s": round(spent.wall_s, 6),
        "goodput": round(spent.goodput, 6),
        "runs": account.runs,
        "steps": account.steps,
        "checkpoints": account.checkpoints,
        "last_step": snapshot.last_step,
        "ideal_step_s": "" if snapshot.ideal_step_s is None else round(snapshot.ideal_step_s, 6),
        "step_deviation_s": round(snapshot.step_deviation_s, 6),
        "checkpoint_cost_s": round(snapshot.checkpoint_cost_s, 6),
        "generation": snapshot.generation,
        **{f"{name}_s": round(spent_s, 6) for name, spent_s in named.items()},
        "custom_s": round(custom_s, 6),
    }
