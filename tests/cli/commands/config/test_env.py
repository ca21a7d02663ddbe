"""`scrtune env`: what shells and Slurm get."""

import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result

from scrtune.cli.errors import NO_JOB
from scrtune.client.libscr.library import WHY_NOT, libscrtune_path
from scrtune.client.paths import JobPaths
from scrtune.daemon.journal.journal import Journal
from scrtune.daemon.launch.preload import export_text
from scrtune.intents.effects import Advice
from scrtune.intents.events import SettingsObserved
from scrtune.scr_config.decision import decision_text

from ....support.ended_job import JOB, ended_job, run_directory
from ....support.simulated_job import CACHED, Job

pytestmark = pytest.mark.usefixtures("base")

Scrtune = Callable[..., Result]


def published(settings: dict[str, Any]) -> JobPaths:
    paths = ended_job("j")
    paths.decision.write_text(decision_text(Advice(generation=1, settings=settings)))
    return paths


NASTY = {
    "SCR_CACHE_SIZE": 3,
    "SCR_COPY_TYPE": "XOR",
    "SCR_CLUSTER_NAME": 'it\'s "quoted" $HOME `id` $(id) \\ ; & | ! * ? [a] {b} ~ # %s \t end',
    "SCR_CURRENT": "/a dir/with spaces",
    "SCRTUNE_FLUSH_CPUS": "",
}


@pytest.mark.parametrize("shell", ["sh", "bash"])
def test_a_real_shell_gets_exactly_the_settings(shell: str) -> None:
    published(NASTY)
    before = shell_environment(shell, ":")
    after = shell_environment(shell, f'eval "$({sys.executable} -m scrtune env --job-id j)"')
    assert after == {**before, **{name: str(value) for name, value in NASTY.items()}}


def shell_environment(shell: str, command: str) -> dict[str, str]:
    """What a program has in its environment when `shell` starts it after `command`."""
    script = [shell, "-c", f"{command} && env -0"]
    ran = subprocess.run(script, capture_output=True, text=True, timeout=60, check=True)
    return dict(line.split("=", 1) for line in ran.stdout.split("\0") if line)


def test_the_same_as_json(scrtune: Scrtune) -> None:
    published(NASTY)
    assert msgspec.json.decode(scrtune("env", "--job-id", "j", "--format", "json").stdout) == {
        name: str(value) for name, value in NASTY.items()
    }


def test_on_a_node_of_a_slurm_job_that_knows_no_settings_nothing_is_printed(
    scrtune: Scrtune, real_daemon: Any
) -> None:
    daemon = real_daemon.start()
    daemon.paths.environment.touch()
    ran = scrtune("env", "--job-id", "j")
    assert (ran.exit_code, ran.stdout) == (NO_JOB, "")
    assert "has reported no settings yet" in ran.stderr


with_library = pytest.mark.skipif(libscrtune_path() is None, reason=WHY_NOT)


def test_a_running_job_is_asked(scrtune: Scrtune, real_daemon: Any) -> None:
    daemon = real_daemon.start()
    by_hand = f"export SCRTUNE_JOB_ID=j\nexport SCRTUNE_RUN_DIR={daemon.paths.base}\n"
    ran = scrtune("env", "--preload", "never")
    assert ran.stdout == by_hand, "nothing is known yet"
    assert "has reported no settings yet" in ran.stderr
    daemon.tell(*JOB[:2])
    daemon.until_events(2)
    tuned = "export SCR_CACHE_BYPASS=0\nexport SCR_COPY_TYPE=XOR\n"
    assert scrtune("env", "--preload", "never").stdout == tuned + by_hand
    daemon.end(9)
    assert scrtune("env", "--job-id", "j").stdout == tuned, "there is nobody to be tuned by"
    ran = scrtune("env")
    assert (ran.exit_code, ran.stdout) == (3, ""), "it has ended"
    assert "name one that has ended with --job-id" in ran.stderr


