"""From messages to events: nothing is raised, nothing is invented, and what is not taken in is counted."""

import math
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.client.transport import wire
from scrtune.daemon.ingest import MAX_EVENTS, MAX_MESSAGE_BYTES, Ingest
from scrtune.goodput.events import JobStarted, OutputCompleted, StepCompleted
from scrtune.intents.events import LARGEST_COUNT, Event, EventsLost, SettingsObserved, TraceDigest

from ..support.memory import kept_bytes

TRACES = Path(__file__).parents[1] / "data" / "traces"
STEP = StepCompleted(step=1, start_s=1.0, end_s=2.0)
LINE = b'{"id":1,"name":"write","cat":"POSIX","pid":7,"tid":7,"ts":%d,"dur":5,"ph":"X","args":{"ret":10}}\n'


def taken(ingest: Ingest, *messages: bytes) -> list[Event]:
    """The events in `messages`, and their lines summed up."""
    events = [event for message in messages for event in ingest.message(message)]
    while ingest.sum_up():
        pass
    return events


def envelope(sequence: int, sender: str = "a", dropped: int = 0, events: Iterable[Event] = (STEP,)) -> bytes:
    return wire.encode(sender=sender, sequence=sequence, dropped=dropped, events=events)


# --- whatever the bytes are

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(message=st.binary(max_size=300))
def test_any_bytes(message: bytes) -> None:
    ingest = Ingest()
    assert all(isinstance(event, Event) for event in taken(ingest, message))
    ingest.digest(final=True)


@given(elements=st.lists(json_values, max_size=8))
def test_any_messagepack_array(elements: list[object]) -> None:
    ingest = Ingest()
    taken(ingest, msgspec.msgpack.encode(elements))
    ingest.digest(final=True)


@given(
    kind=st.sampled_from(["step_completed", "output_completed", "settings_observed", "node_observed", "x"]),
    fields=st.dictionaries(
        st.sampled_from(["step", "start_s", "end_s", "dataset", "name", "settings", "bytes", "host", "cpus"]),
        json_values,
    ),
)
def test_an_event_is_taken_in_or_counted(kind: str, fields: dict[str, object]) -> None:
    ingest = Ingest()
    raw = msgspec.msgpack.encode({"type": kind, **fields})
    message = msgspec.msgpack.encode([1, "a", 0, 0, b"", [msgspec.Raw(raw)]])
    assert len(taken(ingest, message)) + sum(ingest.rejected.values()) == 1


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "empty message"),
        (b"\xc1", "neither DFTracer lines nor an envelope"),
        (b"\x91" * 100_000, "neither DFTracer lines nor an envelope"),
        (msgspec.msgpack.encode([7, "a", 0, 0]), "protocol version 7; this daemon speaks 1"),
        (b"\x96" + bytes(MAX_MESSAGE_BYTES), "messages larger than 16 MiB"),
    ],
)
def test_a_message_that_is_none_is_counted_by_its_reason(message: bytes, reason: str) -> None:
    ingest = Ingest()
    assert taken(ingest, message) == []
    assert ingest.rejected == {reason: 1}


def test_reasons_without_end_are_counted_together_in_the_end() -> None:
    ingest = Ingest()
    taken(ingest, *(msgspec.msgpack.encode([version, "a", 0, 0]) for version in range(2, 1002)))
    assert len(ingest.rejected) <= 101
    assert sum(ingest.rejected.values()) == 1000


NUMBERS, SHAPES = "events with a number or text out of bounds", "events of an unknown type or shape"


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (StepCompleted(step=1, start_s=math.nan, end_s=1.0), NUMBERS),
        (StepCompleted(step=1, start_s=0.0, end_s=math.inf), NUMBERS),
        (StepCompleted(step=1, start_s=1.7e12, end_s=1.7e12), NUMBERS),  # milliseconds
        (OutputCompleted(dataset=1, name="a", start_s=0.0, end_s=1.0, bytes=2**63), NUMBERS),
        (OutputCompleted(dataset=1, name="a" * 100_000, start_s=0.0, end_s=1.0), NUMBERS),
        (SettingsObserved(settings={"SCR_FLUSH": math.nan}), NUMBERS),
        (EventsLost(source="x", count=LARGEST_COUNT + 1), SHAPES),
        (EventsLost(source="x" * 1025, count=1), SHAPES),
        (TraceDigest(lines=-1), SHAPES),
        (TraceDigest(generations={2**60: 1}), SHAPES),
        (TraceDigest(dropped={"broken json": LARGEST_COUNT + 1}), SHAPES),
    ],
)
def test_what_is_out_of_bounds_costs_its_event_only(event: Event, reason: str) -> None:
    ingest = Ingest()
    assert taken(ingest, envelope(0, events=(event, STEP))) == [STEP]
    assert ingest.rejected == {reason: 1}


