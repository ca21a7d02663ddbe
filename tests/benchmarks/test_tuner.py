"""The simulated jobs of `make bench-tuner`: their time adds up, and their oracle is the best there is."""

import itertools
import random
import sys
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from scrtune.goodput.events import FlushCompleted, OutputCompleted, StepCompleted
from scrtune.intents.effects import Advice
from scrtune.intents.events import Event
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.tune.decisions import Verdict

sys.path.append(str(Path(__file__).parents[2]))  # benchmarks are no part of the package

from benchmarks.tuner import oracle
from benchmarks.tuner.calibration import said
from benchmarks.tuner.drive import STARTS, Case, Run, case, simulate
from benchmarks.tuner.jobs import SCENARIOS
from benchmarks.tuner.machine import QUIET, Flush, Machine, waited_for
from benchmarks.tuner.rails import permitted
from benchmarks.tuner.truth import DEFAULTS, Parts, Settings, rework_s


class Changing:
    """Advises other settings inside the rails at every third output, and keeps the events."""

    def __init__(self, made: Case) -> None:
        self.advice = Advice()
        self.events: list[tuple[Event, float]] = []
        self._case = made
        self._rng = random.Random(1)

    def handle(self, event: Event, now: float) -> None:
        """Keep the event."""
        self.events.append((event, now))
        if isinstance(event, OutputCompleted) and event.dataset % 3 == 0:
            settings = oracle.some(self._case.truth, self._case.user, self._rng)
            self.advice = Advice(generation=event.dataset, settings=settings)


@pytest.mark.parametrize(("scenario", "start"), list(itertools.product(SCENARIOS, STARTS)))
def test_the_time_of_a_job_is_all_told_once_and_in_order(scenario: str, start: str) -> None:
    made = case(scenario, start, 1, 40)
    tuner = Changing(made)
    run = Run(made, tuner)
    for noise in made.noise:
        run.checkpoint(noise)

    times = [now for _, now in tuner.events]
    assert times == sorted(times)
    told = [event for event, _ in tuner.events]
    pieces = [each for each in told if isinstance(each, StepCompleted | OutputCompleted)]
    assert all(one.end_s == other.start_s for one, other in itertools.pairwise(pieces))
    for output in (each for each in told if isinstance(each, OutputCompleted)):
        parts = (output.apply_s, output.wait_s, output.write_s, output.encode_s, output.flush_s)
        assert sum(parts) == pytest.approx(output.blocking_s)
    flushed = [each.dataset for each in told if isinstance(each, FlushCompleted)]
    assert len(flushed) == len(set(flushed))
    due = {each.dataset for each in told if isinstance(each, OutputCompleted) and each.flush_due}
    assert set(flushed) <= due
    assert len(due) - len(flushed) <= 4  # what the cache holds may be under way at the end
    assert run.outside == 0


def long_run_s(made: Case, settings: Settings) -> float:
    """Return the mean cost of a checkpoint of the machine without noise, once its queue has filled."""
    machine = Machine(made.job, settings, 10**9)
    for _ in range(400):
        machine.checkpoint(settings, QUIET)
    before_s = machine.lost_s
    for _ in range(400):
        machine.checkpoint(settings, QUIET)
    return (machine.lost_s - before_s) / 400


@pytest.mark.parametrize("scenario", ["flush-near-interval", "io-bound"])
def test_the_long_run_cost_is_what_the_machine_shows_without_noise(scenario: str) -> None:
    waited = 0
    for seed in range(6):
        made, rng = case(scenario, "defaults", seed, 1), random.Random(seed)
        for _ in range(20):
            settings = {**oracle.some(made.truth, {"SCR_COPY_TYPE": "SINGLE"}, rng), "SCR_CACHE_BYPASS": 0}
            parts = made.truth.parts(settings)
            waited += parts.asynchronous and parts.flush_s > made.job.interval_s
            assert made.truth.cost_s(settings) == pytest.approx(
                long_run_s(made, settings), rel=0.03, abs=1e-9
            )
    assert waited


def test_ranks_that_wait_leave_their_cores_to_the_flush_threads_that_yield_to_them() -> None:
    first, second = Flush(1, 0, 0.0, 100.0, haste=10.0), Flush(2, 0, 100.0, 150.0, haste=2.0)
    under_way = deque([first, second])
    assert waited_for(1, 20.0, under_way) == 28.0, "80 s are left, at ten times the rate"
    assert (second.start_s, second.end_s) == (28.0, 78.0)
    assert waited_for(2, 48.0, under_way) == 63.0
    assert waited_for(2, 70.0, under_way) == 70.0


