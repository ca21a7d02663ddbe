"""How many DFTracer events a second one core digests, with the scanner of libscrtune.so and without.

Run: python benchmarks/scan.py [--lines N] [--rounds N] [--json]

The lines are those of a real trace of dftracer 2.2.0 (tests/data/traces), repeated, in three mixes:

calls         POSIX calls alone, on few files: what a job with small buffers writes
new files     the same, and each repetition is a later checkpoint into new files: each tenth line explains one
application   all lines of a small Python application that also logs spans: each tenth line is for the decoder
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
from scrtune.replay.reading.traces import Summary
from scrtune.replay.run import JobShape, read_digests

SAMPLES = Path(__file__).parents[1] / "tests" / "data" / "traces" / "gen4-python-fork-plain"
PREFIX = "/scratch/study/data"
TIERS = {PREFIX: "prefix"}
MIXES = ("calls", "new files", "application")
TARGET_PER_S = 2_900_000
BATCH_BYTES = 1 << 20
STEP_US = 10_000_000
MEMBER_LINES = 100_000

_HEAD = re.compile('{"name":"(HH|CM|SH|PR|thread_name)"')
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


def trace(lines: int, mix: str) -> bytes:
    """Return about that many lines."""
    texts = [path.read_text().splitlines(keepends=True) for path in sorted(SAMPLES.iterdir())]
    whole = [line for text in texts for line in text if line.startswith("{") and line.endswith("}}\n")]
    head = [line for line in whole if _HEAD.match(line)]
    wanted = {"calls": '"POSIX"', "new files": '"(POSIX|dftracer)"', "application": ""}[mix]
    if mix == "calls":
        head += [line for line in whole if line.startswith('{"name":"FH"')]
    body = [line for line in whole if line not in head and re.search(wanted, line)]
    repeated = (later(body, 0 if mix == "calls" else step) for step in range(lines // len(body)))
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


def measure_mix(mix: str, lines: int, rounds: int) -> dict[str, float]:
    """Lines a second of one core, by reader."""
    data = trace(lines, mix)
    count = data.count(b"\n")
    part = data[: data.find(b"\n", len(data) // 10) + 1]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "trace.pfw.gz"
        compress(data, path)
        return {
            "decoder": rate(part.count(b"\n"), lambda: digest(part, TraceDecoder(TIERS)), rounds),
            "scanner": rate(count, lambda: digest(data, TraceDecoder(TIERS, new_scanner())), rounds),
            "replay of .pfw.gz": rate(count, lambda: replay(path), rounds),
        }


@click.command()
@click.option("--lines", default=1_000_000, show_default=True, help="Lines of trace in each round.")
@click.option("--rounds", default=5, show_default=True, help="Rounds; medians are printed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(lines: int, rounds: int, as_json: bool) -> None:
    """Digest DFTracer lines on one core, with the scanner and without."""
    if new_scanner() is None:
        raise click.ClickException("libscrtune.so was not built: there is no scanner to measure")
    found = {mix: measure_mix(mix, lines, rounds) for mix in MIXES}
    if as_json:
        click.echo(json.dumps(found))
        return
    click.echo(f"{lines:,} lines, M events/s of a core's CPU time, median of {rounds} rounds")
    click.echo(f"target: the scanner reads {TARGET_PER_S / 1e6} of the calls")
    for mix, rates in found.items():
        for reader, value in rates.items():
            click.echo(f"{mix:12} {reader:18} {value / 1e6:6.2f} {value / rates['decoder']:6.1f} times")


if __name__ == "__main__":
    main()
