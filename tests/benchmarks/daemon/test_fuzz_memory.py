"""What a daemon keeps of messages at random: the short form of benchmarks/daemon/fuzz_memory.py."""

import gc
import sys
import time
import tracemalloc
from itertools import islice
from pathlib import Path

from scrtune.daemon.ingest import Ingest
from scrtune.daemon.journal.journal import apply_event
from scrtune.intents.pipeline import Pipeline

sys.path.append(str(Path(__file__).parents[3]))  # benchmarks are no part of the package

from benchmarks.daemon.fuzz_memory import messages

MESSAGES = 2000
MOST_BYTES_A_MESSAGE = 500
"""A ledger keeps some 50 bytes of a claim, up to its bound; a message that was kept has 300 in the mean."""


def test_of_messages_at_random_a_daemon_keeps_next_to_nothing() -> None:
    ingest, pipeline = Ingest(), Pipeline()
    at_random = iter(list(islice(messages(seed=1), 2 * MESSAGES)))  # what makes them is not measured
    now = time.time()

    def take(count: int) -> int:
        for message in islice(at_random, count):
            for event in ingest.message(message):
                apply_event(pipeline, event, now)
            while ingest.sum_up():
                pass
        gc.collect()
        return tracemalloc.get_traced_memory()[0]

    tracemalloc.start()
    try:
        warm_bytes = take(MESSAGES)
        kept_bytes = take(MESSAGES) - warm_bytes
    finally:
        tracemalloc.stop()
    assert pipeline.counters.events > MESSAGES / 2
    assert sum(ingest.rejected.values()) > MESSAGES / 4
    assert kept_bytes < MESSAGES * MOST_BYTES_A_MESSAGE
