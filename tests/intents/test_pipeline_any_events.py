"""The pipeline does the same for the same events, and goes on whatever comes."""

import math
from collections.abc import Iterator

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrtune.goodput.events import (
    FlushCompleted,
    JobEnded,
    JobStarted,
    OutputCompleted,
    OutputStarted,
    RestartCompleted,
    StepCompleted,
)
from scrtune.intents.counters import EventFilter
from scrtune.intents.effects import Advice, RewriteConfig
from scrtune.intents.events import (
    Access,
    ApplyRefused,
    Event,
    EventsLost,
    NodeObserved,
    ProcessUse,
    SettingsObserved,
    Span,
    Tier,
    TraceDigest,
    TuningSwitched,
    UserEdited,
)
from scrtune.intents.mutability import Mutability
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.settings import DEFAULTS
from scrtune.intents.tune.decisions import Decision, Verdict

from ..support.simulated_job import CACHED, T0, Job, replayed, state


class TestReplay:
    def test_the_same_events_make_the_same_decisions_effects_and_numbers(self) -> None:
        job = Job(CACHED, noise=0.2).checkpoints(40)
        again, effects = replayed(job.journal)
        assert effects == job.effects
        assert state(again, job.now) == state(job.pipeline, job.now)

    @pytest.mark.parametrize("codec", [msgspec.msgpack, msgspec.json])
    def test_also_when_every_event_went_over_a_wire(self, codec: object) -> None:
        job = Job(CACHED, noise=0.2)
        job.tell(DIGEST)
        job.checkpoints(40)
        journal = [(now, _round_trip(codec, event)) for now, event in job.journal]
        assert journal == job.journal
        again, effects = replayed(journal)
        assert effects == job.effects
        assert state(again, job.now) == state(job.pipeline, job.now)

    def test_goodput_events_that_come_twice_change_nothing(self) -> None:
        job = Job(CACHED, noise=0.2).checkpoints(30)
        pipeline, effects = Pipeline(), []
        for now, event in job.journal:
            effects += pipeline.handle(event, now)
            if not isinstance(event, SettingsObserved):
                assert pipeline.handle(event, now) == []
        assert effects == job.effects
        assert pipeline.account(job.now) == job.pipeline.account(job.now)
        assert list(pipeline.decisions) == list(job.pipeline.decisions)
        assert pipeline.counters.dropped["events that came twice"] > 100


def _round_trip(codec: object, event: Event) -> Event:
    decoded: Event = codec.decode(codec.encode(event), type=Event)  # type: ignore[attr-defined]
    return decoded


ACCESS = Access(
    tier="cache",
    op="write",
    count=3,
    bytes=3072,
    duration_s=0.5,
    start_s=T0,
    end_s=T0 + 1,
    sizes={1024: 3},
)


DIGEST = TraceDigest(
    lines=9,
    events=8,
    metadata=1,
    dropped={"broken json": 1},
    accesses=(ACCESS,),
    checkpoints=(Span(name="save", start_s=T0, end_s=T0 + 1, pid=7),),
    processes=(("n", 7),),
    generations={4: 9},
)


def test_counters_add_up() -> None:
    pipeline = Pipeline()
    for event in (DIGEST, DIGEST, EventsLost(source="emit", count=3), EventsLost(source="emit", count=4)):
        pipeline.handle(event, T0)
    counters = pipeline.counters
    assert (counters.events, counters.trace_lines, counters.trace_events) == (4, 18, 16)
    assert (counters.dropped, counters.lost, counters.generations) == (
        {"broken json": 2},
        {"emit": 7},
        {4: 18},
    )
    assert pipeline.observers.workflow.processes == {("n", 7)}


