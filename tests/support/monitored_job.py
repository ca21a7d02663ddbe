"""A short job for the monitors: what it reports, and how a daemon is given it."""

import csv
import struct
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tensorboardX.proto.event_pb2 import Event as TensorBoardEvent
from tensorboardX.record_writer import masked_crc32c

from scrtune.daemon import views
from scrtune.daemon.monitor.snapshot import Snapshot
from scrtune.goodput.events import Interval, JobEnded, JobStarted, OutputCompleted, StepCompleted
from scrtune.goodput.ledger.ledger import Account
from scrtune.intents.events import Event
from scrtune.intents.pipeline import Pipeline

BEGUN_S = float(int(time.time()) - 100)  # a daemon does not believe in events of another age
SPENT = Account(wall_s=2.0, buckets={"productive": 1.0, "other": 1.0}, steps=1)


def job(steps: int = 10) -> Iterator[Event]:
    """Steps of a second, the fifth two, a custom interval of a second, and a checkpoint of half a second."""
    yield JobStarted(time_s=BEGUN_S, ranks=2)
    now = BEGUN_S
    for step in range(steps):
        end_s = now + (2 if step == 4 else 1)
        yield StepCompleted(step=step, start_s=now, end_s=end_s)
        now = end_s
    yield Interval(kind="custom", name="Eval step", start_s=now, end_s=now + 1)
    yield OutputCompleted(dataset=1, name="c1", start_s=now + 1, end_s=now + 1.5, generation=0, write_s=0.5)
    yield JobEnded(time_s=now + 1.5, exit_code=0)


def feed(daemon: Any) -> None:
    """Send the job to `daemon`, and wait until it has taken all of it in."""
    events = list(job())
    daemon.tell(*events)
    daemon.until_events(len(events))


def snapshot(*steps: int) -> Snapshot:
    """A snapshot that has something to write, and the deviations of these steps."""
    deviations = tuple((step, 0.5) for step in steps)
    status = views.status_view(Pipeline(), 1.0, job_id="j", host="n")
    return Snapshot(time_s=1.0, status=status, account=SPENT, deviations=deviations)


def events_in(directory: Path) -> Iterator[TensorBoardEvent]:
    """Every whole event of every event file, with both checksums; the last may be half written just now."""
    for path in sorted(directory.glob("*tfevents*")):
        content = path.read_bytes()
        while len(content) >= 16:
            (length,) = struct.unpack("<Q", content[:8])
            if len(content) < 16 + length:
                break
            assert struct.unpack("<I", content[8:12])[0] == masked_crc32c(content[:8])
            body, rest = content[12 : 12 + length], content[12 + length :]
            assert struct.unpack("<I", rest[:4])[0] == masked_crc32c(body)
            yield TensorBoardEvent.FromString(body)
            content = rest[4:]


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """The steps and values of each tag, in the order written."""
    found = defaultdict(list)
    for event in events_in(directory):
        for value in event.summary.value:
            found[value.tag].append((event.step, value.simple_value))
    return dict(found)


def last_scalars(directory: Path) -> dict[str, tuple[int, float]]:
    """The last step and value of each tag: a daemon also writes what it knows when it first looks around."""
    return {tag: values[-1] for tag, values in scalars(directory).items()}


def rows_in(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, by column."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))
