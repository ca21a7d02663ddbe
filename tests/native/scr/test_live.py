"""Settings that change with the next output, on every rank."""

import os

import pytest

from scrtune.intents.events import Value

from .job import MIB, Decisions, Job, in_both, in_python, read_back

pytestmark = pytest.mark.mpi
MOST_CPUS = os.sched_getaffinity(0)
OWN_NICE = str(os.nice(0))  # inherited by the ranks: the tests may run nice themselves


@in_both
def test_settings_change_with_the_next_output_on_every_rank(job: Job) -> None:
    live = {
        "SCR_FLUSH": 2,
        "SCR_PREFIX_SIZE": 7,
        "SCR_FILE_BUF_SIZE": 65536,
        "SCR_MPI_BUF_SIZE": 70000,
        "SCR_CHECKPOINT_INTERVAL": 5,
        "SCR_CHECKPOINT_SECONDS": 60,
        "SCR_CHECKPOINT_OVERHEAD": 2.5,
        "SCR_FLUSH_WIDTH": 1,  # what cannot change is left alone
        "SCR_PREFIX": "/elsewhere",
    }
    told = job.run(3, decisions={2: live, 3: {**live, "SCR_FILE_BUF_SIZE": 131072, "SCR_FLUSH": 0}})
    told.assert_sound(3)
    assert told.column("axl") == ["33554432", "65536", "131072"]
    assert told.column("flush") == ["0", "2", "0"]
    assert told.column("er")[1:] == ["70000", "70000"]
    for name, value in (("prefix_size", "7"), ("interval", "5"), ("seconds", "60"), ("overhead", "2.5")):
        assert told.column(name) == ["0", value, value]
    assert [(event["generation"], event["how"]) for event in told.of_type("applied")] == [
        (2, "live"),
        (3, "live"),
    ]
    assert [event["generation"] for event in told.of_type("output")] == [0, 2, 3]
    assert [event["due"] for event in told.of_type("asked")] == [False] * 3, (
        "one for each SCR_Need_checkpoint"
    )


@in_both
def test_scrs_answer_whether_a_checkpoint_is_due_is_told(job: Job) -> None:
    decisions: Decisions = {2: {"SCR_CHECKPOINT_INTERVAL": 2}, 5: {"SCR_CHECKPOINT_INTERVAL": 0}}
    told = job.run(6, decisions=decisions)
    told.assert_sound(6)
    assert [event["due"] for event in told.of_type("asked")] == [False, False, False, True, False, False]


@in_both
def test_the_cadence_of_the_flush_follows(job: Job) -> None:
    told = job.run(6, decisions={3: {"SCR_FLUSH": 2}, 5: {"SCR_FLUSH": 0}})
    told.assert_sound(6)
    assert job.flushed == ["ckpt.4"]


def test_the_flush_threads_have_their_number_and_their_cpus(job: Job) -> None:
    cpu = max(MOST_CPUS)
    decisions: Decisions = {
        2: {"SCRTUNE_FLUSH_THREADS": 3, "SCRTUNE_FLUSH_CPUS": str(cpu)},
        3: {"SCRTUNE_FLUSH_THREADS": 1, "SCRTUNE_FLUSH_CPUS": ""},
    }
    told = job.run(3, 4, 1000, decisions=decisions, SCR_FLUSH="1", SCR_FLUSH_TYPE="PTHREAD")
    told.assert_sound(3)
    everywhere = ",".join(map(str, sorted(MOST_CPUS)))
    assert told.column("threads")[1:] == ["3", "1"]
    assert told.column("mask") == [everywhere, str(cpu), everywhere]


@pytest.mark.parametrize(("is_asynchronous", "nice"), [(1, "19"), (0, OWN_NICE)])
def test_the_threads_of_a_flush_beside_the_computation_are_nice_and_no_others(
    job: Job, is_asynchronous: int, nice: str
) -> None:
    decisions: Decisions = {3: {"SCRTUNE_FLUSH_NICE": 19}}
    told = job.run(
        4,
        decisions=decisions,
        SCR_FLUSH="1",
        SCR_FLUSH_TYPE="PTHREAD",
        SCR_FLUSH_ASYNC=str(is_asynchronous),
        PAUSE_MS="300",
    )
    told.assert_sound(4)
    assert told.column("threads")[1:] == ["1"] * 3
    assert [told.column("nice")[output] for output in (1, 3)] == [OWN_NICE, nice]


def test_asynchronous_flushes_begin_and_end_and_none_is_lost(job: Job) -> None:
    decisions: Decisions = {
        number: {"SCR_FLUSH_ASYNC": number % 2, "SCR_FLUSH_ASYNC_USLEEP": 100 * number}
        for number in range(2, 8)
    }
    told = job.run(7, 2, 300000, decisions=decisions, SCR_FLUSH="1", SCR_FLUSH_TYPE="PTHREAD")
    told.assert_sound(7)
    assert told.column("async") == ["0", "0", "1", "0", "1", "0", "1"]
    assert job.flushed == [f"ckpt.{number}" for number in range(1, 8)]


@in_python
def test_the_size_of_writes_follows_the_file_buffer(job: Job) -> None:
    decisions: Decisions = {2: {"SCR_FILE_BUF_SIZE": 16384}, 3: {"SCR_FILE_BUF_SIZE": MIB}}
    told = job.run(3, 1, 4 * MIB, decisions=decisions, SCR_FLUSH="1")
    told.assert_sound(3)
    calls = [int(text) for text in told.column("writes")]
    assert calls[1] - calls[0] == pytest.approx(4 * MIB / 16384, rel=0.1)
    assert calls[2] - calls[0] == pytest.approx(4, abs=4)
    read_back(job, ["ckpt.1", "ckpt.2", "ckpt.3"], 4 * MIB)


@in_python
def test_a_flush_under_way_is_not_forgotten_when_async_goes_off_and_on(job: Job) -> None:
    idle: dict[str, Value] = {"SCR_FLUSH": 0, "SCR_FILE_BUF_SIZE": MIB}
    decisions: Decisions = {
        2: {"SCR_FLUSH": 1, "SCR_FLUSH_ASYNC": 1, "SCR_FILE_BUF_SIZE": 8},
        3: {**idle, "SCR_FLUSH_ASYNC": 0},
        4: {**idle, "SCR_FLUSH_ASYNC": 1},
    }
    told = job.run(4, 1, 16 * MIB, decisions=decisions, SCR_FLUSH_TYPE="PTHREAD", SCR_CACHE_SIZE="4")
    told.assert_sound(4)
    assert told.column("running") == ["0", "1", "1", "1"], "or nothing was tried"
    assert job.flushed == ["ckpt.2"]
    read_back(job, ["ckpt.2"], 16 * MIB)
