"""When an asynchronous flush ended, on a real libscr."""

from pathlib import Path

import pytest

from scrtune.client.scr_log.library_events import LibraryEvents
from scrtune.goodput.events import FlushCompleted

from ..conftest import RealScr
from ..support.native_build import POLITE_MPI, Told, build, build_application, build_library, decision

pytestmark = pytest.mark.mpi

PAUSE_S = 0.8
SLOW_S = 0.25
SKEW_S = 0.15
"""How far ranks that share a few cores may be apart; SCR notices an end twice as late as that."""
CACHED = {"SCR_CACHE_BYPASS": "0", "SCR_FLUSH": "1", "SCR_FLUSH_ASYNC": "1"}

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


class Job:
    """Four ranks on four simulated nodes, the third with a slow way to the prefix directory."""

    def __init__(self, scr: RealScr, built: Path, base: Path) -> None:
        self.scr, self.built, self.base = scr, built, base

    def run(
        self, outputs: int, decisions: dict[int, str] | None = None, **variables: str
    ) -> tuple[Told, list[FlushCompleted]]:
        """What the library told, and the flushes as the forwarder sends them."""
        events = self.base / "events"
        for number, text in (decisions or {}).items():
            (self.base / str(number)).write_text(text)
        ran = self.scr.mpiexec(
            self.base,
            4,
            *(str(self.built / "app"), str(outputs), "2", "300000"),
            nodes=4,
            **{**POLITE_MPI, **CACHED, "PAUSE_MS": f"{PAUSE_S * 1000:.0f}", **variables},
            SCR_LOG_ENABLE="1",
            SCRTUNE_DECISION_FILE=str(self.base / "decision"),
            SCRTUNE_EVENTS_FILE=str(events),
            LD_PRELOAD=f"{self.built / 'libscrtune.so'}:{self.built / 'slow.so'}",
            DECISIONS=str(self.base),
            COPIED=str(self.base / "copied"),
        )
        reader, reported = LibraryEvents(events, {}), []
        while new := reader.take():
            reported += [event for event in new if isinstance(event, FlushCompleted)]
        reader.close()
        return Told.of(ran, events), reported

    def copied_s(self, dataset: int) -> float:
        """When the last copy of a dataset's files had ended."""
        lines = (self.base / "copied").read_text().splitlines()
        return max(float(line.split()[-1]) for line in lines if f"/scr.dataset.{dataset}/" in line)


@pytest.fixture(scope="session")
def built(libscr: RealScr, tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("flush_end_scr")
    build_library(place / "libscrtune.so")
    build(place / "slow.so", SLOW, "-shared", "-fPIC", "-ldl")
    build_application(place / "app", libscr.path)
    return place


@pytest.fixture
def job(libscr: RealScr, built: Path, tmp_path: Path) -> Job:
    return Job(libscr, built, tmp_path)


@pytest.mark.parametrize("kind", ["PTHREAD", "SYNC"])
def test_a_flush_ends_with_the_last_byte_of_the_slowest_rank(job: Job, kind: str) -> None:
    told, flushes = job.run(3, SCR_FLUSH_TYPE=kind)
    told.assert_sound(3)
    assert [(flush.dataset, flush.source) for flush in flushes] == [(n, "libscrtune") for n in (1, 2, 3)]
    for flush, event in zip(flushes, told.of_type("flushed"), strict=True):
        took_s = float(str(event["seconds"]))
        assert took_s >= SLOW_S
        assert abs(flush.end_s - job.copied_s(flush.dataset)) <= SKEW_S


def test_a_flush_that_fails_on_a_rank_has_the_time_of_scr(job: Job) -> None:
    told, flushes = job.run(1, SCR_FLUSH_TYPE="PTHREAD", FAILS="1")
    assert [event.get("seconds") for event in told.of_type("flushed")] == [None], told.standard_error
    assert [(flush.valid, flush.source) for flush in flushes] == [(False, "scr")]


def test_a_flush_that_a_new_initialization_waits_for_is_timed(job: Job) -> None:
    """Its end is noticed in SCR_Finalize, of the library's making."""
    settings = {"SCR_CACHE_SIZE": 2, "SCR_FLUSH": 1, "SCR_FLUSH_ASYNC": 1}
    told, flushes = job.run(3, {2: decision(2, **settings)}, SCR_FLUSH_TYPE="PTHREAD", PAUSE_MS="1")
    told.assert_sound(3)
    assert [event["how"] for event in told.of_type("applied")] == ["re-init"]
    assert [(flush.dataset, flush.source) for flush in flushes] == [(n, "libscrtune") for n in (1, 2, 3)]
