"""The plan of a re-enactment: what was recorded, rank by rank and file by file."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.replay.reading.scan import read_table
from scrtune.replay.reenact.plan import Plan, ReenactError
from scrtune.replay.reenact.recorded import FilePaths, PlanScope, make_plan

START_US = 1_700_000_000_000_000
TIERS = {"/p": "prefix", "/c": "cache"}


def event(pid: int, name: str, at_ms: float, took_ms: float, **args: object) -> dict[str, Any]:
    """A call, or, without a file, the span of a checkpoint."""
    category = "POSIX" if "fname" in args else "checkpoint"
    times = {"ts": START_US + int(1000 * at_ms), "dur": int(1000 * took_ms), "ph": 1}
    host = {"hostname": f"n{pid // 10}"}
    return {"id": 1, "name": name, "cat": category, "pid": pid, "tid": pid, **times, "args": host | args}


def write(pid: int, path: str, at_ms: float, size: int, took_ms: float = 1) -> dict[str, Any]:
    return event(pid, "write", at_ms, took_ms, fname=path, ret=size)


def plan_of(tmp_path: Path, events: Iterable[Mapping[str, Any]], **scope: Any) -> Plan:
    (tmp_path / "a.pfw").write_text("".join(json.dumps(each) + "\n" for each in events))
    table = read_table([tmp_path], TIERS, places=FilePaths).resolved()
    return make_plan(table, PlanScope(**{"ranks": 8, "checkpoints": 2} | scope))


def saves(pids: Iterable[int] = (10, 11, 20), steps: int = 2) -> list[dict[str, Any]]:
    """A save each second, of a header and two tensors in one file and a small one after a pause."""
    events = []
    for pid in pids:
        for step in range(steps):
            at_ms = 1000 * step
            events += [
                event(pid, "save_checkpoint", at_ms, 100, step=step),
                write(pid, f"/p/{step}/model-{pid}.pt", at_ms + 10, 64),
                write(pid, f"/p/{step}/model-{pid}.pt", at_ms + 11, 5000),
                write(pid, f"/p/{step}/model-{pid}.pt", at_ms + 12, 5001),
                event(pid, "fsync", at_ms + 13, 2, fname=f"/p/{step}/model-{pid}.pt", ret=0),
                write(pid, f"/p/{step}/state-{pid}.json", at_ms + 45, 10),
            ]
    return events


def test_each_rank_writes_its_files_again_in_their_order(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, saves())
    assert (plan.ranks, plan.recorded_ranks, plan.nodes) == (3, 3, 2)
    assert plan.bytes == 2 * 3 * (64 + 10_001 + 10)
    assert plan.pause_s == pytest.approx(2 * (0.9 + 0.04), abs=1e-3)
    for checkpoint in plan.checkpoints:
        assert checkpoint.think_s == pytest.approx(0.9)
        for pid, files in zip((10, 11, 20), checkpoint.ranks, strict=True):
            model, state = files
            assert (model.name, state.name) == (f"0-model-{pid}.pt", f"1-state-{pid}.json")
            assert model.writes == ((64, 1), (5000, 1), (5001, 1))
            assert (model.is_synced, state.is_synced) == (True, False)
            assert (model.pause_s, state.pause_s) == pytest.approx((0.010, 0.030), abs=1e-4)


def test_some_ranks_of_all_nodes_and_checkpoints_over_again(tmp_path: Path) -> None:
    plan = plan_of(tmp_path, saves(range(10, 50), steps=1), ranks=4, checkpoints=5)
    assert (plan.ranks, plan.recorded_ranks, plan.nodes) == (4, 40, 4)
    assert len(plan.checkpoints) == 5
    assert len(set(plan.checkpoints)) == 1


def test_copies_below_the_prefix_directory_are_not_the_application_s(tmp_path: Path) -> None:
    events = [
        event(10, "save_checkpoint", 0, 100),
        write(10, "/c/scr.dataset.1/a.pt", 5, 100),
        write(10, "/c/scr.dataset.1/.scr/reddesc", 6, 100),
        write(10, "/p/a.pt", 50, 100),
        write(10, "/elsewhere/log", 60, 100),
    ]
    ((files,),) = (checkpoint.ranks for checkpoint in plan_of(tmp_path, events, checkpoints=1).checkpoints)
    assert [(file.name, file.bytes) for file in files] == [("0-a.pt", 100)]


def test_of_a_file_that_is_written_over_again_each_checkpoint_has_its_share(tmp_path: Path) -> None:
    events = [
        each
        for step in range(4)
        for each in (
            event(10, "save_checkpoint", 1000 * step, 100),
            write(10, "/p/latest.pt", 1000 * step + 10, 4096),
        )
    ]
    plan = plan_of(tmp_path, events, checkpoints=4)
    assert [checkpoint.bytes for checkpoint in plan.checkpoints] == [4096] * 4


def pauses_ms(tmp_path: Path, events: Iterable[Mapping[str, Any]]) -> list[list[int]]:
    """The pauses of each rank before and within its files, in the first checkpoint."""
    (checkpoint,) = plan_of(tmp_path, events, checkpoints=1).checkpoints
    return [
        [round(1000 * pause_s) for file in files for pause_s in (file.pause_s, file.idle_s)]
        for files in checkpoint.ranks
    ]


def test_a_rank_that_came_late_pauses_no_longer(tmp_path: Path) -> None:
    events = [
        each
        for pid, late_ms in ((10, 0), (11, 60))
        for each in (
            event(pid, "save_checkpoint", late_ms, 100, step=1),
            write(pid, f"/p/{pid}", late_ms + 10, 100),
        )
    ]
    assert pauses_ms(tmp_path, events) == [[10, 0], [10, 0]]


def test_the_next_checkpoint_of_a_fast_rank_is_none_of_a_slow_one_s(tmp_path: Path) -> None:
    events = [
        each
        for pid, took_ms in ((10, 100), (11, 180))
        for step, at_ms in ((0, 0), (1, took_ms + 20))
        for each in (
            event(pid, "save_checkpoint", at_ms, took_ms, step=step),
            write(pid, f"/p/{step}/{pid}", at_ms + 10, 100),
        )
    ]
    plan = plan_of(tmp_path, events)
    assert [[len(files) for files in each.ranks] for each in plan.checkpoints] == [[1, 1], [1, 1]]
    assert plan.bytes == 4 * 100


def test_between_the_spans_of_a_checkpoint_nothing_pauses(tmp_path: Path) -> None:
    events = [
        event(10, "save_model", 0, 100, step=1),
        write(10, "/p/model", 10, 100, took_ms=80),
        event(10, "save_optimizer", 5000, 100, step=1),
        write(10, "/p/optimizer", 5020, 100, took_ms=80),
    ]
    assert pauses_ms(tmp_path, events) == [[10, 0, 30, 0]], "what was left of the first span, too"


def test_a_span_without_any_length_is_one(tmp_path: Path) -> None:
    events = [event(10, "save_checkpoint", 0, 0, step=1), write(10, "/p/a", 0, 100, took_ms=5)]
    assert pauses_ms(tmp_path, events) == [[0, 0]]


def test_files_that_are_written_by_turns_take_no_longer_than_they_did(tmp_path: Path) -> None:
    events = [event(10, "save_checkpoint", 0, 1000)]
    events += [write(10, f"/p/{turn % 2}", 100 * turn + 20, 100, took_ms=80) for turn in range(10)]
    assert sum(pauses_ms(tmp_path, events)[0]) == pytest.approx(10 * 20, abs=1)


def test_what_scr_does_with_files_in_the_cache_is_no_pause(tmp_path: Path) -> None:
    events = [
        each
        for step in range(3)
        for each in (
            event(10, "save_checkpoint", 1000 * step, 500, step=step),
            write(10, f"/c/{step}/a", 1000 * step + 100, 100, took_ms=10),
            write(10, f"/c/{step}/b", 1000 * step + 150, 100, took_ms=10),
            event(10, "read", 1000 * step + 300, 10, fname=f"/c/{step}/a", ret=100),  # to encode it
            event(10, "unlink", 1000 * step + 1050, 10, fname=f"/c/{step}/a", ret=0),  # as the next begins
        )
    ]
    assert pauses_ms(tmp_path, events) == [[0, 0, 40, 0]]
    assert plan_of(tmp_path, events).bytes == 2 * 200


def test_a_file_of_all_checkpoints_leaves_others_their_pauses(tmp_path: Path) -> None:
    events = [
        each
        for step in range(2)
        for each in (
            event(10, "save_checkpoint", 1000 * step, 100),
            write(10, "/p/latest", 1000 * step, 100, took_ms=10),
            write(10, f"/p/{step}", 1000 * step + 50, 100, took_ms=10),
        )
    ]
    assert pauses_ms(tmp_path, events) == [[0, 0, 40, 0]]


def test_without_spans_bursts_of_writes_are_written_again(tmp_path: Path) -> None:
    events = [
        write(10, f"/p/{burst}/{number}", 1000 * burst + number, 1000)
        for burst in range(3)
        for number in range(5)
    ]
    plan = plan_of(tmp_path, events, checkpoints=3)
    assert [checkpoint.bytes for checkpoint in plan.checkpoints] == [5000] * 3


def test_a_scale_is_of_bytes_and_pauses(tmp_path: Path) -> None:
    whole, half = (plan_of(tmp_path, saves(), scale=scale) for scale in (1.0, 0.5))
    assert half.bytes == pytest.approx(whole.bytes / 2, rel=0.01)
    assert half.checkpoints[0].think_s == pytest.approx(whole.checkpoints[0].think_s / 2)


def test_what_cannot_be_written_again_is_said(tmp_path: Path) -> None:
    for events in ([event(10, "save_checkpoint", 0, 100)], [write(10, "/q/a", 0, 5)]):
        with pytest.raises(ReenactError, match="name their directory as prefix or cache"):
            plan_of(tmp_path, events)


@given(
    sizes=st.lists(st.integers(1, 10**7), min_size=1, max_size=30),
    scale=st.floats(0.001, 4),
)
def test_no_byte_is_lost(tmp_path_factory: pytest.TempPathFactory, sizes: list[int], scale: float) -> None:
    directory = tmp_path_factory.getbasetemp() / "plan"
    directory.mkdir(exist_ok=True)
    events = [event(10, "save_checkpoint", 0, 1000)]
    events += [write(10, "/p/a", number, size) for number, size in enumerate(sizes)]
    assert plan_of(directory, events).checkpoints[0].bytes == sum(sizes)
    classes = {size.bit_length() for size in sizes}
    scaled = plan_of(directory, events, scale=scale, checkpoints=1).bytes
    assert abs(scaled - sum(sizes) * scale) <= len(classes)
