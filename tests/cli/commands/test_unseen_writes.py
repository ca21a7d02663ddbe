"""`scrtune study` and `replay` of a trace that lacks what the application wrote, as numpy writes it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import Result

from ...support.trace_lines import explain, line

Scrtune = Callable[..., Result]
TIERS = ("--cache", "/ssd/me", "--prefix", "/lustre/me")
SECOND = 1_000_000
T0 = 1_700_000_000 * SECOND
CACHED, FLUSHED = "c1", "f1"
COPY = 1 << 20
NO_FILE = {"fhash": None, "ret": None}


def write_trace(directory: Path, written: int) -> Path:
    """Two checkpoints, of which `written` bytes were traced, and SCR's copies of 1 MiB each."""
    lines = [explain(CACHED, "/ssd/me/rank.npy"), explain(FLUSHED, "/lustre/me/rank.npy")]
    for number in range(2):
        start = T0 + number * 10 * SECOND
        lines += [
            line(
                "checkpoint.save", cat="checkpoint", ts=start, dur=SECOND, args={"fhash": None, "ret": None}
            ),
            line(ts=start + 10, args={"fhash": CACHED, "ret": written}),
            line("read", ts=start + 2 * SECOND, tid=8, args={"fhash": CACHED, "ret": COPY}),
            line(ts=start + 2 * SECOND + 10, tid=8, args={"fhash": FLUSHED, "ret": COPY}),
        ]
    directory.mkdir()
    (directory / "app.pfw").write_bytes(b"".join(lines))
    return directory


@pytest.fixture
def lacking(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "lacking", 128)


def test_a_study_says_so_and_neither_predicts_nor_writes_again(scrtune: Scrtune, lacking: Path) -> None:
    found = scrtune("study", f"a={lacking}", *TIERS)
    shown = " ".join(found.stdout.split())
    assert found.exit_code == 0
    assert "a: 2 MiB were copied from the cache to the prefix directory, but only 256 B seen" in shown
    for more in (("--what-if",), ("--reenact", "own")):
        refused = scrtune("study", f"a={lacking}", *TIERS, *more)
        assert refused.exit_code != 0
        assert "DFTracer missed what wrote them" in " ".join(refused.stderr.split())


def test_other_runs_are_predicted_without_it(scrtune: Scrtune, lacking: Path, tmp_path: Path) -> None:
    whole = write_trace(tmp_path / "whole", COPY)
    found = scrtune("study", f"a={whole}", f"b={lacking}", *TIERS, "--what-if")
    assert found.exit_code == 0
    assert "Nothing is predicted from b" in found.stdout
    assert "a: 2 MiB were copied" not in " ".join(found.stdout.split())


def test_replay_says_so(scrtune: Scrtune, lacking: Path) -> None:
    found = scrtune("replay", lacking, *TIERS)
    assert found.exit_code == 0
    assert "not seen" in found.stdout
    assert "DFTracer missed what wrote them" in " ".join(found.stdout.split())
