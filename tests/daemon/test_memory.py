"""What a job teaches is there for the next one of its kind, and for no other."""

import os
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scrtune.client.paths import JobPaths
from scrtune.daemon.journal.journal import replay_journal
from scrtune.daemon.journal.records import JournalReader
from scrtune.daemon.launch.application import application_of
from scrtune.daemon.memory import MOST_KINDS, JobMemory, Memory, kind_of, memory_directory
from scrtune.daemon.options import DaemonOptions
from scrtune.goodput.events import JobStarted
from scrtune.intents.events import KnowledgeRecalled, SettingsObserved, Values
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.tune.knowledge import Knowledge

WaitUntil = Callable[[Callable[[], object]], None]
KNOWN = Knowledge(
    jobs=2,
    checkpoints=60,
    settings={"SCR_CACHE_BYPASS": 0, "SCR_COPY_TYPE": "SINGLE", "SCRTUNE_FLUSH_THREADS": 1},
    baseline_s=1.25,
    cost_s=0.5,
    rates={"write": (20.7, 0.125)},
    time_s=1.8e9,
)
LEARNING = """
from dataclasses import replace
from scrtune.cli.main import main
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.tune.knowledge import Knowledge

def learnt(pipeline):
    before = pipeline.observers.recalled or Knowledge(jobs=0, checkpoints=0)
    own = pipeline.settings
    return Knowledge(
        jobs=before.jobs + 1,
        checkpoints=before.checkpoints + 20,
        settings={"SCR_FLUSH": own["SCR_FLUSH"] + 1},
        rates={**before.rates, f"job {before.jobs}": (20.5, 0.25)},
    )

Pipeline.knowledge = property(learnt)
main(prog_name="scrtune")
"""
"""A daemon whose pipeline learns something in every job."""


def job(**changed: Any) -> SettingsObserved:
    settings: Values = {
        "SCR_FLUSH": 4,
        "SCR_JOB_ID": "17",
        "SCR_PREFIX": "/p/17",
        "SCR_CACHE_BASE": "/ssd/17",
    }
    described = {"settings": settings, "engine": "embedded", "ranks": 4, "nodes": 2, **changed}
    return SettingsObserved(**described)


def kind(host: str = "corona12", application: str = "app", cluster: str = "", **changed: Any) -> Any:
    return kind_of(job(**changed), application, host, {"SLURM_CLUSTER_NAME": cluster} if cluster else {})


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return Memory(tmp_path / "state" / "memory")


def test_what_is_kept_is_recalled_and_is_the_users_alone(memory: Memory) -> None:
    assert memory.recall(kind()) is None
    memory.keep(kind(), KNOWN)
    assert memory.recall(kind()) == KNOWN
    later = msgspec.structs.replace(KNOWN, jobs=3)
    memory.keep(kind(), later)
    assert memory.recall(kind()) == later
    assert len(list(memory.directory.iterdir())) == 1
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (memory.directory, memory.path(kind()))]
    assert modes == [0o700, 0o600]


def test_jobs_that_differ_do_not_learn_from_each_other() -> None:
    own = job().settings
    others = [
        kind(application="other"),
        kind(engine="libscr"),
        kind(ranks=8),
        kind(nodes=1),
        kind(host="quartz12"),
        kind(cluster="corona"),
        kind(settings={**own, "SCR_FLUSH": 5}),
        kind(settings={**own, "SCR_CACHE_BASE": "/dev/shm"}),  # noqa: S108 - no file of ours
        kind(floor="NODE"),
        kind(durability="strict"),
    ]
    assert len({msgspec.json.encode(each) for each in [kind(), *others]}) == 11


