"""The allocation as its scheduler shows it: recorded answers of Slurm 22.05 and flux-core 0.88."""

import os
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.daemon.node.allocation import EVERY_S, MOST_HOSTS, MOST_STEPS, AllocationWatch, expanded
from scrtune.intents.events import AllocationObserved

NOW = 1_795_418_500.0
END_S = 1_795_419_081.0
JOB = (
    "JobId=1 JobName=job.sh UserId=root(0) GroupId=root(0) MCS_label=N/A Priority=4294901759 Nice=0"
    " Account=(null) QOS=(null) JobState=RUNNING Reason=None Dependency=(null) Requeue=0 Restarts=0"
    " BatchFlag=1 Reboot=0 ExitCode=0:0 RunTime=00:00:02 TimeLimit=00:10:00 TimeMin=N/A SubmitTime=1795418479"
    " EligibleTime=1795418479 AccrueTime=1795418479 StartTime=1795418481 EndTime={end} Deadline=N/A"
    " SuspendTime=None SecsPreSuspend=0 LastSchedEval=1795418481 Scheduler=Main Partition=test"
    " AllocNode:Sid=localhost:19161 ReqNodeList=(null) ExcNodeList=(null) NodeList=n[1-4] BatchHost=n1"
    " NumNodes=4 NumCPUs=8 NumTasks=8 CPUs/Task=1 ReqB:S:C:T=0:0:*:* TRES=cpu=8,node=4,billing=8"
)
TOPOLOGY = """\
SwitchName=s0 Level=0 LinkSpeed=1 Nodes=n[1-2]
SwitchName=s1 Level=0 LinkSpeed=1 Nodes=n[3-9]
SwitchName=top Level=1 LinkSpeed=1 Nodes=n[1-9] Switches=s[0-1]
"""
STEPS = "1.0 simulate\n1.1 scrtune\n1.2 sh\n1.batch batch\n1.extern extern\n"
HOSTS = ("n1", "n2", "n3", "n4")
SWITCHES = {"n1": "s0", "n2": "s0", "n3": "s1", "n4": "s1"}
RESOURCES = (
    '{"version": 1, "execution": {"R_lite": [{"rank": "0-1", "children": {"core": "0-3"}}],'
    ' "starttime": 1795418481.0, "expiration": 1795419081.0, "nodelist": ["fluke[95-96]"]}}'
)
INSTANCE = (
    '{"version":1,"execution":{"R_lite":[{"rank":"0-1","children":{"core":"0-1"}}],"nslots":2,'
    '"starttime":1795442822.8505425,"expiration":1795443122.8505425,"nodelist":["n[0-1]"]}}'
)


class Scheduler:
    """Commands that answer as recorded."""

    def __init__(self, directory: Path, **variables: str) -> None:
        self.directory = directory
        self.environment = {"PATH": f"{directory}:{os.environ['PATH']}", **variables}
        self.watch = AllocationWatch(self.environment)
        self._turn_s = 0.0

    def says(self, command: str, script: str) -> None:
        path = self.directory / command
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)

    def prints(self, job: str = "", topology: str = "", steps: str = "") -> None:
        """Slurm's commands."""
        for name, text in (("job", job), ("topology", topology), ("steps", steps)):
            (self.directory / name).write_text(text)
        show = '[ "$1" = --oneliner ] && shift; [ "$2" = job ] && [ "$3" != 1 ] && exit 1'
        self.says("scontrol", f'echo "$SLURM_TIME_FORMAT" >>asked; {show}; cat "{self.directory}/$2"')
        self.says("squeue", f'cat "{self.directory}/steps"')

    def look(self, later_s: float = 0.0) -> AllocationObserved | None:
        """Look until the answer is there."""
        self._turn_s += later_s
        seen = self.watch.look(self._turn_s, NOW)
        deadline_s = time.monotonic() + 30
        while self.watch.is_running and time.monotonic() < deadline_s:
            time.sleep(0.01)
            seen = self.watch.look(self._turn_s, NOW)
        return seen


