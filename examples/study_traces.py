"""Traces of eight runs as DLIO writes them, with the sums of a published study, in few long calls.

    python -m scrtune.examples.study_traces traces
    scrtune study traces/study.toml

Runs of Megatron-DeepSpeed on two nodes with 16 ranks: straight to Lustre, straight to the SSD, and by SCR.
Beside them is `study.toml`, which names them.
"""

import gzip
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

START_US = 1_710_968_764_000_000
RANKS, CHECKPOINTS = 16, 6
PREFIX, CACHE = "/lustre/user/checkpoints", "/ssd/user/checkpoints"


class TierSums(NamedTuple):
    """Microseconds of calls in a tier: the largest of a thread, and of all threads."""

    largest_us: int
    sum_us: int


class RunSums(NamedTuple):
    """What a run's traces add up to."""

    checkpoint_us: int
    prefix: TierSums | None = None
    cache: TierSums | None = None


def _alone(us: int) -> TierSums:
    return TierSums(us, us)


RUNS: Mapping[str, RunSums] = {
    "base": RunSums(103_057_664, _alone(72_638_980)),
    "base_ssd": RunSums(126_296_083, None, _alone(97_497_736)),
    "scr_ssd_a_pfs": RunSums(
        378_215_081, TierSums(34_150_455, 1_471_540_838), TierSums(327_636_878, 837_766_052)
    ),
    "scr_ssd_nf": RunSums(349_139_191, _alone(19_608_824), _alone(308_222_378)),
    "scr_bypass": RunSums(145_122_746, _alone(118_421_190), _alone(152_704)),
    "scr_ssd_nf_one": RunSums(153_369_808, None, _alone(121_076_746)),
    "scr_pfs_one": RunSums(
        167_234_010, TierSums(30_059_165, 1_060_072_770), TierSums(121_617_282, 472_086_514)
    ),
    "scr_pfs_one_large": RunSums(
        164_652_538, TierSums(30_810_418, 1_127_496_048), TierSums(116_153_655, 632_798_778)
    ),
}


def write_runs(directory: Path, generation: int) -> dict[str, Path]:
    """Write the traces of all runs, each a directory below `directory`."""
    for name, sums in RUNS.items():
        write_run(directory / name, sums, generation)
    return {name: directory / name for name in RUNS}


def study_file() -> str:
    """Return the text of a file for `scrtune study` that names all runs: directories beside it."""
    runs = "".join(f'[runs.{name}]\ntraces = ["{name}"]\n' for name in RUNS)
    return f'prefix = "{PREFIX}"\ncache = "{CACHE}"\n\n{runs}'


def write_run(directory: Path, sums: RunSums, generation: int, ranks: int = RANKS) -> None:
    """Write a file for each rank, in the form of `generation` (0 or 4)."""
    directory.mkdir(parents=True)
    shares = [
        (f"{path}/layer-{index}-1-600-0.pt", dict(enumerate(_shares(tier))))
        for index, (path, tier) in enumerate(((PREFIX, sums.prefix), (CACHE, sums.cache)))
        if tier is not None
    ]
    for rank in range(ranks):
        flush_us = START_US + sums.checkpoint_us // CHECKPOINTS
        events = [*_spans(sums.checkpoint_us - 1000 * rank), *_calls(rank, ranks, flush_us, shares)]
        lines = _oldest(rank, events) if generation == 0 else _newest(rank, events)
        path = directory / f"trace-{rank}-of-{ranks}.pfw.gz"
        path.write_bytes(gzip.compress("".join(lines).encode(), 1))


def _shares(tier: TierSums) -> list[int]:
    """Return the microseconds of each thread: the largest, and as many others as make the sum."""
    rest = tier.sum_us - tier.largest_us
    count = -(-rest // tier.largest_us)
    return [tier.largest_us, *(rest // count + (number < rest % count) for number in range(count))]


def _spans(total_us: int) -> Iterator[dict[str, Any]]:
    """Yield the spans of the checkpoints, each with one inside that must not count again."""
    at_us = START_US
    for number in range(CHECKPOINTS):
        # neither all alike nor of another sum
        duration_us = total_us // CHECKPOINTS + (number - (CHECKPOINTS - 1) // 2) * 1000
        if number == CHECKPOINTS - 1:
            duration_us = total_us - (at_us - START_US - number * 100_000_000)
        span = {
            "cat": "checkpoint",
            "ts": at_us,
            "dur": duration_us,
            "args": {"epoch": 1, "step": 100 * number},
        }
        yield {"name": "PyTorchCheckpointing.checkpoint", **span}
        yield {"name": "PyTorchCheckpointing.save_state", **span, "ts": at_us + 1, "dur": duration_us - 2}
        at_us += duration_us + 100_000_000


def _calls(
    rank: int, ranks: int, flush_us: int, shares: list[tuple[str, dict[int, int]]]
) -> Iterator[dict[str, Any]]:
    for path, by_thread in shares:
        for number, duration_us in by_thread.items():
            if number % ranks == rank:
                call = {"name": "write", "cat": "POSIX", "thread": number // ranks, "ts": START_US + 5}
                if number >= ranks and path.startswith(PREFIX):  # a flush, after the first checkpoint
                    call["ts"] = flush_us
                yield {**call, "dur": duration_us, "args": {"fname": path, "ret": 129_761_280}}


def _oldest(rank: int, events: list[dict[str, Any]]) -> Iterator[str]:
    yield "[\n"
    for number, event in enumerate(events):
        thread = event.pop("thread", 0)
        args = {"hostname": "corona171", "ret": 0} | event["args"]
        quoted = {"pid": str(rank), "tid": str(953_748 + rank + 1000 * thread), "ts": str(event["ts"])}
        line = {"id": str(number), "name": event["name"], "cat": event["cat"], **quoted}
        yield _line(line | {"dur": str(event["dur"]), "ph": "X", "args": args})


def _newest(rank: int, events: list[dict[str, Any]]) -> Iterator[str]:
    host, who = "6882804a826580cd", {"pid": 400 + rank}
    yield _line(
        {"name": "HH", "cat": "dftracer", **who, "tid": 1, "ph": 4, "args": _explained(host, "n1", host)}
    )
    for number, event in enumerate(events):
        thread = event.pop("thread", 0)
        args = {"hhash": host} | event["args"]
        if (path := args.pop("fname", None)) is not None:
            args["fhash"] = f"{hash(path) & (2**64 - 1):016x}"
            explained = _explained(host, path, args["fhash"])
            yield _line({"name": "FH", "cat": "dftracer", **who, "tid": 1, "ph": 4, "args": explained})
        tid = 400 + rank + 1000 * thread
        yield _line({"id": number, **event, **who, "tid": tid, "type": 3, "ph": 1, "args": args})


def _explained(host: str, name: str, value: str) -> dict[str, str]:
    return {"hhash": host, "name": name, "value": value}


def _line(fields: Mapping[str, object]) -> str:
    return json.dumps(fields, separators=(",", ":")) + "\n"


if __name__ == "__main__":
    to = Path(sys.argv[1] if len(sys.argv) > 1 else "traces")
    write_runs(to, 0)
    (to / "study.toml").write_text(study_file(), encoding="utf-8")
