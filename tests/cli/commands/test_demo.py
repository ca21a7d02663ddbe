"""The main job, as a stranger runs it: `scrtune demo`, whole, with real ranks, DFTracer and daemon."""

import io
import os
import subprocess
import sys

import msgspec
import pytest
from rich.console import Console

from scrtune.cli.commands.demo import DemoView, report, verdict
from scrtune.intents.tune.decisions import Verdict

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> DemoView:
    place = tmp_path_factory.mktemp("demo")
    ran = subprocess.run(
        [sys.executable, "-m", "scrtune", "demo", "--json"],
        cwd=place,
        env={**os.environ, "SCRTUNE_RUN_DIR": str(place / "r"), "TMPDIR": str(place)},
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert sorted(path.name for path in place.iterdir()) == ["r"], "the demo cleans up after itself"
    return msgspec.json.decode(ran.stdout, type=DemoView)


def test_all_four_columns_are_measured(view: DemoView) -> None:
    assert [column.cost_s.count for column in view.columns][:3] == [6, 6, 3]
    for column in view.columns:
        assert column.cost_s.count >= 1
        assert 0 < column.cost_s.least <= column.cost_s.median <= column.cost_s.most
        assert 0 < column.blocking_s.median < 60


def test_the_verdict_is_that_of_the_table(view: DemoView) -> None:
    before, after = view.columns[1].cost_s.median, view.columns[-1].cost_s.median
    assert view.ratio == pytest.approx(after / before)
    assert view.helped == (after < 0.98 * before)


def test_every_kind_of_event_arrived_and_nothing_was_lost(view: DemoView) -> None:
    counters = view.status.counters
    assert counters.trace_events > 1000
    assert sum(counters.dropped.values()) == sum(counters.lost.values()) == 0
    assert counters.unresolved == 0


def test_the_four_intents_rest_on_evidence(view: DemoView) -> None:
    names = [intent.name for intent in view.explain.intents]
    assert names == ["core affinity", "buffer sizes", "redundancy scheme", "flush"]
    assert all(intent.count > 0 for intent in view.explain.intents)


def test_every_change_says_why_and_what_came_of_it(view: DemoView) -> None:
    decisions = view.explain.decisions
    assert decisions, "poor settings leave something to try"
    for decision in decisions:
        assert decision.because
        assert decision.source
        assert decision.rule
        assert decision.changes
        if decision.verdict in {Verdict.ACCEPTED, Verdict.REVERTED}:
            assert decision.observations > 0
            assert decision.before_s > 0
    taken_back = [decision for decision in decisions if decision.verdict is Verdict.REVERTED]
    for decision in taken_back:
        assert decision.changes != decision.previous


def test_the_report_shows_all_of_it(view: DemoView) -> None:
    console = Console(record=True, width=120, file=io.StringIO())
    console.print(report(view))
    text = console.export_text()
    for words in (
        "I/O events of DFTracer",
        "Intents",
        "Decisions",
        "Before and after",
        "goodput per interval",
    ):
        assert words in text
    for decision in view.explain.decisions:
        assert decision.rule in " ".join(text.split())


def test_it_says_so_when_tuning_did_not_help(view: DemoView) -> None:
    useless = msgspec.structs.replace(view, helped=False, ratio=1.01)
    assert "did not help on this machine" in verdict(useless).plain