def test_what_differs_from_job_to_job_does_not_count() -> None:
    settings = {
        **job().settings,
        "SCR_JOB_ID": "18",
        "SCR_PREFIX": "/elsewhere",
        "SCR_CACHE_BASE": "/ssd/18",
        "SCR_HALT_SECONDS": 600,
        "SCR_END_TIME": 1_800_000_000,
    }
    assert kind(settings=settings, host="corona7", processes=(("corona7", 1),)) == kind()
    assert kind(cluster="c", host="a") == kind(cluster="c", host="b")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda path: path.write_bytes(b"{"),
        lambda path: path.write_bytes(b"\xff\xfe"),
        lambda path: path.write_bytes(b"[" * 100_000),
        lambda path: path.write_bytes(path.read_bytes() + b" " * 2**18),
        lambda path: path.write_text(path.read_text().replace('"version": 1', '"version": 2')),
        lambda path: path.write_text(path.read_text().replace('"ranks": 4', '"ranks": 5')),
        lambda path: path.write_text(path.read_text().replace("SCR_COPY_TYPE", "SCR_NO_SUCH")),
        lambda path: path.write_text(path.read_text().replace('"SINGLE"', '"DOUBLE"')),
        lambda path: path.write_text(path.read_text().replace("0.125", "1e300")),
        lambda path: (path.rename(path.with_suffix(".aside")), path.symlink_to(path.with_suffix(".aside"))),
        lambda path: (path.unlink(), path.mkdir()),
        lambda path: (path.unlink(), os.mkfifo(path)),
    ],
)
def test_what_is_damaged_or_foreign_is_ignored_with_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, spoil: Callable[[Path], object]
) -> None:
    remembering = job_memory(tmp_path)
    memory = Memory(memory_directory(os.environ))
    found = kind_of(job(), "app", "n", os.environ)
    memory.keep(found, KNOWN)
    assert remembering.recall(job()) == KnowledgeRecalled(knowledge=KNOWN)
    spoil(memory.path(found))
    assert remembering.recall(job()) is None
    (warned,) = [record for record in caplog.records if record.levelname == "WARNING"]
    assert f"{memory.path(found)}: ignored: " in warned.getMessage()


def job_memory(tmp_path: Path) -> JobMemory:
    paths = JobPaths.of("j", host="n", base=tmp_path)
    return JobMemory(DaemonOptions(paths=paths, scr_conf=tmp_path / "scr.conf", application="app"))


def test_the_oldest_kinds_are_forgotten(memory: Memory) -> None:
    for number in range(MOST_KINDS + 3):
        memory.keep(kind(ranks=number), KNOWN)
        age_s = time.time() - 1000 + number
        os.utime(memory.path(kind(ranks=number)), (age_s, age_s))
    (memory.directory / "notes.txt").write_text("mine")
    memory.keep(kind(ranks=3), KNOWN)
    assert [memory.recall(kind(ranks=number)) for number in range(3)] == [None] * 3
    assert memory.recall(kind(ranks=3)) == memory.recall(kind(ranks=MOST_KINDS + 2)) == KNOWN
    assert len(list(memory.directory.glob("*.json"))) == MOST_KINDS
    assert (memory.directory / "notes.txt").exists()


def test_where_nothing_can_be_kept_the_job_goes_on_and_it_is_said_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(Pipeline, "knowledge", KNOWN)
    pipeline, remembering = Pipeline(), job_memory(tmp_path)
    pipeline.handle(job(), 1.0)
    remembering.keep(pipeline)
    remembering.keep(pipeline)
    (warned,) = caplog.records
    assert warned.getMessage().startswith("what this job teaches is not kept: ")
    assert remembering.recall(job()) is None


