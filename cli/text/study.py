"""The tables of `scrtune study`."""

from collections.abc import Iterator

from rich.console import Group, RenderableType
from rich.text import Text

from ...replay.study_rows import RunDifference, RunRow, Study
from ...units import bytes_text, count_text
from ..format import difference_word, seconds_column
from .tables import facts, plain_table
from .what_if import what_if

_FILE_CLASSES = 12


def study(found: Study) -> RenderableType:
    """Return the table of runs, how they differ, where their bytes went, and what to know of the numbers."""
    tables = [_runs(found)]
    if found.differing_settings:
        tables.append(facts(found.differing_settings, title="Settings that differ"))
    if found.differences:
        tables.append(_differences(found))
    if found.file_classes:
        tables.append(_file_classes(found))
    tables.append(facts({row.name: _reading(row) for row in found.runs}, title="Read"))
    notes = [Text(f"- {note}.") for note in found.notes]
    predicted = ["", what_if(found.what_if)] if found.what_if else []
    return Group(*(part for table in tables for part in (table, "")), *notes, *predicted)


def _runs(found: Study) -> RenderableType:
    rows = (
        (
            row.name,
            str(row.checkpoints),
            seconds_column(row.checkpoint_s if row.checkpoints else None),
            seconds_column(row.cache.seconds if row.cache.calls else None),
            seconds_column(row.prefix.seconds if row.prefix.calls else None),
            bytes_text(row.cache.written_bytes),
            bytes_text(row.prefix.written_bytes),
            "-" if row.bytes_per_s is None else f"{bytes_text(row.bytes_per_s)}/s",
            seconds_column(row.flush_s),
        )
        for row in found.runs
    )
    heads = (
        "run",
        ">checkpoints",
        ">checkpoint s",
        ">cache s",
        ">prefix s",
        ">to cache",
        ">to prefix",
        ">bandwidth",
    )
    return plain_table(*heads, ">flush s", rows=rows, title=f"Seconds: {found.grouping}")


def _differences(found: Study) -> RenderableType:
    heads = (
        "run",
        "mean of a",
        ">base s",
        ">run s",
        ">difference s",
        ">95 %",
        ">of",
        "the run's is",
    )
    title = f"Means against {found.base}: a checkpoint by its slowest thread, a flush by its slowest rank"
    rows = (_difference(row, found.base) for row in found.differences)
    return plain_table(*heads, rows=rows, title=title)


def _difference(row: RunDifference, base: str) -> tuple[str, ...]:
    interval = "-" if row.low_s is None else f"{row.low_s:+,.3f} to {row.high_s:+,.3f}"
    return (
        row.run if row.base == base else f"{row.run} (against {row.base})",
        row.measure,
        f"{row.base_mean_s:,.3f}",
        f"{row.mean_s:,.3f}",
        f"{row.difference_s:+,.3f}",
        interval,
        f"{row.base_checkpoints} and {row.checkpoints}",
        difference_word(row),
    )


def _file_classes(found: Study) -> RenderableType:
    heads = ("run", "tier", "files", "operation", ">calls", ">bytes", ">s of a thread", ">s of all threads")
    rows = [
        (
            row.run,
            row.tier,
            row.file_class,
            row.operation,
            f"{row.calls:,}",
            bytes_text(row.bytes),
            f"{row.seconds:,.3f}",
            f"{row.sum_s:,.3f}",
        )
        for row in sorted(found.file_classes, key=lambda row: -row.seconds)[:_FILE_CLASSES]
    ]
    return plain_table(
        *heads, rows=rows, title="Files (digits and dashes of names left out) that took longest"
    )


def _reading(row: RunRow) -> str:
    return "; ".join(filter(None, _facts(row)))


def _facts(row: RunRow) -> Iterator[str]:
    reading = row.reading
    yield f"{count_text(reading.files, 'file')}, {reading.lines:,} lines, {bytes_text(reading.bytes)}"
    processes = count_text(row.processes, "process", "processes")
    yield f"{processes} on {count_text(row.hosts, 'host')}, {row.span_s:,.1f} s from first to last event"
    if row.checkpoints:
        yield f"checkpoints {'by ' if row.saving_threads else ''}{row.checkpoints_from}"
    yield count_text(row.loads, "restart") if row.loads else ""
    dropped = sum(reading.dropped.values())
    yield f"{count_text(dropped, 'line')} dropped" if dropped else ""
    yield from reading.damage
