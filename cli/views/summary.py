"""The result of a job in a few lines, as `scrtune run` prints them: no tables, whose library takes time."""

from ...daemon.views import StatusView
from ...units import count_text, seconds_text


def summary(view: StatusView) -> list[str]:
    """Return the result of a job's tuning in three lines, and a line for each failure."""
    tuned = (
        f"{count_text(view.checkpoints, 'checkpoint')}, {cost_text(view.baseline_cost_s)} each under your"
        f" settings, {cost_text(view.checkpoint_cost_s)} now; {count_text(view.kept, 'change')} kept,"
        f" {view.taken_back} taken back; goodput {view.goodput:.1%}"
    )
    lines = [
        f"job {view.job_id}: {tuned}",
        f"observation: {view.observation.sentence()}",
        f"why: scrtune explain --job-id {view.job_id}",
    ]
    if not view.checkpoints:
        seen = "those of scrtune.client in Python, and of a real SCR below libscrtune.so"
        lines = [
            f"job {view.job_id}: no checkpoint was seen, nothing was tuned",
            f"seen are {seen} (`scrtune run --preload always` says why it is missing)",
        ]
    lines += failures(view)
    if view.config_failure:
        lines.append(f"the last changes were never active: {view.config_failure}")
    return [f"scrtune: {line}" for line in lines]


def failures(view: StatusView) -> list[str]:
    """Return why the job's goodput cannot be watched, a line for each place where it cannot."""
    return [f"{each.name}: {each.failure}" for each in view.monitors if each.failure]


def cost_text(value_s: float) -> str:
    """Return the cost of a checkpoint; 0 means that it is not known."""
    return seconds_text(value_s) if value_s > 0 else "not measured yet"
