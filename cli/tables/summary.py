"""The result of a job in a few lines, as `scrtune run` prints them: no tables, whose library takes time."""

import shlex
from collections.abc import Iterator

from ...daemon.views import UNREAD, ExplainView, StatusView
from ...intents.events import Values
from ...intents.mutability import LEVER
from ...units import count_text, seconds_text


def summary(view: StatusView) -> list[str]:
    """Return the result of a job's tuning in a few lines, and a line for each failure."""
    tuned = (
        f"{count_text(view.checkpoints, 'checkpoint')}, {costs(view)}; {count_text(view.kept, 'change')}"
        f" kept, {view.taken_back} taken back; goodput {view.goodput:.1%}"
    )
    lines = [f"job {view.job_id}: {tuned}", *savings(view), *_settings(view)]
    lines.append(f"observation: {view.observation.sentence()}")
    lines.append(f"why: scrtune explain --job-id {view.job_id}")
    if not view.checkpoints:
        seen = "those of scrtune.client in Python, and of a real SCR below libscrtune.so"
        lines = [f"job {view.job_id}: no checkpoint was seen, nothing was tuned"]
        if not view.engine:
            lines.append(f"seen are {seen} (docs/libscr.md)")
    lines += filter(None, [view.pace, journal_gaps(view)])
    if count := view.counters.lost.get(UNREAD, 0):
        lines.append(
            f"the daemon had no time for the last {count_text(count, 'message')}; no account has them"
        )
    lines += failures(view)
    if view.config_failure:
        lines.append(f"the last changes were never active: {view.config_failure}")
    return [f"scrtune: {line}" for line in lines]


def savings(status: StatusView) -> list[str]:
    """Return what tuning saved, what trying cost, and what to run the next job with, or why nothing."""
    view = status.savings
    spent_s = {"applying settings": view.applied_s, "in trials taken back": view.reverted_s}
    parts = [f"{seconds_text(each_s)} {what}" for what, each_s in spent_s.items() if each_s > 0]
    spent = f"trying cost {' and '.join(parts) or 'nothing'}"
    if not view.for_good:
        if not view.is_tried:
            return [f"nothing to propose: {view.why_nothing}"] if view.why_nothing else []
        if status.trying:
            so_far = seconds_text(view.saved_s) if view.saved_s > 0 else "nothing"
            return [f"on trial at the end, not decided: {status.trying}: saves {so_far} so far; {spent}"]
        return [": ".join(filter(None, ("nothing was gained", view.why_nothing))) + f"; {spent}"]
    values = _assigned(view.for_good)
    is_ours = any(name.startswith(LEVER) for name in view.for_good)
    export = f"export {values}" + (f"  # {LEVER}* count under `scrtune run` alone" if is_ours else "")
    if not view.is_tried:
        return [f"proposed, not tried: {export}"]
    saved_s = view.saved_s - view.applied_s
    net = f"saved about {seconds_text(saved_s)}" if saved_s > 0 else f"lost about {seconds_text(-saved_s)}"
    uncounted = count_text(view.uncounted, "checkpoint")
    left_out = f" ({uncounted} since the machine has changed aside)" if view.uncounted else ""
    return [
        f"{net} at checkpoints, against your own settings{left_out}; {spent}",
        f"for good, in the job script: {export}",
    ]


def _settings(view: StatusView) -> Iterator[str]:
    """Yield the checkpoint interval, if scrtune chose it, and what follows from the intents untried.

    What the pace says to set is not advised again.
    """
    if interval := view.savings.interval:
        yield f"checkpoint interval chosen: {_assigned(interval)}"
    advised = {name: value for name, value in view.savings.advised.items() if name not in view.pace_settings}
    if advised:
        yield f"advised, not tried: export {_assigned(advised)}; scrtune explain {min(advised)}"


def _assigned(values: Values) -> str:
    return " ".join(f"{name}={shlex.quote(str(value))}" for name, value in sorted(values.items()))


def journal_gaps(view: StatusView) -> str:
    """Return what the journal misses, and why if that is still so; empty when it is whole."""
    if not view.journal_lost:
        return ""
    why = f" ({view.journal_error}: free some space in the run directory)" if view.journal_error else ""
    return (
        f"{count_text(view.journal_lost, 'event')} could not be written to the journal{why};"
        " whatever is shown of this job after its end misses them"
    )


def failures(view: StatusView) -> list[str]:
    """Return why the job's goodput cannot be watched, a line for each place where it cannot."""
    return [f"{each.name}: {each.failure}" for each in view.monitors if each.failure]


def costs(view: StatusView) -> str:
    """Return what a checkpoint cost on average, and what one is believed to cost."""
    if not view.mean_cost_s:
        return "none measured"
    is_believed = max(view.checkpoint_cost_s, view.baseline_cost_s) > 0
    return f"mean cost {seconds_text(view.mean_cost_s)}" + (f"; {believed(view)}" if is_believed else "")


def believed(view: StatusView | ExplainView) -> str:
    """Return what a checkpoint is believed to cost (docs/tuning.md), under the user's settings and now."""
    own, now = cost_text(view.baseline_cost_s), cost_text(view.checkpoint_cost_s)
    cost = "believed cost of one (blocking + slowdown + expected rework)"
    return f"{cost} {own} under your settings, {now} now"


def cost_text(value_s: float) -> str:
    """Return the cost of a checkpoint; 0 means that it is not known."""
    return seconds_text(value_s) if value_s > 0 else "not known"
