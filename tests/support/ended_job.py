"""A small job as it is found when its daemon has gone."""

import time

from scrtune.client.paths import JobPaths
from scrtune.daemon.journal.journal import Journal
from scrtune.goodput.events import (
    JobEnded,
    JobStarted,
    OutputCompleted,
    OutputStarted,
    StepCompleted,
)
from scrtune.intents.events import Event, EventsLost, SettingsObserved, TraceDigest

BEGUN_S = float(int(time.time()) - 100)  # a daemon does not believe in events of another age
# `declared` is above the scheme in use, so that one change is made at once
JOB: tuple[Event, ...] = (
    JobStarted(time_s=BEGUN_S, ranks=4, nodes=4),
    SettingsObserved(
        settings={"SCR_COPY_TYPE": "SINGLE", "SCR_CACHE_BYPASS": 0},
        sources={"SCR_COPY_TYPE": "user config", "SCR_CACHE_BYPASS": "user config"},
        engine="embedded",
        ranks=4,
        nodes=4,
        floor="XOR",
    ),
    StepCompleted(step=1, start_s=BEGUN_S + 1, end_s=BEGUN_S + 3),
    OutputStarted(dataset=1, name="c1", time_s=BEGUN_S + 3, generation=1),
    OutputCompleted(
        dataset=1, name="c1", start_s=BEGUN_S + 3, end_s=BEGUN_S + 4, generation=1, bytes=2**30, write_s=1.0
    ),
    TraceDigest(lines=12, events=10, dropped={"broken json": 2}),
    EventsLost(source="emit:n1:7: dropped, its queue was full", count=5),
    JobEnded(time_s=BEGUN_S + 5, exit_code=0),
)


def run_directory(job_id: str) -> JobPaths:
    paths = JobPaths.of(job_id)
    paths.root.mkdir(parents=True)
    return paths


def ended_job(job_id: str, events: tuple[Event, ...] = JOB) -> JobPaths:
    """A job as it is found when its daemon has gone."""
    paths = run_directory(job_id)
    journal = Journal(paths.journal)
    for event in events:
        journal.append(BEGUN_S + 10, event)
    journal.flush(BEGUN_S)
    journal.close()
    return paths
