"""`scrtune off` and `scrtune on`: the user's own settings come back at once, and tuning when they say so."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from scrtune.cli.commands.job import order
from scrtune.cli.errors import CommandError
from scrtune.client.paths import JOB_ID_VARIABLES
from scrtune.client.transport.wire import Question
from scrtune.daemon.journal.records import JournalReader
from scrtune.goodput.events import (
    FlushCompleted,
    JobStarted,
    OutputCompleted,
    OutputStarted,
    StepCompleted,
)
from scrtune.intents.events import Event, NodeObserved, ProcessUse, SettingsObserved, TuningSwitched
from scrtune.intents.settings import DEFAULTS
from scrtune.scr_config.decision import ParsedDecision, parse_decision
from scrtune.scr_config.parse import parse

WaitUntil = Callable[[Callable[[], object]], None]
BEGUN_S = float(int(time.time()) - 100)  # a daemon does not believe in events of another age
OWN = {"SCR_COPY_TYPE": "SINGLE", "SCR_CACHE_BYPASS": "0", "SCR_FLUSH": "1"}
TUNED = {"SCR_FLUSH_ASYNC": "1", "SCR_FLUSH_TYPE": "PTHREAD"}
"""Among what is changed."""


def begun(*, tuning: bool = True) -> Iterator[Event]:
    yield JobStarted(time_s=BEGUN_S, ranks=4, nodes=4)
    yield SettingsObserved(
        settings={"SCR_COPY_TYPE": "SINGLE", "SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1},
        sources=dict.fromkeys(OWN, "user config"),
        ranks=4,
        nodes=4,
        tuning=tuning,
    )


def checkpoints(count: int) -> Iterator[Event]:
    """A synchronous flush that blocks, and idle cores: the rules have an answer to that."""
    use = ProcessUse(pid=1, cpus=(0, 1, 2, 3), cores_used=0.5)
    room = {"memory_available_bytes": 2**40, "cache_free_bytes": 2**40}
    yield NodeObserved(host="n", cpus=(0, 1, 2, 3), processes=(use,), **room)
    for number in range(count):
        begun_s = BEGUN_S + 3 * number
        output = {"dataset": number, "name": f"c{number}"}
        yield StepCompleted(step=number, start_s=begun_s, end_s=begun_s + 2)
        yield OutputStarted(**output, time_s=begun_s + 2)
        yield FlushCompleted(dataset=number, start_s=begun_s + 2.1, end_s=begun_s + 3, bytes=2**30)
        times = {"start_s": begun_s + 2, "end_s": begun_s + 3, "write_s": 0.1, "flush_s": 0.9}
        yield OutputCompleted(**output, **times, bytes=2**30, files=4, flush_due=True)


def scrtune(daemon: Any, *arguments: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    others = {name: value for name, value in os.environ.items() if name not in JOB_ID_VARIABLES}
    return subprocess.run(
        [sys.executable, "-m", "scrtune", *arguments],
        env={**others, "SCRTUNE_RUN_DIR": str(daemon.paths.base), **environment},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def decision(daemon: Any) -> ParsedDecision:
    return parse_decision(daemon.paths.decision.read_bytes())


def is_own(values: dict[str, str]) -> bool:
    """Whether these are the user's own: what was changed once is still said, for what is not named stays."""
    own = {**{name: str(value) for name, value in DEFAULTS.items()}, **OWN}
    return TUNED.keys() <= values.keys() and values == {name: own[name] for name in values}


@pytest.fixture
def tuned(real_daemon: Any, tmp_path: Path) -> Any:
    """A daemon with a job whose settings it has changed."""
    own = tmp_path / "own.conf"
    own.write_text("".join(f"{name}={text}\n" for name, text in OWN.items()))
    daemon = real_daemon.start("--user-conf", str(own))
    daemon.tell(*begun(), *checkpoints(3))
    daemon.until_events(15)
    decided = decision(daemon)
    assert decided.generation == 1
    assert {**OWN, **TUNED}.items() <= decided.values.items()
    return daemon


