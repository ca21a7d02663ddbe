"""A few logs by hand: one for each rule of the peer, and one for each of its known faults."""

import random
from collections.abc import Callable
from typing import Any

from .random_logs import START_S, Job


def fixed_logs() -> list[dict[str, Any]]:
    """The logs, each with a name that says what it is about."""
    return [
        _log("everything", _everything),
        _log("disruption", _disruption),
        _log("restart-at-0", _restart_at_0),
        _log("hang", _hang, windows=[[START_S - 1, START_S + 4600], [START_S + 1500, START_S + 4500]]),
        _log("sparse-steps", _sparse_steps),
        _log("short-steps", _short_steps),
        _log("end-then-resume", _end_then_resume),
        _log("nested", _nested),
        _log("two-ranks", _two_ranks),
        _log("out-of-order", _out_of_order),
        _log("custom-across-steps", _custom_across_steps),
        _log("no-start", _no_start),
        _log("elastic", _elastic, elastic=True),
    ]


def _log(
    name: str, fill: Callable[[Job], None], *, elastic: bool = False, windows: list[list[float]] | None = None
) -> dict[str, Any]:
    job = Job(random.Random(0))  # noqa: S311  no secret depends on it
    fill(job)
    windows = windows or [[START_S + 10, START_S + 60], [START_S - 1, job.now_s]]
    return {"name": name, "elastic": elastic, "calls": job.calls, "windows": windows}


def _wait(job: Job, seconds: float) -> None:
    job.spend(seconds, seconds)


def _took(job: Job, what: str, seconds: float, **arguments: Any) -> None:
    job.tell(f"record_{what}_start_time", **arguments)
    _wait(job, seconds)
    job.tell(f"record_{what}_end_time", **arguments)


def _begin(job: Job) -> None:
    job.tell("record_job_start_time")
    _took(job, "tpu_init", 4.0)
    _took(job, "training_preparation", 6.0)
    _took(job, "data_loading", 1.5)


def _steps(job: Job, first: int, last: int, seconds: float = 3.0, *, first_extra_s: float = 0.0) -> None:
    for step in range(first, last + 1):
        job.tell("record_step_start_time", step=step)
        _wait(job, seconds + (first_extra_s if step == first else 0.0))


def _save(job: Job, step: int, seconds: float, directory: str) -> None:
    entry: dict[str, Any] = {"step": step, "event_type": "save", "directory": directory}
    for what in ("wait_for_prev", "checkpointer_blocking", "get_old_steps", "checkpoint_manager_blocking"):
        entry |= {f"{what}_start_time": job.now_s, f"{what}_duration_secs": seconds}
    job.calls.append(["entry", entry])


def _everything(job: Job) -> None:
    _begin(job)
    _steps(job, 0, 9, first_extra_s=8.0)
    _took(job, "data_loading", 0.5)
    _took(job, "custom_badput_event", 7.0, custom_badput_event_type="eval_step")
    _save(job, 9, 2.0, "gs://bucket/run")
    _save(job, 9, 4.0, "gs://bucket/run")
    _save(job, 9, 1.0, "/local/run")
    _wait(job, 3.0)
    _steps(job, 10, 19)
    _took(job, "custom_badput_event", 1.0, custom_badput_event_type="sdc_check")
    _steps(job, 20, 20)
    job.tell("record_job_end_time")


def _disruption(job: Job) -> None:
    _begin(job)
    _steps(job, 0, 12, first_extra_s=5.0)
    _wait(job, 40.0)
    _begin(job)
    entry: dict[str, Any] = {"step": 8, "event_type": "restore", "directory": "gs://bucket/run"}
    for what in ("checkpointer", "checkpoint_manager"):
        entry |= {f"{what}_start_time": job.now_s, f"{what}_duration_secs": 2.5}
    job.calls.append(["entry", entry])
    _wait(job, 2.5)
    _steps(job, 8, 20, first_extra_s=5.0)
    job.tell("record_job_end_time")


def _restart_at_0(job: Job) -> None:
    _begin(job)
    _steps(job, 0, 5)
    _begin(job)
    _steps(job, 0, 9)


def _hang(job: Job) -> None:
    job.tell("record_job_start_time")
    _steps(job, 0, 100, 10.0)
    _wait(job, 3591.0)


def _sparse_steps(job: Job) -> None:
    job.tell("record_job_start_time")
    for step in range(0, 100, 10):
        job.tell("record_step_start_time", step=step)
        _wait(job, 20.0)
    job.tell("record_job_end_time")


def _short_steps(job: Job) -> None:
    job.tell("record_job_start_time")
    _steps(job, 0, 99, 0.5)
    job.tell("record_job_end_time")


def _end_then_resume(job: Job) -> None:
    _begin(job)
    _steps(job, 0, 9)
    job.tell("record_job_end_time")
    _wait(job, 100.0)
    _begin(job)
    _steps(job, 10, 19)


def _nested(job: Job) -> None:
    job.tell("record_job_start_time")
    job.tell("record_training_preparation_start_time")
    _took(job, "tpu_init", 13.0)
    job.tell("record_training_preparation_end_time")
    _steps(job, 0, 9)
    job.tell("record_job_end_time")


def _two_ranks(job: Job) -> None:
    _begin(job)
    for step in range(10):
        for _ in range(2):
            job.tell("record_step_start_time", step=step)
            _wait(job, 0.01)
        _wait(job, 2.98)
    job.tell("record_job_end_time")


def _out_of_order(job: Job) -> None:
    _everything(job)
    job.calls[8:20] = job.calls[19:7:-1]


def _custom_across_steps(job: Job) -> None:
    _begin(job)
    _steps(job, 0, 3)
    job.tell("record_custom_badput_event_start_time", custom_badput_event_type="eval")
    _steps(job, 4, 4)
    job.tell("record_custom_badput_event_end_time", custom_badput_event_type="eval")
    _steps(job, 5, 9)
    job.tell("record_job_end_time")


def _no_start(job: Job) -> None:
    _steps(job, 0, 3)


def _elastic(job: Job) -> None:
    def slices(active: int, available: int) -> None:
        counts = {"active_slices": active, "total_slices": 8, "available_slices": available}
        job.calls.append(["record_elastic_slice_counts", {**counts, "timestamp": job.now_s}])

    _begin(job)
    slices(8, 8)
    _steps(job, 0, 9)
    slices(6, 6)
    _took(job, "elastic_wait", 12.0, event_type="slice_down")
    job.tell("record_elastic_reinit_start_time")
    _took(job, "tpu_init", 2.0)
    _took(job, "training_preparation", 3.0)
    job.tell("record_elastic_reinit_end_time")
    _steps(job, 10, 14)
    slices(6, 8)
    _took(job, "elastic_wait", 5.0, event_type="scale_up")
    slices(8, 8)
    _steps(job, 15, 19)
    job.tell("record_job_end_time")
