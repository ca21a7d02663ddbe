"""When an asynchronous flush ended."""

from pathlib import Path

import pytest

from scrtune.client.scr_log.library_events import LibraryEvents
from scrtune.goodput.events import FlushCompleted
from scrtune.intents.events import Value

from ...support.native_build import Told, build
from .job import Decisions, Job

pytestmark = pytest.mark.mpi

SLOW_S = 0.25
SKEW_S = 0.15
"""How far ranks that share a few cores may be apart; SCR notices an end twice as late as that."""
CACHED = {"SCR_FLUSH": "1", "SCR_FLUSH_ASYNC": "1", "SCR_CACHE_SIZE": "1"}

# libscrtune.so finds it behind itself: rank 2 waits before, and rank $FAILS fails instead of, each copy. The
# time after each is appended to $COPIED.
SLOW = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
static int is_rank(const char *wanted)
{
    const char *rank = getenv(getenv("PMI_RANK") ? "PMI_RANK" : "OMPI_COMM_WORLD_RANK");
    return rank != NULL && wanted != NULL && strcmp(rank, wanted) == 0;
}
int axl_file_copy(const char *source, const char *target, unsigned long buffer, int resume)
{
    int (*real)(const char *, const char *, unsigned long, int);
    *(void **)&real = dlsym(RTLD_NEXT, "axl_file_copy");
    usleep(is_rank("2") ? 250000 : 0);
    const int result = is_rank(getenv("FAILS")) ? 1 : real(source, target, buffer, resume);
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const int file = open(getenv("COPIED"), O_WRONLY | O_APPEND | O_CREAT, 0600);
    dprintf(file, "%s %ld.%09ld\n", source, (long)now.tv_sec, now.tv_nsec);
    close(file);
    return result;
}
"""


@pytest.fixture(scope="session")
def slow(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(tmp_path_factory.mktemp("slow") / "slow.so", SLOW, "-shared", "-fPIC", "-ldl")


@pytest.fixture
def job(job: Job, slow: Path) -> Job:
    """On four simulated nodes, the third with a slow way to the prefix directory."""
    job.preloaded = (*job.preloaded, slow)
    return job


def flushed(
    job: Job, outputs: int, decisions: Decisions | None = None, **variables: str
) -> tuple[Told, list[FlushCompleted]]:
    """What the library told, and the flushes as the forwarder sends them."""
    variables = {"PAUSE_MS": "800", "COPIED": str(job.base / "copied"), "SCR_LOG_ENABLE": "1", **variables}
    told = job.run(outputs, 2, 300_000, decisions=decisions, nodes=4, **CACHED, **variables)
    reader, reported = LibraryEvents(job.events, {}), []
    while new := reader.take():
        reported += [event for event in new if isinstance(event, FlushCompleted)]
    reader.close()
    return told, reported


def copied_s(job: Job, dataset: int) -> float:
    """When the last copy of a dataset's files had ended."""
    lines = (job.base / "copied").read_text().splitlines()
    return max(float(line.split()[-1]) for line in lines if f"/scr.dataset.{dataset}/" in line)


@pytest.mark.parametrize("kind", ["PTHREAD", "SYNC"])
def test_a_flush_ends_with_the_last_byte_of_the_slowest_rank(job: Job, kind: str) -> None:
    told, flushes = flushed(job, 3, SCR_FLUSH_TYPE=kind)
    told.assert_sound(3)
    assert [(flush.dataset, flush.source) for flush in flushes] == [(n, "libscrtune") for n in (1, 2, 3)]
    for flush, event in zip(flushes, told.of_type("flushed"), strict=True):
        took_s = float(str(event["seconds"]))
        assert 0 < flush.cpu_s + flush.run_delay_s <= took_s + 0.1, "rank 0 has one file"
        assert took_s >= SLOW_S
        assert abs(flush.end_s - copied_s(job, flush.dataset)) <= SKEW_S


def test_a_flush_that_fails_on_a_rank_has_the_time_of_scr(job: Job) -> None:
    told, flushes = flushed(job, 1, SCR_FLUSH_TYPE="PTHREAD", FAILS="1")
    assert [event.get("seconds") for event in told.of_type("flushed")] == [None], told.standard_error
    assert [(flush.valid, flush.source) for flush in flushes] == [(False, "scr")]


def test_a_flush_that_a_new_initialization_waits_for_is_timed(job: Job) -> None:
    """Its end is noticed in SCR_Finalize, of the library's making."""
    settings: dict[str, Value] = {"SCR_CACHE_SIZE": 2, "SCR_FLUSH": 1, "SCR_FLUSH_ASYNC": 1}
    told, flushes = flushed(job, 3, {2: settings}, SCR_FLUSH_TYPE="PTHREAD", PAUSE_MS="1")
    told.assert_sound(3)
    assert [event["how"] for event in told.of_type("applied")] == ["re-init"]
    assert [(flush.dataset, flush.source) for flush in flushes] == [(n, "libscrtune") for n in (1, 2, 3)]
