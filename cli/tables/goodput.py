"""Where the time of jobs went, as people read it, and as CSV."""

from collections.abc import Iterator, Sequence
from math import ceil
from typing import TYPE_CHECKING, TypeAlias

from ...goodput.compat.differences import Difference
from ...goodput.ledger.ledger import Account, Window
from ...goodput.readers import resiliency
from ...goodput.readers.launcher_log import EstimatedLoss
from ...intents.tune.gains import GainView, together
from ...units import count_text, seconds_text
from ..blocks import DIM, Cell, Document, Section, Styled, Table, table
from ..format import verdict_cell
from ..views.goodput import CompatView, JobGoodputView, JobView, LogsView

if TYPE_CHECKING:
    from ...goodput.steps.summary import SlowStep, StepSummary

Row: TypeAlias = tuple[str, str, float, float | str]
"""Policy, what the time went into, seconds, and percent."""
JobRow: TypeAlias = tuple[str, str, str, float, float | str]
COLUMNS = ("job", "policy", "what", "seconds", "percent")
"""Of rows in CSV."""

_MILLISECOND_S = 1e-3
_SHOWN_PERCENT = 0.05
_LEAST_SKEW_S = 0.001
_LEAST_SHARE = 0.0005
"""A smaller share is shown as 0.0 %."""
_LEAST_SHOWN_S = 0.0005
"""Less would be shown as 0.000 seconds."""
_MANY = 100.0
_SHOWN_STEPS = 3
_GAINS_NOTE = (
    "Before: believed cost of a checkpoint (blocking + slowdown + expected rework) under the settings before"
    " the change; saves: what the change takes off it, with its 90 % interval; losses are negative. So far:"
    " of all checkpoints under the change, expected rework aside, against your own settings; these add up."
    " What trials cost that were taken back, and the time to apply settings, is in the bucket tuning."
)


def rows(view: LogsView | JobGoodputView) -> Iterator[JobRow]:
    """Yield one row for each kind of time of each policy, and for steps."""
    yield from ((job.job_name, *row) for job in view.jobs for row in _job_rows(job))


def _percent(spent_s: float, whole_s: float) -> float:
    return spent_s / whole_s * 100 if whole_s else 0.0


def _job_rows(job: JobView) -> Iterator[Row]:
    if (metrics := job.metrics) is not None:
        yield "resiliency", "total_runtime", metrics.total_runtime_s, 100.0
        if (effective_s := metrics.effective_computation_time_s) is not None:
            percent = metrics.goodput_percentage
            yield "resiliency", "effective_computation_time", effective_s, "" if percent is None else percent
    if job.conserving is not None:
        yield from _account_rows(job.conserving)
        if (found := job.estimated) is not None:
            percent = _percent(found.lost_s, job.conserving.wall_s)
            yield "estimated", "wasted_progress", found.lost_s, percent
    if job.compat is not None:
        yield from _compat_rows(job.compat)
    yield from _step_rows(job.steps)


def _account_rows(account: Account | Window) -> Iterator[Row]:
    for bucket, spent_s in account.buckets.items():
        yield "conserving", bucket, spent_s, _percent(spent_s, account.wall_s)
    yield "conserving", "wall_time", account.wall_s, 100.0


def _compat_rows(compat: CompatView) -> Iterator[Row]:
    spent = {"productive": compat.productive_s}
    for badput, each in compat.badput_s.items():
        parts = each if isinstance(each, dict) else {"": each}
        spent |= {f"{badput}:{name}".rstrip(":"): part_s for name, part_s in parts.items()}
    for what, spent_s in {**spent, "total": compat.total_s}.items():
        yield "compat", what, spent_s, spent_s / compat.total_s * 100


def _step_rows(steps: "StepSummary | None") -> Iterator[Row]:
    if steps is None:
        return
    took_s = {"ideal_step": steps.ideal_s, "mean_step": steps.mean_s, "deviation": steps.deviation_s}
    took_s["rolling_deviation"] = steps.rolling_deviation_s
    for slow in steps.slowest:  # each run may have made a step of that number
        took_s[f"slow_step:{slow.step}" + (f":run{slow.run}" if slow.run else "")] = slow.took_s
    took_s |= {f"straggler:{each.writer}": each.took_s for each in steps.stragglers}
    if steps.peers_ideal_s is not None:
        took_s["peers_ideal_step"] = steps.peers_ideal_s
    for what, seconds in took_s.items():
        yield "steps", what, seconds, _percent(seconds, steps.ideal_s)


def heading(job_name: str) -> str:
    """Return the line above a job, as the resiliency library has it."""
    return f"=== Goodput Analysis for Job: {job_name or '(no name)'} ==="


def jobs(view: LogsView | JobGoodputView) -> Document:
    """Return all jobs, one below the other."""
    return [section for each in view.jobs for section in _job(each)]


