"""A real job is tuned by `scrtune run`, and goes on from what earlier runs decided and learnt."""

import os
import re
import sys
import time
from pathlib import Path

import pytest

from scrtune.daemon.journal.records import JournalReader
from scrtune.daemon.launch.run import job_paths
from scrtune.daemon.memory import Memory, kind_of, memory_directory
from scrtune.intents.effects import Advice
from scrtune.intents.events import Event, KnowledgeRecalled, SettingsObserved
from scrtune.intents.tune.knowledge import Knowledge
from scrtune.scr_config.decision import decision_text

from ...conftest import until
from .place import APPLICATION, HOLD, IMPORTS, Place, text_of

TRAIN = Path(__file__).parents[3] / "examples" / "train.py"
MPIEXEC = Path(sys.executable).with_name("mpiexec")


POOR = """\
SCR_CACHE_BYPASS=0
SCR_COPY_TYPE=XOR
SCR_FLUSH=1
SCR_FLUSH_ASYNC=0
SCR_FILE_BUF_SIZE=4KB
"""


def test_what_an_earlier_run_decided_is_not_in_force_where_no_daemon_can_start(place: Place) -> None:
    paths = place.paths.create()
    paths.journal.mkdir()
    paths.decision.write_text(decision_text(Advice(generation=3, settings={"SCR_FLUSH": 7})))
    ran = place.run("sh", "-c", "true")
    assert ran.returncode == 0
    assert "the daemon did not start" in ran.stderr
    assert not paths.decision.exists()


def test_what_an_earlier_run_decided_comes_back_with_its_daemon(place: Place) -> None:
    """In between it lies aside: the application may have begun."""
    assert place.run(sys.executable, "-c", APPLICATION).returncode == 0
    job = SettingsObserved(engine="embedded", ranks=1, nodes=1, settings={}, sources={})
    with_settings = APPLICATION.replace("emitter.close", f"emitter.emit({job!r})\nemitter.close")
    place.run(sys.executable, "-c", IMPORTS + with_settings)
    published = place.paths.decision.read_bytes()
    process = place.start("sh", "-c", f"[ ! -e {place.paths.decision} ] && echo aside; {HOLD}")
    until(place.paths.decision.exists, "a decision that is published again")
    assert place.paths.decision.read_bytes() == published
    (place.directory / "let_go").touch()
    assert place.finish(process).stdout == "aside\n"


@pytest.mark.mpi
def test_a_daemon_that_is_killed_costs_nothing_and_goes_on_from_its_journal(place: Place) -> None:
    (place.directory / ".scrconf").write_text(POOR)
    place.environment = {
        "SCR_PREFIX": str(place.directory),
        "SCR_CACHE_BASE": str(place.directory / "cache"),
        "SCRTUNE_EMBEDDED_NODES": "2",
    }
    steps = 30
    train = (sys.executable, str(TRAIN), "--steps", str(steps), "--every", "1")
    size = ("--scale", "0.0002", "--compute-ms", "5", "--device-ms", "5")
    floor = ("--redundancy-floor", "single")
    process = place.start(str(MPIEXEC), "-n", "2", *train, *size, options=floor)
    until(lambda: re.search("generation [1-9]", text_of(place.paths.scr_conf)), "a first change")
    (daemon,) = place.processes("daemon")
    daemon.kill()
    killed_s = time.time()
    ended = place.finish(process)
    assert ended.returncode == 0, ended.stderr
    for step in range(steps):
        written = {path.name: path.stat().st_size for path in (place.directory / f"step.{step}").iterdir()}
        files = ["model", "optimizer", *(f"layer-{number}" for number in range(44))]
        assert set(written) == {f"{name}-{rank}.pt" for name in files for rank in (0, 1)}
        assert all(written.values())
    assert "of them from the journal" in text_of(place.paths.log)
    pipeline = place.replayed()
    assert pipeline.account(time.time()).runs == 1
    assert [each for each in pipeline.decisions if each.time_s < killed_s], "what was decided is remembered"
    assert [each for each in pipeline.decisions if each.time_s > killed_s], "and more is decided"
    assert f"generation {pipeline.advice.generation}" in text_of(place.paths.scr_conf)


@pytest.mark.mpi
def test_a_job_that_asks_when_to_checkpoint_gets_the_interval_that_failures_make_worth_it(
    place: Place,
) -> None:
    """With nothing set the embedded engine says at each question that one is due."""
    place.environment = {
        "SCRTUNE_ENGINE": "embedded",
        "SCR_PREFIX": str(place.directory),
        "SCR_CACHE_BASE": str(place.directory / "cache"),
        "SCR_CACHE_BYPASS": "1",
    }
    train = (str(MPIEXEC), "-n", "2", sys.executable, str(TRAIN), "--steps", "100", "--every", "0")
    size = ("--scale", "0.0002", "--compute-ms", "2", "--device-ms", "8")
    ended = place.run(*train, *size, options=("--trace", "off", "--interval", "auto"))
    assert ended.returncode == 0, ended.stderr
    made = [each for each in place.replayed().decisions if "SCR_CHECKPOINT_SECONDS" in each.changes]
    assert {each.rule for each in made} == {"checkpoint as often as failures make it pay"}
    assert made[0].previous == {"SCR_CHECKPOINT_SECONDS": 0}
    assert f"SCR_CHECKPOINT_SECONDS={made[-1].changes['SCR_CHECKPOINT_SECONDS']}" in ended.stderr
    taken = [step for step in range(100) if (place.directory / f"step.{step}").exists()]
    assert taken[:3] == [0, 1, 2]
    assert len(taken) < 80, "a second has room for many steps"
    place.job_id += "x"
    assert place.run(*train, *size).returncode == 0
    assert (place.directory / "step.99").exists(), "without the option the interval is the user's"


@pytest.mark.mpi
def test_the_next_run_of_an_application_is_told_what_was_learnt_unless_it_is_not_to_remember(
    place: Place,
) -> None:
    """What a run taught is put where its daemon would keep it; the daemon of the next one finds it there."""
    place.environment = {"SCR_PREFIX": str(place.directory), "SCR_CACHE_BASE": str(place.directory / "cache")}
    train = (str(MPIEXEC), "-n", "2", sys.executable, str(TRAIN), "--steps", "2", "--every", "1")
    size = ("--scale", "0.0002", "--compute-ms", "5")
    known = Knowledge(jobs=1, checkpoints=2, baseline_s=0.5, cost_s=0.5)

    def journaled(*options: str) -> list[Event]:
        place.job_id += "x"  # and it has another argument
        assert (
            place.run(*train, *size, "--device-ms", str(len(place.job_id)), options=options).returncode == 0
        )
        return [event for _, event in JournalReader(place.paths.journal)]

    first = journaled()
    (seen,) = (event for event in first if isinstance(event, SettingsObserved))
    assert not [event for event in first if isinstance(event, KnowledgeRecalled)]
    name = f"{Path(sys.executable).name} train.py"
    kind = kind_of(seen, name, place.paths.host, os.environ)
    Memory(memory_directory(os.environ)).keep(kind, known)
    told = [event for event in journaled() if isinstance(event, KnowledgeRecalled | SettingsObserved)]
    assert told[:1] == [KnowledgeRecalled(knowledge=known)]
    assert [type(event) for event in told[1:]] == [SettingsObserved]
    assert not [event for event in journaled("--no-memory") if isinstance(event, KnowledgeRecalled)]


def test_a_run_directory_given_from_here_is_the_same_from_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRTUNE_RUN_DIR", "run")
    assert job_paths("mine").base == Path.cwd() / "run"
