"""The tables of a report's page: the sums of what its figures show, and what does not fit into them."""

from collections.abc import Iterable, Sequence
from html import escape

from ...goodput.buckets import CUSTOM, TUNING
from ...goodput.report import Report
from ...intents.tune.gains import Gain
from ...units import duration_text
from ..text.show import printable
from .changes import Change
from .theme import VERDICTS, colour_of, group_of

_ROWS = 200
"""Most rows of a table."""
_LEAST_S = 0.0005
_PAGE = 12
"""Rows that are printed on one page."""


def all_else(report: Report) -> str:
    """Every table but that of the changes."""
    return "".join(
        (_account(report), _checkpoints(report), _lanes(report), _disruptions(report), _steps(report))
    )


def swatch(colour: str) -> str:
    """A small square of a colour."""
    return f'<span class="swatch" style="background:{colour}"></span>'


def _table(  # noqa: PLR0913 - what it is made of
    heading: str,
    columns: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    right: int = 0,
    note: str = "",
    kind: str = "",
) -> str:
    """A table whose last `right` columns are numbers; cells are HTML already. Nothing without rows.

    `kind` is for the style: on a narrow screen each row of a `stack` is a block that names its columns.
    """
    rows = list(rows)
    if not rows:
        return ""
    first = len(columns) - right
    css = ["" if index < first else ' class="n"' for index in range(len(columns))]
    head = "".join(
        f'<th scope="col"{kind}>{escape(name)}</th>' for name, kind in zip(columns, css, strict=True)
    )
    labels = [f' data-label="{escape(name)}"' if kind == "stack" else "" for name in columns]
    body = "".join(
        "<tr>"
        + "".join(f"<td{kind}{label}>{cell}</td>" for cell, kind, label in zip(row, css, labels, strict=True))
        + "</tr>\n"
        for row in rows[:_ROWS]
    )
    if len(rows) > _ROWS:
        note = f"{note} The first {_ROWS} of {len(rows):,}.".strip()
    told = f'<p class="note">{escape(note)}</p>' if note else ""
    if kind == "stack" or len(rows) > _PAGE:
        kind = f"{kind} long".strip()
    return (
        f'<section class="{kind}"><h2>{escape(heading)}</h2>{told}<div class="scroll"><table>'
        f"<thead><tr>{head}</tr></thead>\n<tbody>{body}</tbody></table></div></section>"
    )


def _bucket(name: str) -> str:
    """Its name, beside its colour if it is one of ours; one of the user's may be long."""
    shown = swatch(colour_of(name)) + escape(printable(name))
    return shown if name.startswith(CUSTOM) else f'<span class="name">{shown}</span>'


def _account(report: Report) -> str:
    account = report.account
    spent = sorted(account.buckets.items(), key=lambda item: -item[1])
    rows = [
        (
            _bucket(name),
            escape(group_of(name)),
            f"{spent_s:,.3f}",
            f"{spent_s / account.wall_s:.2%}" if account.wall_s else "-",
        )
        for name, spent_s in spent
        if spent_s >= _LEAST_S
    ]
    rows.append(("<b>wall time</b>", "", f"<b>{account.wall_s:,.3f}</b>", "<b>100.00%</b>"))
    columns = ("bucket", "shown as", "seconds", "share")
    note = "Every second lies in one bucket; docs/goodput.md defines them."
    return _table("Where the time went", columns, rows, right=2, note=note, kind="account")


def _steps(report: Report) -> str:
    steps = report.steps
    if steps is None:
        return ""
    rows = {
        "ideal": steps.ideal_s,
        "mean": steps.mean_s,
        **{f"{each} % took at most": took_s for each, took_s in steps.percentiles_s.items()},
        "longest": steps.most_s,
        "mean distance from the ideal": steps.deviation_s,
    }
    for each in steps.stragglers:
        rows[escape(f"straggler {printable(each.writer)}: {each.ratio:.2f} x the others")] = each.took_s
    note = f"{steps.count:,} {'step' if steps.count == 1 else 'steps'}; one that was made again counts again."
    if steps.no_stragglers:
        note += f" Stragglers cannot be told: {steps.no_stragglers}."
    shown = [(name, duration_text(took_s)) for name, took_s in rows.items()]
    return _table("What steps took", ("", "time"), shown, right=1, note=note)


