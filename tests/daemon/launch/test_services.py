"""The daemon and the forwarder of a node: where they may write, when they are started again, how they end."""

import contextlib
import json
import os
import re
import stat
import sys
import time
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from scrtune.cli.jobs import state as job_state
from scrtune.client.paths import JobPaths, RunDirectoryError
from scrtune.daemon.launch.services import NodeServices, Restarts
from scrtune.daemon.launch.slurm import SlurmServices
from scrtune.daemon.priority import NICE
from scrtune.intents.events import SettingsObserved

from ...conftest import until
from .place import APPLICATION, HOLD, IMPORTS, Place, needs_library, text_of


@pytest.mark.parametrize("linked", ["", "job", "host"])
def test_a_lock_is_not_looked_for_where_a_link_leads(place: Place, linked: str) -> None:
    elsewhere = place.directory / "elsewhere"
    directory = {"": place.base, "job": place.paths.root.parent, "host": place.paths.root}[linked]
    victim_root = elsewhere / place.paths.root.relative_to(directory)
    victim_root.mkdir(parents=True)
    victim = victim_root / "daemon.lock"
    victim.write_text("precious")
    directory.parent.mkdir(parents=True, exist_ok=True)
    directory.symlink_to(elsewhere)
    for services in (NodeServices(place.paths), SlurmServices(place.paths, place.directory)):
        with pytest.raises(RunDirectoryError, match="is a link or belongs to another user"):
            services.create()
    assert victim.read_text() == "precious"


def test_nothing_is_removed_below_a_directory_that_was_refused(place: Place) -> None:
    theirs = place.directory / "elsewhere" / "trace" / "file"
    theirs.parent.mkdir(parents=True)
    theirs.touch()
    place.paths.root.parent.mkdir(parents=True)
    place.paths.root.symlink_to(theirs.parent.parent)
    services = NodeServices(replace(place.paths, shared_memory=place.directory / "none"))
    with pytest.raises(RunDirectoryError):
        services.create()
    services.stop()
    assert theirs.exists()


def test_what_all_nodes_share_is_the_users_alone(place: Place) -> None:
    shared = SlurmServices(place.paths, place.directory / "prefix").create().parent
    for directory in (shared, shared.parent):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


@pytest.mark.parametrize("level", [0, 1])
def test_what_all_nodes_share_is_not_where_a_link_leads(place: Place, level: int) -> None:
    services = SlurmServices(place.paths, place.directory)
    shared = place.directory / f".scrtune-{os.getuid()}" / place.job_id
    link = (shared.parent, shared)[level]
    link.parent.mkdir(exist_ok=True)
    (place.directory / "elsewhere").mkdir()
    link.symlink_to(place.directory / "elsewhere")
    with pytest.raises(RunDirectoryError, match="is a link or belongs to another user; set SCR_PREFIX"):
        services.create()


def test_both_give_way_to_the_application(place: Place) -> None:
    if not Path("/proc/self/autogroup").exists():
        pytest.skip("this kernel does not schedule by session")
    job = SettingsObserved(engine="embedded", ranks=1, nodes=1, settings={}, sources={})
    with_settings = APPLICATION.replace("emitter.close", f"emitter.emit({job!r})\nemitter.close")
    (place.directory / "application.py").write_text(f"{IMPORTS}{with_settings}")
    process = place.start("sh", "-c", f"{sys.executable} application.py; {HOLD}")
    until(lambda: place.processes("daemon") and place.processes("forward"), "both services")
    both = [*place.processes("daemon"), *place.processes("forward")]
    until(lambda: all(f"nice {NICE}\n" in text_of(Path(f"/proc/{each.pid}/autogroup")) for each in both))
    (place.directory / "let_go").touch()
    assert place.finish(process).returncode == 0


def test_what_died_is_started_again(place: Place) -> None:
    process = place.start("sh", "-c", HOLD)
    until(lambda: place.processes("daemon") and place.processes("forward"), "both services")
    for name in ("forward", "daemon"):
        (first,) = place.processes(name)
        first.kill()
        until(lambda: [each for each in place.processes(name) if each != first], f"another {name}")  # noqa: B023
    (place.directory / "let_go").touch()
    assert place.finish(process).returncode == 0


def test_it_is_started_again_ever_later_unless_it_had_run_well() -> None:
    restarts = Restarts()
    pauses = []
    for ran_s in (0.1, 0.1, 0.1, 3600.0, 9.0, *(0.1,) * 10):
        restarts.started_again(ran_s, now_s=100.0)
        pauses.append(restarts.next_s - 100.0)
    assert pauses[:5] == [2.0, 4.0, 8.0, 2.0, 4.0]
    assert pauses[-1] == 60.0


