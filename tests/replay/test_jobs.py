"""What recorded and made-up traces of the jobs that the LLNL study names are seen to need, and why.

The recorded ones (`tests/data/jobs`) are of DLIO with scrtune as its checkpoint mechanism (`examples/dlio`),
and of `examples/pytorch` in both layouts: 2 ranks under DFTracer 2.2.0. Paths were rewritten to /scratch.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from scrtune.cli.views.replay import ReplayView, replay_view
from scrtune.goodput.events import RestartCompleted
from scrtune.intents.observe.intents import Intents
from scrtune.intents.observe.io.output_sizes import CHECKPOINTS
from scrtune.replay.reading.traces import Summary
from scrtune.replay.run import JobShape, Replayed, find_checkpoints, read_digests, replay_traces

from ..support.traced_jobs import KIB, MIB, lido, mummi, sw4

JOBS = Path(__file__).parents[1] / "data" / "jobs"
RECORDED = JobShape(cache="/scratch/cache", prefix="/scratch/prefix", cores=8)
MADE_UP = JobShape(prefix="/prefix", cores=8)
SHARED = "SCR_CACHE_BYPASS=0: ranks share a file or a file name: in the cache these would collide"


def recorded(name: str) -> Replayed:
    return replay_traces([JOBS / name], RECORDED)


def intents_of(replayed: Replayed) -> Intents:
    return replayed.pipeline.intents


def why(view: ReplayView, lever: str) -> str:
    return next(each.why for each in view.levers if each.name == lever)


@pytest.mark.parametrize(
    ("name", "checkpoints", "checkpoint_bytes", "p90_bytes", "contents", "how"),
    [
        ("dlio", 4, 36_503_424, 5_212_672, {"optimizer", "model"}, "spans of the application"),
        ("torch-distributed", 3, 3_216_482, 262_144, {"other"}, "inferred from bursts of writes"),
        ("deepspeed", 3, 5_285_000, 262_144, {"optimizer", "model"}, "inferred from bursts of writes"),
    ],
)
def test_recorded_jobs_give_their_checkpoints_files_and_sizes(  # noqa: PLR0913, PLR0917 - the columns
    name: str, checkpoints: int, checkpoint_bytes: int, p90_bytes: int, contents: set[str], how: str
) -> None:
    replayed = recorded(name)
    intents = intents_of(replayed)
    kind = intents.outputs.kinds[CHECKPOINTS]
    assert (kind.outputs, kind.files) == (checkpoints, 3)
    assert kind.bytes == pytest.approx(checkpoint_bytes, rel=0.01)
    assert not kind.is_shared
    assert kind.drift == pytest.approx(0, abs=0.01)
    assert kind.writes.p90_bytes == intents.buffers.p90_bytes == p90_bytes
    assert set(intents.buffers.by_content) == contents
    assert intents.redundancy.ranks == 2
    assert how in replayed.checkpoints_from


@pytest.mark.parametrize("name", ["dlio", "torch-distributed"])
def test_files_per_process_went_through_the_cache_and_may(name: str) -> None:
    replayed = recorded(name)
    assert replayed.settings_from.startswith("SCR_CACHE_BYPASS=0 (the trace shows it)")
    assert not replayed.pipeline.situation.why_no_cache


def test_the_optimizer_of_dlio_has_most_of_the_bytes_in_the_largest_writes() -> None:
    buffers = intents_of(recorded("dlio")).buffers
    optimizer, model = buffers.by_content["optimizer"], buffers.by_content["model"]
    assert optimizer.bytes / buffers.bytes == pytest.approx(0.86, abs=0.01)
    assert (optimizer.p90_bytes, model.p90_bytes) == (5_212_672, 1_024_000)
    top = buffers.top[0]
    assert (top.size_bytes, round(top.share, 2), round(top.calls_share, 2)) == (5_212_672, 0.86, 0.13)


def test_sw4_stays_past_the_cache_for_its_ranks_share_one_file(tmp_path: Path) -> None:
    replayed = replay_traces([sw4(tmp_path)], MADE_UP)
    view, kind = replay_view(replayed), intents_of(replayed).outputs.kinds[CHECKPOINTS]
    assert (kind.outputs, kind.files, kind.bytes, kind.is_shared) == (4, 1, 256 * MIB, True)
    assert all(proposal.changes.get("SCR_CACHE_BYPASS") != 0 for proposal in view.proposals)
    assert why(view, "SCR_CACHE_BYPASS") == SHARED


def test_of_mummis_many_short_processes_those_at_work_at_once_are_its_ranks(tmp_path: Path) -> None:
    replayed = replay_traces([mummi(tmp_path, simulations=24, at_once=4)], MADE_UP)
    intents = intents_of(replayed)
    assert (replay_view(replayed).processes, intents.redundancy.ranks, intents.redundancy.nodes) == (24, 4, 2)
    assert (intents.affinity.processes, intents.affinity.spare_cores) == (2, 6)
    assert intents.buffers.p90_bytes == 300 * KIB
    assert intents.buffers.top[1].calls_share == 0.5
    assert why(replay_view(replayed), "SCR_CACHE_BYPASS") == SHARED  # frame0.npz of each simulation


def test_lido_goes_back_and_what_it_writes_again_are_further_checkpoints(tmp_path: Path) -> None:
    directory = lido(tmp_path, iterations=6, back=3)
    found = find_checkpoints([directory], MADE_UP, read_digests([directory], MADE_UP, Summary()))
    (load,) = (each for each in found.events([], 2) if isinstance(each, RestartCompleted))
    assert load.dataset == 6  # of those saved before; it reads the third
    kind = intents_of(replay_traces([directory], MADE_UP)).outputs.kinds[CHECKPOINTS]
    assert (kind.outputs, kind.files) == (10, 2)
    assert kind.drift == pytest.approx(1472 / 1408 - 1)
    assert kind.least_bytes < kind.median_bytes < kind.most_bytes == kind.bytes


@pytest.mark.parametrize(
    ("generation", "writes", "p90_bytes", "top_bytes", "ranks"),
    [
        ("gen2-dftracer-2.0.0", 12, 320, [320, 100], 2),
        ("gen2-pydftracer-1.0.9", 12, 320, [320, 100], 1),  # two runs, one after the other
        ("gen3-dftracer-2.0.3", 22, 320, [320, 100], 3),  # six, of which some tell seconds only
        ("gen3-dftracer-2.1.0", 12, 320, [320, 100], 2),
        ("gen4-aggregated-full", 0, 0, [], 1),  # single sizes are gone
        ("gen4-broken-strings", 45, 2_000_000, [2_000_000, 300_000], 1),
        ("gen4-nanoseconds-no-args", 0, 0, [], 1),
        ("gen4-node-service", 0, 0, [], 1),
        ("gen4-preload", 6, 100_000, [100_000, 4096], 1),
        ("gen4-python-fork-plain", 135, 2_000_000, [2_000_000, 300_000], 3),
        ("gen4-python-spawn-gz", 90, 2_000_000, [2_000_000, 300_000], 3),
    ],
)
def test_traces_of_every_generation_give_their_sizes_and_ranks(
    generation: str, writes: int, p90_bytes: int, top_bytes: list[int], ranks: int
) -> None:
    intents = intents_of(replay_traces([JOBS.parent / "traces" / generation], JobShape(cores=8)))
    buffers = intents.buffers
    assert (buffers.count, buffers.p90_bytes, intents.redundancy.ranks) == (writes, p90_bytes, ranks)
    assert [each.size_bytes for each in buffers.top[:2]] == top_bytes


@pytest.mark.parametrize("make", [sw4, mummi, lido])
def test_made_up_jobs_say_the_same_twice(tmp_path: Path, make: Callable[[Path], Path]) -> None:
    make(tmp_path)
    assert replay_view(replay_traces([tmp_path], MADE_UP)) == replay_view(replay_traces([tmp_path], MADE_UP))
