"""Logs of made-up jobs, as calls of the recorder's methods: what both sides of the comparison are given.

A log is ``{"name", "elastic", "calls": [[method, keyword arguments]], "windows": [[start, end]]}``; times are
epoch seconds, in whole microseconds, as a recorder's are. ``["entry", {...}]`` is a line of the checkpointer.
"""

import random
from typing import Any

START_S = 1_700_000_000.0
NOW_S = START_S + 400_000.0
"""The time it is when the questions are asked."""

Call = list[Any]


class Job:
    """A made-up job that goes on from call to call; `random` decides what happens."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now_s = START_S
        self.calls: list[Call] = []

    def spend(self, least_s: float, most_s: float) -> None:
        """Let time pass."""
        self.now_s = round(self.now_s + self.rng.uniform(least_s, most_s), 6)

    def tell(self, method: str, **arguments: Any) -> None:
        """Call the recorder, now."""
        edge = "start_time" if "_start_" in method else "end_time"
        self.calls.append([method, {edge: self.now_s, **arguments}])

    def interval(self, what: str, least_s: float, most_s: float, **arguments: Any) -> None:
        """Something that begins and, mostly, ends."""
        self.tell(f"record_{what}_start_time", **arguments)
        self.spend(least_s, most_s)
        if self.rng.random() < 0.97:
            self.tell(f"record_{what}_end_time", **arguments)

    def checkpointer(self, event_type: str, step: int) -> None:
        """What Orbax logs of a save or a restore; several hosts may tell of the same."""
        manager = "checkpoint_manager_blocking" if event_type == "save" else "checkpoint_manager"
        part = "checkpointer_blocking" if event_type == "save" else "checkpointer"
        start_s = self.now_s
        self.spend(0.1, 4.0)
        for _ in range(self.rng.choice((1, 1, 1, 2))):
            entry: dict[str, Any] = {
                "step": step,
                "event_type": event_type,
                "directory": self.rng.choice(("gs://bucket/run", "/local/run")),
            }
            for what in (part, manager):
                entry[f"{what}_start_time"] = start_s
                entry[f"{what}_duration_secs"] = round(self.now_s - start_s, 6)
            if event_type == "save":
                for what in ("wait_for_prev", "get_old_steps"):
                    entry[f"{what}_start_time"] = start_s
                    entry[f"{what}_duration_secs"] = 0.0
            self.calls.append(["entry", entry])


def random_log(seed: int) -> dict[str, Any]:
    """A job with runs, steps, disruptions and all that can lie between; some logs are out of order."""
    rng = random.Random(seed)  # noqa: S311  no secret depends on it
    job = Job(rng)
    elastic = rng.random() < 0.25
    step_s = rng.choice(((2.0, 2.2), (0.2, 0.9), (1.0, 30.0), (3.0, 3.0)))
    every = rng.choice((1, 1, 1, 1, 10))
    step = rng.choice((0, 0, 1, 100))
    for run in range(rng.choice((1, 1, 2, 3, 5))):
        if run:
            job.spend(0.0, 300.0)
            step = max(0, step - rng.choice((0, 0, 1, 3, 7, 1000)))
        _start(job, rng, first=run == 0, step=step)
        for _ in range(rng.choice((0, 1, 2, 12, 40))):
            _step(job, rng, step, step_s, elastic=elastic)
            step += every if rng.random() < 0.99 else 2
        if rng.random() < 0.4:
            job.tell("record_job_end_time")
    calls = job.calls
    if rng.random() < 0.1:  # two ranks tell the same
        calls = [call for call in calls for _ in range(2)]
    if rng.random() < 0.1:  # a few arrive late
        for _ in range(5):
            calls.insert(rng.randrange(len(calls)), calls.pop(rng.randrange(len(calls))))
    windows = [sorted(rng.uniform(START_S - 10, job.now_s + 10) for _ in range(2)) for _ in range(3)]
    return {"name": f"random-{seed}", "elastic": elastic, "calls": calls, "windows": windows}


def _start(job: Job, rng: random.Random, *, first: bool, step: int) -> None:
    if rng.random() < (0.98 if first else 0.8):
        job.tell("record_job_start_time")
    job.spend(0.0, 3.0)
    if rng.random() < 0.7:
        job.interval("tpu_init", 0.5, 20.0)
    if rng.random() < 0.2:  # within each other
        job.tell("record_training_preparation_start_time")
        job.interval("tpu_init", 0.5, 20.0)
        job.tell("record_training_preparation_end_time")
    elif rng.random() < 0.7:
        job.interval("training_preparation", 0.5, 20.0)
    if not first and rng.random() < 0.7:
        job.checkpointer("restore", step)
    if rng.random() < 0.5:
        job.interval("data_loading", 0.1, 5.0)


def _step(job: Job, rng: random.Random, step: int, step_s: tuple[float, float], *, elastic: bool) -> None:
    job.tell("record_step_start_time", step=step)
    job.spend(*step_s)
    if rng.random() < 0.02:
        job.spend(30.0, 3600.0)
    if rng.random() < 0.2:
        job.interval("data_loading", 0.01, 0.3)
    if rng.random() < 0.15:
        kind = rng.choice(("eval_step", "Eval_Step", "sdc_check"))
        job.interval("custom_badput_event", 0.0, 6.0, custom_badput_event_type=kind)
    if rng.random() < 0.05:  # across the boundary of steps
        job.tell("record_custom_badput_event_start_time", custom_badput_event_type="long")
        job.tell("record_step_start_time", step=step + 1)
        job.spend(*step_s)
        job.tell("record_custom_badput_event_end_time", custom_badput_event_type="long")
    if rng.random() < 0.1:
        job.checkpointer("save", step)
    if elastic and rng.random() < 0.2:
        _elastic(job, rng)


def _elastic(job: Job, rng: random.Random) -> None:
    counts = {"active_slices": rng.randint(0, 8), "total_slices": rng.randint(0, 8)}
    counts["available_slices"] = rng.randint(0, 8)
    job.calls.append(["record_elastic_slice_counts", {**counts, "timestamp": job.now_s}])
    job.interval("elastic_wait", 0.5, 60.0, event_type=rng.choice(("scale_up", "slice_down", "lost")))
    if rng.random() < 0.5:
        job.tell("record_elastic_reinit_start_time")
        job.interval("tpu_init", 0.5, 5.0)
        job.interval("training_preparation", 0.5, 5.0)
        job.tell("record_elastic_reinit_end_time")