def test_a_message_brings_a_bounded_number_of_events() -> None:
    ingest = Ingest()
    assert len(taken(ingest, envelope(0, events=[STEP] * (MAX_EVENTS + 5)))) == MAX_EVENTS
    assert sum(ingest.rejected.values()) == 5


# --- what was lost on the way


def test_drops_and_gaps_are_told_once() -> None:
    ingest = Ingest()
    told = taken(ingest, envelope(0), envelope(1, dropped=3), envelope(5, dropped=3), envelope(6, dropped=4))
    assert [event for event in told if event != STEP] == [
        EventsLost(source="a: dropped, its queue was full", count=3),
        EventsLost(source="a: messages that never arrived", count=3),
        EventsLost(source="a: dropped, its queue was full", count=1),
    ]


def test_what_a_new_sender_sent_before_is_missing() -> None:
    assert taken(Ingest(), envelope(3)) == [
        EventsLost(source="a: messages that never arrived", count=3),
        STEP,
    ]


def test_unless_others_heard_that() -> None:
    ingest = Ingest(others_heard=True)
    assert taken(ingest, envelope(3)) == [STEP]
    assert taken(ingest, envelope(5))[0] == EventsLost(source="a: messages that never arrived", count=1)


def test_in_another_journal_all_senders_are_known_whose_messages_are_events() -> None:
    ingest = Ingest()
    taken(ingest, envelope(0, "a"), envelope(0, "b"), wire.encode(sender="c", sequence=0, lines=LINE % 1))
    assert ingest.heard().keys() == {"a", "b"}
    ingest.hear_all_again()
    assert ingest.heard() == {"a": (1, 0), "b": (1, 0)}
    ingest.digest()
    assert ingest.heard() == {"c": (1, 0)}


def test_a_restarted_daemon_does_not_count_drops_again() -> None:
    before, after = Ingest(), Ingest()
    for event in taken(before, envelope(0, dropped=3), envelope(1, dropped=5)):
        after.recall(event)
    after.recall_senders(before.heard())
    assert taken(after, envelope(2, dropped=5)) == [STEP]
    assert taken(after, envelope(3, dropped=6))[0] == EventsLost(
        source="a: dropped, its queue was full", count=1
    )


@given(
    sent=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=8),
    kill=st.integers(0, 40),
)
def test_wherever_a_daemon_is_killed_its_successor_counts_nothing_twice(
    sent: list[tuple[int, int, int]], kill: int
) -> None:
    """A message: what is missing and dropped before it, its events. Each is journaled before the next."""
    ingest, journal, senders, sequence, dropped = Ingest(), list[Event](), dict[str, tuple[int, int]](), 0, 0
    for missing, more, count in [(0, 0, 1), *sent, (0, 0, 1)]:
        sequence, dropped = sequence + missing, dropped + more
        for event in ingest.message(envelope(sequence, dropped=dropped, events=[STEP] * count)):
            journal.append(event)
            senders |= ingest.heard()
            if len(journal) == kill:
                ingest = Ingest()
                ingest.recall_senders(senders)
                break
        sequence += 1
    lost = {"never arrived": 0, "queue was full": 0}
    for event in journal:
        if isinstance(event, EventsLost):
            lost[next(what for what in lost if event.source.endswith(what))] += event.count
    assert lost["queue was full"] == dropped
    missed = sum(missing for missing, _, _ in sent)
    assert lost["never arrived"] in {missed, missed + 1}, "the one more is the message that it was killed in"


def test_a_sender_that_is_started_again_counts_anew() -> None:
    ingest = Ingest()
    assert taken(ingest, *map(envelope, range(7)), envelope(0, dropped=2))[7] == EventsLost(
        source="a: dropped, its queue was full", count=2
    )