@pytest.fixture
def slurm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scheduler:
    monkeypatch.chdir(tmp_path)
    return Scheduler(tmp_path, SLURM_JOB_ID="1", SLURM_JOB_NODELIST="n[1-4]")


def test_outside_an_allocation_nothing_is_asked(tmp_path: Path) -> None:
    alone = Scheduler(tmp_path)
    alone.prints(JOB.format(end=int(END_S)))
    assert alone.look() is None
    assert not (tmp_path / "asked").exists()


def test_slurm_says_when_it_ends_which_nodes_hang_on_which_switch_and_what_runs(slurm: Scheduler) -> None:
    slurm.prints(JOB.format(end=int(END_S)), TOPOLOGY, STEPS)
    assert slurm.look() == AllocationObserved(
        scheduler="slurm",
        job="1",
        end_s=END_S,
        hosts=HOSTS,
        switches=SWITCHES,
        steps=("0 simulate", "2 sh"),
        time_s=NOW,
    )
    assert set((slurm.directory / "asked").read_text().split()) == {"%s"}, "in epoch seconds"


def test_it_is_asked_rarely_and_only_what_has_changed_is_said(slurm: Scheduler) -> None:
    slurm.prints(JOB.format(end=int(END_S)), TOPOLOGY, STEPS)
    assert slurm.look() is not None
    slurm.prints(JOB.format(end=int(END_S) + 600), TOPOLOGY, "1.3 analyse\n")
    assert slurm.look(EVERY_S - 1) is None
    assert not slurm.watch.is_running
    later = slurm.look(1)
    assert later is not None
    assert later.end_s == END_S + 600
    assert later.steps == ("0 simulate", "2 sh", "3 analyse"), "those that have ended are remembered"
    assert slurm.look(EVERY_S) is None
    slurm.prints(JOB.format(end=int(END_S)), TOPOLOGY)
    slurm.watch.ask()
    assert slurm.look() is not None, "a run of the job has begun"


@pytest.mark.parametrize(("job", "steps"), [("1", ("0 simulate", "3 analyse")), ("2", ("3 analyse",))])
def test_a_daemon_that_was_started_again_remembers_the_steps(
    slurm: Scheduler, job: str, steps: tuple[str, ...]
) -> None:
    slurm.prints(JOB.format(end=int(END_S)), steps="1.3 analyse\n")
    slurm.watch.recall(None)
    slurm.watch.recall(AllocationObserved(scheduler="slurm", job=job, steps=("0 simulate",)))
    seen = slurm.look()
    assert seen is not None
    assert seen.steps == steps


@pytest.mark.parametrize("end", ["Unknown", "N/A", "2026-11-23T07:21:21"])
def test_an_end_that_is_none_is_not_known(slurm: Scheduler, end: str) -> None:
    slurm.prints(JOB.format(end=end).replace("EndTime=2026", "EndTime=T2026"))
    seen = slurm.look()
    assert seen is not None
    assert seen.end_s == 0.0


def test_without_an_answer_what_the_environment_says_stands(slurm: Scheduler) -> None:
    slurm.says("scontrol", "echo slurm_load_jobs error: Unable to contact slurm controller >&2; exit 1")
    slurm.says("squeue", "exit 1")
    seen = slurm.look()
    assert seen is not None
    assert (seen.hosts, seen.end_s, seen.steps) == (HOSTS, 0.0, ())
    later = Scheduler(slurm.directory, SLURM_JOB_ID="1", SLURM_JOB_END_TIME=str(int(END_S)))
    seen = later.look()
    assert seen is not None
    assert seen.end_s == END_S


def test_commands_that_hang_are_ended_and_what_they_said_before_is_kept(slurm: Scheduler) -> None:
    slurm.prints(JOB.format(end=int(END_S)))
    slurm.says("squeue", "touch hangs; exec sleep 1000")
    watch = AllocationWatch(slurm.environment, limit_s=5.0)
    assert watch.look(0.0, NOW) is None
    deadline_s = time.monotonic() + 30
    while not (slurm.directory / "hangs").exists() and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert watch.look(4.9, NOW) is None
    seen = watch.look(5.0, NOW)
    assert seen is not None
    assert not watch.is_running
    assert seen.end_s == END_S