def test_it_lies_in_the_users_state_directory() -> None:
    assert memory_directory({"XDG_STATE_HOME": "/x"}) == Path("/x/scrtune/memory")
    for named in ({}, {"XDG_STATE_HOME": ""}, {"XDG_STATE_HOME": "relative"}):
        assert memory_directory(named) == Path.home() / ".local/state/scrtune/memory"


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("python3 train.py --lr 0.1", "python3 train.py"),
        ("mpiexec -n 4 --host a,b python3 -u -X dev /home/me/train.py --epochs 3", "python3 train.py"),
        ("srun --mpi=pmix -N 2 env A=1 python3 -m package.train --seed 7", "python3 -m package.train"),
        ("mpiexec -n 2 python3 -m mpi4py train.py --lr 0.1", "python3 train.py"),
        ("mpiexec -n 2 python3 -m mpi4py -m package.train", "python3 -m package.train"),
        ("mpiexec -n 2 /bin/true 17", "true"),
        ("sh job.sh 1 2", "sh job.sh"),
        ("torchrun --nnodes=2 --nproc_per_node 4 train.py", "torchrun train.py"),
    ],
)
def test_an_application_is_its_program_and_script(command: str, name: str) -> None:
    assert application_of(command.split()) == name


def test_texts_and_what_is_no_program_here_count_by_all_they_say() -> None:
    one, other = (application_of(["sh", "-c", text]) for text in ("exec a", "exec b"))
    assert one != other
    assert one == application_of(["mpiexec", "-n", "8", "sh", "-c", "exec a", "x"])
    unknown = [["mpiexec", "-n", "2", f"/nowhere/{name}"] for name in ("a", "b")]
    assert application_of(unknown[0]) == application_of(unknown[0]) != application_of(unknown[1])
    assert application_of(unknown[0]).startswith("mpiexec ")


def learning(daemon: Any, *options: str, **changed: Any) -> Any:
    """The next job: a daemon that learns, which has heard from the application."""
    daemon.start(*options, command=("-c", LEARNING))
    daemon.tell(JobStarted(time_s=time.time()), job(**changed))
    daemon.until_events(2)
    return daemon


def end(daemon: Any) -> list[Any]:
    """End the daemon and take its journal away; returns the events that were in it."""
    assert daemon.end(15) == 0, daemon.log()
    events = [event for _, event in JournalReader(daemon.paths.journal)]
    assert replay_journal(daemon.paths.journal)[0].observers.recalled == next(
        (each.knowledge for each in events if isinstance(each, KnowledgeRecalled)), None
    )
    daemon.forget_job()
    return events


def test_the_second_job_is_told_what_the_first_one_learnt(real_daemon: Any) -> None:
    remember = ("--application", "python3 train.py")
    assert [type(each) for each in end(learning(real_daemon, *remember))] == [JobStarted, SettingsObserved]
    second = learning(real_daemon, *remember)
    recalled = second.view("explain").recalled
    assert recalled == Knowledge(
        jobs=1, checkpoints=20, settings={"SCR_FLUSH": 5}, rates={"job 0": (20.5, 0.25)}
    )
    assert "recalled: 1 earlier job with 20 checkpoints" in second.log()
    assert [type(each) for each in end(second)] == [JobStarted, KnowledgeRecalled, SettingsObserved]
    third = learning(real_daemon, *remember)
    assert third.view("explain").recalled.jobs == 2
    end(third)
    for options, changed in (((), {}), (remember, {"ranks": 8}), (("--application", "other"), {})):
        other = learning(real_daemon, *options, **changed)
        assert other.view("explain").recalled is None
        end(other)


def test_a_daemon_that_is_killed_has_recalled_once_and_forgotten_nothing(
    real_daemon: Any, wait_until: WaitUntil
) -> None:
    remember = ("--application", "app")
    end(learning(real_daemon, *remember))
    directory = memory_directory(os.environ)
    (path,) = directory.iterdir()
    before = path.read_bytes()
    second = learning(real_daemon, *remember)
    wait_until(lambda: path.read_bytes() != before)  # it keeps what it has learnt while the job runs
    second.end(9)
    third = second.start(*remember, command=("-c", LEARNING))
    assert third.view("explain").recalled.jobs == 1, "what it was told at its start, from its journal"
    events = end(third)
    assert [type(each) for each in events].count(KnowledgeRecalled) == 1