def test_off_returns_when_the_users_own_settings_are_published(tuned: Any) -> None:
    ran = scrtune(tuned, "off", "--job-id", "j")
    assert (ran.returncode, ran.stderr) == (0, "")
    decided = decision(tuned)
    assert is_own(decided.values)
    assert decided.generation == tuned.view("recommendation").generation > 1
    assert ran.stdout == (
        "job j: tuning is off; your own settings are active from the next SCR_Start_output"
        f" (generation {decided.generation})\n"
    )
    said = parse(tuned.paths.scr_conf.read_text(), {}).values
    assert {name: pair.value for name, pair in said.items()} == OWN, "nothing of ours is left for a launch"
    assert not tuned.view("status").tuning


def test_said_twice_is_said_once(tuned: Any) -> None:
    first, second = (scrtune(tuned, "off").stdout for _ in range(2))
    assert first == second
    switched = [event for _, event in JournalReader(tuned.paths.journal) if isinstance(event, TuningSwitched)]
    assert switched == [TuningSwitched(on=False)]


def test_on_has_it_tuned_again(tuned: Any) -> None:
    scrtune(tuned, "off")
    ran = scrtune(tuned, "on", "--job-id", "j")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == "job j: tuning is on; it continues from your own settings\n"
    assert tuned.view("status").tuning


def test_a_daemon_that_is_killed_and_the_next_run_of_the_job_are_off_still(tuned: Any) -> None:
    scrtune(tuned, "off")
    tuned.end(9)
    tuned.start()
    assert not tuned.view("status").tuning
    assert is_own(decision(tuned).values)
    tuned.tell(*begun())
    tuned.until_events(18)
    assert is_own(decision(tuned).values)
    assert not tuned.view("status").tuning


def test_before_the_application_has_said_anything_it_is_said_and_holds_then(real_daemon: Any) -> None:
    daemon = real_daemon.start()
    ran = scrtune(daemon, "off")
    assert ran.returncode == 0
    assert "The application has not reported to this node's daemon yet" in ran.stdout
    assert "If its rank 0 runs on another node, switch it there" in ran.stdout
    daemon.tell(*begun(), *checkpoints(4))
    daemon.until_events(20)
    assert decision(daemon) == ParsedDecision(0, OWN)
    scrtune(daemon, "on")
    assert daemon.view("status").tuning


def test_on_does_not_undo_no_tune(real_daemon: Any) -> None:
    daemon = real_daemon.start()
    daemon.tell(*begun(tuning=False))
    daemon.until_events(2)
    ran = scrtune(daemon, "on")
    assert (ran.returncode, "started with --no-tune" in ran.stdout) == (0, True)
    assert not daemon.view("status").tuning


def test_settings_that_cannot_be_published_are_reported_with_exit_code_1(
    tuned: Any,
) -> None:
    conf = tuned.paths.scr_conf
    conf.unlink()
    conf.mkdir()
    with pytest.raises(CommandError, match=r"`off` counts, but .* cannot be written .*goes on trying"):
        order(tuned.paths, Question(command="off"), limit_s=0.5)
    assert decision(tuned).generation == 1
    conf.rmdir()
    view = order(tuned.paths, Question(command="off"))
    assert decision(tuned).generation == view.generation
    assert is_own(decision(tuned).values)


def test_an_edit_of_the_users_is_taken_in_first(tuned: Any) -> None:
    conf: Path = tuned.paths.scr_conf
    conf.write_text(conf.read_text().replace("SCR_FLUSH=1\n", "SCR_FLUSH=7\n"))
    view = order(tuned.paths, Question(command="off"), limit_s=60)
    assert view.is_published
    decided = decision(tuned).values
    assert decided["SCR_FLUSH"] == "7"
    assert is_own({**decided, "SCR_FLUSH": "1"})
    assert "SCR_FLUSH=7\n" in conf.read_text()


@pytest.mark.parametrize("command", ["off", "on"])
def test_of_a_job_that_has_ended_or_never_was_nothing_can_be_switched(tuned: Any, command: str) -> None:
    before = tuned.view("status").generation
    ran = scrtune(tuned, command, SLURM_JOB_ID="another")
    assert (ran.returncode, ran.stdout) == (3, ""), "the latest job is not the one that was meant"
    assert "no trace of job 'another'" in ran.stderr
    assert tuned.view("status").generation == before
    tuned.end(15)
    ran = scrtune(tuned, command, "--job-id", "j")
    assert (ran.returncode, ran.stdout) == (3, "")
    assert "the daemon of this job does not run" in ran.stderr