@needs_library
def test_what_the_forwarder_holds_when_the_job_ends_is_in_the_account_though_the_daemon_is_dead(
    place: Place,
) -> None:
    process = place.start("sh", "-c", HOLD, options=("--trace", "off"))
    until(lambda: place.paths.control_socket.exists() and place.processes("forward"), "both services")
    (first,) = place.processes("daemon")
    first.kill()
    until(lambda: [each for each in place.processes("daemon") if each != first], "another daemon")
    for daemon in place.processes("daemon"):
        daemon.kill()  # the one after it has to wait, unless all of this was slow
    until(lambda: not place.processes("daemon"), "its end")
    begun_s = time.time()
    lines: list[dict[str, object]] = [
        {"type": "started", "time_s": begun_s, "cwd": str(place.directory), "prefix": "."}
    ]
    for number in range(1, 91):
        at_s = begun_s + number / 1000
        times = {"entered_s": at_s, "opened_s": at_s, "closing_s": at_s, "closed_s": at_s}
        lines.append({"type": "output", "dataset": number, "name": f"c{number}", **times})
    place.paths.library_events.write_text("".join(json.dumps(line) + "\n" for line in lines))
    (place.directory / "let_go").touch()
    ended = place.finish(process)
    assert ended.returncode == 0
    # a daemon that is to end has 0.25 s for what waits, and on a busy machine says what it left
    is_told = "the daemon had no time for the last" in ended.stderr
    assert is_told or place.replayed().account(time.time()).runs == 1, ended.stderr
    assert is_told or re.search(f"job {place.job_id}: 90 checkpoints", ended.stderr), ended.stderr


def test_what_became_of_a_job_is_said_though_no_daemon_came_to_its_end(place: Place) -> None:
    def said_after(command: str) -> str:
        process = place.start("sh", "-c", command, options=("--trace", "off", "--preload", "never"))
        until(lambda: process.poll() is not None or place.processes("daemon"), "a daemon")
        while process.poll() is None:
            for daemon in place.processes("daemon"):
                with contextlib.suppress(psutil.Error):
                    daemon.kill()
        return place.finish(process).stderr

    assert place.run(sys.executable, "-c", APPLICATION).returncode == 0
    assert f"job {place.job_id}: 1 checkpoint," in said_after("sleep 0.5"), "as its journal has it"
    place.paths.journal.unlink()
    place.paths.journal.mkdir()
    assert "what became of it is not known" in said_after("true")


def test_a_daemon_that_was_told_to_end_is_not_started_again(place: Place) -> None:
    process = place.start("sh", "-c", HOLD)
    until(lambda: place.paths.control_socket.exists() and place.processes("forward"), "both services")
    (daemon,), (forwarder,) = place.processes("daemon"), place.processes("forward")
    daemon.terminate()
    until(lambda: not place.processes("daemon"), "its end")
    forwarder.kill()  # what has died is looked for in one go: when this one is back, the other stays away
    until(lambda: [each for each in place.processes("forward") if each != forwarder], "another forwarder")
    assert not place.processes("daemon")
    (place.directory / "let_go").touch()
    assert place.finish(process).returncode == 0


def test_nothing_of_ours_outlives_a_run_that_is_killed(place: Place) -> None:
    process = place.start("sh", "-c", f"touch up; {HOLD}; touch done")
    until((place.directory / "up").exists, "an application")
    until(place.paths.control_socket.exists, "a daemon")
    until(lambda: len(place.processes("daemon")) == len(place.processes("forward")) == 1, "both services")
    process.kill()
    until(lambda: not place.processes("daemon") and not place.processes("forward"), "their end")
    assert "ended after" in text_of(place.paths.log)
    (place.directory / "let_go").touch()
    until((place.directory / "done").exists, "an application that goes on")
    process.communicate(timeout=100)
    assert place.run("true").stderr.count("already runs") == 0, "the job can be run again"


@pytest.mark.parametrize("trace", ["off", "preload"])
def test_what_is_told_at_the_end_is_what_is_told_afterwards(place: Place, trace: str) -> None:
    ran = place.run(sys.executable, "-c", APPLICATION, options=("--trace", trace))
    assert ran.returncode == 0, ran.stderr
    told = re.search(r"1 checkpoints?, .* goodput (\S+)", ran.stderr)
    assert told is not None, ran.stderr
    assert told[1] == f"{job_state.status(place.paths).goodput:.1%}"


def test_run_directories_of_long_ago_go_at_a_jobs_end(place: Place) -> None:
    for job_id, ago_s in (("old", 3 * 86_400), ("young", 86_400)):
        paths = JobPaths.of(job_id, base=place.base)
        paths.root.mkdir(parents=True)
        for file in (paths.journal, paths.lock):
            file.touch()
            os.utime(file, (0, time.time() - ago_s))
    assert place.run("true").returncode == 0
    assert {each.name for each in place.base.iterdir()} == {place.paths.job_id, "old", "young"}
    assert place.run("true", options=("--keep", "2d", "--trace", "off")).returncode == 0
    assert {each.name for each in place.base.iterdir()} == {place.paths.job_id, "young"}
    assert place.run("true", options=("--keep", "1s", "--trace", "off")).returncode == 0
    assert [each.name for each in place.base.iterdir()] == [place.paths.job_id]


def test_whatever_the_umask_is_others_write_to_nothing_of_ours(place: Place) -> None:
    before = os.umask(0)
    try:
        process = place.start("sh", "-c", HOLD)
        until(lambda: place.paths.control_socket.exists() and place.paths.log.exists(), "a daemon")
        made = [place.base, *place.base.rglob("*"), place.paths.trace_directory]
        modes = {path: stat.S_IMODE(path.stat().st_mode) for path in made}
        (place.directory / "let_go").touch()
        assert place.finish(process).returncode == 0
    finally:
        os.umask(before)
    assert {path: oct(mode) for path, mode in modes.items() if mode & 0o022} == {}
    assert modes[place.paths.log] == 0o600
