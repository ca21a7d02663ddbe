"""What the intents keep of very many events: resident memory over 100 million traced calls.

    python benchmarks/daemon/intent_memory.py [--json] [--events 100000000]

Lines of eight processes that write files of every content go through the forwarder's scanner and decoder into
the pipeline of a daemon; after every million of them an output ends. One write in fifty has a size of its
own, 8,000 of them in all: twice what a histogram remembers. The first tenth is the warm-up. The target is
that resident memory grows by no more than 5 MiB afterwards.
"""

import argparse
import json
import random
import time
from collections.abc import Iterator

import psutil

from scrtune.client.capture.scanner import new_scanner
from scrtune.goodput.events import JobStarted, OutputCompleted
from scrtune.intents.events import SettingsObserved
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.trace.decoder import TraceDecoder

TARGET_GROWTH_MIB = 5.0
STEPS = 10
_BLOCKS, _LINES = 20, 20_000
_BLOCKS_A_DIGEST = 5
_LINES_AN_OUTPUT = 1_000_000
_NAMES = ("model_states.pt", "layer_01.pt", "optim_states.pt", "history.dat")
_START_US = 1_795_252_232_000_000


def blocks() -> list[bytes]:
    """Return pieces of a trace, each with sizes of its own: some frequent ones and many that are rare."""
    rng = random.Random(1)  # noqa: S311
    made = []
    for block in range(_BLOCKS):
        lines = []
        for line in range(_LINES):
            pid = 100 + line % 8
            name = _NAMES[line // 8 % len(_NAMES)]
            at_us = _START_US + 10 * (block * _LINES + line)
            size = int(2 ** rng.uniform(0, 34)) if line % 50 == 0 else 4096 << line // 7 % 12
            if line < 8 * len(_NAMES):
                args = f'{{"hhash":"aa","name":"/prefix/{name}","value":"{name:a>16.16}"}}'
                lines.append(
                    f'{{"name":"FH","cat":"dftracer","type":1,"pid":{pid},"tid":{pid},"ph":4,"args":{args}}}'
                )
            args = f'{{"hhash":"aa","fhash":"{name:a>16.16}","ret":{size}}}'
            lines.append(
                f'{{"id":{line},"name":"write","cat":"POSIX","type":3,"pid":{pid},"tid":{pid},"ts":{at_us},'
                f'"dur":7,"ph":1,"args":{args}}}'
            )
        made.append(("\n".join(lines) + "\n").encode())
    return made


def drive(events: int) -> Iterator[tuple[int, float]]:
    """Feed at least so many events; yield how many there were, and MiB, at a tenth of them each."""
    trace = blocks()
    pipeline, decoder = Pipeline(), TraceDecoder({"/prefix": "prefix"}, new_scanner())
    start_s = _START_US / 1e6
    pipeline.handle(JobStarted(time_s=start_s, ranks=8), start_s)
    pipeline.handle(SettingsObserved(settings={}, ranks=8, prefix="/prefix", tuning=False), start_s)
    fed = reported = outputs = number = 0
    while fed < events:
        decoder.feed(trace[number % _BLOCKS], "forward")
        fed += _LINES
        number += 1
        if number % _BLOCKS_A_DIGEST == 0 and (digest := decoder.take()) is not None:
            pipeline.handle(digest, digest.end_s)
        if fed // _LINES_AN_OUTPUT > outputs:
            outputs += 1
            end_s = start_s + 10.0 * outputs
            done = OutputCompleted(
                dataset=outputs, name=f"d{outputs}", start_s=end_s - 1, end_s=end_s, bytes=fed, files=8
            )
            pipeline.handle(done, end_s)
            _ = pipeline.intents
        if fed * STEPS // events > reported:
            reported = fed * STEPS // events
            yield fed, psutil.Process().memory_info().rss / 2**20


def main() -> int:
    """Measure; the result is 0 when the target is met."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--events", type=int, default=100_000_000)
    options = parser.parse_args()
    begun_s = time.perf_counter()
    memory = []
    for fed, mib in drive(options.events):
        memory.append(mib)
        if not options.json:
            print(
                f"{fed / 1e6:6.0f} M events {mib:8.1f} MiB {time.perf_counter() - begun_s:8.0f} s", flush=True
            )
    growth_mib = memory[-1] - memory[0]
    if options.json:
        print(json.dumps({"events": options.events, "mib": memory, "growth_mib": growth_mib}))
    else:
        print(
            f"grew by {growth_mib:.1f} MiB after the first tenth; target: {TARGET_GROWTH_MIB:g} MiB at most"
        )
    return int(growth_mib > TARGET_GROWTH_MIB)


if __name__ == "__main__":
    raise SystemExit(main())
