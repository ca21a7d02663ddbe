"""Traces of fourteen runs as DLIO writes them, with the numbers of a published study, in few long calls.

    python -m scrtune.examples.study_traces traces
    scrtune study traces/study.toml

Runs of Megatron-DeepSpeed on two nodes with 16 ranks: straight to Lustre, straight to the SSD, and by SCR.
The first rank of a node writes 44 files for layers, and every rank one for its optimizer. What the study does
not say, as the seconds of the other ranks, is 0. Beside the traces is `study.toml`, which names them.
"""

import gzip
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

START_US = 1_710_968_764_000_000
NODES, RANKS, CHECKPOINTS = 2, 16, 6
PREFIX, CACHE = "/lustre/user/checkpoints", "/ssd/user/checkpoints"
INTERVAL_US = 100_000_000
LAYERS, LAYER_BYTES, OPTIMIZER_BYTES = 44, 150_733_735, 5_625_371_495
_SCR_FILE = ".scr/scr.dataset.1/rank2file"
_XOR_FILE = ".scr/scr.dataset.{}/reddesc.er.{}.xor.grp_1_of_8.mem_1_of_2.redset"
_AXL_THREADS = 16
_MIB = 1024**2
_MAX_MIB = 1792


class TierSums(NamedTuple):
    """Microseconds of calls in a tier: the largest of a thread, and of all threads; 0: only the largest."""

    largest_us: int
    sum_us: int = 0


class RunSums(NamedTuple):
    """What a run's traces add up to, and the settings that it had: none without SCR."""

    checkpoint_us: int
    prefix: TierSums | None = None
    cache: TierSums | None = None
    settings: Mapping[str, str | int] = {}

    @property
    def threads(self) -> int:
        """Threads that copy a rank's files to the prefix directory; 0 without a flush."""
        return int(self.settings.get("SCRTUNE_FLUSH_THREADS", 0))


def _scr(
    scheme: str = "SINGLE", threads: int = 0, mib: int = 32, *, idle_cpus: bool = False
) -> dict[str, str | int]:
    """Return settings through the cache: flushed by `threads`, if any."""
    settings: dict[str, str | int] = {
        "SCR_CACHE_BYPASS": 0,
        "SCR_COPY_TYPE": scheme,
        "SCR_FLUSH": min(1, threads),
    }
    if threads:
        settings |= {"SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD", "SCR_FILE_BUF_SIZE": mib * _MIB}
        settings |= {"SCRTUNE_FLUSH_THREADS": threads, "SCRTUNE_FLUSH_CPUS": "8-47" if idle_cpus else ""}
    return settings


RUNS: Mapping[str, RunSums] = {
    "base": RunSums(103_057_664, TierSums(72_638_980)),
    "base_ssd": RunSums(126_296_083, None, TierSums(97_497_736)),
    "scr_ssd_a_pfs": RunSums(
        378_215_081,
        TierSums(34_150_455, 1_471_540_838),
        TierSums(327_636_878, 837_766_052),
        _scr("XOR", _AXL_THREADS),
    ),
    "scr_ssd_nf": RunSums(349_139_191, TierSums(19_608_824), TierSums(308_222_378), _scr("XOR")),
    "scr_bypass": RunSums(145_122_746, TierSums(118_421_190), TierSums(152_704), {"SCR_CACHE_BYPASS": 1}),
    "scr_ssd_nf_one": RunSums(153_369_808, None, TierSums(121_076_746), _scr()),
    "scr_pfs_one": RunSums(
        167_234_010,
        TierSums(30_059_165, 1_060_072_770),
        TierSums(121_617_282, 472_086_514),
        _scr("SINGLE", _AXL_THREADS),
    ),
    "scr_pfs_one_large": RunSums(
        164_652_538,
        TierSums(30_810_418, 1_127_496_048),
        TierSums(116_153_655, 632_798_778),
        _scr("SINGLE", _AXL_THREADS, 128),
    ),
    "scr_1_thread": RunSums(159_972_029, TierSums(41_068_813), TierSums(116_591_521), _scr("SINGLE", 1, 128)),
    "scr_2_threads": RunSums(
        159_779_753, TierSums(34_782_902), TierSums(120_074_487), _scr("SINGLE", 2, 128)
    ),
    "scr_1_max": RunSums(
        156_936_010, TierSums(41_359_542), TierSums(121_022_714), _scr("SINGLE", 1, _MAX_MIB)
    ),
    "scr_1_unbound": RunSums(
        148_042_881,
        TierSums(22_997_724),
        TierSums(113_803_828),
        _scr("SINGLE", 1, _MAX_MIB, idle_cpus=True),
    ),
    "scr_2_unbound": RunSums(
        150_306_512,
        TierSums(16_773_334),
        TierSums(120_014_858),
        _scr("SINGLE", 2, _MAX_MIB, idle_cpus=True),
    ),
    "scr_16_unbound": RunSums(
        145_843_344,
        TierSums(14_289_911),
        TierSums(113_770_895),
        _scr("SINGLE", _AXL_THREADS, _MAX_MIB, idle_cpus=True),
    ),
}