def _job(job: JobView) -> Iterator[Section]:
    yield [heading(job.job_name)]
    if job.metrics:
        yield [_boxed([("Metric", "Value"), *resiliency.rows(job.metrics)])]
    account = job.conserving
    if job.window is not None:
        yield [_window_text(job.window, account)]
    if isinstance(account, Account):
        yield _account(account, job)
        yield [gains(job.gains)] if job.gains else []
    elif account is not None and account.wall_s:
        yield [_buckets(account, "window"), f"goodput {account.goodput:.1%}"]
    notes = (estimate_text(job.estimated) if job.estimated else "", _two_goodputs(job))
    yield [Styled(note, DIM) for note in notes if note]
    yield [steps_table(job.steps)] if job.steps else []
    if job.compat is not None:
        yield _compat(job.compat, tells_steps=job.tells_steps)
    if job.no_compat:
        yield [f"compat: {job.no_compat}"]
    if job.differences:
        yield [_differences(job.differences)]


def _boxed(rows: Sequence[tuple[str, str]]) -> str:
    """Return the table as the resiliency library draws it."""
    widths = [max(map(len, column)) for column in zip(*rows, ("", " " * 7), strict=True)]
    lines = ["| " + " | ".join(map(str.ljust, row, widths)) + " |" for row in rows]
    rule = "+".join(["", *("-" * (width + 2) for width in widths), ""])
    head, *others = (f"{line}\n{rule}" for line in lines)
    return "\n".join([rule, head.replace("-", "="), *others])


def _window_text(asked: tuple[float, float], found: Account | Window | None) -> str:
    """Return the window, and what of it the job has."""
    start, end = (resiliency.moment(time_s, milliseconds=True) for time_s in asked)
    text = f"From {start} to {end}"
    if not isinstance(found, Window) or abs(found.wall_s - (asked[1] - asked[0])) < _MILLISECOND_S:
        return f"{text}:"
    if not found.wall_s:
        return f"{text}: no part of the job's time lies in it"
    first, last = (resiliency.moment(time_s, milliseconds=True) for time_s in (found.start_s, found.end_s))
    return f"{text}; the job has that from {first} to {last}:"


def _two_goodputs(job: JobView) -> str:
    """Return why the table and the buckets have different goodputs, if both are shown and do."""
    theirs = job.metrics.goodput_percentage if job.metrics else None
    if theirs is None or job.goodput is None or abs(theirs - 100 * job.goodput) < _SHOWN_PERCENT:
        return ""
    whole = " of the whole job" if job.window is not None else ""
    return (
        f"The table's {theirs:.2f}%{whole} is steps saved x reference step time / total runtime;"
        f" {job.goodput:.1%} here is productive time / wall time."
    )


def _account(account: Account, job: JobView) -> Section:
    """Return the buckets, and how many steps and checkpoints they stand for.

    If the application reports no steps, its work between outputs is counted instead.
    """
    steps = job.steps
    made = f"work between outputs {count_text(account.steps, 'time')}"
    if job.tells_steps:
        apart = f" ({steps.stride} numbers apart)" if steps is not None and steps.stride > 1 else ""
        made = count_text(counted_steps(account.steps, steps), "step") + apart
    counts = [made, count_text(account.checkpoints, "checkpoint"), count_text(account.runs, "run")]
    if account.node_failures:
        counts.append(count_text(account.node_failures, "node failure"))
    if account.recoveries:
        counts.append(f"{count_text(account.recoveries, 'dataset')} brought back by SCR")
    shown = [f"{', '.join(counts)}; goodput {account.goodput:.1%}"]
    if account.data_loading_async_s > 0:
        shown.append(f"{account.data_loading_async_s:.3f} s of data loading ran beside the steps")
    if account.skew_s >= _LEAST_SKEW_S:
        skew = seconds_text(account.skew_s)
        shown.append(f"the ranks' clocks are {skew} apart, and so are the buckets' borders")
    return [_buckets(account, "wall time"), *shown]


def counted_steps(count: int, steps: "StepSummary | None") -> int:
    """Return how many steps an account has that counted `count` numbers: every stride-th is one."""
    return ceil(count / (steps.stride if steps is not None else 1))


def estimate_text(found: EstimatedLoss) -> str:
    """Return what of a job's time is an estimate, and of which runs."""
    runs = "1 run does" if found.runs == 1 else f"{found.runs} runs do"
    return (
        f"Estimated: {found.lost_s:.3f} s of wasted_progress, which may be 0 to {found.most_s:.3f} s,"
        f" the rest being recovery. {runs} not say when they ended: after the last checkpoint, and before"
        " the next save was due or the next run began; the middle is taken."
    )


