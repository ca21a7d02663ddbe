"""Decisions that are refused, as a whole and on every rank; and a decision file that is attacked."""

import os
import random
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from scrtune.intents.events import Value

from ...support.native_build import (
    Told,
    decision,
)
from .job import Job, in_both

pytestmark = pytest.mark.mpi


@pytest.mark.parametrize(
    ("values", "variables", "nodes"),
    [
        ({"SCR_COPY_TYPE": "FILE"}, {}, 2),
        ({"SCR_FLUSH_TYPE": "BBAPI"}, {}, 0),
        ({"SCR_SET_FAILURES": 9}, {}, 2),
        ({"SCR_COPY_TYPE": "RS", "SCR_SET_FAILURES": 2}, {}, 2),
        ({"SCR_SET_SIZE": 1, "SCR_SET_FAILURES": 1}, {}, 2),
        ({"SCR_GROUP": "NOWHERE"}, {}, 2),
        ({"SCR_GROUP": "NOWHERE"}, {"SCR_COPY_TYPE": "SINGLE"}, 2),
        ({"SCR_GROUP": "NOWHERE"}, {}, 0),
        ({"SCR_COPY_TYPE": "XOR"}, {"SCR_COPY_TYPE": "SINGLE"}, 3),
    ],
)
def test_what_scr_would_abort_the_job_for_is_refused(
    job: Job, values: dict[str, Value], variables: dict[str, str], nodes: int
) -> None:
    told = job.run(2, decisions={2: {**values, "SCR_FLUSH": 1}}, nodes=nodes, **variables)
    told.assert_sound(2)
    assert told.column("flush") == ["0", "0"]
    assert len(told.of_type("apply_refused")) == 1
    assert "scrtune: " in told.standard_error


def spoil(job: Job, how: str) -> None:
    match how:
        case "directory":
            job.decision.mkdir()
        case "link":
            job.decision.symlink_to(job.base / "other")
            (job.base / "other").write_text(decision(1, SCR_FLUSH=1))
        case "queue":
            os.mkfifo(job.decision)
        case "long":
            job.decision.write_bytes(b"x" * 70000)
        case "range":
            job.decision.write_text(decision(1, SCR_FLUSH=1, SCR_FILE_BUF_SIZE=0))
        case _:
            job.decision.write_text(decision(1, SCR_FLUSH=1).replace("generation 1", "generation 2"))


@in_both
@pytest.mark.parametrize("how", ["directory", "link", "queue", "long", "range", "checksum"])
def test_a_bad_decision_file_is_told_once_and_nothing_of_it_applied(job: Job, how: str) -> None:
    spoil(job, how)
    told = job.run(3)
    told.assert_sound(3)
    assert told.column("flush") == ["0", "0", "0"]
    assert len(told.of_type("apply_refused")) == told.standard_error.count("scrtune: ") == 1


def test_ranks_without_the_library_hang_nobody(job: Job) -> None:
    mpiexec = Path(sys.executable).parent / "mpiexec"
    with_it, without_it = (
        ("-n", "2", "env", f"LD_PRELOAD={preload}", *job.application, "2") for preload in (*job.preloaded, "")
    )
    job.decision.write_text(decision(1, SCR_FLUSH=1))
    ran = subprocess.run(
        (mpiexec, *with_it, ":", *without_it),
        env=job.scr.environment(job.base, **{**job.variables(), "LD_PRELOAD": ""}),
        cwd=job.base / "prefix",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    told = Told.of(ran, job.events)
    told.assert_sound(2)
    assert told.column("flush") == ["0", "0"]
    assert "some ranks run without libscrtune.so" in told.standard_error


LEVERS: dict[str, tuple[Value, ...]] = {
    "SCR_FLUSH": (0, 1, 2, 5),
    "SCR_FLUSH_ASYNC": (0, 1),
    "SCR_FLUSH_ASYNC_USLEEP": (1, 1000),
    "SCR_FILE_BUF_SIZE": (4096, 1 << 20),
    "SCR_MPI_BUF_SIZE": (8192, 1 << 20),
    "SCR_PREFIX_SIZE": (0, 400),
    "SCR_CHECKPOINT_SECONDS": (0, 3),
    "SCRTUNE_FLUSH_THREADS": (0, 1, 2),
    "SCRTUNE_FLUSH_CPUS": ("", "0", "1", "0-1"),
    "SCRTUNE_FLUSH_NICE": (0, 19),
    "SCRTUNE_DROP_BEHIND": (0, 1),
    "SCR_CACHE_SIZE": (1, 2, 3),
    "SCR_COPY_TYPE": ("SINGLE", "PARTNER", "XOR"),
    "SCR_FLUSH_TYPE": ("SYNC", "PTHREAD"),
}


class Vandal(threading.Thread):
    """Replaces, tears, empties, cuts and removes the decision file all the time."""

    def __init__(self, path: Path, seed: int) -> None:
        super().__init__()
        self.path, self.random = path, random.Random(seed)
        self.is_over = threading.Event()
        self.count = 0

    def run(self) -> None:
        while not self.is_over.wait(self.random.choice((0.0005, 0.002, 0.01))):
            self.count += 1
            names = self.random.sample(sorted(LEVERS), 5)
            self.attack(
                decision(self.count, **{name: self.random.choice(LEVERS[name]) for name in names}).encode()
            )

    def attack(self, text: bytes) -> None:
        new = self.path.with_suffix(".new")
        if self.path.is_dir() and not self.path.is_symlink():
            shutil.rmtree(self.path)
        match self.random.randrange(12):
            case 0:
                self.path.unlink(missing_ok=True)
            case 1:  # in place, in two parts, with the reader between them
                self.path.unlink(missing_ok=True)
                with self.path.open("wb", buffering=0) as file:
                    file.write(text[: len(text) // 2])
                    self.is_over.wait(0.002)
                    file.write(text[len(text) // 2 :])
            case 2:
                new.write_bytes(text[: self.random.randrange(len(text))])
                new.rename(self.path)
            case 3:
                at = self.random.randrange(len(text))
                new.write_bytes(text[:at] + bytes([text[at] ^ 0x20]) + text[at + 1 :])
                new.rename(self.path)
            case 4:
                self.path.unlink(missing_ok=True)
                self.path.symlink_to("/dev/zero")
            case 5:
                self.path.unlink(missing_ok=True)
                os.mkfifo(self.path)
            case 6:
                self.path.unlink(missing_ok=True)
                self.path.mkdir()
            case 7:
                new.write_bytes(self.random.randbytes(70000))
                new.rename(self.path)
            case _:
                new.write_bytes(text)
                new.rename(self.path)


OUTPUTS = 40


@pytest.mark.timeout(600)
def test_whatever_happens_to_the_decision_file_ranks_agree_and_outputs_are_valid(job: Job) -> None:
    vandal = Vandal(job.decision, seed=4)
    vandal.start()
    try:
        told = job.run(OUTPUTS, 2, 3000, nodes=2, DECISIONS=str(job.base / "none"))
    finally:
        vandal.is_over.set()
        vandal.join()
    told.assert_sound(OUTPUTS)
    assert len(told.of_type("output")) == OUTPUTS
    assert {event["how"] for event in told.of_type("applied")} == {"live", "re-init"}
    assert told.of_type("apply_refused")
    assert told.column("dataset") == [str(number) for number in range(1, OUTPUTS + 1)]