def test_senders_without_end_take_bounded_room_and_do_not_displace_a_busy_one() -> None:
    ingest = Ingest()
    lost: set[str] = set()
    taken(ingest, envelope(0, "busy"))
    for number in range(12_000):
        told = taken(ingest, envelope(0, f"s{number}", dropped=1))
        lost |= {event.source for event in told if isinstance(event, EventsLost)}
        if number % 1000 == 0:
            assert taken(ingest, envelope(1 + number // 1000, "busy")) == [STEP], "nothing of it is missed"
    ingest.heard()
    assert len(ingest.senders()) <= 10_000
    assert len(lost) <= 102
    assert "other senders: dropped, its queue was full" in lost
    assert taken(ingest, envelope(9, "s1", dropped=1))[1:] == [STEP], (
        "it was forgotten: nothing is known to be missing"
    )


def test_senders_of_long_names_take_bounded_room() -> None:
    def fed() -> Ingest:
        ingest = Ingest()
        for number in range(500):
            taken(ingest, envelope(0, str(number) + "s" * 10_000, dropped=1))
        return ingest

    assert kept_bytes(fed) < 1_000_000


@given(sequences=st.lists(st.tuples(st.integers(-(2**63), 2**64 - 1), st.integers(-(2**63), 2**64 - 1))))
def test_absurd_numbers_of_messages_give_counts_that_can_be_added(sequences: list[tuple[int, int]]) -> None:
    told = taken(Ingest(), *(envelope(sequence, dropped=dropped) for sequence, dropped in sequences))
    assert all(0 < event.count <= 2**40 for event in told if isinstance(event, EventsLost))


# --- trace lines


def test_raw_lines_and_lines_in_an_envelope_are_the_same() -> None:
    lines = b"".join(LINE % time for time in range(5000))
    raw, wrapped = Ingest(), Ingest()
    taken(raw, lines)
    taken(wrapped, wire.encode(sender="", sequence=0, lines=lines))
    digest = raw.digest(final=True)
    assert digest is not None
    assert digest == wrapped.digest(final=True)
    assert (digest.lines, digest.events) == (5000, 5000)


def test_lines_are_summed_up_in_short_pieces() -> None:
    ingest = Ingest()
    lines = LINE % 1 * 5000
    assert list(ingest.message(lines)) == []
    pieces = sum(1 for _ in iter(ingest.sum_up, False))
    assert pieces == pytest.approx(len(lines) / 16_384, rel=0.1)


def test_what_waits_can_be_given_up_and_is_counted() -> None:
    ingest = Ingest()
    list(ingest.message(LINE % 1 * 1000))
    list(ingest.message(LINE % 2 * 500))
    ingest.sum_up()
    left = ingest.give_up()
    digest = ingest.digest(final=True)
    assert digest is not None
    assert digest.lines + left == 1500
    assert not ingest.sum_up()


def test_real_broken_lines_are_counted_and_their_neighbours_taken_in() -> None:
    ingest = Ingest()
    for path in sorted(TRACES.glob("gen4-broken-strings/**/*.pfw")):
        taken(ingest, path.read_bytes())
    digest = ingest.digest(final=True)
    assert digest is not None
    assert digest.dropped["broken json"] > 0
    assert digest.events > 10 * sum(digest.dropped.values())


def test_a_truncated_line_costs_itself() -> None:
    ingest = Ingest()
    taken(ingest, LINE % 1 + (LINE % 2)[:40])
    digest = ingest.digest(final=True)
    assert digest is not None
    assert (digest.events, digest.dropped) == (1, {"broken json": 1})


def test_the_settings_tell_where_cache_and_prefix_are() -> None:
    ingest = Ingest()
    taken(ingest, envelope(0, events=(SettingsObserved(settings={}, prefix="/p", cache="/c"),)))
    for tier in "pc":
        line = LINE.replace(b'"ret":10', b'"ret":10,"fname":"/' + tier.encode() + b'/file"')
        taken(ingest, line % 1)
    digest = ingest.digest()
    assert digest is not None
    assert [access.tier for access in digest.accesses] == ["cache", "prefix"]


# --- secrets


def test_a_password_goes_no_further() -> None:
    observed = SettingsObserved(
        settings={"SCR_LOG_DB_PASS": "hunter2", "SCR_FLUSH": 1},
        sources={"SCR_LOG_DB_PASS": "environment", "SCR_FLUSH": "environment"},
    )
    (event,) = taken(Ingest(), envelope(0, events=(observed,)))
    assert event == SettingsObserved(settings={"SCR_FLUSH": 1}, sources={"SCR_FLUSH": "environment"})


def test_of_two_applications_at_once_the_one_that_began_last_counts_and_the_other_is_told() -> None:
    ingest = Ingest()

    def said(sender: str, *events: Event) -> list[Event]:
        return taken(ingest, wire.encode(sender=sender, sequence=0, events=events))

    def checkpoint(start_s: float) -> OutputCompleted:
        return OutputCompleted(dataset=1, name="a", start_s=start_s, end_s=start_s + 1)

    said("a", JobStarted(time_s=100.0), checkpoint(110.0))
    said("b", JobStarted(time_s=200.0))
    late, beside, last = checkpoint(150.0), checkpoint(210.0), checkpoint(211.0)
    assert said("a", late) == [late], "of the run before, told late"
    assert said("a", beside) == []
    assert said("recorder", last) == said("b", last) == said("", last) == [last]
    ((reason, count),) = ingest.rejected.items()
    assert (reason.partition(":")[0], count) == (
        "checkpoints of an application beside the one that began last",
        1,
    )