def write_runs(directory: Path, generation: int) -> dict[str, Path]:
    """Write the traces of all runs, each a directory below `directory`."""
    for name, sums in RUNS.items():
        write_run(directory / name, sums, generation)
    return {name: directory / name for name in RUNS}


def study_file() -> str:
    """Return the text of a file for `scrtune study` that names all runs: directories beside it."""
    return f'prefix = "{PREFIX}"\ncache = "{CACHE}"\n' + "".join(
        f"\n[runs.{name}]\ntraces = {json.dumps([name])}\nsettings = {_inline(sums.settings)}\n"
        for name, sums in RUNS.items()
    )


def _inline(settings: Mapping[str, str | int]) -> str:
    """Return the settings, and what a trace does not say of the nodes, as a TOML table in one line."""
    values = {**settings, "cores": 48, "cores_per_rank": 1}
    return f"{{ {', '.join(f'{name} = {json.dumps(value)}' for name, value in values.items())} }}"


def write_run(directory: Path, sums: RunSums, generation: int, ranks: int = RANKS) -> None:
    """Write a file for each rank, in the form of `generation` (0 or 4)."""
    directory.mkdir(parents=True)
    calls = list(_calls(sums, ranks))
    for rank in range(ranks):
        mine = [call for at, call in calls if at == rank]
        events = [*_spans(sums.checkpoint_us - 1000 * rank), *mine]
        node = rank // max(1, ranks // NODES)
        lines = _oldest(rank, node, events) if generation == 0 else _newest(rank, node, events)
        path = directory / f"trace-{rank}-of-{ranks}.pfw.gz"
        path.write_bytes(gzip.compress("".join(lines).encode(), 1))


def _starts(total_us: int) -> list[tuple[int, int]]:
    """Return start and microseconds of each checkpoint: neither all alike nor of another sum."""
    starts = []
    at_us, left_us = START_US, total_us
    for number in range(CHECKPOINTS):
        is_last = number == CHECKPOINTS - 1
        took_us = left_us if is_last else total_us // CHECKPOINTS + (number - (CHECKPOINTS - 1) // 2) * 1000
        starts.append((at_us, took_us))
        at_us, left_us = at_us + took_us + INTERVAL_US, left_us - took_us
    return starts


def _spans(total_us: int) -> Iterator[dict[str, Any]]:
    """Yield the spans of the checkpoints, each with one inside that must not count again."""
    for number, (at_us, took_us) in enumerate(_starts(total_us)):
        span = {"cat": "checkpoint", "ts": at_us, "dur": took_us, "args": {"epoch": 1, "step": 100 * number}}
        yield {"name": "PyTorchCheckpointing.checkpoint", **span}
        yield {"name": "PyTorchCheckpointing.save_state", **span, "ts": at_us + 1, "dur": took_us - 2}


