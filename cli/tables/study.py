"""The tables of `scrtune study`, the same on the terminal and on the page."""

from collections.abc import Iterator, Sequence

from ...intents.events import Values
from ...replay.study_rows import RunDifference, RunRow, Study
from ...replay.what_if.rows import Importance, PredictedValue, Prediction, WhatIf
from ...units import bytes_text, count_text
from ..blocks import Cell, Document, Lines, Section, Styled, Table, facts, table
from ..format import seconds_column, value_text

_SHOWN_S = _SHOWN_SHARE = 0.005
_FILE_CLASSES = 12


def study(found: Study) -> Document:
    """Return the runs, how they differ, where their bytes went, notes, and what is predicted."""
    return [
        [runs(found)],
        settings(found),
        differences(found),
        [file_classes(found, _FILE_CLASSES)] if found.file_classes else [],
        [reading(found)],
        [f"- {note}." for note in found.notes],
        *(_what_if(found.what_if) if found.what_if else []),
    ]


def _what_if(found: WhatIf) -> Document:
    return [
        [predictions(found), *filter(None, (below(found), hidden(found)))],
        [importances(found)],
        [held_out(found)] if found.held_out else [],
        [f"- {note}." for note in found.notes],
    ]


def runs(found: Study) -> Table:
    """Return the seconds and bytes of each run."""
    numbers = (">checkpoints", ">checkpoint s", ">cache s", ">prefix s", ">to cache", ">to prefix")
    title = f"Seconds: {found.grouping}"
    return table("run", *numbers, ">bandwidth", ">flush s", rows=map(_run, found.runs), title=title)


def _run(row: RunRow) -> tuple[str, ...]:
    return (
        row.name,
        str(row.checkpoints),
        seconds_column(row.checkpoint_s if row.checkpoints else None),
        *(seconds_column(each.seconds if each.calls else None) for each in (row.cache, row.prefix)),
        *(bytes_text(each.written_bytes) for each in (row.cache, row.prefix)),
        "-" if row.bytes_per_s is None else f"{bytes_text(row.bytes_per_s)}/s",
        seconds_column(row.flush_s),
    )


def settings(found: Study) -> Section:
    """Return the settings in which runs differ."""
    differing = found.differing_settings
    return [facts(differing, "Settings that differ")] if differing else []


def differences(found: Study) -> Section:
    """Return how the means of each run differ from those of the run that it is compared to."""
    headings = ("run", "mean of a", ">base s", ">run s", ">difference s", ">95 %", ">of", "the run's is")
    title = f"Means against {found.base}: a checkpoint by its slowest thread, a flush by its slowest rank"
    rows = [_difference(row, found.base) for row in found.differences]
    return [table(*headings, rows=rows, title=title)] if rows else []


def _difference(row: RunDifference, base: str) -> Sequence[Cell]:
    difference: Cell
    difference, word = f"{row.difference_s:+,.3f}", "no clear difference"
    if row.low_s is None:
        word = "too few to say"
    elif row.is_clear:
        difference, word = Styled(difference), "longer" if row.difference_s > 0 else "shorter"
    return (
        row.run if row.base == base else f"{row.run} (against {row.base})",
        row.measure,
        f"{row.base_mean_s:,.3f}",
        f"{row.mean_s:,.3f}",
        difference,
        "-" if row.low_s is None else f"{row.low_s:+,.3f} to {row.high_s:+,.3f}",
        f"{row.base_checkpoints} and {row.checkpoints}",
        word,
    )


def file_classes(found: Study, most: int) -> Table:
    """Return the classes of files that took longest, `most` of them."""
    longest = sorted(found.file_classes, key=lambda row: -row.seconds)[:most]
    rows = (
        (
            *(row.run, row.tier, row.file_class, row.operation, f"{row.calls:,}", bytes_text(row.bytes)),
            *(f"{row.seconds:,.3f}", f"{row.sum_s:,.3f}"),
        )
        for row in longest
    )
    numbers = (">calls", ">bytes", ">s of a thread", ">s of all threads")
    title = "Files (numbers and random parts of names left out) that took longest"
    return table("run", "tier", "files", "operation", *numbers, rows=rows, title=title)


def reading(found: Study) -> Table:
    """Return what was read of each run."""
    return facts({row.name: "; ".join(filter(None, _read(row))) for row in found.runs}, title="Read")


def _read(row: RunRow) -> Iterator[str]:
    read = row.reading
    yield f"{count_text(read.files, 'file')}, {read.lines:,} lines, {bytes_text(read.bytes)}"
    processes = count_text(row.processes, "process", "processes")
    yield f"{processes} on {count_text(row.hosts, 'host')}, {row.span_s:,.1f} s from first to last event"
    if row.checkpoints:
        yield f"checkpoints {'by ' if row.saving_threads else ''}{row.checkpoints_from}"
    yield count_text(row.loads, "restart") if row.loads else ""
    dropped = sum(read.dropped.values())
    yield f"{count_text(dropped, 'line')} dropped" if dropped else ""
    yield from read.damage


