"""How fast `scrtune study` is, against an orjson loop and what inflating alone would allow.

Run: python benchmarks/study.py [--events N] [--rounds N] [--json]     (needs orjson and isal)

Each reader is a process of its own, in turns. Printed are the best rate of the rounds by the clock, and by
CPU time, which other work on the machine changes less, and the largest memory. `study` is the whole command,
from the start of its process to its exit; of the others the reading alone is timed: `table` is replay/scan.py
on all cores, `table, 1 thread` on one; `inflate alone` reads the lines and counts them. The traces:

new      lines of dftracer 2.2.0 (tests/data/traces), one file with a gzip member for every 100,000
new, 16  the same in 16 files
oldest   the form of the 2024 study: numbers quoted, host and path in each line, one member
"""

import gzip
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import click
from isal import igzip
from scan import compress, trace

from scrtune.replay.scan import read_table

TIERS = {"/scratch/study/data": "prefix", "/l/ssd/user/scr/checkpoints": "cache"}
TARGET_PER_S = 5_000_000
STUDY = "study"
TIMED = """
import os, sys, time
began_s = time.perf_counter()
_, status, used = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)
print(time.perf_counter() - began_s, used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(status and 1)
"""
"""Small, because a process that it starts has its memory as the least."""


def write_new(directory: Path, events: int, files: int) -> None:
    """Write lines of today's DFTracer into that many files."""
    directory.mkdir()
    data = trace(events // files, "calls")
    for number in range(files):
        compress(data, directory / f"{number}.pfw.gz")


def write_oldest(directory: Path, events: int) -> None:
    """Write what DLIO Profiler wrote of a rank that saves 44 layers a checkpoint."""
    directory.mkdir()
    lines = islice(oldest_lines(), events)
    (directory / "0.pfw.gz").write_bytes(gzip.compress(("[\n" + "".join(lines)).encode(), 6))


def oldest_lines() -> Iterator[str]:
    """Yield lines without end."""
    time_us, number = 1_710_968_764_000_000, 0
    writes = [("write", 240 + each, 64 << each) for each in range(4)]
    calls = (("open64", 35, -1), ("lseek64", 1, -1), *writes)
    while True:
        file = f"/l/ssd/user/scr/checkpoints/job/layer-{number // 6 % 44}-1-{number // 60_000 * 100}-0.pt"
        for name, duration_us, size in calls:
            args = f'"hostname":"corona171","ret":{max(0, size)},"fname":"{file}","fd":39'
            when = f'"ts":"{time_us}","dur":"{duration_us}","ph":"X"'
            yield (
                f'{{"id":"{number}","name":"{name}","cat":"POSIX","pid":"0","tid":"953748",{when},"args":{{{args}}}}}\n'
            )
            time_us += duration_us + 7
            number += 1


def read_with_table(directory: Path, threads: int = 0) -> int:
    """Count the events by the tables of a study."""
    return read_table([directory], TIERS, threads=threads).reading.events


def read_with_orjson(directory: Path) -> int:
    """Count the events by a loop that sums up seconds by name and thread, as one would write it."""
    import orjson  # noqa: PLC0415 - of this reader alone

    sums: dict[tuple[object, ...], int] = {}
    events = 0
    for path in directory.iterdir():
        with igzip.open(path) as file:
            for line in file:
                if line.startswith(b"{"):
                    record = orjson.loads(line)
                    if record["ph"] in (1, "X"):
                        key = record["name"], record["pid"], record["tid"], record["args"].get("fhash")
                        sums[key] = sums.get(key, 0) + int(record["dur"])
                        events += 1
    return events


def inflate(directory: Path) -> int:
    """Return the number of lines."""
    lines = 0
    for path in directory.iterdir():
        with igzip.open(path) as file:
            while piece := file.read(1 << 20):
                lines += piece.count(b"\n")
    return lines


READERS: dict[str, Callable[[Path], int]] = {
    "table": read_with_table,
    "table, 1 thread": lambda directory: read_with_table(directory, 1),
    "orjson loop": read_with_orjson,
    "inflate alone": inflate,
}


class Measured(NamedTuple):
    """Events a second by the clock and by CPU time, and megabytes."""

    rate: float
    cpu_rate: float
    size: float


def study(directory: Path, events: int) -> Measured:
    """Return what the whole command takes, which has not read these traces before."""
    tiers = [f"--{tier}={path}" for path, tier in TIERS.items()]
    command = [sys.executable, "-m", "scrtune", "study", "--reread", f"run={directory}", *tiers]
    shown = subprocess.run(
        [sys.executable, "-c", TIMED, *command], check=True, capture_output=True, text=True
    )
    took_s, cpu_s, peak_kb = map(float, shown.stdout.split()[-3:])
    return Measured(events / took_s, events / cpu_s, peak_kb / 1024)


def measure(directory: Path, reader: str, events: int) -> Measured:
    """Return what a process of its own measures."""
    if reader == STUDY:
        return study(directory, events)
    command = [sys.executable, __file__, "--read", str(directory), "--reader", reader]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Measured(*map(float, shown.split()))


def report(directory: Path, reader: str) -> None:
    """Read once, and print the rates and the largest memory."""
    start, start_cpu = time.perf_counter(), time.process_time()
    events = READERS[reader](directory)
    rate = events / (time.perf_counter() - start)
    cpu_rate = events / (time.process_time() - start_cpu)
    # not getrusage: that has the memory of the process that this one began as
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    click.echo(f"{rate} {cpu_rate} {int(peak) / 1024}")


@click.command()
@click.option("--events", default=4_000_000, show_default=True, help="Events of each trace.")
@click.option("--rounds", default=3, show_default=True, help="Rounds; the best is printed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--read", type=click.Path(path_type=Path), hidden=True)
@click.option("--reader", default="table", hidden=True)
def main(events: int, rounds: int, as_json: bool, read: Path | None, reader: str) -> None:
    """Read traces with every reader."""
    if read is not None:
        report(read, reader)
        return
    found: dict[str, dict[str, Measured]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        write_new(place / "new", events, 1)
        write_new(place / "new, 16", events, 16)
        write_oldest(place / "oldest", events)
        for directory in sorted(place.iterdir()):
            seen = [
                {name: measure(directory, name, events) for name in (STUDY, *READERS)} for _ in range(rounds)
            ]
            found[directory.name] = {
                name: Measured(*map(max, zip(*(each[name] for each in seen), strict=True)))
                for name in (STUDY, *READERS)
            }
    if as_json:
        click.echo(json.dumps(found))
        return
    click.echo(f"{events:,} events, {os.cpu_count()} cores, best of {rounds} rounds")
    click.echo(f"target: {TARGET_PER_S / 1e6} M events/s by study, below 300 MB")
    for name, readers in found.items():
        for reader_name, each in readers.items():
            ratio = each.rate / readers["orjson loop"].rate
            rates = f"{each.rate / 1e6:6.2f} M/s, {each.cpu_rate / 1e6:6.2f} M/s of a core"
            click.echo(f"{name:8} {reader_name:16} {rates} {ratio:6.1f} x orjson {each.size:5.0f} MB")


if __name__ == "__main__":
    main()