def _calls(sums: RunSums, ranks: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the calls on files, each with its rank."""
    is_cached = sums.cache is not None and sums.settings.get("SCR_CACHE_BYPASS", 0) == 0
    written, other = (CACHE, PREFIX) if is_cached else (PREFIX, CACHE)
    largest = sums.cache if is_cached else sums.prefix
    for rank in range(ranks):
        yield from _saved(written, sums, largest.largest_us if largest and not rank else 0, rank, ranks)
    if sums.threads:
        yield from _flushed(sums, ranks)
    rest = sums.prefix if is_cached else sums.cache
    if sums.settings:
        own_us = rest.largest_us if rest and not sums.threads else 0
        yield 0, _call("write", START_US + 5, own_us, f"{other}/{_SCR_FILE}", 111)


def _files(rank: int, ranks: int, number: int) -> list[tuple[str, int]]:
    """Return name and size of each file that `rank` writes in a checkpoint, the largest first."""
    layers = LAYERS if rank % max(1, ranks // NODES) == 0 else 0
    step = 100 * (number + 1)
    optimizer = f"optimizer-1-{step}-{rank}.pt", OPTIMIZER_BYTES
    return [optimizer, *((f"layer-{layer}-1-{step}-{rank}.pt", LAYER_BYTES) for layer in range(layers))]


def _saved(
    path: str, sums: RunSums, total_us: int, rank: int, ranks: int
) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the writes of a rank's own thread, of `total_us` in all."""
    starts = _starts(sums.checkpoint_us)
    shares_us = _split(total_us, [1] * CHECKPOINTS)
    for number, ((at_us, _), share_us) in enumerate(zip(starts, shares_us, strict=True)):
        files = _files(rank, ranks, number)
        if sums.settings.get("SCR_COPY_TYPE") == "XOR":  # of two nodes: as much again
            files.append((_XOR_FILE.format(number + 1, rank), sum(size for _, size in files)))
        now_us = at_us + 5
        for (name, size), took_us in zip(files, _split(share_us, [size for _, size in files]), strict=True):
            yield rank, _call("write", now_us, took_us, f"{path}/{name}", size)
            now_us += took_us


def _flushed(sums: RunSums, ranks: int) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the copies of all ranks' files: the first rank's slowest thread takes as long as is known."""
    prefix, cache = sums.prefix or TierSums(0), sums.cache or TierSums(0)
    threads = [
        (number, rank, thread, files)
        for number in range(CHECKPOINTS)
        for rank in range(ranks)
        for thread, files in enumerate(_by_thread(_files(rank, ranks, number), sums.threads))
    ]
    sizes = [sum(size for _, size in files) for *_, files in threads]
    first = [size for size, (_, rank, *_) in zip(sizes, threads, strict=True) if rank == 0]
    slowest = max(first)
    known_us = [
        prefix.largest_us * size // slowest if rank == 0 else 0
        for size, (_, rank, *_) in zip(sizes, threads, strict=True)
    ]
    others = [size if rank else 0 for size, (_, rank, *_) in zip(sizes, threads, strict=True)]
    rest_us = _split(max(0, prefix.sum_us - sum(known_us)), others)
    reads_us = _split(max(0, cache.sum_us - cache.largest_us), others)
    starts = _starts(sums.checkpoint_us)
    for (number, rank, thread, files), known, rest, read_us in zip(
        threads, known_us, rest_us, reads_us, strict=True
    ):
        at_us = sum(starts[number])
        tid = 1 + number * _AXL_THREADS + thread
        weights = [size for _, size in files]
        for (name, size), took_us in zip(files, _split(known + rest, weights), strict=True):
            yield rank, {**_call("write", at_us, took_us, f"{PREFIX}/{name}", size), "thread": tid}
            at_us += took_us
        if read_us:
            name, size = files[0]
            yield (
                rank,
                {**_call("read", sum(starts[number]), read_us, f"{CACHE}/{name}", size), "thread": tid},
            )


def _by_thread(files: Sequence[tuple[str, int]], threads: int) -> list[list[tuple[str, int]]]:
    """Return the files of each thread: the largest is one thread's alone, if there are several."""
    if threads == 1 or len(files) == 1:
        return [list(files)]
    rest = [files[1 + start :: threads - 1] for start in range(threads - 1)]
    return [[files[0]], *(list(each) for each in rest if each)]


def _split(total: int, weights: Sequence[int]) -> list[int]:
    """Return whole shares of `total` by weight, without any rest."""
    whole = sum(weights) or 1
    ends = [total * each // whole for each in accumulate(weights, initial=0)]
    return [after - before for before, after in pairwise(ends)]


def _call(name: str, at_us: int, took_us: int, path: str, size: int) -> dict[str, Any]:
    return {"name": name, "cat": "POSIX", "ts": at_us, "dur": took_us, "args": {"fname": path, "ret": size}}


def _oldest(rank: int, node: int, events: list[dict[str, Any]]) -> Iterator[str]:
    yield "[\n"
    for number, event in enumerate(events):
        thread = event.pop("thread", 0)
        args = {"hostname": f"corona17{node + 1}", "ret": 0} | event["args"]
        quoted = {"pid": str(rank), "tid": str(953_748 + rank + 1000 * thread), "ts": str(event["ts"])}
        line = {"id": str(number), "name": event["name"], "cat": event["cat"], **quoted}
        yield _line(line | {"dur": str(event["dur"]), "ph": "X", "args": args})


def _newest(rank: int, node: int, events: list[dict[str, Any]]) -> Iterator[str]:
    host, who = f"6882804a826580c{node:x}", {"pid": 400 + rank}
    yield _line(
        {
            "name": "HH",
            "cat": "dftracer",
            **who,
            "tid": 1,
            "ph": 4,
            "args": _explained(host, f"n{node + 1}", host),
        }
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
