"""The ledger does not care in which order, how often or in what portions it is told."""

import pickle
import random
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrtune.goodput.buckets import OF_INTERVAL, STRONGER_THAN_CUSTOM, WEAKER_THAN_CUSTOM
from scrtune.goodput.events import (
    INTERVAL_KINDS,
    AllocationEnded,
    FlushCompleted,
    GoodputEvent,
    Interval,
    IntervalEnded,
    IntervalStarted,
    JobEnded,
    JobHalted,
    JobQueued,
    JobStarted,
    NodeFailed,
    OutputCompleted,
    OutputStarted,
    Recovered,
    RestartCompleted,
    SlicesObserved,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.job_events import JobEvents
from scrtune.goodput.ledger.derivation import Limits
from scrtune.goodput.ledger.ledger import CHARGED, Account, Ledger

from ...support.defined_account import defined

T0 = 1_700_000_000.0
NS = 1_000_000_000

# whole and half seconds of a short time: so that borders meet, nest and straddle
times = st.integers(0, 80).map(lambda half: T0 + half / 2)
lengths = st.integers(-2, 40).map(lambda half: half / 2)
writers = st.sampled_from(["", "a", "b"])
kinds = st.sampled_from([*INTERVAL_KINDS, "of another time"])
names = st.sampled_from(["", "eval", "profile"])
parts = st.integers(-1, 8).map(float)


@st.composite
def spans(draw: st.DrawFn) -> dict[str, float]:
    start = draw(times)
    return {"start_s": start, "end_s": start + draw(lengths)}


def moments(made: type, /, **fields: st.SearchStrategy[object]) -> st.SearchStrategy[GoodputEvent]:
    return st.builds(made, time_s=times, **fields)


def stretches(made: type, /, **fields: st.SearchStrategy[object]) -> st.SearchStrategy[GoodputEvent]:
    return st.tuples(spans(), st.fixed_dictionaries(fields)).map(lambda drawn: made(**drawn[0], **drawn[1]))


steps = st.integers(0, 12)
events: st.SearchStrategy[GoodputEvent] = st.one_of(
    moments(JobStarted, writer=writers),
    moments(JobEnded, exit_code=st.sampled_from([None, 0, 1]), writer=writers),
    moments(StepStarted, step=steps, writer=writers),
    moments(StepStarted, step=steps, writer=writers),
    moments(IntervalStarted, kind=kinds, name=names, writer=writers),
    moments(IntervalEnded, kind=kinds, name=names, writer=writers),
    stretches(Interval, kind=kinds, name=names, writer=writers),
    stretches(StepCompleted, step=steps, writer=writers),
    stretches(
        OutputCompleted,
        dataset=st.integers(1, 3),
        name=st.just("d"),
        write_s=parts,
        encode_s=parts,
        flush_s=parts,
        wait_s=parts,
        apply_s=parts,
    ),
    stretches(RestartCompleted, dataset=st.just(1), name=st.just("d"), valid=st.booleans()),
    stretches(Recovered, dataset=st.just(1), kind=st.sampled_from(["fetch", "rebuild", "scavenge", "?"])),
    stretches(FlushCompleted, dataset=st.just(1)),
    moments(OutputStarted, dataset=st.just(1), name=st.just("d")),
    moments(JobHalted),
    moments(NodeFailed),
    moments(JobQueued),
    moments(AllocationEnded),
    moments(SlicesObserved, active=st.just(1), total=st.just(2)),
)
few_kinds: st.SearchStrategy[GoodputEvent] = st.one_of(  # so many of each that some are settled
    moments(StepStarted, step=steps, writer=st.just("")),
    moments(StepStarted, step=steps, writer=st.just("a")),
    moments(StepStarted, step=steps, writer=st.just("a")),
    stretches(StepCompleted, step=steps, writer=st.just("a")),
    moments(IntervalStarted, kind=st.just("custom"), writer=st.just("a")),
    moments(IntervalEnded, kind=st.just("custom"), writer=st.just("a")),
    moments(JobStarted, writer=writers),
    moments(JobEnded, exit_code=st.just(0), writer=writers),
)
logs = st.one_of(st.lists(events, max_size=40), st.lists(few_kinds, min_size=10, max_size=50))
nows = st.integers(0, 120).map(lambda half: T0 + half / 2)


TINY = Limits(tail=3, reach=3, skew=8)
"""A short log has many blocks, splits them, joins them, and settles."""


def told(log: list[GoodputEvent]) -> Ledger:
    ledger = Ledger(remembered=None, limits=TINY)
    for event in log:
        ledger.handle(event)
    return ledger


def spent_ns(account: Account) -> dict[str, int]:
    """Whole nanoseconds, without the buckets that are empty."""
    return {name: round(value * NS) for name, value in account.buckets.items() if value}


@given(logs, nows)
def test_the_buckets_sum_to_the_wall_time_to_the_nanosecond(log: list[GoodputEvent], now: float) -> None:
    account = told(log).account(now)
    assert sum(spent_ns(account).values()) == round(account.wall_s * NS)
    assert min(account.buckets.values()) >= 0
    assert 0 <= account.goodput <= 1


@given(logs, nows, st.randoms(use_true_random=False))
def test_any_order_gives_the_same_account(
    log: list[GoodputEvent], now: float, shuffler: random.Random
) -> None:
    shuffled = list(log)
    shuffler.shuffle(shuffled)
    assert told(shuffled).account(now) == told(log).account(now)


@given(logs, nows, times, times, st.randoms(use_true_random=False))
def test_any_order_with_looks_in_between_gives_the_same_window(
    log: list[GoodputEvent], now: float, one: float, other: float, chance: random.Random
) -> None:
    """The steps in it to a millionth: of steps that overlap, those in each block are added up."""
    bounds = min(one, other), max(one, other), now
    shuffled = list(log)
    chance.shuffle(shuffled)
    ledger = Ledger(remembered=None, limits=TINY)
    for event in shuffled:
        ledger.handle(event)
        if chance.random() < 0.4:
            ledger.window(*bounds)
    assert ledger.window(*bounds) == told(log).window(*bounds)
    window = ledger.window(*bounds, reference_step_s=0.5)
    assert window.buckets == pytest.approx(told(log).window(*bounds, reference_step_s=0.5).buckets, abs=1e-3)


@given(logs, nows, st.randoms(use_true_random=False))
def test_looking_after_every_event_gives_the_same_account_as_looking_once(
    log: list[GoodputEvent], now: float, chance: random.Random
) -> None:
    ledger = Ledger(remembered=None, limits=TINY)
    for event in log:
        ledger.handle(event)
        if chance.random() < 0.4:
            ledger.account(now)
    assert ledger.account(now) == told(log).account(now)


@given(logs, nows)
def test_looking_after_every_event_of_a_log_in_order(log: list[GoodputEvent], now: float) -> None:
    log = sorted(log, key=lambda event: getattr(event, "end_s", 0.0) or event.time_s)
    ledger = Ledger(remembered=None, limits=TINY)
    for event in log:
        ledger.handle(event)
        ledger.account(now)
    assert ledger.account(now) == told(log).account(now)


@given(logs, nows, st.data())
def test_what_is_reported_again_changes_nothing(
    log: list[GoodputEvent], now: float, data: st.DataObject
) -> None:
    again = data.draw(st.lists(st.sampled_from(log), max_size=20)) if log else []
    assert told([*log, *again]).account(now) == told(log).account(now)


@given(logs, nows)
def test_many_at_once_are_the_same_as_one_by_one(log: list[GoodputEvent], now: float) -> None:
    ledger = Ledger(remembered=None, limits=TINY)
    ledger.extend(log)
    assert ledger.account(now) == told(log).account(now)
    of_columns = Ledger(remembered=None, limits=TINY)
    of_columns.extend(JobEvents(log))
    assert of_columns.account(now) == told(log).account(now)


@given(
    logs,
    nows,
    st.lists(times, max_size=5),
    st.tuples(st.floats(-20, 20), st.floats(-20, 20)),
    st.sampled_from([None, 0.5, 2.0]),
)
def test_windows_that_follow_each_other_add_up_to_the_account(
    log: list[GoodputEvent],
    now: float,
    borders: list[float],
    charges: tuple[float, float],
    reference: float | None,
) -> None:
    ledger = told(log)
    for bucket, charge_s in zip(CHARGED, charges, strict=True):
        ledger.charge(bucket, charge_s)
    whole = ledger.account(now, reference_step_s=reference)
    all_of_it = ledger.window(T0 - 5, T0 + 200, now, reference_step_s=reference)
    assert all_of_it.buckets == whole.buckets
    edges = sorted({T0 - 5, *borders, T0 + 200})
    windows = [ledger.window(start, end, now, reference_step_s=reference) for start, end in pairwise(edges)]
    added: dict[str, int] = {}
    for window in windows:
        nanoseconds = {name: round(value * NS) for name, value in window.buckets.items() if value}
        assert sum(nanoseconds.values()) == round(window.wall_s * NS)
        assert min(window.buckets.values()) >= 0
        for name, value in nanoseconds.items():
            added[name] = added.get(name, 0) + value
    of_all = spent_ns(whole)
    slow, slow_of_all = added.pop("step_slowdown", 0), of_all.pop("step_slowdown", 0)
    assert slow >= slow_of_all - len(windows)  # the fast steps of one do not make up for another's slow ones
    added["productive"] = added.get("productive", 0) + slow - slow_of_all
    assert {name: value for name, value in added.items() if value} == of_all


@given(st.lists(stretches(Interval, kind=kinds, name=names), min_size=1, max_size=25), nows)
def test_the_strongest_claim_has_each_moment(log: list[Interval], now: float) -> None:
    """An oracle: half a second by half a second, by the order of precedence as it is written."""
    strong = [*STRONGER_THAN_CUSTOM, *sorted({_bucket(each) for each in log if _is_own(each)})]
    order = [*strong, *WEAKER_THAN_CUSTOM]
    claims = [(each, _bucket(each)) for each in log if each.kind != "data_loading_async"]
    first = min(each.start_s for each in log)
    last = max(now, *(max(each.start_s, each.end_s) for each in log))
    expected: dict[str, int] = {}
    at = first
    while at < last:
        here = [bucket for each, bucket in claims if each.start_s <= at < each.end_s]
        bucket = min(here, key=order.index) if here else "startup"
        expected[bucket] = expected.get(bucket, 0) + NS // 2
        at += 0.5
    assert spent_ns(told(list(log)).account(now)) == expected


def _is_own(each: Interval) -> bool:
    return each.kind not in OF_INTERVAL


def _bucket(each: Interval) -> str:
    unnamed = "unnamed" if each.kind == "custom" else each.kind
    return "custom:" + (each.name or unnamed) if _is_own(each) else OF_INTERVAL[each.kind]


plain_logs = st.lists(
    st.one_of(
        stretches(StepCompleted, step=steps),
        stretches(StepCompleted, step=steps),
        moments(JobStarted),
        moments(JobEnded, exit_code=st.sampled_from([0, 1])),
        stretches(RestartCompleted, dataset=st.just(1), name=st.just("d")),
    ),
    max_size=25,
)


@given(plain_logs)
@example([StepCompleted(step=step, start_s=T0 + at, end_s=T0 + 1) for at, step in enumerate([2, 0, 1, 2])])
def test_steps_waste_and_background_are_as_defined(log: list[GoodputEvent]) -> None:
    """An oracle: half a second by half a second, by the definitions as they are written."""
    assert spent_ns(told([started_at_0, *log]).account(T0 - 1)) == defined([started_at_0, *log])


started_at_0 = JobStarted(time_s=T0 - 1)


@given(logs, nows)
def test_a_ledger_that_forgets_still_adds_up(log: list[GoodputEvent], now: float) -> None:
    ledger = Ledger(remembered=4, limits=TINY)
    for event in log:
        ledger.handle(event)
        account = ledger.account(now)
        assert sum(spent_ns(account).values()) == round(account.wall_s * NS)
        assert min(account.buckets.values()) >= 0


@given(
    st.integers(0, 50),
    st.lists(st.integers(0, 99), unique=True, max_size=12),
    st.sampled_from(["", "a"]),
    st.booleans(),
)
def test_steps_that_come_long_after_those_behind_them(
    back_to: int, late: list[int], writer: str, with_words: bool
) -> None:
    """Fifty steps, and fifty again from where the writer went back to; most of them are settled by then."""
    numbers = [*range(50), *range(back_to, back_to + 50)]
    log: list[list[GoodputEvent]] = [
        [StepCompleted(step=step, start_s=T0 + at, end_s=T0 + at + 0.75, writer=writer)]
        for at, step in enumerate(numbers)
    ]
    if with_words:
        for at, told_then in enumerate(log):
            told_then.append(
                Interval(kind="custom", start_s=T0 + at + 0.8, end_s=T0 + at + 0.9, writer=writer)
            )
    ledger = Ledger(remembered=None, limits=TINY)
    ledger.handle(JobStarted(time_s=T0))
    ledger.extend(event for at, told_then in enumerate(log) if at not in late for event in told_then)
    ledger.account(T0)
    for at in late:
        for event in log[at]:
            ledger.handle(event)
        ledger.account(T0)
    whole = [JobStarted(time_s=T0), *(event for told_then in log for event in told_then)]
    assert ledger.account(T0) == told(whole).account(T0)


@given(logs, logs, nows)
def test_a_ledger_that_was_pickled_goes_on(
    before: list[GoodputEvent], then: list[GoodputEvent], now: float
) -> None:
    ledger = Ledger(remembered=None, limits=TINY)
    ledger.extend(before)
    ledger.account(now)
    copy = pickle.loads(pickle.dumps(ledger))  # noqa: S301 - our own
    copy.extend(then)
    assert copy.account(now) == told([*before, *then]).account(now)


@given(st.lists(few_kinds, min_size=60, max_size=120), nows, st.integers(1, 9))
def test_a_long_log_of_which_most_is_settled(log: list[GoodputEvent], now: float, tail: int) -> None:
    log = sorted(log, key=lambda event: getattr(event, "end_s", 0.0) or event.time_s)
    ledger = Ledger(remembered=None, limits=TINY._replace(tail=tail))
    for at, event in enumerate(log):
        ledger.handle(event)
        if at % 13 == 0:
            ledger.account(now)
    once = Ledger(remembered=None, limits=TINY._replace(tail=1000))
    once.extend(JobEvents(log))
    assert ledger.account(now) == once.account(now)
    for window in ((T0, T0 + 10), (T0 + 7, T0 + 30)):
        assert ledger.window(*window, now) == once.window(*window, now)
