"""The main job, as a stranger runs it: `scrtune demo`, whole, with real ranks, DFTracer and daemon."""

import os
import subprocess
import sys

import msgspec
import pytest

from scrtune.cli.tables.demo import report, verdict
from scrtune.cli.terminal import rendered
from scrtune.cli.views.demo import DemoOutcome, DemoView, judged
from scrtune.daemon.views import SavingsView
from scrtune.intents.tune.decisions import Verdict

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(900)]

CHECKPOINTS = 9


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> DemoView:
    place = tmp_path_factory.mktemp("demo")
    (place / "scrtune.toml").write_text('[run]\nmode = "observe"\n')  # what is measured does not depend on it
    ran = subprocess.run(
        [sys.executable, "-m", "scrtune", "demo", "--json", "--checkpoints", str(CHECKPOINTS)],
        cwd=place,
        env={**os.environ, "SCRTUNE_RUN_DIR": str(place / "r"), "TMPDIR": str(place)},
        capture_output=True,
        text=True,
        timeout=850,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert sorted(path.name for path in place.iterdir()) == ["r", "scrtune.toml"], "it cleans up after itself"
    jobs = [path.name for path in (place / "r").iterdir() if path.name.startswith("demo-")]
    assert len(jobs) == 2, "jobs alone have no daemon"
    return msgspec.json.decode(ran.stdout, type=DemoView)


def test_the_same_job_is_measured_alone_and_tuned_from_both_starts(view: DemoView) -> None:
    assert [each.start for each in view.comparisons] == ["poor settings", "SCR's defaults"]
    for each in view.comparisons:
        assert each.status.checkpoints == CHECKPOINTS
        assert (each.found is None) == (not each.status.savings.for_good)
        for run in filter(None, (*each.alone, each.tuned, each.found)):
            assert len(run.checkpoint_s) == CHECKPOINTS
            assert len(run.step_s) == 4 * CHECKPOINTS
            assert min(run.checkpoint_s) > 0
            assert run.rest_s > 0, "the whole job is all of it"


def test_the_outcome_is_that_of_the_times(view: DemoView) -> None:
    for each in view.comparisons:
        before, after = each.alone
        assert (each.ratio, each.noise, each.outcome) == judged(
            before.whole_s, each.tuned.whole_s, after.whole_s
        )


@pytest.mark.parametrize(
    ("tuned_s", "after_s", "outcome"),
    [
        (8.0, 10.0, DemoOutcome.FASTER),
        (12.0, 10.0, DemoOutcome.SLOWER),
        (10.1, 10.0, DemoOutcome.SAME),
        (9.9, 10.0, DemoOutcome.SAME),
        (9.0, 12.0, DemoOutcome.SAME),
        (12.5, 12.0, DemoOutcome.SAME),
        (8.5, 12.0, DemoOutcome.FASTER),
    ],
)
def test_a_difference_counts_beyond_that_of_the_runs_alone(
    tuned_s: float, after_s: float, outcome: DemoOutcome
) -> None:
    assert judged(10.0, tuned_s, after_s)[2] is outcome


def test_every_kind_of_event_arrived_and_nothing_was_lost(view: DemoView) -> None:
    for each in view.comparisons:
        counters = each.status.counters
        assert counters.trace_events > 300
        assert sum(counters.dropped.values()) == sum(counters.lost.values()) == 0
        assert counters.unresolved == 0


def test_watching_has_a_cost_that_is_said(view: DemoView) -> None:
    for each in view.comparisons:
        seen = each.status.observation
        assert seen.outputs > 0
        assert 0 < seen.cost_s < each.tuned.whole_s


def test_the_intents_of_what_the_demo_does_rest_on_evidence(view: DemoView) -> None:
    for each in view.comparisons:
        counts = {intent.name: intent.count for intent in each.explain.intents}
        seen = ("core affinity", "buffer sizes", "redundancy scheme", "checkpoint rate", "output sizes")
        assert all(counts[name] > 0 for name in seen), counts
        (flush,) = (intent for intent in each.explain.intents if intent.name == "flush")
        assert flush.count > 0 or "yet under these settings" in flush.sentence, "changed at the end"


def test_every_change_says_why_and_what_came_of_it(view: DemoView) -> None:
    assert view.comparisons[0].explain.decisions, "poor settings leave something to try"
    for decision in (decision for each in view.comparisons for decision in each.explain.decisions):
        assert decision.because
        assert decision.source
        assert decision.rule
        assert decision.changes
        if decision.verdict is Verdict.TRIAL and decision.comparison is not None:
            assert decision.checkpoints > 0
            assert decision.seen is not None
            assert 0 < decision.comparison.low <= decision.comparison.ratio <= decision.comparison.high
        if decision.verdict is Verdict.REVERTED:
            assert decision.changes != decision.previous


def test_the_report_shows_all_of_it(view: DemoView) -> None:
    text = " ".join(rendered(report(view)).split())
    rows = ("whole job", "checkpoints", "last checkpoints", "observation")
    for words in ("Intents", "Decisions", *rows, "From poor settings:", "From SCR's defaults:"):
        assert words in text
    for each in view.comparisons:
        assert each.status.job_id in text
        for decision in each.explain.decisions:
            assert decision.rule in text
        for name in each.status.savings.for_good:
            assert f"{name}=" in text


@pytest.mark.parametrize(
    ("outcome", "ratio", "words"),
    [
        (DemoOutcome.FASTER, 0.7, "took 30% less time"),
        (DemoOutcome.SAME, 1.01, "no difference of the whole job beyond noise"),
        (DemoOutcome.SLOWER, 1.25, "did not pay: 25% more time"),
    ],
)
def test_the_verdict_is_honest_in_both_directions(
    view: DemoView, outcome: DemoOutcome, ratio: float, words: str
) -> None:
    each = msgspec.structs.replace(view.comparisons[0], outcome=outcome, ratio=ratio)
    assert words in verdict(each).text


def test_the_verdict_says_what_this_machine_allows(view: DemoView) -> None:
    each, savings = view.comparisons[0], SavingsView(why_nothing="the disk is as fast as the memory")
    status = msgspec.structs.replace(each.status, savings=savings)
    nothing = msgspec.structs.replace(each, found=None, status=status)
    assert "Nothing better was found: the disk is as fast as the memory." in verdict(nothing).text
    found = msgspec.structs.replace(each, found=msgspec.structs.replace(each.tuned, whole_s=7.25))
    assert "Alone with the settings that were found: 7.2 s, a checkpoint" in verdict(found).text
