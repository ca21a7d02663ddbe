"""A daemon that is killed again and again beside a job that it tunes: nothing that had won is forgotten.

`make test-kills` kills it 100 times, `make test` 12 times.
"""

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scrtune.daemon.journal.journal import replay_journal
from scrtune.daemon.journal.records import JournalReader
from scrtune.daemon.views import ExplainView, StatusView
from scrtune.goodput.events import OutputStarted
from scrtune.intents.effects import Advice
from scrtune.intents.events import EventsLost
from scrtune.intents.tune.decisions import Decision

WaitUntil = Callable[[Callable[[], object]], None]
KILLS = int(os.environ.get("SCRTUNE_TEST_KILLS", "12"))
pytestmark = [pytest.mark.mpi, pytest.mark.timeout(600 + 30 * KILLS)]  # 100 took 9 minutes of two cores
MPIEXEC = Path(sys.executable).with_name("mpiexec")
APPLICATION = Path(__file__).parents[1] / "apps" / "mpi_steady.py"
RANKS = FILES = 2
# a buffer so small that a larger one wins
POOR = """\
SCR_CACHE_BYPASS=0
SCR_COPY_TYPE=SINGLE
SCR_FLUSH=1
SCR_FLUSH_ASYNC=0
SCR_FILE_BUF_SIZE=1KB
"""


class Seen(msgspec.Struct, frozen=True):
    """What a daemon says at one time: the order in which it is asked counts."""

    status: StatusView
    explain: ExplainView
    advice: Advice


def seen(daemon: Any) -> Seen:
    return Seen(daemon.view("status"), daemon.view("explain"), daemon.view("recommendation"))


def identities(decisions: Sequence[Decision]) -> list[tuple[object, ...]]:
    """What of decisions does not change with what is measured later."""
    return [(each.generation, each.time_s, each.verdict, each.rule, each.changes) for each in decisions]


def is_continued(before: Seen, after: Seen) -> None:
    """Check that `after` goes on where `before` was, or where the job has come to since."""
    decided, decided_now = identities(before.explain.decisions), identities(after.explain.decisions)
    assert decided_now[: len(decided)] == decided
    known = after.explain.baseline  # with the defaults of the levers that were tried since
    assert {name: known[name] for name in before.explain.baseline} == before.explain.baseline
    assert after.status.checkpoints >= before.status.checkpoints
    assert after.status.counters.events >= before.status.counters.events
    assert after.advice.generation >= before.advice.generation
    if after.advice.generation == before.advice.generation:
        assert after.advice.settings == before.advice.settings


@pytest.fixture
def application(real_daemon: Any, tmp_path: Path) -> "Iterator[subprocess.Popen[str]]":
    config = tmp_path / "scr.conf"
    config.write_text(POOR)
    (tmp_path / "prefix").mkdir()
    real_daemon.start("--scr-conf", str(config))
    own = {name: value for name, value in os.environ.items() if not name.startswith(("SCR", "DFTRACER"))}
    variables = {
        "SCRTUNE_JOB_ID": "j",
        "SCRTUNE_RUN_DIR": str(real_daemon.paths.base),
        "SCRTUNE_ENGINE": "embedded",
        "SCR_CONF_FILE": str(config),
        "SCR_PREFIX": str(tmp_path / "prefix"),
        "SCR_CACHE_BASE": str(tmp_path / "cache"),
    }
    command = [MPIEXEC, "-n", str(RANKS), sys.executable, APPLICATION, tmp_path / "stop"]
    process = subprocess.Popen(
        command, env={**own, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate()


def test_killed_with_decisions_in_force_it_goes_on_with_what_had_won(
    real_daemon: Any, application: "subprocess.Popen[str]", tmp_path: Path, wait_until: WaitUntil
) -> None:
    daemon, when = real_daemon, random.Random(9)
    wait_until(lambda: daemon.view("status").kept)
    for _ in range(KILLS):
        time.sleep(when.uniform(0, 0.3))  # anywhere in a checkpoint, a trial, a write
        before = seen(daemon)
        daemon.end(signal.SIGKILL)
        daemon.start("--scr-conf", str(tmp_path / "scr.conf"))
        is_continued(before, seen(daemon))
    (tmp_path / "stop").touch()
    output, errors = application.communicate(timeout=100)
    assert application.returncode == 0, errors
    taken = int(output)
    assert taken > KILLS
    for number in range(taken):
        for rank in range(RANKS):
            for file in range(FILES):
                content = hashlib.shake_256(f"{number} {rank} {file}".encode()).digest(400_000)
                assert (tmp_path / "prefix" / f"c{number}" / f"rank{rank}.{file}").read_bytes() == content
    decisions = tuple(daemon.view("explain").decisions)
    assert daemon.end(signal.SIGTERM) == 0
    assert tuple(replay_journal(daemon.paths.journal)[0].decisions) == decisions
    events = [event for _, event in JournalReader(daemon.paths.journal)]
    outputs = [event.generation for event in events if isinstance(event, OutputStarted)]
    assert outputs == sorted(outputs), "no output ran under older settings than the one before it"
    lost = sum(event.count for event in events if isinstance(event, EventsLost))
    assert len(outputs) <= taken <= len(outputs) + lost