def test_words_of_a_newer_or_foreign_sender_make_no_event_unreadable() -> None:
    """Events keep what they brought; inside, a word that is not known counts as the safe one."""
    job = Job(CACHED, mutability={"SCR_FLUSH": "live", "SCR_FLUSH_ASYNC": "by telepathy"})
    job.start(sources={"SCR_FLUSH": "a file of their own"})
    job.tell(msgspec.structs.replace(DIGEST, accesses=(msgspec.structs.replace(ACCESS, tier="x", op="y"),)))
    journal = [(now, _round_trip(msgspec.msgpack, event)) for now, event in job.journal]
    assert journal == job.journal
    assert job.pipeline.situation.mutability.of("SCR_FLUSH_ASYNC") is Mutability.LAUNCH
    assert job.pipeline.intents.buffers.evidence.count == 0
    again, effects = replayed(journal)
    assert (effects, state(again, job.now)) == (job.effects, state(job.pipeline, job.now))


def test_words_travel_as_their_values() -> None:
    assert msgspec.json.encode([*Mutability, *Tier]) == (
        b'["live","live on rank 0","re-init","launch","none","cache","prefix","scr","other"]'
    )
    assert {Tier.CACHE: 1}["cache"] == {"cache": 1}[Tier.CACHE]  # type: ignore[index]
    assert f"{Tier.CACHE} {Verdict.BASELINE}" == "cache back to the user's settings"


def test_events_that_cannot_be_true_are_counted_and_cost_nothing_else() -> None:
    job = Job(CACHED).checkpoints(2)
    account = job.pipeline.account(job.now)
    for bad in (
        StepCompleted(step=1, start_s=math.nan, end_s=job.now),
        StepCompleted(step=1, start_s=job.now, end_s=1e300),
        OutputCompleted(dataset=9, name="d", start_s=job.now, end_s=job.now - 1),
        JobStarted(time_s=0.0),
    ):
        assert job.tell(bad) == []
    assert sum(job.pipeline.counters.dropped.values()) == 4
    assert job.pipeline.account(job.now) == account


def test_before_the_job_says_what_it_runs_under_costs_are_kept_and_nothing_is_tuned() -> None:
    pipeline = Pipeline()
    assert pipeline.advice == Advice()
    output = OutputCompleted(dataset=1, name="d", start_s=T0, end_s=T0 + 2)
    assert pipeline.handle(output, T0 + 2) == []
    assert [cost.cost_s for cost in pipeline.costs] == [2.0]
    assert pipeline.proposals() == ()
    assert pipeline.account(T0 + 2).checkpoints == 1


def test_an_event_that_comes_twice_is_known_by_the_last_thousand() -> None:
    events = [StepCompleted(step=number, start_s=T0, end_s=T0 + 1) for number in range(1025)]
    seen = EventFilter()
    assert [seen.problem(event, T0 + 1) for event in events] == [None] * 1025
    assert seen.problem(events[-1], T0 + 1) is not None
    assert seen.problem(events[0], T0 + 1) is None


def test_memory_is_bounded_however_long_the_job() -> None:
    job = Job(CACHED, tuning=False, recommend=False)
    job.pipeline.costs[:] = [job.checkpoints(1).pipeline.costs[-1]] * 10_000
    for number in range(1400):
        job.checkpoint()
        job.journal.clear()
        job.pipeline.handle(
            TraceDigest(processes=tuple(("n", 50 * number + pid) for pid in range(50))), job.now
        )
    assert len(job.pipeline.costs) == 10_000
    assert len(job.pipeline.observers.workflow.processes) <= 65_536 + 50


numbers = st.floats(allow_nan=True) | st.floats(T0 - 100, T0 + 100)
texts = st.sampled_from(["", "XOR", "SINGLE", "cache", "NODE", "x"])
scalars = st.integers(-(2**63), 2**63 - 1) | numbers | texts