def _buckets(spent: Account | Window, whole: str) -> Table:
    """Return a row for each bucket, one for all below 0.05 % where they are several; the sum is `whole`."""
    shown = sorted(spent.buckets.items(), key=lambda item: -item[1])
    shown = [each for each in shown if each[1] >= _LEAST_SHOWN_S]
    small_s = [bucket_s for _, bucket_s in shown if bucket_s < _LEAST_SHARE * spent.wall_s]
    if len(small_s) > 1:
        shown[-len(small_s) :] = [(f"{len(small_s)} more", sum(small_s))]
    rows = ((bucket, f"{bucket_s:.3f}", f"{bucket_s / spent.wall_s:.1%}") for bucket, bucket_s in shown)
    total = (whole, f"{spent.wall_s:.3f}", "100.0%" if spent.wall_s else "-")
    return table("where the time went", ">seconds", ">share", rows=rows, total=total)


def gains(views: Sequence[GainView]) -> Table:
    """Return a row for each change, their sum, and what the columns are."""
    headings = (">gen", "change", "", ">before", ">saves", ">90 %", ">checkpoints", ">so far")
    total = ("", "together", *[""] * 5, _number(together(views).total_s))
    title = "What each decision gained (seconds of a checkpoint's believed cost)"
    return table(*headings, rows=map(_gain, views), total=total, title=title, note=_GAINS_NOTE)


def _gain(view: GainView) -> tuple[Cell, ...]:
    gain = view.gain
    before, saved, low, high, so_far = map(
        _number, (gain.before_s, gain.saved_s, gain.low_s, gain.high_s, gain.total_s)
    )
    change = (str(view.generation), view.rule, verdict_cell(view.verdict))
    return (*change, before, saved, f"{low} to {high}", str(gain.checkpoints), so_far)


def _number(value_s: float) -> str:
    return f"{value_s:.1f}" if abs(value_s) >= _MANY else f"{value_s:.3f}"


def steps_table(steps: "StepSummary") -> Table:
    """Return the ideal step, how far steps are from it, the slowest, and the stragglers."""
    peers_s, rolling_s, stride = steps.peers_ideal_s, steps.rolling_deviation_s, steps.stride
    peers = f"none, {steps.no_peers_ideal}" if peers_s is None else seconds_text(peers_s)
    rolling = f"{seconds_text(rolling_s)} over the last {steps.rolling}"
    each = f"; one for each {stride} numbers, {seconds_text(steps.mean_s / stride)} a number"
    apart = each if stride > 1 else ""
    rows = {
        "steps": f"{steps.steps}, {seconds_text(steps.mean_s)} on average{apart}",
        "ideal": f"{seconds_text(steps.ideal_s)}; by ml-goodput-measurement: {peers}",
        "deviation": f"{seconds_text(steps.deviation_s)} on average, {rolling}",
        "slowest": "\n".join(_slow(each) for each in steps.slowest[:_SHOWN_STEPS]),
        "stragglers": _stragglers(steps),
    }
    return table("step times", "", rows=list(rows.items()))


def _slow(each: "SlowStep") -> str:
    who = f", {each.writer}" if each.writer else ""
    run = f", run {each.run}" if each.run else ""
    what = f"step {each.step}: {seconds_text(each.took_s)}"
    if each.steps > 1:
        what = f"steps {each.step} to {each.step + each.steps - 1}: {seconds_text(each.took_s)} each"
    return f"{what}, {resiliency.moment(each.start_s)}{run}{who}"


def _stragglers(steps: "StepSummary") -> str:
    if steps.no_stragglers:
        return f"unknown: {steps.no_stragglers}"
    lines = [
        f"{each.writer or '(no name)'}: {each.ratio:.2f} times as long as the others,"
        f" {seconds_text(each.excess_s)} more a step, in {each.slow} of {count_text(each.steps, 'step')}"
        for each in steps.stragglers[:_SHOWN_STEPS]
    ]
    if (more := len(steps.stragglers) - _SHOWN_STEPS) > 0:
        lines.append(f"and {more} more")
    return "\n".join(lines) or "none"


def _compat(compat: CompatView, *, tells_steps: bool) -> Section:
    shown = [
        (what, f"{spent_s:.3f}", f"{spent_s / compat.total_s:.1%}")
        for _, what, spent_s, _ in _compat_rows(compat)
        if spent_s
    ]
    disruptions = count_text(compat.disruptions, "disruption")
    last = f"last step {compat.last_step}, " if tells_steps else ""
    return [
        table("by ml-goodput-measurement", ">seconds", ">share", rows=shown[:-1], total=shown[-1]),
        f"{last}{disruptions}; goodput {compat.goodput_percent:.1f}%",
    ]


def _differences(found: Sequence[Difference]) -> Table:
    spent = ((each, each.conserving_s, each.compat_s) for each in found)
    rows = (
        (each.what, f"{ours_s:.3f}", f"{theirs_s:.3f}", f"{theirs_s - ours_s:+.3f}", each.why)
        for each, ours_s, theirs_s in spent
        if max(abs(ours_s), abs(theirs_s)) >= _LEAST_SHOWN_S
    )
    headings = (">conserving", ">compat", ">difference", "rule of compat; of conserving")
    return table("where they differ", *headings, rows=rows)
