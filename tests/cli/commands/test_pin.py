"""`scrtune pin` and `scrtune unpin`: the user fixes a parameter of a running job, and takes it back."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from scrtune.cli.commands.job import order
from scrtune.cli.errors import CommandError
from scrtune.client.paths import JOB_ID_VARIABLES
from scrtune.client.transport.daemon_client import ask_daemon
from scrtune.client.transport.wire import Question
from scrtune.daemon.journal.records import JournalReader
from scrtune.daemon.views import status_view
from scrtune.goodput.events import JobStarted
from scrtune.intents.events import SettingsObserved, UserEdited, Values
from scrtune.scr_config.decision import parse_decision
from scrtune.scr_config.parse import parse

from ...support.simulated_job import CACHED, Job, replayed, state

OWN = {"SCR_COPY_TYPE": "SINGLE", "SCR_CACHE_BYPASS": "0", "SCR_FLUSH": "4"}


def scrtune(daemon: Any, *arguments: str) -> "subprocess.CompletedProcess[str]":
    others = {name: value for name, value in os.environ.items() if name not in JOB_ID_VARIABLES}
    return subprocess.run(
        [sys.executable, "-m", "scrtune", *arguments],
        env={**others, "SCRTUNE_RUN_DIR": str(daemon.paths.base)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def begun(**sources: str) -> tuple[JobStarted, SettingsObserved]:
    settings: Values = {"SCR_COPY_TYPE": "SINGLE", "SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 4, "SCR_SET_SIZE": 8}
    described = {**dict.fromkeys(OWN, "user config"), "SCR_SET_SIZE": "default", **sources}
    observed = SettingsObserved(settings=settings, sources=described, engine="embedded", ranks=4, nodes=4)
    return JobStarted(time_s=1.0), observed


def decided(daemon: Any) -> dict[str, str]:
    return parse_decision(daemon.paths.decision.read_bytes()).values


def in_the_file(daemon: Any) -> dict[str, str]:
    found = parse(daemon.paths.scr_conf.read_text(), {}).values
    return {name: pair.value for name, pair in found.items()}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    conf = tmp_path / "own.conf"
    conf.write_text("".join(f"{name}={text}  # mine\n" for name, text in OWN.items()))
    return conf


@pytest.fixture
def job(real_daemon: Any, own: Path) -> Any:
    """A daemon with a job of the settings OWN."""
    daemon = real_daemon.start("--user-conf", str(own))
    daemon.tell(*begun())
    daemon.until_events(2)
    return daemon


def test_what_is_pinned_is_the_users_also_in_the_file_and_unpin_takes_it_back(job: Any) -> None:
    ran = scrtune(job, "pin", "scr_flush=7", "SCR_SET_SIZE=2")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == (
        "job j: SCR_FLUSH=7, SCR_SET_SIZE=2 are yours, and not tuned; from the next SCR_Start_output on"
        " (generation 1)\n"
    )
    fixed = {**OWN, "SCR_FLUSH": "7", "SCR_SET_SIZE": "2"}
    assert decided(job) == in_the_file(job) == fixed
    view = job.view("explain")
    assert (view.baseline["SCR_FLUSH"], view.sources["SCR_FLUSH"]) == (7, "edited")

    assert re.search("fixed by you +SCR_FLUSH=7 SCR_SET_SIZE=2\n", scrtune(job, "status").stdout)

    ran = scrtune(job, "unpin", "--job-id", "j", "SCR_FLUSH", "SCR_SET_SIZE")
    assert ran.stdout.startswith(
        "job j: SCR_FLUSH, SCR_SET_SIZE are as before `scrtune pin`, and tuned again;"
    )
    assert decided(job) == {**OWN, "SCR_SET_SIZE": "8"}
    assert in_the_file(job) == OWN
    assert "SCR_FLUSH=4  # mine\n" in job.paths.scr_conf.read_text()
    assert job.view("explain").sources["SCR_FLUSH"] == "user config"
    assert job.view("status").fixed == {}


def test_said_twice_is_said_once(job: Any) -> None:
    outputs = [scrtune(job, *words).stdout for words in 2 * [("pin", "SCR_FLUSH=7")]]
    outputs += [scrtune(job, *words).stdout for words in 2 * [("unpin", "SCR_FLUSH")]]
    assert outputs[::2] == outputs[1::2]
    edits = [event for _, event in JournalReader(job.paths.journal) if isinstance(event, UserEdited)]
    assert edits == [
        UserEdited(changes={"SCR_FLUSH": 7}, is_pin=True),
        UserEdited(released=("SCR_FLUSH",), is_pin=True),
    ]


def test_it_survives_the_daemon_and_the_next_run_of_the_job(job: Any, own: Path) -> None:
    scrtune(job, "pin", "SCR_FLUSH=7")
    job.end(9)
    job.start("--user-conf", str(own))
    assert decided(job) == in_the_file(job) == {**OWN, "SCR_FLUSH": "7"}
    again = begun()[1]
    found: Values = {**again.settings, "SCR_FLUSH": 7}  # as our file says
    job.tell(SettingsObserved(settings=found, sources=again.sources, ranks=4, nodes=4))
    job.until_events(4)
    assert decided(job)["SCR_FLUSH"] == "7"
    assert job.view("explain").sources["SCR_FLUSH"] == "edited"
    scrtune(job, "unpin", "SCR_FLUSH")
    assert decided(job)["SCR_FLUSH"] == in_the_file(job)["SCR_FLUSH"] == "4"


def test_an_edit_of_the_file_is_taken_in_too_and_is_not_unpinned(job: Any) -> None:
    conf: Path = job.paths.scr_conf
    scrtune(job, "pin", "SCR_FLUSH=7")
    conf.write_text(conf.read_text().replace("SCR_COPY_TYPE=SINGLE", "SCR_COPY_TYPE=XOR"))
    assert order(job.paths, Question(command="pin", values={"SCR_SET_SIZE": "2"}), limit_s=60).is_published
    assert in_the_file(job) == {**OWN, "SCR_FLUSH": "7", "SCR_COPY_TYPE": "XOR", "SCR_SET_SIZE": "2"}
    ran = scrtune(job, "unpin", "SCR_COPY_TYPE")
    assert (ran.returncode, "you gave it in the config file while the job ran" in ran.stderr) == (1, True)
    scrtune(job, "unpin", "SCR_FLUSH", "SCR_SET_SIZE")
    assert in_the_file(job) == {**OWN, "SCR_COPY_TYPE": "XOR"}


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        ("SCR_FLSH=3", 2, "SCR has no parameter SCR_FLSH; did you mean SCR_FLUSH?"),
        ("SCR_FLUSH=ten", 2, "SCR_FLUSH='ten': must be"),
        ("SCR_COPY_TYPE=XORR", 2, "did you mean XOR?"),
        ("SCR_FLUSH", 2, "'SCR_FLUSH' is no NAME=VALUE"),
        ("SCR_LOG_DB_PASS=hunter2", 2, "SCR_LOG_DB_PASS is not read from SCR's config file"),
        ("SCR_PREFIX=/tmp", 2, "SCR_PREFIX says which job this is, or where its files are"),
        ("SCR_CLUSTER_NAME=a b", 2, "a config file cannot carry 'a b'"),
        ("SCR_CACHE_SIZE=2", 1, "SCR_CACHE_SIZE: your environment sets it, which wins"),
        ("SCR_COPY_TYPE=FILE", 1, "SCR_COPY_TYPE=FILE needs CKPT lines"),
        ("SCR_COPY_TYPE=RS", 1, "SCR_COPY_TYPE=RS is not in scrtune's embedded engine; choose one of SINGLE"),
    ],
)
def test_what_cannot_be_is_refused_and_nothing_changes(
    real_daemon: Any, given: str, code: int, said: str
) -> None:
    daemon = real_daemon.start()
    daemon.tell(*begun(SCR_CACHE_SIZE="environment"))
    before = daemon.until_events(2).generation
    ran = scrtune(daemon, "pin", "SCR_SET_SIZE=2", given)
    assert (ran.returncode, ran.stdout) == (code, "")
    assert said in " ".join(ran.stderr.split())
    assert "hunter2" not in ran.stderr
    status = daemon.view("status")
    assert (status.generation, status.counters.events) == (before, 2)


def test_a_foreign_asker_is_told_the_same_and_before_the_job_is_known_nobody_can(real_daemon: Any) -> None:
    daemon = real_daemon.start()
    question = Question(command="pin", values={"SCR_FLUSH": "ten"})
    with pytest.raises(CommandError, match="has not reported to this node's daemon yet"):
        order(daemon.paths, question)
    daemon.tell(*begun())
    daemon.until_events(2)
    with pytest.raises(CommandError, match="SCR_FLUSH='ten': must be"):
        order(daemon.paths, question)
    assert not ask_daemon(daemon.paths.control_endpoint, question).error


def test_it_is_never_tuned_and_unpinned_it_is() -> None:
    job = Job(CACHED).checkpoints(3)
    job.tell(UserEdited(changes={"SCR_FLUSH_ASYNC": 0}, is_pin=True))
    assert job.pipeline.pinned == {"SCR_FLUSH_ASYNC"}
    pinned = job.pipeline.decisions[-1]
    assert pinned.rule == "scrtune pin"
    assert "what you pin is not tuned any more; what was kept is taken back" in pinned.because
    job.checkpoints(20)
    lever = next(each for each in job.pipeline.levers() if each.name == "SCR_FLUSH_ASYNC")
    assert lever.why.startswith("SCR_FLUSH_ASYNC: you gave it")
    assert job.pipeline.settings["SCR_FLUSH_ASYNC"] == 0
    job.tell(UserEdited(released=("SCR_FLUSH_ASYNC",), is_pin=True))
    assert job.pipeline.decisions[-1].rule == "scrtune unpin"
    job.checkpoints(20)
    assert job.pipeline.pinned == set()
    assert job.pipeline.settings["SCR_FLUSH_ASYNC"] == 1
    assert state(replayed(job.journal)[0], job.now) == state(job.pipeline, job.now)


def test_a_pinned_scheme_is_the_floor_until_it_is_unpinned() -> None:
    job = Job(CACHED, nodes=4, floor="SINGLE")
    job.tell(UserEdited(changes={"SCR_COPY_TYPE": "PARTNER"}, is_pin=True))
    assert job.pipeline.intents.redundancy.floor == "PARTNER"
    job.tell(UserEdited(released=("SCR_COPY_TYPE",), is_pin=True))
    assert job.pipeline.intents.redundancy.floor == "SINGLE"
    assert job.pipeline.settings["SCR_COPY_TYPE"] == CACHED["SCR_COPY_TYPE"]


def test_what_was_found_beside_a_pin_is_for_good_with_it() -> None:
    job = Job(CACHED)
    job.tell(UserEdited(changes={"SCR_CACHE_SIZE": 3}, is_pin=True))
    job.checkpoints(30)
    for_good = status_view(job.pipeline, job.now, job_id="j", host="n").savings.for_good
    assert (for_good["SCR_FLUSH_ASYNC"], for_good["SCR_CACHE_SIZE"]) == (1, 3)


def test_of_a_job_that_has_ended_nothing_is_pinned(job: Any) -> None:
    job.end(15)
    for words in (("pin", "SCR_FLUSH=3"), ("unpin", "SCR_FLUSH")):
        ran = scrtune(job, *words, "--job-id", "j")
        assert (ran.returncode, "the daemon of this job does not run" in ran.stderr) == (3, True)