anything: st.SearchStrategy[Event] = st.one_of(
    st.builds(JobStarted, time_s=numbers, ranks=st.integers(-1, 9)),
    st.builds(JobEnded, time_s=numbers),
    st.builds(StepCompleted, step=st.integers(-9, 99), start_s=numbers, end_s=numbers),
    st.builds(OutputStarted, dataset=st.integers(), name=texts, time_s=numbers),
    st.builds(
        OutputCompleted,
        dataset=st.integers(-1, 5),
        name=texts,
        start_s=numbers,
        end_s=numbers,
        generation=st.integers(-1, 3),
        valid=st.booleans(),
        bytes=st.integers(-(2**63), 2**63 - 1),
        files=st.integers(-9, 9),
        write_s=numbers,
        encode_s=numbers,
        flush_s=numbers,
        wait_s=numbers,
        apply_s=numbers,
        flush_due=st.booleans(),
    ),
    st.builds(
        FlushCompleted,
        dataset=st.integers(-1, 5),
        start_s=numbers,
        end_s=numbers,
        asynchronous=st.booleans(),
        valid=st.booleans(),
    ),
    st.builds(RestartCompleted, dataset=st.integers(), name=texts, start_s=numbers, end_s=numbers),
    st.builds(
        SettingsObserved,
        settings=st.dictionaries(st.sampled_from(sorted(DEFAULTS)), scalars),
        sources=st.dictionaries(st.sampled_from(sorted(DEFAULTS)), texts),
        ranks=st.integers(-1, 9),
        nodes=st.integers(-1, 9),
        floor=texts,
        override=st.booleans(),
        mutability=st.dictionaries(
            st.sampled_from(sorted(DEFAULTS)), st.sampled_from(["live", "re-init", "launch", "inert", "?"])
        ),
    ),
    st.builds(
        NodeObserved,
        host=texts,
        cpus=st.just(tuple(range(8))),
        processes=st.lists(
            st.builds(ProcessUse, pid=st.integers(), cpus=st.just((0, 1)), cores_used=st.floats(0, 9)),
            max_size=2,
        ).map(tuple),
        memory_available_bytes=st.integers(-1, 2**40),
        cache_free_bytes=st.integers(-1, 2**40),
    ),
    st.builds(EventsLost, source=texts, count=st.integers(-9, 9)),
    st.builds(TuningSwitched, on=st.booleans()),
    st.builds(ApplyRefused, generation=st.integers(-1, 9), why=texts),
    st.builds(UserEdited, changes=st.dictionaries(st.sampled_from(sorted(DEFAULTS)), scalars, max_size=2)),
    st.just(DIGEST),
)


@given(st.lists(anything, max_size=40))
@example([SettingsObserved(settings={"SCR_CACHE_SIZE": 2.0**64})])
def test_whatever_comes_the_pipeline_goes_on(events: list[Event]) -> None:
    pipeline, now = Pipeline(), T0
    for event in (*events, *_a_quiet_end()):
        now += 1.0
        for effect in pipeline.handle(event, now):
            if isinstance(effect, RewriteConfig):
                assert effect.advice == pipeline.advice
    account = pipeline.account(now)
    assert sum(account.buckets.values()) == pytest.approx(account.wall_s, abs=1e-3)
    assert pipeline.intents.named()
    assert isinstance(pipeline.proposals(), tuple)


def _a_quiet_end() -> Iterator[Event]:
    for number in range(4):
        yield OutputCompleted(
            dataset=100 + number, name="d", start_s=T0 + 200 + number, end_s=T0 + 200.5 + number
        )


def test_over_many_noisy_jobs_nothing_is_changed_that_must_not_be() -> None:
    for seed in range(15):
        job = Job({**CACHED, "SCR_COPY_TYPE": "XOR"}, seed=seed, noise=0.3, nodes=2, floor="XOR").checkpoints(
            40
        )
        log: list[Decision] = list(job.pipeline.decisions)
        names = {name for decision in log for name in decision.changes}
        assert not names & {"SCR_PREFIX_PURGE", "SCR_CACHE_PURGE", "SCR_PREFIX_SIZE", "SCR_PREFIX"}
        for trial in (each for each in log if each.verdict is Verdict.TRIAL):
            assert trial.changes != trial.previous
