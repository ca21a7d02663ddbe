"""What the benchmarks read from the jobs that they run; the jobs here are shell scripts."""

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

RUNNER = Path(__file__).parents[2] / "benchmarks" / "jobs" / "runner.py"
TEST_API = """
echo 'Init: Min 0.1 s'
echo 'Completed checkpoint 1:  0.001 secs, 1.0e+08 bytes, 1.0e+08 bytes/sec'
echo 'Sleeping for 1 seconds... '
sleep 0.3
echo 'Completed checkpoint 2:  0.002 secs, 1.0e+08 bytes, 1.0e+08 bytes/sec'
echo 'and what went wrong' >&2
"""


@pytest.fixture(scope="module")
def runner() -> ModuleType:
    """The module, which is in no package that is installed."""
    spec = importlib.util.spec_from_file_location("jobs_runner", RUNNER)
    assert spec is not None
    assert spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found  # where dataclasses look for it
    spec.loader.exec_module(found)
    return found


def test_what_scrs_test_api_did_between_checkpoints_is_told_by_when_it_speaks(runner: ModuleType) -> None:
    ran = runner._run(["sh", "-c", TEST_API], {})
    assert ran.checkpoint_s == (0.001, 0.002)
    first_s, second_s = ran.step_s
    assert first_s == 0
    assert 0.15 < second_s < ran.whole_s  # the 0.3 s, less what the reader was late for the first line
    assert ran.loop_s == pytest.approx(second_s + 0.003)
    assert ran.said == "and what went wrong\n"


def test_our_own_job_says_its_times_itself(runner: ModuleType) -> None:
    line = '{"loop_s": 3.5, "checkpoint_s": [0.5, 1.0], "step_s": [1, 1]}'
    ran = runner._run(["echo", line], {})
    assert (ran.loop_s, ran.checkpoint_s, ran.step_s) == (3.5, (0.5, 1.0), (1, 1))


def test_what_is_measured_does_not_depend_on_the_users_defaults(
    runner: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "scrtune.toml").write_text("[run]\nno-such-option = 1\n")
    monkeypatch.chdir(tmp_path)
    line = '{"loop_s": 3.5, "checkpoint_s": [0.5], "step_s": [1]}'
    instead = ["sh", "-c", f"{sys.executable} -m scrtune run --help >&2 && echo '{line}'"]
    work = runner.Work(checkpoints=1, compute_ms=1, busy=1, mib=1)
    assert "Options:" in runner.JobRunner("embedded", tmp_path).run(work, "", instead).said


@pytest.mark.parametrize("script", ["echo nothing", f"{TEST_API}\nexit 3"])
def test_a_job_that_fails_or_says_nothing_is_an_error(runner: ModuleType, script: str) -> None:
    with pytest.raises(runner.JobFailedError, match="ended with exit code"):
        runner._run(["sh", "-c", script], {})
