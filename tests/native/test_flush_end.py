"""When an asynchronous flush ended: libscrtune.so over a stand-in for SCR and AXL, one process a rank."""

import json
import os
import subprocess
from pathlib import Path

import pytest

from ..support.native_build import ROOT, SANITIZED, STRICT, compiler, library_sources, run

SUPPORT = ROOT / "tests" / "support"
LATE_MS = 400
UNIT_S = 1e-5
"""In which the ranks' times are compared."""


class Job:
    """A program that is linked to libscrtune.so, before what it stands before; under gcc's `sanitizers`."""

    def __init__(self, place: Path, sanitizers: str) -> None:
        if sanitizers and "/" not in run(compiler(), f"-print-file-name=lib{sanitizers[:1]}san.so"):
            pytest.skip(f"needs gcc's {sanitizers} sanitizer")
        self.place, self.sanitizers = place, sanitizers
        checks = (*SANITIZED, f"-fsanitize={sanitizers}") if sanitizers else ()
        here = (f"-L{place}", f"-Wl,-rpath,{place}")
        for name, sources in (
            ("scrtune", (*library_sources(place), "-ldl")),
            ("fake", (str(SUPPORT / "fake_scr.c"), "-pthread")),
        ):
            run(compiler(), *STRICT, *checks, "-shared", "-o", str(place / f"lib{name}.so"), *sources)
        job = (str(SUPPORT / "fake_scr_job.c"), "-Wl,--no-as-needed", "-lscrtune", "-lfake", "-pthread")
        run(compiler(), *STRICT, *checks, "-o", str(place / "job"), *here, *job)

    def run(self, outputs: int, *files: str, decision: str = "none") -> list[dict[str, object]]:
        """The library's events of a job whose ranks flush `files` after each of `outputs`."""
        events = self.place / "events"
        events.unlink(missing_ok=True)
        variables = {
            "SCRTUNE_DECISION_FILE": decision,
            "SCRTUNE_EVENTS_FILE": str(events),
            "LATE_MS": str(LATE_MS if outputs == 1 else 0),
        }
        ran = subprocess.run(
            [self.place / "job", str(outputs), *files],
            env={**os.environ, **variables},
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return [json.loads(line) for line in events.read_text().splitlines() if line]


@pytest.fixture(scope="module", params=["", "address,undefined", "thread"], ids=["", "address", "thread"])
def job(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Job:
    return Job(tmp_path_factory.mktemp("flush_end"), request.param)


def seconds(events: list[dict[str, object]]) -> list[float | None]:
    """Of each flush, in order; None where they are not known."""
    told = [event for event in events if event["type"] == "flushed"]
    assert [event["dataset"] for event in told] == [*range(1, len(told) + 1)]
    return [None if "seconds" not in event else float(str(event["seconds"])) for event in told]


def noticed_s(events: list[dict[str, object]]) -> float:
    """From the end of the output to the end of SCR_Finalize, which waited for its flush."""
    output, ended = (
        next(each for each in events if each["type"] == kind) for kind in ("output", "job_ended")
    )
    return float(str(ended["time_s"])) - float(str(output["closing_s"]))


@pytest.mark.parametrize(
    ("files", "longest_ms"),
    [
        (("c40",), 40),
        (("c10", "c10,c90,c20", "c10"), 90),
        (("", "c40", ""), 40),
        (("s20,s20", "c10"), 40),
    ],
    ids=["one rank", "the last copy of the slowest rank", "ranks without files", "copied at once"],
)
def test_a_flush_lasts_to_the_last_copy_of_any_rank(
    job: Job, files: tuple[str, ...], longest_ms: int
) -> None:
    events = job.run(1, *files)
    (took_s,) = seconds(events)
    assert took_s is not None
    assert took_s >= longest_ms / 1000 - UNIT_S
    assert took_s <= noticed_s(events) - LATE_MS / 2000, "well before SCR has noticed it"


def test_each_flush_is_told_once(job: Job) -> None:
    events = job.run(20, "c1", "c1,c2")
    assert len(seconds(events)) == 20
    assert None not in seconds(events)
    timed = [event.get("flush_timed", False) for event in events if event["type"] == "output"]
    assert timed == [True] * 20


@pytest.mark.parametrize("files", ["c5,f5", "c5,k2000", "c5,o5", "o5"])
def test_nothing_is_told_of_a_flush_whose_copies_were_not_all_seen(job: Job, files: str) -> None:
    if "k" in files and "address" in job.sanitizers:
        pytest.skip("the sanitizer itself fails where a thread is cancelled asynchronously")
    assert seconds(job.run(2, "c10", files, "")) == [None, None]


def test_ranks_that_have_not_agreed_are_not_asked(job: Job) -> None:
    events = job.run(2, "c10", "c10", decision="")
    assert seconds(events) == []
    assert not any(event.get("flush_timed") for event in events)
