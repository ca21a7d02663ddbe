"""How many DFTracer events a second one core digests, with the scanner of libscrtune.so and without.

Run: python benchmarks/scan.py [--lines N] [--rounds N] [--json]

The lines are those of real traces of dftracer 2.2.0 (tests/data/traces), repeated: each repetition is a later
checkpoint into files of its own. "accesses" are POSIX calls and the lines that explain their files, as a preloaded
program writes them; "with spans" are all the lines of a small Python application, a tenth of them spans.
"""

import gzip
import json
import re
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median

import click

from scrtune.client.capture.scanner import new_scanner
from scrtune.intents.trace.decoder import TraceDecoder
from scrtune.replay.run import JobShape, read_digests
from scrtune.replay.traces import Summary

SAMPLES = Path(__file__).parents[1] / "tests" / "data" / "traces" / "gen4-python-fork-plain"
PREFIX = "/scratch/study/data"
TARGET_PER_S = 2_900_000
BATCH_BYTES = 1 << 20
STEP_US = 10_000_000
MEMBER_LINES = 100_000

_TIME = re.compile(r'"ts":(\d+)')
_HASH = re.compile(r'(?<=hash":"|alue":")([0-9a-f]{16})')
_STEP = re.compile("step[0-9]+_")


def later(lines: list[str], step: int) -> str:
    """The lines of one checkpoint as they would be `step` checkpoints later, in files of their own."""
    text = _STEP.sub(f"step{step}_", "".join(lines))
    text = _TIME.sub(lambda found: f'"ts":{int(found[1]) + step * STEP_US}', text)
    return _HASH.sub(lambda found: other_hash(found[1], step), text)


def other_hash(value: str, step: int) -> str:
    """The hash of another step's file; hosts keep theirs."""
    return value if value == "6882804a826580cd" else f"{int(value, 16) ^ step << 8:016x}"


def trace(lines: int, *, spans: bool) -> bytes:
    """Return about that many lines."""
    sample = [line for path in sorted(SAMPLES.iterdir()) for line in path.read_text().splitlines(keepends=True)]
    whole = [line for line in sample if line.endswith("}}\n") and line.startswith("{")]
    head = [line for line in whole if re.match('{"name":"(HH|CM|SH|PR|thread_name)"', line)]
    body = [line for line in whole if line not in head]
    if not spans:
        body = [line for line in body if '"POSIX"' in line or '"FH"' in line]
    repeated = [later(body, step) for step in range(lines // len(body))]
    return "".join((*head, *repeated)).encode()


def digest(data: bytes, decoder: TraceDecoder) -> None:
    """Bytes to digests, taken once a megabyte."""
    start = 0
    while start < len(data):
        end = data.find(b"\n", start + BATCH_BYTES) + 1 or len(data)
        decoder.feed(data[start:end])
        decoder.take()
        start = end
    decoder.take(final=True)


def replay(path: Path) -> None:
    """A compressed file to digests, as `scrtune replay` does it."""
    read_digests([path], JobShape(prefix=PREFIX), Summary())


def compress(data: bytes, path: Path) -> None:
    """As dftracer 2.2.0 does: members of whole lines, one after the other."""
    lines = data.splitlines(keepends=True)
    with path.open("wb") as file:
        for start in range(0, len(lines), MEMBER_LINES):
            file.write(gzip.compress(b"".join(lines[start : start + MEMBER_LINES]), 6))


def rate(lines: int, work: Callable[[], None], rounds: int) -> float:
    """Lines a second of CPU time: the median of some rounds."""
    seconds = []
    for _ in range(rounds):
        start = time.process_time()
        work()
        seconds.append(time.process_time() - start)
    return lines / median(seconds)


def measure(lines: int, rounds: int) -> dict[str, float]:
    """All rates, in lines a second of one core."""
    found: dict[str, float] = {}
    for name, spans in (("accesses", False), ("with spans", True)):
        data = trace(lines, spans=spans)
        part = data[: data.find(b"\n", len(data) // 10) + 1]
        count, part_count = data.count(b"\n"), part.count(b"\n")
        tiers = {PREFIX: "prefix"}
        found[f"{name}: decoder"] = rate(part_count, lambda p=part: digest(p, TraceDecoder(tiers)), rounds)
        found[f"{name}: scanner"] = rate(count, lambda d=data: digest(d, TraceDecoder(tiers, new_scanner())), rounds)
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / "trace.pfw.gz"
            compress(data, path)
            found[f"{name}: replay of .pfw.gz"] = rate(count, lambda p=path: replay(p), rounds)
    return found


@click.command()
@click.option("--lines", default=1_000_000, show_default=True, help="Lines of trace in each round.")
@click.option("--rounds", default=5, show_default=True, help="Rounds; medians are printed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(lines: int, rounds: int, as_json: bool) -> None:
    """Digest DFTracer lines on one core, with the scanner and without."""
    if new_scanner() is None:
        raise click.ClickException("libscrtune.so was not built: there is no scanner to measure")
    found = measure(lines, rounds)
    if as_json:
        click.echo(json.dumps({name: round(value) for name, value in found.items()}))
        return
    click.echo(f"{lines:,} lines, M events a second of CPU, median of {rounds} rounds (target {TARGET_PER_S / 1e6})")
    for name, value in found.items():
        decoder = found[f"{name.split(':')[0]}: decoder"]
        click.echo(f"{name:32} {value / 1e6:8.2f} {value / decoder:8.1f} times")


if __name__ == "__main__":
    main()
