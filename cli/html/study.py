"""The page of `scrtune study --html`: tables, bars, and a time line a run, in one file without scripts."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

from ...intents.events import Operation
from ...replay.study_rows import ActivityRow, CheckpointRow, RunRow, Study
from ...units import bytes_text
from ..format import difference_word, seconds_column
from ..views import what_if as texts
from .figures import LANE, LEFT, PLOT, SERIES, WIDTH, Bar, Label, StudyFigure, axis, lane_name
from .templates import page_environment
from .what_if import figures as figures_of_predictions

_MOST_FILE_CLASSES = 60


def study_page(found: Study, *, version: str) -> str:
    """Return all of `found` as one HTML document."""
    environment = page_environment()
    environment.globals.update(SERIES=SERIES, WIDTH=WIDTH, difference_word=difference_word, texts=texts)
    environment.filters.update(
        seconds=seconds_column,
        precise=lambda value_s: f"{value_s:,.3f}",
        signed=lambda value_s: f"{value_s:+,.3f}",
        bytes=bytes_text,
    )
    figures = [_bars(found), _costs(found), _timeline(found)]
    return environment.get_template("study.html.j2").render(
        study=found,
        figures=[figure for figure in figures if figure.bars],
        settings=list(found.differing_settings.items()),
        predicted=figures_of_predictions(found.what_if) if found.what_if else [],
        file_classes=sorted(found.file_classes, key=lambda row: -row.seconds)[:_MOST_FILE_CLASSES],
        version=version,
    )


def _bars(found: Study) -> StudyFigure:
    """Draw the seconds of each run in checkpoints, in the cache and below the prefix directory."""
    height = (LANE + 6) * len(found.runs)
    longest = max(max(row.checkpoint_s, row.cache.seconds, row.prefix.seconds) for row in found.runs)
    end, ticks = axis(longest, height)
    bars: list[Bar] = []
    labels: list[Label] = []
    for number, row in enumerate(found.runs):
        top = number * (LANE + 6)
        labels.append(lane_name(row.name, top + LANE / 2))
        values = {"checkpoint": row.checkpoint_s, "cache": row.cache.seconds, "prefix": row.prefix.seconds}
        for index, (name, value_s) in enumerate(values.items()):
            if value_s <= 0:
                continue
            note = f"{row.name}, {name}: {value_s:,.3f} s"
            y, width = top + index * LANE / 3, value_s / end * PLOT
            bars.append(Bar(LEFT, y, width, LANE / 3 - 1.5, SERIES[name], note, seconds_column(value_s)))
    title, note = "Seconds of each run", f"{found.grouping[0].upper()}{found.grouping[1:]}."
    series = ("checkpoint", "cache", "prefix")
    return StudyFigure(title, note, series, height, tuple(bars), tuple(labels), ticks)


def _costs(found: Study) -> StudyFigure:
    """Draw each checkpoint as a mark at its seconds, and the mean."""
    lane = LANE * 0.7
    height = lane * len(found.runs)
    end, ticks = axis(max((row.seconds for row in found.checkpoints), default=0.0), height)
    bars: list[Bar] = []
    labels: list[Label] = []
    by_run = _of_runs(found.checkpoints)
    for number, run in enumerate(found.runs):
        rows = by_run.get(run.name, [])
        labels.append(lane_name(run.name, number * lane + lane / 2))
        for row in rows:
            x = LEFT + row.seconds / end * PLOT
            note = f"{run.name}, checkpoint {row.number}: {row.seconds:,.3f} s"
            bars.append(
                Bar(x - 1.5, number * lane + 5, 3, lane - 10, SERIES["checkpoint"], note, opacity=0.55)
            )
        if rows:
            mean_s = sum(row.seconds for row in rows) / len(rows)
            x = LEFT + mean_s / end * PLOT
            bars.append(Bar(x - 0.5, number * lane + 1, 1, lane - 2, "var(--ink)", f"mean {mean_s:,.3f} s"))
    note = "A mark for each checkpoint, of the thread that took longest; the thin line is their mean."
    return StudyFigure("Checkpoints one by one", note, (), height, tuple(bars), tuple(labels), ticks)


def _timeline(found: Study) -> StudyFigure:
    """Draw checkpoints, flushes and bytes a second below each run's directories on one axis of time."""
    lane = LANE * 1.6
    height = lane * len(found.runs)
    end, ticks = axis(max((row.span_s for row in found.runs), default=0.0), height)
    checkpoints, activity = _of_runs(found.checkpoints), _of_runs(found.activity)
    bars: list[Bar] = []
    labels: list[Label] = []
    for number, run in enumerate(found.runs):
        top, scale = number * lane, PLOT / end
        labels.append(lane_name(run.name, top + lane / 2))
        bars += _activity_bars(run, activity.get(run.name, []), top, lane, scale)
        bars += _checkpoint_bars(run, checkpoints.get(run.name, []), top, scale)
    note = (
        "From the first event of each run. Upper edge: checkpoints, and flushes behind them; below: bytes a"
        " second written in the cache and below the prefix directory, each run to its own highest."
    )
    return StudyFigure(
        "Over time",
        note,
        ("checkpoint", "cache", "prefix", "flush"),
        height,
        tuple(bars),
        tuple(labels),
        ticks,
    )


def _of_runs(rows: "Sequence[CheckpointRow] | Sequence[ActivityRow]") -> dict[str, list]:  # type: ignore[type-arg]
    by_run = defaultdict(list)
    for row in rows:
        by_run[row.run].append(row)
    return by_run


def _checkpoint_bars(run: RunRow, rows: Sequence[CheckpointRow], top: float, scale: float) -> Iterator[Bar]:
    for row in rows:
        x = LEFT + (row.start_s - run.start_s) * scale
        note = f"checkpoint {row.number}: {row.seconds:,.3f} s"
        yield Bar(x, top + 2, max(1.0, row.wall_s * scale), 9, SERIES["checkpoint"], note)
        if row.flush_s is not None and row.flush_end_s is not None:
            width = max(1.0, row.flush_s * scale)
            x = LEFT + (row.flush_end_s - run.start_s) * scale - width
            yield Bar(x, top + 12, width, 5, SERIES["flush"], f"flush of {row.number}: {row.flush_s:,.3f} s")


def _activity_bars(
    run: RunRow, rows: Sequence[ActivityRow], top: float, lane: float, scale: float
) -> Iterator[Bar]:
    written = [row for row in rows if row.operation == Operation.WRITE]
    highest = max((row.bytes for row in written), default=1)
    room = lane - 24
    for row in written:
        height = room * row.bytes / highest
        x = LEFT + max(0.0, row.start_s - run.start_s) * scale
        note = f"{row.tier}: {bytes_text(row.bytes / row.width_s)}/s at {row.start_s - run.start_s:,.0f} s"
        colour = SERIES.get(row.tier, "var(--muted)")
        width = max(0.8, row.width_s * scale)
        yield Bar(x, top + 19 + room - height, width, height, colour, note, opacity=0.75)
