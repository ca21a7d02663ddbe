"""How many DFTracer events a second one core decodes and sums up, beside a plain `json.loads` of each line.

Run: python benchmarks/daemon/ingest.py [--lines N] [--rounds N] [--json]
"""

import json
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import click

from scrtune.intents.trace.decoder import TraceDecoder

TARGET_PER_S = 200_000
BATCH_LINES = 256  # what the forwarder sends in one message
PROCESSES = 8
SIZES = (320, 320, 320, 30_000, 300_000, 2_000_000)
CALLS = ("open64", *["write"] * 15, "fsync", "rename", "close")


def trace(lines: int) -> list[bytes]:
    """`lines` lines of generation 4, as dftracer 2.2.0 writes them for a checkpointing job, in batches."""
    out: list[str] = []
    time_us = 1_795_252_232_000_000
    while len(out) < lines:
        pid, file = 15_000 + len(out) % PROCESSES, len(out) // len(CALLS)
        head = f'"pid":{pid},"tid":{pid}'
        host = '"hhash":"6882804a826580cd"'
        if file % 3 == 0:
            out.append(
                f'{{"name":"FH","cat":"dftracer","type":1,{head},"ph":4,"args":{{{host},'
                f'"name":"/prefix/ckpt/rank_{file}.pt","value":"{file:016x}"}}}}'
            )
        for call in CALLS:
            size = SIZES[len(out) % len(SIZES)]
            time_us += 40
            args = f',"ret":{size},"count":{size}' if call == "write" else ""
            out.append(
                f'{{"id":{len(out)},"name":"{call}","cat":"POSIX","type":3,{head},"ts":{time_us},"dur":17,'
                f'"ph":1,"args":{{{host}{args},"fhash":"{file - file % 3:016x}"}}}}'
            )
    encoded = [line.encode() + b"\n" for line in out[:lines]]
    return [b"".join(encoded[start : start + BATCH_LINES]) for start in range(0, lines, BATCH_LINES)]


def digest(batches: list[bytes]) -> None:
    """What the daemon does: decode and sum up, taking a digest now and then."""
    decoder = TraceDecoder({"/prefix": "prefix"})
    for number, batch in enumerate(batches):
        decoder.feed(batch)
        if number % 100 == 0:
            decoder.take()
    decoder.take(final=True)


def plain_json(batches: list[bytes]) -> None:
    """The least that any Python reader does: `json.loads` of every line, and nothing with the result."""
    for batch in batches:
        for line in batch.splitlines():
            json.loads(line)


def cpu_seconds(work: Callable[[list[bytes]], None], batches: list[bytes]) -> float:
    """CPU seconds of this process, so that what else runs on the machine matters little."""
    start = time.process_time()
    work(batches)
    return time.process_time() - start


def measure(lines: int, rounds: int) -> dict[str, Any]:
    """Both, in turns, `rounds` times."""
    batches = trace(lines)
    pairs = [(cpu_seconds(digest, batches), cpu_seconds(plain_json, batches)) for _ in range(rounds)]
    return {
        "lines": lines,
        "bytes_per_line": round(sum(map(len, batches)) / lines),
        "digest_per_s": round(lines / median(ours for ours, _ in pairs)),
        "plain_json_per_s": round(lines / median(plain for _, plain in pairs)),
        "ratio": round(median(plain / ours for ours, plain in pairs), 2),
        "target_per_s": TARGET_PER_S,
    }


@click.command()
@click.option("--lines", default=200_000, show_default=True, help="Lines of trace in each round.")
@click.option("--rounds", default=5, show_default=True, help="Paired rounds; medians are printed.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def main(lines: int, rounds: int, as_json: bool) -> None:
    """Decode and sum up DFTracer lines on one core, beside a plain json.loads loop in the same run."""
    result = measure(lines, rounds)
    if as_json:
        click.echo(json.dumps(result))
        return
    click.echo(
        f"{result['lines']} lines of {result['bytes_per_line']} bytes, CPU time, median of {rounds} rounds"
    )
    click.echo(f"decode and digest   {result['digest_per_s']:>10,} events/s   (target {TARGET_PER_S:,})")
    click.echo(f"plain json.loads    {result['plain_json_per_s']:>10,} lines/s")
    click.echo(f"ratio               {result['ratio']:>10}")


if __name__ == "__main__":
    main()
