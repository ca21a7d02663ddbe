"""Recorded traces through the live pipeline: what they say, and what the rules make of it."""

import gzip
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scrtune.cli.views.replay import replay_view
from scrtune.replay.outputs import read_outputs
from scrtune.replay.reading.traces import Summary, TraceNotFoundError
from scrtune.replay.run import JobShape, Replayed, at_once, find_checkpoints, read_digests, replay_traces
from scrtune.replay.spans import JobInterval

TRACES = Path(__file__).parents[1] / "data" / "traces"
GENERATIONS = sorted(path.name for path in TRACES.iterdir() if path.is_dir())
MIB = 2**20
START_US = 1_795_252_232_000_000


def write_job(path: Path, ranks: int = 2, saves: int = 5, slower: int = 1, mib: int = 8) -> Path:
    """A trace of `ranks` processes that save every second, in 8 writes of `mib` MiB each below /prefix.

    All of it takes `slower` times as long.
    """
    lines: list[dict[str, Any]] = []
    for pid in range(100, 100 + ranks):
        who = {"pid": pid, "tid": pid, "type": 3}
        for name, meaning, value in (("HH", "n1", "h"), ("FH", f"/prefix/ckpt.{pid}", f"f{pid}")):
            args = {"hhash": "h", "name": meaning, "value": value}
            lines.append({"name": name, "cat": "dftracer", **who, "ph": 4, "args": args})
        every_us = slower * 1_000_000
        for start_us in range(START_US, START_US + saves * every_us, every_us):
            span = {"name": "save_checkpoint", "cat": "checkpoint", "ts": start_us, "dur": slower * 100_000}
            lines.append({"id": 1, **span, **who, "ph": 1, "args": {"hhash": "h"}})
            for write_us in range(start_us, start_us + slower * 80_000, slower * 10_000):
                call = {"name": "write", "cat": "POSIX", "ts": write_us, "dur": slower * 9000}
                args = {"hhash": "h", "fhash": f"f{pid}", "ret": mib * MIB}
                lines.append({"id": 2, **call, **who, "ph": 1, "args": args})
    path.write_text("[\n" + "".join(json.dumps(line) + "\n" for line in lines))
    return path


def shown(replayed: Replayed) -> str:
    return msgspec.json.encode(replay_view(replayed)).decode()


@pytest.mark.parametrize("generation", GENERATIONS)
def test_every_generation_gives_its_events_and_the_same_twice(generation: str) -> None:
    first = replay_traces([TRACES / generation], JobShape(cores=4))
    assert first.pipeline.counters.trace_events > 0
    assert first.pipeline.counters.trace_lines == (
        first.pipeline.counters.trace_events
        + sum(first.pipeline.counters.dropped.values())
        + sum(is_metadata(line) for line in all_lines(generation))
    )
    assert 0 < first.start_s <= first.end_s
    assert shown(first) == shown(replay_traces([TRACES / generation], JobShape(cores=4)))


def all_lines(generation: str) -> list[bytes]:
    """Every line of the traces of a generation."""
    lines: list[bytes] = []
    for path in sorted((TRACES / generation).rglob("*.pfw*")):
        data = path.read_bytes()
        lines += (gzip.decompress(data) if path.suffix == ".gz" else data).split(b"\n")
    return lines


def is_metadata(line: bytes) -> bool:
    try:
        record = json.loads(line.strip(b"[], \r"))
    except ValueError:
        return False
    return isinstance(record, dict) and record.get("ph") in ("M", 4)


def test_a_job_is_described_by_its_trace_and_what_its_user_adds(tmp_path: Path) -> None:
    trace = write_job(tmp_path / "a.pfw")
    view = replay_view(replay_traces([trace], JobShape(prefix="/prefix", cores=8)))
    assert (view.files, view.processes, view.hosts, view.checkpoints) == (1, 2, 1, 5)
    assert view.span_s == pytest.approx(4.1)
    assert view.counters.trace_events == 2 * 5 * 9
    sentences = {intent.name: intent.sentence for intent in view.intents}
    assert sentences["buffer sizes"].startswith("80 writes, 640 MiB; top by bytes: 8 MiB 100%")
    assert sentences["core affinity"].startswith("8 cores; 2.00 used by 2 application processes")
    assert "128 MiB in 2 files every 1.00 s; blocks 0.100 s" in sentences["flush"]


def test_what_would_be_tried_live_is_proposed_in_one_go_and_every_lever_says_why(tmp_path: Path) -> None:
    shape = JobShape(prefix="/prefix", cores=8, floor="PROCESS")
    fast, slow = (
        replay_traces([write_job(tmp_path / f"{slower}.pfw", slower=slower, mib=mib)], shape).pipeline
        for slower, mib in ((1, 80), (10, 8))
    )
    assert fast.proposals() == (), "a prefix directory that is as fast as any cache"
    (proposal,) = slow.proposals()
    assert proposal.changes["SCR_CACHE_BYPASS"] == 0
    assert 0 < proposal.expected_gain_s < 1.0, "of the second that a checkpoint takes"
    assert not slow.decisions, "of a trace nothing can be changed"
    for pipeline, gains in ((fast, False), (slow, True)):
        bypass = pipeline.levers()[0]
        assert (bypass.name, bypass.value, bypass.other, bypass.gain_s > 0) == (
            "SCR_CACHE_BYPASS",
            1,
            0,
            gains,
        )
        assert all(lever.why for lever in pipeline.levers())