@pytest.mark.parametrize("given", [(), ("--scr-conf",), ("--user-conf",), ("--user-conf", "--scr-conf")])
def test_the_application_reads_the_config_file_that_the_daemon_rewrites_if_it_has_what_its_user_wants(
    scrtune: Scrtune,
    real_daemon: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    given: tuple[str, ...],
) -> None:
    own, named = tmp_path / "own.conf", tmp_path / "named.conf"
    own.write_text("SCR_LOG_ENABLE=0\n")
    files = {"--user-conf": own, "--scr-conf": named}
    daemon = real_daemon.start(*(part for option in given for part in (option, str(files[option]))))
    monkeypatch.setenv("SCR_CONF_FILE", str(own))
    ran = scrtune("env", "--format", "json")
    expected = {(): None, ("--user-conf",): str(daemon.paths.scr_conf)}.get(given, str(named))
    variables = msgspec.json.decode(ran.stdout)
    assert variables.get("SCR_CONF_FILE") == expected
    if expected and "--user-conf" in given:
        assert Path(expected).read_text() == own.read_text()
        assert "SCR_LOG_ENABLE" not in variables, "what is in the file is the user's"


def test_of_several_running_jobs_one_must_be_named(
    scrtune: Scrtune, real_daemon: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    daemon = real_daemon.start()
    other = run_directory("other")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(other.control_socket))
        listening.listen()
        ran = scrtune("env")
        assert (ran.exit_code, ran.stdout) == (3, "")
        assert "several jobs run here (j, other); name one with --job-id" in ran.stderr
        monkeypatch.setenv("SCRTUNE_JOB_ID", "j")
        assert "export SCRTUNE_JOB_ID=j\n" in scrtune("env").stdout
        assert daemon.paths.control_socket.exists()


def test_of_a_job_that_is_not_tuned_it_is_what_is_proposed_and_explain_says_why(
    scrtune: Scrtune, real_daemon: Any
) -> None:
    for job_id, proposed in (("observed", False), ("j", True)):
        journal = Journal(run_directory(job_id).journal)
        for now, event in Job(CACHED, tuning=False, recommend=proposed).checkpoints(20).journal:
            journal.append(now, event)
        journal.flush(0.0)
        journal.close()
        shown = scrtune("explain", "--job-id", job_id).stdout
        assert ("Proposals (nothing was changed" in shown, "SCR_FLUSH_ASYNC=1" in shown) == (proposed,) * 2
        ended = scrtune("env", "--job-id", job_id).stdout
        assert ("export SCR_FLUSH_ASYNC=1\n" in ended) == proposed
    real_daemon.start()
    running = scrtune("env", "--preload", "never").stdout
    assert "export SCR_FLUSH_ASYNC=1\nexport SCR_FLUSH_TYPE=PTHREAD\n" in running
    assert real_daemon.view("recommendation").settings == CACHED, "nothing was changed"


def test_where_a_job_is_and_what_it_is_called_is_nobody_elses(scrtune: Scrtune) -> None:
    places = {
        "SCR_CACHE_BASE": "/ssd/old",
        "SCR_CNTL_BASE": "/dev/shm/old",  # noqa: S108
        "SCR_CONF_FILE": "/run/old/scr.conf",
        "SCR_END_TIME": 1_700_000_000,
        "SCR_JOB_ID": "old",
        "SCR_JOB_NAME": "old",
        "SCR_PREFIX": "/pfs/old",
        "SCR_USER_NAME": "old",
    }
    published({**places, "SCR_FLUSH": 4})
    assert scrtune("env", "--job-id", "j").stdout == "export SCR_FLUSH=4\n"


@with_library
def test_the_library_has_scrs_log_to_read(scrtune: Scrtune, real_daemon: Any) -> None:
    real_daemon.start()
    lines = scrtune("env").stdout.splitlines()
    assert [line for line in lines if "SCR_LOG" in line] == [
        "export SCR_LOG_ENABLE=1",
        "export SCR_LOG_SYSLOG_ENABLE=0",
    ]