def test_it_can_be_closed_at_any_time(slurm: Scheduler) -> None:
    slurm.prints(JOB.format(end=int(END_S)))
    slurm.watch.close()
    slurm.watch.look(0.0, NOW)
    slurm.watch.close()
    assert not slurm.watch.is_running


def test_without_a_shell_there_is_a_next_time(slurm: Scheduler, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **__: object) -> None:
        raise OSError("no processes left")

    with monkeypatch.context() as context:
        context.setattr("subprocess.Popen", refused)
        seen = slurm.look()
        assert seen is not None
        assert seen.hosts == HOSTS
    slurm.prints(JOB.format(end=int(END_S)))
    assert slurm.look(EVERY_S) is not None


def test_a_job_of_flux(tmp_path: Path) -> None:
    flux = Scheduler(tmp_path, FLUX_JOB_ID="f23x", FLUX_URI="local:///x")
    flux.says("flux", f"""[ "$1 $2 $3 $4" = "job info f23x R" ] && echo '{RESOURCES}'""")
    assert flux.look() == AllocationObserved(
        scheduler="flux", job="f23x", end_s=END_S, hosts=("fluke95", "fluke96"), time_s=NOW
    )


def test_an_instance_of_flux_has_its_end_its_nodes_and_the_jobs_in_it(tmp_path: Path) -> None:
    """As flux-core 0.88 printed it in a batch job of two nodes and five minutes."""
    flux = Scheduler(tmp_path, FLUX_URI="local:///tmp/flux-0A9Qs3/local-0")
    flux.says(
        "flux",
        f"""
[ "$1 $2 $3" = "kvs get resource.R" ] && echo '{INSTANCE}'
[ "$1 $2" = "jobs -a" ] && printf '93801416196 sh\\n9380141619 hostname\\n'""",
    )
    assert flux.look() == AllocationObserved(
        scheduler="flux",
        job="local:///tmp/flux-0A9Qs3/local-0",
        end_s=1795443122.8505425,
        hosts=("n0", "n1"),
        steps=("0 hostname", "1 sh"),
        time_s=NOW,
    )


@pytest.mark.parametrize("text", ["", "{}", "not JSON", '{"execution": {"expiration": "soon"}}'])
def test_an_answer_of_flux_that_is_none_changes_nothing(tmp_path: Path, text: str) -> None:
    flux = Scheduler(tmp_path, FLUX_JOB_ID="f23x")
    flux.says("flux", f"echo '{text}'")
    assert flux.look() == AllocationObserved(scheduler="flux", job="f23x", time_s=NOW)


@pytest.mark.parametrize(
    ("names", "hosts"),
    [
        ("", ()),
        ("(null)", ()),
        ("n1", ("n1",)),
        ("n[1-3]", ("n1", "n2", "n3")),
        ("tux[008-010,12],login1", ("tux008", "tux009", "tux010", "tux12", "login1")),
        ("r[1-2]n[1-2]-ib", ("r1n1-ib", "r1n2-ib", "r2n1-ib", "r2n2-ib")),
        ("n[3-1]", ()),
        ("n[a-b,2]", ("n2",)),
    ],
)
def test_a_list_of_hosts(names: str, hosts: tuple[str, ...]) -> None:
    assert expanded(names) == hosts


@given(st.text(alphabet="n[]-,0129(", max_size=40))
def test_a_list_of_hosts_is_bounded_whatever_it_says(names: str) -> None:
    assert len(expanded(names)) <= MOST_HOSTS


def test_a_scheduler_that_lists_steps_without_end_fills_no_memory(slurm: Scheduler) -> None:
    slurm.prints(JOB.format(end=int(END_S)), steps="".join(f"1.{n} s\n" for n in range(3000)))
    seen = slurm.look()
    assert seen is not None
    assert len(seen.steps) == MOST_STEPS
    assert seen.steps[-1] == "2999 s"
