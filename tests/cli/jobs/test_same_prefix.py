"""Two jobs in one prefix directory: the one that begins later is told, with the way out."""

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from scrtune.cli.jobs.same_prefix import hold_prefix, others_in
from scrtune.client.paths import JobPaths


@pytest.fixture(autouse=True)
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path / "r"))
    return tmp_path / "r"


def test_a_job_is_found_while_it_runs_in_the_same_directory_and_not_itself(tmp_path: Path) -> None:
    first, second, elsewhere = (JobPaths.of(name).create() for name in ("first", "second", "elsewhere"))
    with hold_prefix(first, tmp_path / "a"), hold_prefix(elsewhere, tmp_path / "b"):
        with hold_prefix(second, tmp_path / "a"):
            assert [*others_in(second, tmp_path / "a")] == ["first"]
            assert [*others_in(first, tmp_path / "a")] == ["second"]
        assert [*others_in(first, tmp_path / "a")] == []
        with pytest.raises(BlockingIOError), hold_prefix(first, tmp_path / "b"):
            pytest.fail("the job runs already, as its daemon will say")
        assert [*others_in(second, tmp_path / "a")] == ["first"]


def test_the_job_that_begins_later_says_so(tmp_path: Path) -> None:
    def run(job_id: str, *command: str) -> list[str]:
        options = ("--job-id", job_id, "--trace", "off", "--preload", "never", "--no-probe", "--no-memory")
        return [sys.executable, "-m", "scrtune", "run", *options, "--", *command]

    waits = run("first", sys.executable, "-c", "print('runs', flush=True); input()")
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(waits, cwd=tmp_path, **pipes) as first:
        try:
            assert first.stdout is not None
            assert first.stdout.readline() == b"runs\n"
            second, other = (
                subprocess.run(
                    run(name, "true"), cwd=place, capture_output=True, text=True, timeout=60, check=True
                )
                for name, place in (("second", tmp_path), ("other", tmp_path / "r"))
            )
        finally:
            first.send_signal(signal.SIGTERM)
    assert f"job first runs in the same prefix directory, {tmp_path}: " in second.stderr
    assert "an SCR_PREFIX of its own" in second.stderr
    assert "same prefix directory" not in other.stderr