def test_an_output_past_the_cache_waits_for_the_flushes_under_way() -> None:
    made = case("mixed", "defaults", 1, 1)
    job = replace(made.job, reinit_s=0.0, interval_s=1e-3, thread_rate=made.job.thread_rate / 100)
    cached = {**made.own, "SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1}
    cached |= {"SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD"}
    machine = Machine(job, cached, 10)
    first = machine.checkpoint(cached, QUIET)
    past = machine.checkpoint(made.own, QUIET)
    assert first.wait_s == 0
    assert past.wait_s > 0
    assert [each.dataset for each in past.ended] == [first.dataset]


def test_what_only_the_cache_has_may_be_lost_with_a_node() -> None:
    """Each tenth is flushed beside the computation: 4.5 intervals and the flush are at risk on average."""
    job = replace(case("mixed", "defaults", 1, 1).job, nodes=8, interval_s=1000.0)
    cached: Settings = {**DEFAULTS, "SCR_CACHE_BYPASS": 0, "SCR_COPY_TYPE": "SINGLE"}
    tenth = Parts(1.0, flush_s=500.0, cached=True, asynchronous=True, every=10)
    lost_s = rework_s(job, cached, tenth)
    assert lost_s == pytest.approx(8 * 1.97e-5 * 8 / 3600 * 1000.0 * (4500.0 + 500.0))
    assert rework_s(job, {**cached, "SCR_COPY_TYPE": "XOR"}, tenth) == pytest.approx(0.15 * lost_s)
    assert rework_s(job, cached, replace(tenth, asynchronous=False, every=1)) == 0
    assert rework_s(job, cached, Parts(1.0)) == 0, "past the cache nothing is at risk"


def all_settings(made: Case) -> Iterator[Settings]:
    """Yield all of a grid, but for values that its job does not tell apart."""
    levers = oracle.grid(made.truth, made.user)
    few = {
        "SCR_SET_SIZE": (4, 8),
        "SCR_CACHE_SIZE": (1, 2),
        "SCR_FLUSH": (1, 4),
        "SCR_MPI_BUF_SIZE": (1024**2,),
    }
    levers |= {name: tuple(dict.fromkeys((*values, made.own[name]))) for name, values in few.items()}
    for values in itertools.product(*levers.values()):
        yield {**made.own, **dict(zip(levers, values, strict=True))}


@pytest.mark.parametrize("start", ["defaults", "poor"])
@pytest.mark.parametrize("scenario", ["mixed", "flush-near-interval"])
def test_nothing_inside_the_rails_costs_less_than_the_oracles_settings(scenario: str, start: str) -> None:
    made = case(scenario, start, 3, 1)
    best = oracle.best(made.truth, made.user)
    assert permitted(made.truth, made.user, best)
    cheapest_s = min(
        made.truth.cost_s(each) for each in all_settings(made) if permitted(made.truth, made.user, each)
    )
    assert made.truth.cost_s(best) <= cheapest_s * (1 + 1e-9)
    assert oracle.levers_left(made.truth, made.user, best) == []


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_an_optimal_user_has_nothing_to_gain(scenario: str) -> None:
    for seed in range(16):
        made = case(scenario, "optimal", seed, 1)
        least_s = made.truth.cost_s(oracle.best(made.truth, made.user))
        assert least_s == pytest.approx(made.truth.cost_s(made.own))


def test_a_job_is_the_same_every_time() -> None:
    first, second = (simulate("mixed", "poor", 5, 20, Changing) for _ in range(2))
    assert first == second
    assert first != simulate("mixed", "poor", 6, 20, Changing)


def test_what_the_belief_is_sure_of_after_three_checkpoints_is_true_nearly_always() -> None:
    found = [each for seed in range(60) if (each := said("mixed", "defaults", seed))]
    sure = [each for each in found if each.p_more_expensive < 0.05]
    assert len(sure) >= 12
    assert sum(each.true > 1 for each in sure) <= 1


@pytest.mark.parametrize(("seed", "checkpoints"), [(201, 2), (202, 1)])
def test_past_the_cache_a_second_checkpoint_is_taken_where_it_costs_next_to_nothing(
    seed: int, checkpoints: int
) -> None:
    """What the last flush has left to be written may have slowed the first one down."""
    made, pipeline = case("mixed", "poor", seed, 40), Pipeline()
    run = Run(made, pipeline)
    for noise in made.noise:
        run.checkpoint(noise)
    trials = [each for each in pipeline.decisions if each.verdict is Verdict.TRIAL]
    (past,) = (each for each in trials if each.changes.get("SCR_CACHE_BYPASS") == 1)
    assert past.checkpoints == checkpoints
    assert run.settings["SCR_CACHE_BYPASS"] == 0, "it was taken back"
