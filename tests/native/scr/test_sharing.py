"""Outputs that must not go through the cache."""

import pytest

from scrtune.intents.events import Value

from .job import Job, in_both

pytestmark = pytest.mark.mpi
BYPASSED = {"SCR_CACHE_BYPASS": "1", "SCR_COPY_TYPE": "XOR"}
TO_THE_CACHE: dict[str, Value] = {"SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1}


@in_both
@pytest.mark.parametrize("kind", ["SHARED_FROM", "SAME_NAMES_FROM"])
def test_an_output_of_another_kind_brings_the_bypass_back(job: Job, kind: str) -> None:
    """SCR ends a job whose ranks write one file through the cache, and mixes up files of one name there."""
    told = job.run(
        6,
        decisions={3: TO_THE_CACHE, 6: {**TO_THE_CACHE, "SCR_PREFIX_SIZE": 9}},
        nodes=2,
        **BYPASSED,
        **{"PURE_FROM": "5", kind: "5"},
    )
    told.assert_sound(6)
    assert told.column("bypass") == ["1", "1", "0", "0", "1", "1"]
    shared = [event.get("shared") for event in told.of_type("output")]
    assert shared == [False, False, False, False, True, True]
    assert told.column("prefix_size") == ["0"] * 6, "what asks for the cache again is refused as a whole"
    refused = told.of_type("apply_refused")
    assert [(event["generation"], event.get("in_force")) for event in refused] == [
        (3, {"SCR_CACHE_BYPASS": 1}),
        (6, None),
    ]
    assert [event["how"] for event in told.of_type("applied")] == ["re-init", "re-init"]
    complete = (job.base / "prefix" / ".scr").glob("scr.dataset.*/summary.scr")
    assert sorted(path.parent.name for path in complete) == [f"scr.dataset.{n}" for n in range(1, 7)]


@in_both
@pytest.mark.parametrize("kind", ["SHARED_FROM", "SAME_NAMES_FROM"])
def test_an_output_that_is_suddenly_shared_fails_and_the_job_goes_on(job: Job, kind: str) -> None:
    told = job.run(5, decisions={2: TO_THE_CACHE}, nodes=2, **BYPASSED, **{kind: "4"})
    assert told.returncode == 0, told.standard_error
    assert told.column("same") == ["1"] * 5
    assert told.column("bypass") == ["1", "0", "0", "0", "1"]
    assert told.column("valid") == ["1", "1", "1", "0", "1"]
    assert [event["valid"] for event in told.of_type("output")] == [True, True, True, False, True]


@in_both
@pytest.mark.parametrize("kind", ["SHARED_FROM", "SAME_NAMES_FROM"])
def test_the_cache_is_refused_to_who_shares_files(job: Job, kind: str) -> None:
    told = job.run(3, decisions={2: TO_THE_CACHE}, nodes=2, **BYPASSED, **{kind: "1"})
    told.assert_sound(3)
    assert told.column("bypass") == ["1"] * 3
    (refused,) = told.of_type("apply_refused")
    assert "SCR_CACHE_BYPASS=0" in str(refused["why"])


@in_both
def test_the_cache_is_refused_where_others_may_write_in_the_user_s_directory(job: Job) -> None:
    cached = job.base / "cache" / "somebody"
    cached.mkdir(parents=True)
    cached.chmod(0o777)
    told = job.run(3, decisions={2: TO_THE_CACHE}, SCR_USER_NAME="somebody", SCR_CACHE_BYPASS="1")
    told.assert_sound(3)
    assert told.column("bypass") == ["1"] * 3
    (refused,) = told.of_type("apply_refused")
    assert "others may write there" in str(refused["why"])


@in_both
def test_on_one_node_ranks_may_share_a_file_in_the_cache(job: Job) -> None:
    told = job.run(3, decisions={2: TO_THE_CACHE}, SCR_CACHE_BYPASS="1", SHARED_FROM="1")
    told.assert_sound(3)
    assert told.column("bypass") == ["1", "0", "0"]
    assert [event["shared"] for event in told.of_type("output")] == [False] * 3


def test_what_was_seen_is_looked_at_ever_less_often(job: Job) -> None:
    told = job.run(9, nodes=2, **BYPASSED, SHARED_FROM="6", PURE_FROM="9")
    told.assert_sound(9)
    looked_at = {event["dataset"]: event["shared"] for event in told.of_type("output") if "shared" in event}
    assert looked_at == {1: False, 2: False, 4: False, 8: True, 9: True}


def test_who_caches_by_themselves_is_not_looked_at(job: Job) -> None:
    told = job.run(2, decisions={2: {"SCR_FLUSH": 1}}, nodes=2)
    told.assert_sound(2)
    assert ["shared" in event for event in told.of_type("output")] == [False, False]
