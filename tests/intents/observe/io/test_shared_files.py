"""Who bypasses SCR's cache is moved there only when their files have places of their own in it."""

from typing import ClassVar

from scrtune.goodput.events import OutputCompleted
from scrtune.intents.events import ApplyRefused, Values
from scrtune.intents.observe.io.shared_files import SharedFiles
from scrtune.intents.settings import DEFAULTS
from scrtune.intents.tune.decisions import Verdict

from ....support.simulated_job import GIB, REAL, Job


def seen(*outputs: OutputCompleted) -> SharedFiles:
    found = SharedFiles()
    for output in outputs:
        found.add(output)
    return found


def output(shared: bool | None, *, checkpoint: bool = True, valid: bool = True) -> OutputCompleted:
    return OutputCompleted(
        dataset=1, name="d", start_s=0.0, end_s=1.0, checkpoint=checkpoint, valid=valid, shared_files=shared
    )


def test_on_a_real_scr_every_kind_of_output_must_have_been_seen_to_be_safe() -> None:
    for unsafe in (
        seen(),
        seen(output(None)),
        seen(output(shared=False, valid=False)),
        seen(output(shared=False), output(None, checkpoint=False)),
    ):
        assert "SCR_CACHE_BYPASS=0: whether ranks share files" in unsafe.why_no_cache(to_be_seen=True)
        assert unsafe.why_no_cache(to_be_seen=False) == ""
    both = seen(output(None), output(shared=False, checkpoint=False), output(shared=False))
    assert both.why_no_cache(to_be_seen=True) == ""
    assert "pure outputs" in seen(output(shared=False), output(None, checkpoint=False)).why_no_cache(
        to_be_seen=True
    )


def test_one_output_with_shared_files_is_enough() -> None:
    once = seen(output(shared=False), output(shared=True, checkpoint=False), output(shared=False))
    once.begin_run()
    for to_be_seen in (True, False):
        assert "these would collide" in once.why_no_cache(to_be_seen=to_be_seen)


def test_who_has_left_the_cache_does_not_go_there_again_in_this_run() -> None:
    found = seen(output(shared=False))
    found.left_cache()
    assert "the ranks left the cache" in found.why_no_cache(to_be_seen=True)
    found.begin_run()
    assert found.why_no_cache(to_be_seen=True) == ""


class Bypassing(Job):
    """A job that writes for 20 s past the cache, and for 1 s into it."""

    USER: ClassVar[Values] = {"SCR_FLUSH": 1}

    def __init__(self, shares: bool | None) -> None:
        super().__init__(self.USER, mutability=REAL, nodes=2)
        self.shares_files = shares

    def write_s(self) -> float:
        return 20.0 if self._in_force["SCR_CACHE_BYPASS"] else 1.0

    def save(self) -> None:
        self._dataset += 1
        advice = self.pipeline.advice
        self._apply(advice.settings)
        took_s = self.write_s()
        started_s, self.now = self.now, self.now + took_s
        self.tell(
            OutputCompleted(
                dataset=self._dataset,
                name="d",
                start_s=started_s,
                end_s=self.now,
                generation=advice.generation,
                bytes=4 * GIB,
                files=16,
                write_s=took_s,
                shared_files=self.shares_files,
            )
        )
        self.compute(4)

    def saves(self, count: int) -> "Bypassing":
        for _ in range(count):
            self.save()
        return self


def bypassing(shares: bool | None) -> Bypassing:
    return Bypassing(shares).saves(40)


def bypass(job: Job) -> object:
    return {**DEFAULTS, **job.pipeline.advice.settings}["SCR_CACHE_BYPASS"]


def test_a_job_is_moved_to_the_cache_only_with_that_evidence() -> None:
    moved = bypassing(shares=False)
    assert Verdict.ACCEPTED in moved.words
    assert bypass(moved) == 0
    for shares in (True, None):
        job = bypassing(shares)
        assert set(job.words) == {Verdict.VETOED}
        assert any("share" in each.because for each in job.pipeline.decisions)
        assert bypass(job) == 1


def test_ranks_that_left_the_cache_by_themselves_stay_out_of_it() -> None:
    job = bypassing(shares=False)
    generation = job.pipeline.advice.generation
    job.tell(ApplyRefused(generation=generation, why="a pure output", in_force={"SCR_CACHE_BYPASS": 1}))
    assert bypass(job) == 1
    assert job.pipeline.advice.generation > generation
    job.saves(20)
    assert bypass(job) == 1


class Caching(Bypassing):
    """A job whose user caches: 20 s into the cache; 1 s past it, and 60 s from the 21st output on."""

    USER: ClassVar[Values] = {"SCR_FLUSH": 1, "SCR_CACHE_BYPASS": 0}

    def write_s(self) -> float:
        past_the_cache_s = 1.0 if self._dataset <= 20 else 60.0
        return past_the_cache_s if self._in_force["SCR_CACHE_BYPASS"] else 20.0


def test_who_caches_returns_to_the_cache_without_evidence() -> None:
    job = Caching(shares=None).saves(20)
    assert bypass(job) == 1
    job.saves(20)
    assert bypass(job) == 0