def predictions(found: WhatIf, *, leading: bool = True) -> Table:
    """Return what is predicted, of each way to write the cheapest (`leading`), or all."""
    headings = (">#", ">checkpoint s", f">to {found.base}", ">flush s", ">survives")
    rows = map(_prediction, found.leading if leading else found.predictions)
    title = "What if: the seconds of a checkpoint as predicted, the cheapest first"
    return table(*headings, "settings, and what the seconds are", rows=rows, title=title)


def _prediction(row: Prediction) -> Sequence[Cell]:
    parts = sorted(row.parts_s.items(), key=lambda item: -item[1])
    shown = [f"{name} {seconds_column(seconds)}" for name, seconds in parts if seconds >= _SHOWN_S]
    return (
        *(str(row.rank), interval_text(row.checkpoint_s), f"{row.difference_s.value:+,.2f}"),
        *(interval_text(row.flush_s), "all" if row.survives is None else str(row.survives)),
        Lines((Styled(changes_text(row.changes)), f"{', '.join(shown)} s; {row.source}")),
    )


def importances(found: WhatIf) -> Table:
    """Return the parameters that matter at all."""
    rows = (
        (
            row.parameter,
            seconds_column(row.worth_s if row.best_s else None),
            "-" if row.permuted is None else f"{row.permuted:.0%}",
            _best(row),
            row.source,
        )
        for row in found.importances
        if row.worth_s >= _SHOWN_S or (row.permuted or 0.0) >= _SHOWN_SHARE
    )
    headings = ("parameter", ">worth s", ">in the runs", "least s with each value (flush s)", "source")
    title = "Which parameters matter: as predicted, and in the runs"
    return table(*headings, rows=rows, title=title)


def _best(row: Importance) -> str:
    """Return the values of a parameter with the seconds that are possible with them, the best first."""
    best = sorted(row.best_s.items(), key=lambda item: item[1])
    return ", ".join(
        f"{value_text(value)}: {seconds_column(seconds)}"
        + (f" ({seconds_column(row.flush_s[value])})" if value in row.flush_s else "")
        for value, seconds in best
    )


def held_out(found: WhatIf) -> Table:
    """Return each run as predicted from all others."""
    rows = (
        (
            *(row.run, row.measure, seconds_column(row.measured_s), interval_text(row.predicted_s)),
            *(f"{row.error:+.1%}", "" if row.has_kin else "the only one of its kind"),
        )
        for row in found.held_out
    )
    headings = ("run", "measure", ">measured s", ">predicted s", ">error", "")
    title = "How good it is: each run as predicted from all others"
    return table(*headings, rows=rows, title=title, note=errors_text(found))


def rates(found: WhatIf) -> Table:
    """Return what the model takes the rates to be."""
    rows = (
        (
            *(row.name, _rate(row.name, row.value.value)),
            f"{_rate(row.name, row.value.low)} - {_rate(row.name, row.value.high)}",
            "the runs" if row.is_learnt else "assumed",
        )
        for row in found.rates
    )
    note = "Of a node (bytes), a rank, a file, a call: what the model takes them to be."
    return table("rate", ">value", ">90 % interval", "from", rows=rows, title="Rates", note=note)


def _rate(name: str, value: float) -> str:
    """Return a rate of the model with the unit that its name says."""
    if name.endswith("bytes_per_s"):
        return f"{bytes_text(value)}/s"
    return f"{value:.3g} s" if name.endswith("_s") else f"{value:.3g}"


def below(found: WhatIf) -> str:
    """Return what to know of the table of predictions."""
    return (
        f"Predicted for a job like {found.like}; what is not named is as it was there. In brackets:"
        f" {found.confidence:.0%} intervals. Survives: nodes that may be lost before a flush has ended."
    )


def hidden(found: WhatIf) -> str:
    """Return where the predictions are that only the page, JSON and CSV have."""
    more = len(found.predictions) - len(found.leading)
    return f"The cheapest of each way to write; {more} more are in the page, in JSON and CSV." if more else ""


def errors_text(found: WhatIf) -> str:
    """Return the mean errors of runs that were held out, and how many lie within their intervals."""
    errors = {measure: found.errors(measure) for measure in ("checkpoint", "flush")}
    means = [
        f"{sum(each) / len(each):.1%} of {measure} seconds ({count_text(len(each), 'run')})"
        for measure, each in errors.items()
        if each
    ]
    covered = sum(row.is_covered for row in found.held_out)
    return f"Mean error: {', '.join(means)}; {covered} of {len(found.held_out)} within the interval."


def changes_text(changes: Values) -> str:
    """Return settings that change."""
    return " ".join(f"{name}={value_text(value)}" for name, value in changes.items()) or "as it was"


def interval_text(seconds: PredictedValue | None) -> str:
    """Return a predicted value with its interval."""
    if seconds is None:
        return "-"
    low, high = seconds_column(seconds.low), seconds_column(seconds.high)
    return f"{seconds_column(seconds.value)} ({low} - {high})"
