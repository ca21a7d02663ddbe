"""How fast `scrtune study` is, against other readers and what inflating alone would allow.

Run: python benchmarks/study.py [--events N] [--rounds N] [--json]
Needs isal and orjson; with duckdb and dftracer-utils installed (`pip install 'scrtune[bench]'`) these, too.

Each reader is a process of its own, in turns. Printed are the best rates of the rounds by the clock, and by
CPU time, which other work on the machine changes less, the largest memory, and how many times as fast the
whole command is by both, least and most, each in the same round. `study` is that command, from the start of
its process to its exit, and so is `dftracer_utils`; of the others the reading alone is timed:

table           replay/reading/scan.py on all cores; on one, as it says
orjson loop     sums by name, thread and file, as one would write them
duckdb          the same by read_ndjson and GROUP BY, on all cores
dftracer_utils  `dftracer_stats --report detailed` by name and thread: it builds an index first
inflate alone   isal inflates, and lines are counted

The traces:

new      lines of dftracer 2.2.0 (tests/data/traces), one file with a gzip member for every 100,000
new, 64  the same in 64 files
oldest   the form of the 2024 study: numbers quoted, host and path in each line, one member
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import NamedTuple

import click
from isal import igzip
from scan import MEMBER_LINES, trace

from scrtune.replay.reading.scan import read_table

TIERS = {"/scratch/study/data": "prefix", "/l/ssd/user/scr/checkpoints": "cache"}
TARGET_PER_S = 5_000_000
STUDY, DFTRACER_UTILS = "study", "dftracer_utils"
FILES = 64
TIMED = """
import os, sys, time
began_s = time.perf_counter()
_, status, used = os.wait4(os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ), 0)
print(time.perf_counter() - began_s, used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(status and 1)
"""
"""Small, because a process that it starts has its memory as the least."""


def write_new(directory: Path, events: int, files: int) -> None:
    """Write lines of today's DFTracer into that many files: one member, over and over again."""
    directory.mkdir()
    each = min(MEMBER_LINES, events // files)
    member = igzip.compress(trace(each, "calls"))
    for number in range(files):
        with (directory / f"{number}.pfw.gz").open("wb") as file:
            for _ in range(events // files // each):
                file.write(member)


def write_oldest(directory: Path, events: int) -> None:
    """Write what DLIO Profiler wrote of a rank that saves 44 layers a checkpoint."""
    directory.mkdir()
    lines = islice(oldest_lines(), events)
    with igzip.open(directory / "0.pfw.gz", "wt") as file:
        file.write("[\n")
        while some := list(islice(lines, MEMBER_LINES)):
            file.write("".join(some))


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


def read_with_duckdb(directory: Path) -> int:
    """Count the events by the sums of the loop, as SQL."""
    import duckdb  # noqa: PLC0415 - of this reader alone

    texts = dict.fromkeys(("name", "ph", "pid", "tid"), "VARCHAR")
    columns = texts | {"dur": "BIGINT", "args": "STRUCT(fhash VARCHAR, fname VARCHAR, ret BIGINT)"}
    sums = duckdb.connect(config={"threads": os.cpu_count()}).execute(
        "SELECT name, pid, tid, coalesce(args.fhash, args.fname), sum(dur), sum(args.ret), count(*)"
        " FROM read_ndjson(?, columns = ?, ignore_errors = true, compression = 'gzip')"
        " WHERE ph IN ('1', 'X') GROUP BY ALL",
        [f"{directory}/*.gz", columns],
    )
    return sum(row[-1] for row in sums.fetchall())


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
    "duckdb": read_with_duckdb,
    "inflate alone": inflate,
}


class Measured(NamedTuple):
    """Events a second by the clock and by CPU time, and megabytes."""

    rate: float
    cpu_rate: float
    size: float


def measure(directory: Path, reader: str, events: int) -> Measured:
    """Return what a process of its own takes."""
    if reader == STUDY:  # which has not read these traces before
        tiers = [f"--{tier}={path}" for path, tier in TIERS.items()]
        return timed(
            [sys.executable, "-m", "scrtune", "study", "--reread", f"run={directory}", *tiers], events
        )
    if reader == DFTRACER_UTILS:
        with tempfile.TemporaryDirectory() as index:
            by = ["--report", "detailed", "--group-by", "name", "pid_tid", "--json", "--log-level", "off"]
            return timed([dftracer_stats() or "", "-d", str(directory), "--index-dir", index, *by], events)
    command = [sys.executable, __file__, "--read", str(directory), "--reader", reader]
    shown = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return Measured(*map(float, shown.split()))


def timed(command: Sequence[str], events: int) -> Measured:
    """Return what a whole command takes."""
    shown = subprocess.run(
        [sys.executable, "-c", TIMED, *command], check=True, capture_output=True, text=True
    )
    took_s, cpu_s, peak_kb = map(float, shown.stdout.split()[-3:])
    return Measured(events / took_s, events / cpu_s, peak_kb / 1024)


def dftracer_stats() -> str | None:
    """Return the command of dftracer-utils."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return shutil.which("dftracer_stats", path=path)


def readers() -> Iterator[str]:
    """Yield those that are installed."""
    yield STUDY
    for name in READERS:
        if name != "duckdb" or find_spec(name):
            yield name
    if dftracer_stats():
        yield DFTRACER_UTILS


def report(directory: Path, reader: str) -> None:
    """Read once, and print the rates and the largest memory."""
    start, start_cpu = time.perf_counter(), time.process_time()
    events = READERS[reader](directory)
    rate = events / (time.perf_counter() - start)
    cpu_rate = events / (time.process_time() - start_cpu)
    # not getrusage: that has the memory of the process that this one began as
    (peak,) = re.findall(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    click.echo(f"{rate} {cpu_rate} {int(peak) / 1024}")


Rounds = Sequence[Mapping[str, Measured]]


@click.command()
@click.option("--events", default=10_000_000, show_default=True, help="Events of each trace.")
@click.option("--rounds", default=2, show_default=True, help="Rounds; the best is printed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option("--read", type=click.Path(path_type=Path), hidden=True)
@click.option("--reader", default="table", hidden=True)
def main(events: int, rounds: int, as_json: bool, read: Path | None, reader: str) -> None:
    """Read traces with every reader."""
    if read is not None:
        report(read, reader)
        return
    found: dict[str, Rounds] = {}
    with tempfile.TemporaryDirectory() as temporary:
        place = Path(temporary)
        write_new(place / "new", events, 1)
        write_new(place / f"new, {FILES}", events, FILES)
        write_oldest(place / "oldest", events)
        for directory in sorted(place.iterdir()):
            found[directory.name] = [
                {name: said(directory, name, events) for name in readers()} for _ in range(rounds)
            ]
    if as_json:
        click.echo(json.dumps(found))
        return
    click.echo(f"{events:,} events, {os.cpu_count()} cores, best of {rounds} rounds")
    click.echo(f"target: {TARGET_PER_S / 1e6} M events/s by study, below 300 MB")
    for name, measured in found.items():
        for line in lines_of(name, measured):
            click.echo(line)


def said(directory: Path, reader: str, events: int) -> Measured:
    """Measure, and say on standard error what was: all of it takes a while."""
    found = measure(directory, reader, events)
    click.echo(
        f"{directory.name}, {reader}: {found.rate / 1e6:.2f} M/s, {found.cpu_rate / 1e6:.2f}", err=True
    )
    return found


def lines_of(name: str, measured: Rounds) -> Iterator[str]:
    """Yield what is printed of one trace: a line for each reader."""
    for reader in measured[0]:
        rate, cpu_rate, size = map(max, zip(*(each[reader] for each in measured), strict=True))
        compared = (
            f"study: {spread(measured, reader, 0)} times as fast, by CPU time {spread(measured, reader, 1)}"
        )
        rates = f"{rate / 1e6:6.2f} M/s, {cpu_rate / 1e6:6.2f} M/s of a core, {size:5.0f} MB"
        yield f"{name:8} {reader:16} {rates}  {compared if reader != STUDY else ''}".rstrip()


def spread(measured: Rounds, reader: str, index: int) -> str:
    """Return how many times as fast the command is as `reader`, by the clock (0) or CPU time (1)."""
    ratios = [each[STUDY][index] / each[reader][index] for each in measured]
    return f"{min(ratios):.2f} to {max(ratios):.2f}"


if __name__ == "__main__":
    main()
