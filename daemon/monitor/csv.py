"""Snapshots as rows of a CSV file."""

import csv
import io
from contextlib import suppress
from pathlib import Path

from ...goodput.buckets import CUSTOM
from ...goodput.ledger.ledger import Account, Window
from ...goodput.log.line_log import append_whole
from .snapshot import Snapshot

_TIME = "time_s"


class CsvRows:
    """One row for the whole job and one for each window; times and buckets are in seconds.

    A file that is there already keeps its columns. The user's own intervals are one column.
    """

    def __init__(self, path: Path) -> None:
        self.name = f"rows in {path}"
        self._path = path

    def write(self, snapshot: Snapshot) -> None:
        """Append rows once the job has begun. Raises OSError, and ValueError for a file of other content."""
        first_line = _first_line(self._path)
        columns = next(csv.reader([first_line or ""]), [])
        if first_line is not None and _TIME not in columns:
            raise ValueError(f"its first line names no column {_TIME}: it is left alone, name another file")
        if not snapshot.is_begun:
            return
        rows = [_row(snapshot, snapshot.account)]
        rows += [_row(snapshot, window, window_s) for window_s, window in snapshot.windows.items()]
        text = io.StringIO()
        writer = csv.DictWriter(text, columns or list(rows[0]), extrasaction="ignore", lineterminator="\n")
        if not columns:
            writer.writeheader()
        writer.writerows(rows)
        append_whole(self._path, text.getvalue().encode(), as_lines=True)


def _first_line(path: Path) -> str | None:
    """Return the first line as it is on disk, without its end and byte order mark; None without one."""
    with suppress(FileNotFoundError), path.open("rb") as file:
        if line := file.readline(1 << 16):
            return line.decode("utf-8-sig", "replace").rstrip("\r\n")
    return None


def _row(snapshot: Snapshot, spent: Account | Window, window_s: int | str = "") -> dict[str, object]:
    """Seconds and goodput are those of `spent`; counts are always those of the whole job."""
    account = snapshot.account
    named = {name: spent_s for name, spent_s in spent.buckets.items() if not name.startswith(CUSTOM)}
    custom_s = sum(spent_s for name, spent_s in spent.buckets.items() if name.startswith(CUSTOM))
    return {
        _TIME: round(snapshot.time_s, 3),
        "job_id": snapshot.status.job_id,
        "window_s": window_s,
        "wall_s": round(spent.wall_s, 6),
        "goodput": round(spent.goodput, 6),
        "runs": account.runs,
        "steps": account.steps,
        "checkpoints": account.checkpoints,
        "last_step": snapshot.last_step,
        "ideal_step_s": "" if snapshot.ideal_step_s is None else round(snapshot.ideal_step_s, 6),
        "step_deviation_s": round(snapshot.step_deviation_s, 6),
        "checkpoint_cost_s": round(snapshot.status.checkpoint_cost_s, 6),
        "generation": snapshot.status.generation,
        **{f"{name}_s": round(spent_s, 6) for name, spent_s in named.items()},
        "custom_s": round(custom_s, 6),
    }