@with_library
def test_what_the_jobs_own_settings_say_of_scrs_log_stands(scrtune: Scrtune, real_daemon: Any) -> None:
    daemon = real_daemon.start()
    own = SettingsObserved(settings={"SCR_LOG_ENABLE": 0}, sources={"SCR_LOG_ENABLE": "user config"})
    daemon.tell(JOB[0], own)
    daemon.until_events(2)
    lines = scrtune("env").stdout.splitlines()
    assert [line for line in lines if "SCR_LOG_ENABLE" in line] == ["export SCR_LOG_ENABLE=0"]


LIBRARY = "/opt/it's/libscrtune.so"


@pytest.mark.parametrize("shell", ["sh", "bash"])
@pytest.mark.parametrize(
    ("own", "merged"),
    [
        (None, LIBRARY),
        ("", LIBRARY),
        ("/a.so", f"{LIBRARY}:/a.so"),
        ("/a.so:/b.so", f"{LIBRARY}:/a.so:/b.so"),
        (f"/a.so:{LIBRARY}", f"/a.so:{LIBRARY}"),
    ],
)
def test_in_a_real_shell_its_own_preloaded_libraries_stay_behind_ours_which_is_there_once(
    shell: str, own: str | None, merged: str, tmp_path: Path
) -> None:
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    text = export_text({"SCR_FLUSH": 3}, {"LD_PRELOAD": LIBRARY, "OTHER": "o"}, "sh", "/not/this.so")
    script = tmp_path / "script"
    # under another name: the programs of this test shall not try to preload anything
    script.write_text(text.replace("LD_PRELOAD", "PRELOADED"))
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    environment |= {} if own is None else {"PRELOADED": own}
    ran = subprocess.run(
        [program, "-c", f". {script}; . {script}; env -0"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    after = dict(line.split("=", 1) for line in ran.stdout.split("\0") if line)
    assert ran.stderr == ""
    assert (after["PRELOADED"], after["SCR_FLUSH"], after["OTHER"]) == (merged, "3", "o")


def test_the_other_forms_have_the_whole_value() -> None:
    variables = {"LD_PRELOAD": LIBRARY}
    merged = f"{LIBRARY}:/a.so:/b.so"
    own = "/a.so /b.so"
    assert msgspec.json.decode(export_text({}, variables, "json", own)) == {"LD_PRELOAD": merged}
    assert export_text({}, variables, "slurm", own) == f"export LD_PRELOAD={merged}\n"
    assert export_text({}, {"LD_PRELOAD": "/l.so"}, "csh", own) == "setenv LD_PRELOAD '/l.so:/a.so:/b.so'\n"
    assert export_text({}, {"LD_PRELOAD": "/l.so"}, "fish", own) == "set -gx LD_PRELOAD '/l.so:/a.so:/b.so'\n"
    assert export_text({}, variables, "slurm", merged) == f"export LD_PRELOAD={merged}\n"


@with_library
def test_an_application_that_is_started_by_hand_gets_the_library(scrtune: Scrtune, real_daemon: Any) -> None:
    daemon = real_daemon.start()
    variables = msgspec.json.decode(scrtune("env", "--format", "json").stdout)
    assert variables["LD_PRELOAD"].split(":")[0] == str(libscrtune_path())
    assert variables["SCRTUNE_DECISION_FILE"] == str(daemon.paths.decision)
    assert variables["SCRTUNE_EVENTS_FILE"] == str(daemon.paths.library_events)


def test_an_environment_gets_nothing_of_another_job(
    scrtune: Scrtune, monkeypatch: pytest.MonkeyPatch
) -> None:
    published(NASTY)
    monkeypatch.setenv("SLURM_JOB_ID", "untuned")
    ran = scrtune("env")
    assert (ran.exit_code, ran.stdout) == (3, "")
    assert "no trace of job 'untuned'" in ran.stderr
