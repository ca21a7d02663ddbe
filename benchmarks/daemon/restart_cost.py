"""What a daemon that is killed after a day at ten steps a second costs to start again, and on disk.

CPU seconds, of this process: replaying the whole journal, as without a snapshot, against going on from the
last snapshot; and the bytes of the journal as it is appended to against those when it is packed.

Run: python benchmarks/daemon/restart_cost.py [--steps N] [--json]
"""

import json
import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import click

from scrtune.client.paths import JobPaths
from scrtune.daemon.journal.journal import Journal, apply_event, replay_journal
from scrtune.daemon.journal.snapshot import SNAPSHOT_EVENTS, Snapshots, recovered
from scrtune.goodput.events import FlushCompleted, JobStarted, OutputCompleted, OutputStarted, StepCompleted
from scrtune.goodput.steps.recent import RecentSteps
from scrtune.intents.events import Event, NodeObserved, ProcessUse, SettingsObserved
from scrtune.intents.pipeline import Pipeline

STEP_S = 0.1
LOOK_EVERY, CHECKPOINT_EVERY = 100, 6000
GIB = 2**30
SETTINGS = {"SCR_COPY_TYPE": "SINGLE", "SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1}


def day(steps: int) -> Iterator[tuple[float, Event]]:
    """What a job says: steps that vary by 2 %, a look at the node every 10 s, a checkpoint every 10 min."""
    noise, now = random.Random(1), 1.79e9  # noqa: S311 - no secret
    yield now, JobStarted(time_s=now, ranks=4, nodes=4)
    sources = dict.fromkeys(SETTINGS, "user config")
    yield now, SettingsObserved(settings=SETTINGS, sources=sources, engine="embedded", ranks=4, nodes=4)
    for step in range(steps):
        begun, now = now, now + noise.gauss(STEP_S, STEP_S / 50)
        yield now + noise.lognormvariate(-8, 0.3), StepCompleted(step=step, start_s=begun, end_s=now)
        if step % LOOK_EVERY == LOOK_EVERY - 1:
            uses = tuple(
                ProcessUse(pid=pid, cpus=tuple(range(64)), cores_used=noise.random()) for pid in range(4)
            )
            free = noise.randrange(100 * GIB)
            yield now, NodeObserved(host="n", cpus=tuple(range(64)), processes=uses, cache_free_bytes=free)
        if step % CHECKPOINT_EVERY == CHECKPOINT_EVERY - 1:
            yield from _checkpoint(step // CHECKPOINT_EVERY, now, noise.gauss(2.0, 0.1))
            now += 2.5


def _checkpoint(dataset: int, now: float, took_s: float) -> Iterator[tuple[float, Event]]:
    end = now + took_s
    yield now, OutputStarted(dataset=dataset, name="c", time_s=now)
    yield end, FlushCompleted(dataset=dataset, start_s=now + 1, end_s=end, bytes=GIB)
    yield (
        end,
        OutputCompleted(
            dataset=dataset, name="c", start_s=now, end_s=end, bytes=GIB, flush_s=took_s - 1, flush_due=True
        ),
    )


@click.command()
@click.option("--steps", default=864_000, show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(steps: int, as_json: bool) -> None:
    """Measure, and print a line for each number."""
    with tempfile.TemporaryDirectory(prefix="sr") as base:
        found = measure(JobPaths.of("day", base=Path(base) / "r").create(), steps)
    if as_json:
        print(json.dumps(found))
        return
    for name, value in found.items():
        print(f"{name:32} {value:12.3f}")


def measure(paths: JobPaths, steps: int) -> dict[str, float]:
    """Write the journal twice, as it is appended to and packed as the daemon does, and start from each."""
    plain = paths.root / "plain"
    appended, packed = Journal(plain), Journal(paths.journal)
    pipeline, snapshots, longest_s = Pipeline(), Snapshots(paths), 0.0
    for number, (now, event) in enumerate(day(steps)):
        for journal in (appended, packed):
            journal.append(now, event)
        apply_event(pipeline, event, now)
        if number % 10 == 0:
            appended.flush(now)
            packed.flush(now)
        if packed.unsealed >= SNAPSHOT_EVENTS:
            begun_s = time.thread_time()
            packed.seal()
            packed_s = time.thread_time()
            snapshots.write(packed, pipeline, RecentSteps(), {})
            longest_s = max(longest_s, packed_s - begun_s, time.thread_time() - packed_s)  # in two turns
            snapshots.wait(60)
    for journal in (appended, packed):
        journal.flush(now)
        journal.close()
    times_s = []
    for restart in (lambda: replay_journal(plain), lambda: recovered(paths)):
        begun_s = time.process_time()
        again, _ = restart()
        times_s.append(time.process_time() - begun_s)
        assert again.counters.events == pipeline.counters.events
    return {
        "replay all, CPU s": times_s[0],
        "from the snapshot, CPU s": times_s[1],
        "ratio": times_s[0] / times_s[1],
        "journal appended, MB": plain.stat().st_size / 1e6,
        "journal packed, MB": paths.journal.stat().st_size / 1e6,
        "snapshot, MB": paths.snapshot.stat().st_size / 1e6,
        "longest pause of the loop, CPU s": longest_s,
    }


if __name__ == "__main__":
    main()