def test_the_config_the_job_ran_with_is_where_the_rules_begin(tmp_path: Path) -> None:
    trace = write_job(tmp_path / "a.pfw")
    shape = JobShape(prefix="/prefix", cores=8, conf="SCR_CACHE_BYPASS=0\nSCR_COPY_TYPE=PARTNER\n")
    replayed = replay_traces([trace], shape)
    assert replayed.pipeline.settings["SCR_COPY_TYPE"] == "PARTNER"
    assert replayed.pipeline.levers()[0].value == 0, "the cache is in use"


def test_the_systems_config_counts_below_the_users(tmp_path: Path) -> None:
    trace = write_job(tmp_path / "a.pfw")
    system = "SCR_CACHE_BYPASS=0\nSCR_COPY_TYPE=PARTNER\nSCR_FLUSH=3\n"
    replayed = replay_traces([trace], JobShape(conf="SCR_FLUSH=7\n", system_conf=system))
    assert replayed.pipeline.settings["SCR_COPY_TYPE"] == "PARTNER"
    assert replayed.pipeline.settings["SCR_FLUSH"] == 7
    assert replayed.pipeline.job is not None
    assert replayed.pipeline.job.sources["SCR_COPY_TYPE"] == "system config"
    assert replayed.problems == ()


def test_what_is_wrong_in_either_config_is_told_with_its_layer(tmp_path: Path) -> None:
    trace = write_job(tmp_path / "a.pfw")
    shape = JobShape(conf="SCR_FLUSH=ten\nSCR_CACHE_BASE=$SSD/cache\n", system_conf="\nSCR_DEBUG\n")
    told = [
        (each.source, each.line, each.severity, each.code) for each in replay_traces([trace], shape).problems
    ]
    assert sorted(told) == [
        ("system config", 2, "error", "no-equals"),
        ("user config", 1, "error", "bad-value"),
        ("user config", 2, "warning", "unset-variable"),
    ]


def test_a_declared_floor_is_required_whatever_it_costs(tmp_path: Path) -> None:
    trace = write_job(tmp_path / "a.pfw")
    shape = JobShape(
        prefix="/prefix", nodes=4, floor="xor", conf="SCR_CACHE_BYPASS=0\nSCR_COPY_TYPE=SINGLE\n"
    )
    pipeline = replay_traces([trace], shape).pipeline
    (required,) = (each for each in pipeline.proposals() if each.required)
    assert required.changes == {"SCR_COPY_TYPE": "XOR"}
    assert not pipeline.decisions, "of a trace nothing can be changed"


def test_the_order_in_which_files_are_named_changes_nothing(tmp_path: Path) -> None:
    whole = write_job(tmp_path / "a.pfw").read_text().splitlines(keepends=True)
    one, other = tmp_path / "1.pfw", tmp_path / "2.pfw"
    one.write_text("".join(line for line in whole if '"pid":101' not in line))
    other.write_text("".join(line for line in whole if '"pid":100' not in line))
    assert shown(replay_traces([one, other], JobShape(cores=8))) == shown(
        replay_traces([other, one], JobShape(cores=8))
    )


def test_nothing_to_read_is_said(tmp_path: Path) -> None:
    with pytest.raises(TraceNotFoundError):
        replay_traces([tmp_path / "gone"], JobShape())


def test_a_trace_without_events_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.pfw").write_text("[\n")
    replayed = replay_traces([tmp_path], JobShape(cores=4))
    assert (replayed.start_s, replayed.end_s) == (0.0, 0.0)
    assert replayed.pipeline.proposals() == ()


def test_what_outputs_wrote_is_told_apart_and_nothing_is_counted_twice(tmp_path: Path) -> None:
    trace = write_job(tmp_path / "a.pfw", ranks=3, saves=4)
    outputs, rest = read_outputs([trace], {"/prefix": "prefix"}, saves_of(trace))
    assert [(each.bytes, each.files, each.are_shared) for each in outputs] == [
        (3 * 8 * 8 * MIB, 3, False)
    ] * 4
    assert rest.accesses == ()
    whole = replay_traces([trace], JobShape(prefix="/prefix")).pipeline
    assert whole.intents.buffers.bytes == sum(each.bytes for each in outputs)
    assert whole.counters.trace_events == 3 * 4 * 9


def saves_of(trace: Path) -> Sequence[JobInterval]:
    shape = JobShape(prefix="/prefix")
    return find_checkpoints([trace], shape, read_digests([trace], shape, Summary())).saves


def test_a_long_trace_shares_its_bytes_out_evenly(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trace = write_job(tmp_path / "a.pfw", ranks=2, saves=4)
    short = replay_traces([trace], JobShape(prefix="/prefix")).pipeline.intents
    monkeypatch.setattr("scrtune.replay.run.MOST_LINES", 10)
    long = replay_traces([trace], JobShape(prefix="/prefix")).pipeline.intents
    assert long.buffers == short.buffers
    assert long.outputs.kinds["checkpoints"].bytes == short.outputs.kinds["checkpoints"].bytes
    assert (long.outputs.kinds["checkpoints"].writes.count, long.outputs.kinds["checkpoints"].files) == (0, 2)


@pytest.mark.parametrize(
    ("processes", "spans", "ranks"),
    [
        (0, [], 0),
        (2, [(0.0, 9.0), (1.0, 5.0)], 2),
        (3, [(0.0, 1.0), (2.0, 3.0), (4.0, 5.0)], 1),
        (3, [(0.0, 2.0), (2.0, 3.0), (2.5, 5.0)], 2),
        (5, [(0.0, 1.0)], 5),  # one file of them all
    ],
)
def test_ranks_are_the_processes_that_ran_at_once(
    processes: int, spans: list[tuple[float, float]], ranks: int
) -> None:
    assert at_once(processes, spans) == ranks
