"""Snapshots: whoever goes on from one is where the whole journal leads, and one that does not fit is none."""

import os
import pickle
import random
import struct
import sys
import threading
import zlib
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from scrtune.client.paths import JobPaths
from scrtune.daemon import views
from scrtune.daemon.journal import snapshot
from scrtune.daemon.journal.journal import Journal, apply_event, replay_journal
from scrtune.daemon.journal.records import JournalReader
from scrtune.daemon.journal.snapshot import Snapshots, recovered, restore, sources
from scrtune.goodput.events import StepCompleted
from scrtune.goodput.steps.recent import RecentSteps
from scrtune.intents.effects import Effect
from scrtune.intents.events import Event
from scrtune.intents.pipeline import Pipeline
from tests.support.simulated_job import CACHED, Job

T0 = 1_700_000_000.0


@pytest.fixture(scope="module")
def told() -> list[tuple[float, Event]]:
    """What a job says until something has won, and then goes on; at no time does a number repeat itself."""
    job = Job(CACHED, seed=3, noise=0.05).checkpoints(25)
    assert "accepted" in job.words
    return job.journal


@pytest.fixture
def paths(tmp_path: Path) -> JobPaths:
    return JobPaths.of("j", base=tmp_path / "r", host="n").create()


def written(paths: JobPaths, told: list[tuple[float, Event]], at: int) -> tuple[Pipeline, list[Effect]]:
    """A daemon's pipeline and effects, with a packed journal and a snapshot after `at` events."""
    paths.journal.unlink(missing_ok=True)
    journal, pipeline, effects = Journal(paths.journal), Pipeline(), []
    snapshots = Snapshots(paths)
    for number, (now, event) in enumerate(told):
        if number == at:
            journal.flush(now)
            journal.seal()
            snapshots.write(journal, pipeline, RecentSteps(), {"a": (at, 0)})
            snapshots.wait(60)
        journal.append(now, event)
        effects += apply_event(pipeline, event, now)
    journal.flush(told[-1][0])
    journal.close()
    return pipeline, effects


def seen(pipeline: Pipeline, now: float) -> bytes:
    """All that is shown of a job."""
    shown = (
        views.status_view(pipeline, now, job_id="j", host="n"),
        views.explain_view(pipeline),
        views.goodput_view(pipeline, now),
        pipeline.advice,
        pipeline.knowledge,
    )
    return msgspec.json.encode(shown)


@pytest.mark.parametrize("share", [0.01, 0.3, 0.6, 0.97])
def test_a_snapshot_and_the_rest_of_the_journal_are_the_whole_journal(
    paths: JobPaths, told: list[tuple[float, Event]], share: float
) -> None:
    at = int(len(told) * share)
    live, effects = written(paths, told, at)
    state = restore(paths)
    assert state is not None
    assert (state.number, state.senders) == (at, {"a": (at, 0)})
    rest = list(JournalReader(paths.journal, state.end, state.number))
    assert rest == told[at:]
    decided = [effect for now, event in rest for effect in apply_event(state.pipeline, event, now)]
    assert decided == effects[len(effects) - len(decided) :], "it decides as the one before it did"
    now = told[-1][0]
    assert seen(state.pipeline, now) == seen(live, now)
    for pipeline, last_s in (recovered(paths), replay_journal(paths.journal)):
        assert last_s == now
        assert seen(pipeline, now) == seen(live, now)


def test_of_a_long_job_too_the_account_is_the_same(paths: JobPaths) -> None:
    noise, now, told = random.Random(1), T0, []
    for step in range(30_000):
        begun, now = now, now + noise.gauss(0.1, 0.01)
        told.append((now, StepCompleted(step=step, start_s=begun, end_s=now)))
    live, _ = written(paths, told, 27_000)
    assert restore(paths) is not None
    assert seen(recovered(paths)[0], now) == seen(live, now)


def other(content: bytes) -> bytes:
    """The snapshot of another scrtune."""
    return bytes(byte ^ 1 for byte in content[:32]) + content[32:]


def flipped(content: bytes) -> bytes:
    half = len(content) // 2
    return content[:half] + bytes([content[half] ^ 4]) + content[half + 1 :]


def cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


@pytest.mark.parametrize("damage", [other, flipped, cut])
def test_one_that_is_damaged_is_ignored(
    paths: JobPaths,
    told: list[tuple[float, Event]],
    damage: Callable[[bytes], bytes],
    caplog: pytest.LogCaptureFixture,
) -> None:
    live, _ = written(paths, told, 50)
    paths.snapshot.write_bytes(damage(paths.snapshot.read_bytes()))
    assert restore(paths) is None
    assert "the whole journal is replayed" in caplog.text
    assert seen(recovered(paths)[0], T0) == seen(live, T0)


class Attack:
    """What runs a function of the attacker's when it is unpickled."""

    def __init__(self, mark: Path) -> None:
        self._mark = mark

    def __reduce__(self) -> tuple[Callable[[str], object], tuple[str]]:
        return os.mkdir, (str(self._mark),)


def test_one_that_brings_code_is_ignored(
    paths: JobPaths, told: list[tuple[float, Event]], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    written(paths, told, 50)
    attack = pickle.dumps(((0, b""), Attack(tmp_path / "attacked")))
    framed = zlib.compress(struct.pack("<Q", len(attack)) + attack)
    paths.snapshot.write_bytes(paths.snapshot.read_bytes()[:32] + framed)
    assert restore(paths) is None
    assert "it has a posix.mkdir" in caplog.text
    assert not (tmp_path / "attacked").exists()


def test_one_of_another_journal_is_ignored(paths: JobPaths, told: list[tuple[float, Event]]) -> None:
    written(paths, told, 50)
    snapshot = paths.snapshot.read_bytes()
    written(paths, told[30:], 50)
    paths.snapshot.write_bytes(snapshot)
    assert restore(paths) is None


def test_one_that_is_not_the_users_alone_is_ignored(
    paths: JobPaths, told: list[tuple[float, Event]], tmp_path: Path
) -> None:
    written(paths, told, 50)
    paths.snapshot.chmod(0o644)
    assert restore(paths) is None
    paths.snapshot.chmod(0o600)
    assert restore(paths) is not None
    paths.snapshot.rename(tmp_path / "elsewhere")
    paths.snapshot.symlink_to(tmp_path / "elsewhere")
    assert restore(paths) is None


def test_a_snapshot_belongs_to_the_sources_of_what_it_holds() -> None:
    for held in (Pipeline, RecentSteps, StepCompleted):
        assert Path(sys.modules[held.__module__].__file__ or "").resolve() in [
            path.resolve() for path in sources()
        ]


def test_what_python_keeps_of_pickling_is_given_back_before_the_loop_goes_on(
    paths: JobPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_measured = threading.Event()
    monkeypatch.setattr(snapshot, "write_atomic", lambda *_, **__: is_measured.wait(60))  # a slow disk
    snapshots, journal = Snapshots(paths), Journal(paths.journal)
    journal.flush(T0)
    freed = [(number,) * 7 for number in range(2000)]
    freed.clear()
    before = sys.getallocatedblocks()
    snapshots.write(journal, Pipeline(), RecentSteps(), {})
    after = sys.getallocatedblocks()
    is_measured.set()
    snapshots.wait(60)
    journal.close()
    assert before - after > 1000
