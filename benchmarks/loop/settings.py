"""The workloads, the settings they start from, and the grid of joint settings that is measured."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from benchmarks.jobs.runner import POOR, Work
from scrtune.intents.observe.faults.redundancy import keeps_floor

CHECKPOINTS = 40
WORKLOADS = {
    "big-file": Work(CHECKPOINTS, compute_ms=400, busy=0.2, mib=64, is_synced=True),
    "many-files": Work(
        CHECKPOINTS, compute_ms=400, busy=0.2, mib=64, files=64, write_bytes=256 << 10, is_synced=True
    ),
    "write-heavy": Work(CHECKPOINTS, compute_ms=150, busy=0.2, mib=96, files=4, is_synced=True),
    "compute-heavy": Work(CHECKPOINTS, compute_ms=600, busy=1.0, mib=64, files=4, is_synced=True),
    "not-synced": Work(CHECKPOINTS, compute_ms=400, busy=0.2, mib=64),
}
"""One file a rank; many; a flush about as long as the interval; no idle core (with 2 ranks on 2); and an
application that leaves its files to the page cache (with libscr the bypass is then no slower than memory)."""
SCRS_OWN = {"test-api": Work(CHECKPOINTS, compute_ms=1000, busy=0, mib=64, is_synced=True, is_scrs_own=True)}
"""SCR's own test_api, which waits for a second after each checkpoint."""


@dataclass(frozen=True)
class Setting:
    """A joint setting: SCR's config file, and the scheme of what it caches ("" without a cache)."""

    name: str
    config: str
    scheme: str = ""


DEFAULTS = Setting("defaults", "")
POOR_START = Setting("poor", POOR, "XOR")


def cached(name: str, scheme: str = "SINGLE", /, **changes: str | int) -> Setting:
    """Return datasets in the cache, each flushed in the background; `changes` are without ``SCR_``."""
    values: dict[str, str | int] = {
        "CACHE_BYPASS": 0,
        "CACHE_SIZE": 2,
        "COPY_TYPE": scheme,
        "FLUSH": 1,
        "FLUSH_ASYNC": 1,
        "FLUSH_TYPE": "PTHREAD",
        "FILE_BUF_SIZE": "1MB",
        **changes,
    }
    names = (each if each.startswith("SCRTUNE_") else f"SCR_{each}" for each in values)
    text = "".join(f"{each}={value}\n" for each, value in zip(names, values.values(), strict=True))
    return Setting(name, text, scheme)


def grid(engine: str, floor: str) -> list[Setting]:
    """Return joint settings that keep `floor` and give up no checkpoint: SCR's defaults, then likely ones."""
    return [DEFAULTS, *(each for each in _grid(engine) if keeps_floor(each.scheme, floor))]


def _grid(engine: str) -> Iterator[Setting]:
    yield cached("SINGLE async")
    if engine == "embedded":  # a real SCR has no such parameter without scrtune
        yield Setting("past the cache, drop behind", "SCRTUNE_DROP_BEHIND=1\n")
        yield cached("SINGLE async, 1 thread", SCRTUNE_FLUSH_THREADS=1)
        yield cached("SINGLE async, 1 thread, drop behind", SCRTUNE_FLUSH_THREADS=1, SCRTUNE_DROP_BEHIND=1)
        yield cached("SINGLE async, nice 19", SCRTUNE_FLUSH_NICE=19)
        yield cached("SINGLE async, cache 3, 1 thread", CACHE_SIZE=3, SCRTUNE_FLUSH_THREADS=1)
    yield cached("PARTNER async", "PARTNER")
    yield cached("XOR async", "XOR")
    yield cached("SINGLE async, cache 3", CACHE_SIZE=3)
    yield cached("XOR async, cache 3", "XOR", CACHE_SIZE=3)
    yield cached("SINGLE async, buffer 64 KB", FILE_BUF_SIZE="64KB")
    yield cached("SINGLE async, buffer 32 MB", FILE_BUF_SIZE="32MB")
    for scheme in ("SINGLE", "PARTNER", "XOR"):
        yield cached(f"{scheme} sync", scheme, FLUSH_ASYNC=0, CACHE_SIZE=1)


def levers(engine: str) -> list[Setting]:
    """Return single departures from two joint settings: which levers matter on this machine, rails or not."""
    changes: list[dict[str, str | int]] = [{}]
    changes += [
        {"CACHE_SIZE": 1},
        {"CACHE_SIZE": 3},
        {"FLUSH_TYPE": "SYNC"},
        {"FLUSH_ASYNC": 0},
        {"FLUSH": 4},
    ]
    changes += [{"FILE_BUF_SIZE": size} for size in ("512", "4KB", "64KB", "8MB", "32MB")]
    if engine == "embedded":
        changes += [{"SCRTUNE_FLUSH_THREADS": 1}, {"SCRTUNE_FLUSH_THREADS": 8}, {"SCRTUNE_FLUSH_CPUS": "0"}]
        changes += [{"SCRTUNE_FLUSH_NICE": 19}]
    found = [DEFAULTS, POOR_START]
    found += [cached(f"SINGLE async {_text(each)}".strip(), **each) for each in changes]
    changes = [{}, {"FLUSH_ASYNC": 0}]
    changes += [{"MPI_BUF_SIZE": size} for size in ("4KB", "64KB", "8MB")]
    found += [cached(f"XOR async {_text(each)}".strip(), "XOR", **each) for each in changes]
    return [*found, cached("PARTNER async", "PARTNER"), cached("PARTNER sync", "PARTNER", FLUSH_ASYNC=0)]


def _text(changes: dict[str, str | int]) -> str:
    return " ".join(f"{name}={value}" for name, value in changes.items())


def quick(work: Work) -> Work:
    """Return a shorter form of a workload: less data, and few checkpoints after the 20th."""
    return replace(work, checkpoints=26, compute_ms=work.compute_ms / 2, mib=work.mib // 2)
