"""Recorded checkpoints written again by real ranks."""

import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from scrtune.replay.reenact.plan import Plan, PlannedCheckpoint, PlannedFile, ReenactError
from scrtune.replay.reenact.run import Directories, write_again
from scrtune.replay.study import Run, study

CACHED = {"SCR_CACHE_BYPASS": "0", "SCR_CACHE_SIZE": "2", "SCR_FLUSH": "1"}
WRITES = ((64, 1), (40_000, 3))
PLAN = Plan(
    checkpoints=2
    * (
        PlannedCheckpoint(
            think_s=0.01,
            ranks=tuple(
                (
                    PlannedFile(
                        f"0-model-{rank}.pt", 0.01, ((64, 1), (40_000, 3)), is_synced=True, idle_s=0.02
                    ),
                    PlannedFile(f"1-state-{rank}.json", 0.0, ((10, 1),)),
                )
                for rank in range(2)
            ),
        ),
    ),
    ranks=2,
    recorded_ranks=16,
    nodes=2,
    scale=1.0,
)


@pytest.fixture
def places(tmp_path: Path) -> Directories:
    for name in ("prefix", "cache"):
        (tmp_path / name).mkdir()
    return Directories(prefix=tmp_path / "prefix", cache=tmp_path / "cache")


def left(places: Directories) -> list[Path]:
    return [*places.prefix.iterdir(), *places.cache.iterdir()]


@pytest.mark.mpi
@pytest.mark.parametrize(
    ("settings", "to_cache", "flushes"),
    [
        ({}, 0, 0),
        (CACHED | {"SCR_COPY_TYPE": "XOR"}, PLAN.bytes, 0),
        (CACHED | {"SCR_FLUSH_ASYNC": "1", "SCR_FLUSH_TYPE": "PTHREAD"}, PLAN.bytes, 2),
    ],
)
def test_what_was_written_is_a_run_of_a_study(
    places: Directories, settings: dict[str, str], to_cache: int, flushes: int
) -> None:
    table = write_again(PLAN, settings, places)
    found = study([Run(name="here", table=table)])
    (row,) = found.runs
    assert (row.checkpoints, row.processes, row.hosts, row.saving_threads) == (2, 2, 2, 2)
    assert (row.cache.written_bytes, row.prefix.written_bytes) == (to_cache, PLAN.bytes)
    assert row.flushes <= flushes  # one that ended before the application went on is none in the background
    assert row.reading.dropped == {}
    classes = {(each.file_class, each.operation): each.calls for each in found.file_classes}
    assert classes["model.pt", "write"] == 4 * 4
    assert classes["model.pt", "sync"] == 4
    assert [each.step for each in found.checkpoints] == [0, 1]
    assert all(each.seconds >= 0.03 for each in found.checkpoints), "a pause, and what is done between calls"
    assert left(places) == []


@pytest.mark.mpi
def test_what_the_engine_refuses_is_said_and_nothing_is_left(places: Directories) -> None:
    with pytest.raises(ReenactError, match="SCR_COPY_TYPE=RS is not in scrtune's embedded engine"):
        write_again(PLAN, {"SCR_COPY_TYPE": "RS"}, places)
    assert left(places) == []


def test_a_setting_that_is_none_is_said(places: Directories) -> None:
    with pytest.raises(ReenactError, match="SCR_CACHE_SIZE='two': must be"):
        write_again(PLAN, {"SCR_CACHE_SIZE": "two"}, places)


def test_what_does_not_fit_is_not_begun(places: Directories, monkeypatch: pytest.MonkeyPatch) -> None:
    def has(free: int) -> None:
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))

    has(PLAN.bytes)
    with pytest.raises(ReenactError, match=r"take a scale below 0\.9, fewer checkpoints or ranks"):
        write_again(PLAN, {}, places)
    has(2 * PLAN.bytes)
    with pytest.raises(ReenactError, match="are free in"):
        write_again(PLAN, CACHED, places)
    assert left(places) == []


@pytest.mark.mpi
def test_an_interrupt_ends_the_ranks_and_leaves_nothing(
    places: Directories, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(process: "object", *_: object) -> int:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr("subprocess.Popen.wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_again(PLAN, {}, places)
    assert left(places) == []
    assert "SCR_PREFIX" not in os.environ
