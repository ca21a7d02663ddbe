"""The page of a job: what there is to show, and how it says so."""

import re
from html import unescape
from html.parser import HTMLParser
from xml.etree import ElementTree as ET

import msgspec
import pytest

from scrtune.cli.format import VERDICTS
from scrtune.cli.html.page import page
from scrtune.cli.html.theme import GROUPS, colour_of, group_of
from scrtune.goodput.buckets import BUCKETS
from scrtune.goodput.events import (
    FlushCompleted,
    GoodputEvent,
    Interval,
    JobEnded,
    JobHalted,
    JobStarted,
    NodeFailed,
    OutputCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.report import POINTS, SLICES
from scrtune.goodput.report_lanes import BARS, LANES, LaneBar, thinned
from scrtune.intents.tune.decisions import Verdict
from scrtune.intents.tune.gains import together

from ...support.report_job import CHANGES, GAIN, HOSTILE, T, checkpointed, reported, section, trial, view_of


class Seen(HTMLParser):
    """Tags, attributes and text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str]] = []
        self.text: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += [(name, value or "") for name, value in attrs]

    def handle_data(self, data: str) -> None:
        self.text.append(data)


# What there is to show


def slowed() -> list[GoodputEvent]:
    """A hundred steps, a checkpoint, and ten steps that its flush makes twice as long."""
    events: list[GoodputEvent] = [JobStarted(time_s=T)]
    events += [StepCompleted(step=step, start_s=T + step, end_s=T + step + 1) for step in range(100)]
    events.append(OutputCompleted(dataset=1, name="c", start_s=T + 100, end_s=T + 101, flush_due=True))
    for step in range(10):
        start_s = T + 101 + 2 * step
        events.append(StepCompleted(step=100 + step, start_s=start_s, end_s=start_s + 2))
    return [*events, FlushCompleted(dataset=1, start_s=T + 101, end_s=T + 121, asynchronous=True)]


@pytest.mark.parametrize("events", [checkpointed(), checkpointed(runs=3), slowed()])
def test_slices_of_time_add_up_to_the_account(events: list[GoodputEvent]) -> None:
    shown = reported(events)
    assert len(shown.slices) == SLICES
    assert sum(window.wall_s for window in shown.slices) == pytest.approx(shown.account.wall_s)
    for bucket, spent_s in shown.account.buckets.items():
        of_slices = sum(window.buckets.get(bucket, 0.0) for window in shown.slices)
        assert of_slices == pytest.approx(spent_s, abs=1e-6)


def test_the_slowdown_by_a_flush_is_in_the_account_and_in_the_cost_of_its_checkpoint() -> None:
    shown = reported(slowed())
    assert shown.account.buckets["flush_slowdown"] == pytest.approx(10, rel=0.01)
    assert shown.costs[0].parts["flush_slowdown"] == pytest.approx(10, rel=0.01)


def test_the_slowdown_is_drawn_where_the_flush_was() -> None:
    shown = reported(slowed())
    before_s = sum(each.buckets["flush_slowdown"] for each in shown.slices if each.end_s <= T + 100)
    assert before_s == 0
    assert shown.slices[-1].buckets["flush_slowdown"] == pytest.approx(shown.slices[-1].wall_s / 2, rel=0.1)


def test_lanes_have_every_event_and_their_own_seconds() -> None:
    lanes = {lane.name: lane for lane in reported(checkpointed()).lanes}
    assert (lanes["runs"].events, lanes["steps"].events) == (2, 115)
    for name in ("checkpoint_write", "checkpoint_encode", "background flush"):
        assert lanes[name].events == 12
    assert sum(bar.busy_s for bar in lanes["checkpoint_encode"].bars) == pytest.approx(12 * 0.2, abs=1e-5)
    assert sum(bar.busy_s for bar in lanes["checkpoint_other"].bars) == pytest.approx(12 * 0.3, abs=1e-5)
    assert {"rebuild", "restore", f"custom:{HOSTILE}"} <= lanes.keys()


@pytest.mark.parametrize("runs", [1, 2, 4])
def test_steps_that_were_computed_again_are_those_that_the_account_has_as_wasted(runs: int) -> None:
    shown = reported(checkpointed(runs=runs))
    again = [lane for lane in shown.lanes if lane.name == "wasted_progress"]
    assert sum(lane.events for lane in again) == 5 * (runs - 1)
    busy_s = sum(bar.busy_s for lane in again for bar in lane.bars)
    assert busy_s == pytest.approx(shown.account.buckets["wasted_progress"])


def test_a_lane_is_a_bucket_of_the_account_or_none_at_all() -> None:
    none = {"runs", "steps", "work between outputs", "background flush"}
    assert set(LANES) - none <= set(BUCKETS)
    told = [
        Interval(kind=kind, name=name, start_s=T + at, end_s=T + at + 0.5)
        for at, (kind, name) in enumerate(
            [
                ("checkpoint_save", ""),
                ("checkpoint_restore", ""),
                ("data_loading", ""),
                ("device_init", ""),
                ("custom", "EVAL_STEP"),
                ("custom", ""),
                ("my own kind", ""),
            ]
        )
    ]
    shown = reported([JobStarted(time_s=T), *told])
    spent = {bucket for bucket, spent_s in shown.account.buckets.items() if spent_s > 0}
    assert {lane.name for lane in shown.lanes} - none == spent - {"startup", "other"}


def test_checkpoints_are_counted_once() -> None:
    saves = [
        Interval(kind="checkpoint_save", start_s=T + 10 * at, end_s=T + 10 * at + 1) for at in range(1, 4)
    ]
    for events, count in (([JobStarted(time_s=T), *saves], 3), (checkpointed(), 12)):
        shown = reported(events)
        assert shown.account.checkpoints == shown.checkpoints == count
        assert f"<dt>Checkpoints</dt><dd>{count}<small>" in page(shown, (), version="0")


def test_thinned_lanes_lose_no_event_and_no_second() -> None:
    bars = [LaneBar(T + step, T + step + 0.9, 0.9) for step in range(10_000)]
    made = thinned(bars, 10_000 / BARS)
    assert len(made) <= BARS
    assert sum(bar.count for bar in made) == 10_000
    assert sum(bar.busy_s for bar in made) == pytest.approx(9_000)
    assert thinned(bars[:BARS], 10_000) == bars[:BARS]


def test_a_disruption_is_counted_once() -> None:
    told = [each.what for each in reported(checkpointed()).disruptions]
    assert told == ["a node failed: node7"]
    ended = [JobStarted(time_s=T), JobEnded(time_s=T + 5, exit_code=137), JobStarted(time_s=T + 9)]
    assert [each.what for each in reported(ended).disruptions] == ["a run ended with exit code 137"]
    broken = [JobStarted(time_s=T), StepStarted(step=1, time_s=T + 5), JobStarted(time_s=T + 9)]
    assert [(each.time_s, each.what) for each in reported(broken).disruptions] == [(T + 5, "a run broke off")]
    halted = [JobStarted(time_s=T), JobHalted(time_s=T + 5, reason="X"), JobStarted(time_s=T + 9)]
    assert reported(halted).disruptions == ()  # it was planned: --interval counts no failure either


def test_many_disruptions_are_rows_by_kind_with_their_number() -> None:
    events: list[GoodputEvent] = []
    for number in range(67):
        at_s = T + 1000 * number
        events += [JobStarted(time_s=at_s), StepStarted(step=number, time_s=at_s + 1)]
        if number % 2:
            events.append(NodeFailed(time_s=at_s + 10, node=f"n{number}"))
    shown = reported([*events, JobEnded(time_s=at_s + 20, exit_code=9)])
    assert len(shown.disruptions) == 67
    rows = section(page(shown, (), version="0"), "Disruptions")
    assert {row[0]: row[1] for row in rows} == {
        "a run broke off": "33",
        "a node failed": "33",
        "a run ended with exit code 9": "1",
    }
    nodes = {row[0]: row[2:] for row in rows}["a node failed"]
    assert nodes == ["n1, n3, n5, 30 more", "16 min 50 s", "18 h 03 min"]
    alone = page(reported([JobStarted(time_s=T), NodeFailed(time_s=T + 1, node="n7")]), (), version="0")
    assert section(alone, "Disruptions") == [["a node failed", "1", "n7", "1.00 s", "1.00 s"]]


def test_events_without_a_length_are_counted_beside_what_the_account_has() -> None:
    marks = [Interval(kind="recovery", start_s=T + at, end_s=T + at) for at in (110, 120)]
    events = [
        *(JobStarted(time_s=T), StepCompleted(step=1, start_s=T, end_s=T + 100), NodeFailed(time_s=T + 100)),
        *(*marks, JobStarted(time_s=T + 600), StepCompleted(step=2, start_s=T + 600, end_s=T + 700)),
    ]
    shown = reported(events)
    assert shown.account.buckets["recovery"] == pytest.approx(500)
    rows = {row[0]: row[1:] for row in section(page(shown, (), version="0"), "What happened")}
    assert rows["recovery"] == ["2", "-", "-", "500.000"]
    assert rows["steps"] == ["2", "200.000", "100.00 s", "-"]


def test_a_run_that_ends_in_the_second_in_which_the_next_one_starts_did_not_break_off() -> None:
    ended = [JobStarted(time_s=T), JobEnded(time_s=T + 8, exit_code=0), JobStarted(time_s=T + 8)]
    assert reported(ended).disruptions == ()
    ranks = [JobStarted(time_s=T + n, writer=f"rank{n}") for n in range(3)]
    assert reported([*ranks, StepStarted(step=1, time_s=T + 5)]).disruptions == ()


def test_an_application_without_steps_has_work_between_outputs() -> None:
    told: list[GoodputEvent] = [JobStarted(time_s=T)]
    for n in range(5):
        at_s = T + 10 * n
        told.append(StepCompleted(step=(n << 20) + 1, start_s=at_s, end_s=at_s + 9))
        told.append(
            OutputCompleted(dataset=n + 1, name="ckpt", checkpoint=True, start_s=at_s + 9, end_s=at_s + 10)
        )
    shown = reported(told)
    assert (shown.tells_steps, shown.steps) == (False, None)
    assert "work between outputs" in {lane.name for lane in shown.lanes}
    text = page(shown, (), version="0")
    assert "<dt>Work between outputs</dt><dd>5<small>" in text
    assert "What steps took" not in text
    assert str((1 << 20) + 1) not in text


def test_a_step_takes_as_long_as_its_slowest_rank() -> None:
    events: list[GoodputEvent] = [JobStarted(time_s=T)]
    for step in range(4):
        events += [
            StepCompleted(step=step, start_s=T + step, end_s=T + step + took_s, writer=writer)
            for writer, took_s in (("0", 0.5), ("1", 0.75))
        ]
    steps = reported(events).steps
    assert steps is not None
    assert (steps.summary.steps, steps.summary.mean_s, steps.most_s) == (
        4,
        pytest.approx(0.75),
        pytest.approx(0.75),
    )


def test_sparse_starts_share_the_time_between_them() -> None:
    events = [JobStarted(time_s=T), StepStarted(step=0, time_s=T), StepStarted(step=10, time_s=T + 20)]
    steps = reported(events).steps
    assert steps is not None
    assert (steps.summary.steps, steps.summary.mean_s) == (10, pytest.approx(2.0))


def test_stragglers_are_marked_or_the_page_says_why_they_are_unknown() -> None:
    events: list[GoodputEvent] = [JobStarted(time_s=T)]
    for step in range(20):
        events += [
            StepCompleted(step=step, start_s=T + 2 * step, end_s=T + 2 * step + took_s, writer=writer)
            for writer, took_s in (("rank 0", 1.0), ("rank 1", 1.0), ("rank <2>", 1.5))
        ]
    shown = page(reported(events), (), version="0")
    assert "rank &lt;2&gt;: 1.50 times as long as the others" in shown
    assert "unknown: " not in shown
    alone = page(reported(checkpointed()), (), version="0")
    assert "unknown: only one writer records what its steps took" in alone


def test_every_bucket_has_a_colour_of_a_group() -> None:
    assert {group_of(bucket) for bucket in (*BUCKETS, "custom:x")} == GROUPS.keys()
    assert group_of("custom:x") == "own intervals"
    assert VERDICTS.keys() == set(Verdict)
    assert len({form.mark for form in VERDICTS.values()}) == len(Verdict)  # told apart without colour


def test_a_colour_has_one_meaning() -> None:
    meanings: dict[str, set[str]] = {}
    for name in (*BUCKETS, "custom:x", "background flush"):
        meaning = name if name.startswith("checkpoint_") or name == "background flush" else group_of(name)
        meanings.setdefault(colour_of(name), set()).add(meaning)
    meanings.setdefault(GROUPS["checkpoints"].colour, set()).add("checkpoints")
    assert all(len(each) == 1 for each in meanings.values()), meanings
    assert colour_of("steps") == colour_of("productive")


# The page


@pytest.fixture(scope="module")
def text() -> str:
    return page(reported(checkpointed(), HOSTILE), CHANGES, version="0")


def test_the_page_needs_nothing_but_itself(text: str) -> None:
    seen = Seen(text)
    assert not {"script", "link", "img", "iframe", "object", "image"} & set(seen.tags)
    for name, value in seen.attributes:
        assert not name.startswith("on")
        if name in {"src", "href", "xlink:href"}:
            assert value.startswith("#")
    addresses = set(re.findall(r"https?://[^\"' <>]+", text))
    assert addresses <= {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}
    assert "url(http" not in text
    assert "@import" not in text


def test_names_of_the_user_stay_text(text: str) -> None:
    assert "<script" not in text
    assert "\x1b" not in text
    assert "the flush blocks &lt;much&gt;" in text
    assert any("$x$" in each for each in Seen(text).text)


def test_references_within_the_page_lead_somewhere_and_ids_are_unique(text: str) -> None:
    seen = Seen(text)
    ids = [value for name, value in seen.attributes if name == "id"]
    used = {value[1:] for name, value in seen.attributes if name == "xlink:href"}
    used |= {each for _, value in seen.attributes for each in re.findall(r"url\(#([^)]+)\)", value)}
    assert len(ids) == len(set(ids))
    assert used
    assert used <= set(ids)


def test_figures_have_tooltips_and_tables_say_the_same_without_colours(text: str) -> None:
    assert "<title>step.9 (dataset 1): 500.0 ms at 14.00 s</title>" in text
    assert "<title>a node failed: node7, at" in text
    for heading in (
        "Where the time went",
        "What steps took",
        "What checkpoints cost",
        "What happened",
        "Decisions",
        "Disruptions",
    ):
        assert f"<h2>{heading}</h2>" in text
    assert "0.600 to 1.300" in text
    assert "1. flush asynchronously: saves 0.900 s (0.600 to 1.300 s), kept" in text


def test_a_change_has_its_cause_its_outcome_and_the_time_of_the_figure(text: str) -> None:
    row = text[: text.index("0.42 times the cost before")].rpartition('<tr><td class="right">30.0 s</td>')[2]
    assert "<b>1. SCR_FLUSH_ASYNC 0 -&gt; 1</b>" in row
    assert "flush asynchronously [" in row
    assert "the flush blocks &lt;much&gt;" in row
    assert "<td>kept</td>" in row


def test_changes_together_saved_what_each_did() -> None:
    lost = msgspec.structs.replace(GAIN, total_s=-4.0)
    back = trial(3, 70, 90, verdict=Verdict.REVERTED, gain=lost)
    assert together([]) == (0, 0)
    assert together([view_of(CHANGES[0]), view_of(CHANGES[0]), view_of(back)]) == (32, 4)
    saved = trial(3, 70, 90, verdict=Verdict.REVERTED, gain=msgspec.structs.replace(GAIN, total_s=1.0))
    assert together([view_of(back), view_of(saved)]) == (-3, 3), "signed, as in the account"
    both = page(reported(checkpointed()), (CHANGES[0], back), version="0")
    assert "14.0 s saved so far against the user's own settings" in unescape(both)


def test_figures_are_well_formed_and_in_the_colours_of_the_page(text: str) -> None:
    (figure,) = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    ET.fromstring(figure)  # noqa: S314 - drawn just now
    assert "var(--ink)" in figure
    assert "#010f" not in figure


def test_a_long_job_makes_a_small_page_that_says_what_it_left_out() -> None:
    events: list[GoodputEvent] = [JobStarted(time_s=T)]
    for step in range(100_000):
        events.append(StepCompleted(step=step, start_s=T + step, end_s=T + step + 0.9))
        if step % 100 == 99:
            events += [
                Interval(
                    kind="custom", name=f"kind {step // 100 % 9}", start_s=T + step + 0.9, end_s=T + step + 1
                ),
                OutputCompleted(
                    dataset=step,
                    name="c",
                    start_s=T + step + 0.9,
                    end_s=T + step + 1,
                    write_s=0.02,
                    encode_s=0.02,
                    flush_s=0.02,
                    wait_s=0.02,
                ),
            ]
    text = page(reported(events), (), version="0")
    assert len(text.encode()) < 2_000_000
    assert "Thinned out: " in text
    assert "100,000 steps as" in text
    assert f"100,000 step times as {POINTS} medians" in text
    assert "1,000 checkpoints as" in text


@pytest.mark.parametrize(
    "events",
    [
        [JobStarted(time_s=T)],
        [JobStarted(time_s=T), JobEnded(time_s=T + 5, exit_code=0)],
        [StepStarted(step=3, time_s=T), StepStarted(step=4, time_s=T + 1)],
        [StepCompleted(step=3, start_s=1.0, end_s=1.0)],
        [Interval(kind="checkpoint_save", start_s=T, end_s=T + 3)],
        [NodeFailed(time_s=T)],
        [FlushCompleted(dataset=1, start_s=T, end_s=T + 2, asynchronous=True)],
    ],
)
def test_a_job_with_few_events_has_a_page(events: list[GoodputEvent]) -> None:
    shown = reported(events)
    assert "Where the time went" in page(shown, (), version="0")
