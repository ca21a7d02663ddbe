"""How the nodes of a Slurm allocation are asked, and what the tasks of a step are told."""

import os
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scrtune.client.paths import JobPaths
from scrtune.daemon.launch.environment import ConfigFiles, Job
from scrtune.daemon.launch.run import job_paths
from scrtune.daemon.launch.slurm import in_allocation, prolog_text

from ...conftest import until
from .place import Place


class TestWithASrunOfOurOwn:
    """What the nodes say, and what becomes of it; `tests/daemon/launch/test_slurm.py` has the real one."""

    def run(self, place: Place, srun: str | None) -> "subprocess.CompletedProcess[str]":
        programs = place.directory / "bin"
        programs.mkdir()
        for name in ("sh", "echo", "cat"):
            (programs / name).symlink_to(f"/bin/{name}")
        if srun is not None:
            (programs / "srun").write_text(f"#!/bin/sh\n{srun}\n")
            (programs / "srun").chmod(0o755)
        place.environment = {"SLURM_JOB_ID": "17", "SLURM_JOB_NUM_NODES": "2", "PATH": str(programs)}
        return place.run("sh", "-c", "echo ran $SLURM_TASK_PROLOG; exit 4")

    @pytest.mark.parametrize(
        ("srun", "warning"),
        [
            (None, "No such file or directory: 'srun'"),
            ("echo 'srun: error: out of order' >&2; exit 1", "0 of 2 nodes have a daemon"),
            ("echo ready; exit 1", "1 of 2 nodes have a daemon"),
            ("echo ready; echo no prolog; cat", "not every node has seen"),
        ],
    )
    def test_unless_every_node_sees_the_prolog_it_is_not_used(
        self, place: Place, srun: str | None, warning: str
    ) -> None:
        ran = self.run(place, srun)
        assert (ran.stdout, ran.returncode) == ("ran\n", 4)
        assert warning in ran.stderr

    def test_a_signal_while_the_nodes_start_ends_the_start(self, place: Place) -> None:
        place.environment = {"SLURM_JOB_ID": "17", "SLURM_JOB_NUM_NODES": "2"}
        (place.directory / "srun").write_text("#!/bin/sh\ntouch asked\ncat\n")
        (place.directory / "srun").chmod(0o755)
        place.environment["PATH"] = f"{place.directory}:{os.environ['PATH']}"
        process = place.start("touch", "ran", options=("--trace", "off"))
        until((place.directory / "asked").exists, "a step")
        process.send_signal(signal.SIGTERM)
        assert place.finish(process).returncode == 128 + signal.SIGTERM
        assert not (place.directory / "ran").exists()

    @pytest.mark.parametrize(
        ("answers", "warned"), [("echo ready; echo ready", False), ("echo ready; echo no daemon", True)]
    )
    def test_a_node_without_a_daemon_costs_the_others_nothing(
        self, place: Place, answers: str, warned: bool
    ) -> None:
        ran = self.run(place, f"{answers}; cat >told")
        assert ran.stdout == f"ran {place.directory}/.scrtune-{os.getuid()}/{place.job_id}/task_prolog.sh\n"
        assert ran.returncode == 4
        assert ("1 of 2 nodes have a daemon" in ran.stderr) == warned
        assert (place.directory / "told").read_text() == "4\n", "the exit code goes to the nodes"


@pytest.mark.parametrize(
    ("environment", "inside"),
    [
        ({}, False),
        ({"SLURM_JOB_ID": "1"}, True),
        ({"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "4294967291"}, True),
        ({"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "4294967290"}, True),
        ({"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0"}, False),
    ],
)
def test_a_batch_script_is_in_the_allocation_a_task_is_in_its_step(
    environment: dict[str, str], inside: bool
) -> None:
    assert in_allocation(environment) == inside


def test_a_job_of_slurm_has_slurms_id_and_a_run_directory_that_every_node_has(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "42")
    monkeypatch.delenv("SLURM_STEP_ID", raising=False)
    monkeypatch.delenv("SCRTUNE_RUN_DIR", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert job_paths(None).job_id == "42"
    assert job_paths(None).base == Path(tempfile.gettempdir()) / f"scrtune-{os.getuid()}"
    assert job_paths("mine").job_id == "mine"


_VALUES = st.text(st.characters(codec="utf-8", exclude_characters="\n\r\0"), max_size=30)


def slurm_job(variables: dict[str, str], library: Path | None = None) -> Job:
    return Job(files=ConfigFiles(scr_conf=Path("/c")), variables=variables, library=library)


@settings(max_examples=30)
@given(
    value=_VALUES,
    of_the_node=_VALUES,
    preloaded=st.sampled_from(["", "a.so", "a.so:/b c/d.so"]),
    library=st.sampled_from([None, Path("/it's/lib.so")]),
)
def test_a_task_prolog_prints_every_value_as_it_is(
    value: str, of_the_node: str, preloaded: str, library: Path | None
) -> None:
    with tempfile.TemporaryDirectory() as directory:
        run_dir = Path(directory, "it's $HOME")
        paths = JobPaths.of("17", base=run_dir)
        paths.root.mkdir(parents=True)
        lines = f"export DFTRACER_DATA_DIR={of_the_node}\nexport LD_PRELOAD=ours.so\n"
        paths.environment.write_text(lines, encoding="utf-8")
        variables = {"SCRTUNE_JOB_ID": "17", "SCRTUNE_RUN_DIR": str(run_dir), "SCR_CONF_FILE": value}
        ran = subprocess.run(
            ["sh", "-c", prolog_text(slurm_job(variables, library), {})],
            env={"LD_PRELOAD": preloaded, "PATH": os.environ["PATH"]},
            capture_output=True,
            check=True,
        )
    files = {"SCRTUNE_DECISION_FILE": str(paths.decision), "SCRTUNE_EVENTS_FILE": str(paths.library_events)}
    merged = ":".join([*([str(library)] if library else []), "ours.so", *([preloaded] if preloaded else [])])
    expected = {
        **variables,
        "DFTRACER_DATA_DIR": of_the_node,
        **(files if library else {}),
        "LD_PRELOAD": merged,
    }
    assert ran.stdout.decode() == "".join(f"export {name}={text}\n" for name, text in expected.items())


def test_a_task_prolog_whose_node_has_no_daemon_prints_the_jobs_variables_at_once(tmp_path: Path) -> None:
    variables = {"SCRTUNE_JOB_ID": "17", "SCRTUNE_RUN_DIR": str(tmp_path / "gone")}

    def printed(library: Path | None) -> list[str]:
        command = ["sh", "-c", prolog_text(slurm_job(variables, library), {})]
        own = {"PATH": os.environ["PATH"]}
        ran = subprocess.run(command, env=own, capture_output=True, text=True, check=True)
        return ran.stdout.splitlines()

    assert printed(None) == [f"export {name}={value}" for name, value in variables.items()]
    # and the library, too: the ranks agree by it
    decision = JobPaths.of("17", base=tmp_path / "gone").decision
    assert f"export SCRTUNE_DECISION_FILE={decision}" in printed(Path("/lib.so"))
    assert printed(Path("/lib.so"))[-1] == "export LD_PRELOAD=/lib.so"