def _checkpoints(report: Report) -> str:
    count = report.checkpoints
    if not count:
        return ""
    total_s = sum(point.cost_s * point.count for point in report.costs)
    rows: list[tuple[str, ...]] = []
    for part in report.costs[0].parts:
        spent_s = sum(point.parts[part] * point.count for point in report.costs)
        if spent_s >= _LEAST_S:
            share = f"{spent_s / total_s:.1%}"
            rows.append((_bucket(part), f"{spent_s:,.3f}", duration_text(spent_s / count), share))
    total = (f"{total_s:,.3f}", duration_text(total_s / count), "100.0%")
    rows.append(tuple(f"<b>{each}</b>" for each in ("all", *total)))
    taken = report.account.checkpoints
    of = f"Of {count:,} out of {taken:,}" if taken > count else f"Of {count:,}"
    note = f"{of}: what they blocked, and what flushes took from the steps."
    if report.account.buckets[TUNING] > 0:
        note += " In the account trials are tuning."
    columns = ("bucket", "seconds", "each", "share")
    return _table("What checkpoints cost", columns, rows, right=3, note=note, kind="costs")


def _lanes(report: Report) -> str:
    rows = [
        (
            escape(printable(lane.name)),
            f"{lane.events:,}",
            f"{sum(bar.busy_s for bar in lane.bars):,.3f}",
            duration_text(sum(bar.busy_s for bar in lane.bars) / lane.events),
        )
        for lane in report.lanes
    ]
    note = "By their own times, which may overlap."
    return _table("What happened", ("kind", "events", "seconds", "mean"), rows, right=3, note=note)


def changes(report: Report, made: Sequence[Change]) -> str:
    """What was changed, why, what became of it, and what it gained."""
    rows = [
        (
            _change(change),
            *_gain(change.gain),
            duration_text(change.time_s - report.start_s),
            str(change.generation),
        )
        for change in made
    ]
    columns = ("change and reason", "saves", "so far", "cost before", "checkpoints", "at", "gen")
    note = (
        "Seconds a checkpoint by the pairs of each change's trial (geometric means), against the settings "
        "before it, with 90 % intervals; losses are negative. So far: for all checkpoints under it; of a "
        "trial that was taken back what they took more than the last six without it, which is part of the "
        "bucket tuning. Times are since the job began."
    )
    return _table("Changes of the tuner", columns, rows, right=6, note=note, kind="stack")


def _change(change: Change) -> str:
    what = escape(change.what.replace(" -> ", "\u00a0\u2192\u00a0"))
    became = f"<b>{VERDICTS[change.verdict][0]}</b>"
    became += f": {escape(change.outcome)}" if change.outcome else ""
    return (
        f"<b>{escape(change.name)}</b><br>{what}"
        f'<br><span class="note">{escape(change.because)}</span><br>{became}'
    )


def _gain(gain: Gain | None) -> tuple[str, str, str, str]:
    if gain is None:
        return "-", "-", "-", "-"
    return (
        f"{gain.saved_s:.3f}<br>{gain.low_s:.3f} to {gain.high_s:.3f}",
        f"{gain.total_s:.3f}<br>{gain.total_low_s:.3f} to {gain.total_high_s:.3f}",
        f"{gain.before_s:.3f}",
        str(gain.checkpoints),
    )


def _disruptions(report: Report) -> str:
    rows = [
        (escape(printable(each.what)), duration_text(each.time_s - report.start_s))
        for each in report.disruptions
    ]
    return _table("Disruptions", ("what", "at"), rows, right=1, note="Times are since the job began.")
