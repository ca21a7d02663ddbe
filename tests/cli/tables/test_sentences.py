"""What people read says what is known, and no more."""

import msgspec
import pytest

from scrtune.cli import terminal
from scrtune.cli.blocks import Document, table
from scrtune.cli.tables import goodput as goodput_tables
from scrtune.cli.tables import job as job_tables
from scrtune.cli.tables.summary import summary
from scrtune.cli.views.goodput import JobGoodputView
from scrtune.cli.views.tuner_changes import tuner_changes
from scrtune.daemon import views
from scrtune.goodput.events import Interval, JobStarted, NodeFailed, Recovered, StepStarted
from scrtune.intents.events import SettingsObserved, StorageProbed
from scrtune.intents.observe.observation import Observation, WhyEnded
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.tune.decisions import Decision, Verdict

SINCE_THEN = "(7 checkpoints since the machine has changed aside)"
AGAINST = "at checkpoints, against your own settings"
ONLY_UNDER_US = "SCRTUNE_* count under `scrtune run` alone"


def text(shown: Document) -> str:
    return " ".join(terminal.rendered(shown).split())


def goodput_text(pipeline: Pipeline, now: float) -> str:
    view = views.goodput_view(pipeline, now)
    return text(goodput_tables.jobs(JobGoodputView(job_name="j", **msgspec.structs.asdict(view))))


@pytest.fixture
def pipeline() -> Pipeline:
    """A job that has begun and done nothing yet."""
    made = Pipeline()
    settings = {"SCR_COPY_TYPE": "XOR", "SCR_FLUSH": 1}
    made.handle(SettingsObserved(settings=settings, engine="embedded", ranks=1, nodes=1), 1.0)
    return made


def status_of(pipeline: Pipeline, **changed: object) -> views.StatusView:
    return msgspec.structs.replace(views.status_view(pipeline, 1.0, job_id="j", host="h"), **changed)


def test_a_cost_that_nobody_measured_is_no_zero(pipeline: Pipeline) -> None:
    assert "checkpoints none goodput" in text(job_tables.status(status_of(pipeline)))
    assert "checkpoints 1, none measured goodput" in text(
        job_tables.status(status_of(pipeline, checkpoints=1))
    )
    assert "No checkpoint was measured" in text(job_tables.explain(views.explain_view(pipeline)))
    assert "1 checkpoint, none measured; " in summary(status_of(pipeline, checkpoints=1))[0]


def test_mean_and_believed_costs_are_named(pipeline: Pipeline) -> None:
    status = status_of(
        pipeline, checkpoints=3, mean_cost_s=0.2, baseline_cost_s=0.2848, checkpoint_cost_s=0.1943
    )
    cost = "believed cost of one (blocking + slowdown + expected rework)"
    believed = f"{cost} 284.8 ms under your settings, 194.3 ms now"
    assert f": 3 checkpoints, mean cost 200.0 ms; {believed}; " in summary(status)[0]
    assert f"checkpoints 3, mean cost 200.0 ms; {believed} " in text(job_tables.status(status))
    explained = msgspec.structs.replace(
        views.explain_view(pipeline), baseline_cost_s=0.2848, checkpoint_cost_s=0.1943
    )
    assert f"Checkpoints: {believed};" in text(job_tables.explain(explained))


def test_an_interval_is_advised_once(pipeline: Pipeline) -> None:
    savings = views.SavingsView(advised={"SCR_CHECKPOINT_SECONDS": 246, "SCR_PREFIX_SIZE": 2})
    status = status_of(pipeline, checkpoints=3, savings=savings)
    assert any("SCR_CHECKPOINT_SECONDS=246 SCR_PREFIX_SIZE=2" in line for line in summary(status))
    paced = {"SCR_CHECKPOINT_SECONDS": 262}
    often = status_of(
        pipeline, checkpoints=3, savings=savings, pace="SCR_CHECKPOINT_SECONDS=262", pace_settings=paced
    )
    assert [line for line in summary(often) if "SCR_CHECKPOINT_SECONDS=" in line] == [
        f"scrtune: {often.pace}"
    ]


def test_what_was_traced_is_shown_with_its_cost_and_why_it_ended(pipeline: Pipeline) -> None:
    traced = Observation(
        on=False, outputs=3, calls=108, cost_s=0.0007, share=0.0002, ended=WhyEnded.STABLE, until_s=1.0
    )
    for observation, said in ((Observation(), "no output was traced yet"), (traced, traced.sentence())):
        explained = msgspec.structs.replace(views.explain_view(pipeline), observation=observation)
        status = status_of(pipeline, observation=observation, checkpoints=1)
        assert f"observation {said}" in text(job_tables.status(status))
        assert f"Observation: {said}." in text(job_tables.explain(explained))
        assert f"scrtune: observation: {said}" in summary(status)
    assert traced.sentence() == (
        "3 outputs traced, 108 calls of rank 0, cost 0.001 s (0.02% of the job, budget 1.00%);"
        " ended: the intents are stable"
    )


def test_what_was_probed_is_shown_and_what_could_not_be(pipeline: Pipeline) -> None:
    assert "Probe" not in text(job_tables.explain(views.explain_view(pipeline)))
    rates = {"cache_write_bytes_per_s": 2.0 * 2**30, "cache_read_bytes_per_s": 2.5 * 2**30}
    pipeline.handle(StorageProbed(host="n1", probe_s=0.041, **rates, xor_bytes_per_s=2.0**34), 2.0)
    assert "Probe of n1: cache writes 2 GiB/s, cache reads 2.5 GiB/s, XOR 16 GiB/s, took 41.0 ms." in text(
        job_tables.explain(views.explain_view(pipeline))
    )
    pipeline.handle(StorageProbed(host="n1", problem="/c: Read-only file system"), 3.0)
    assert "Probe of n1: took 0.0 ms. /c: Read-only file system." in text(
        job_tables.explain(views.explain_view(pipeline))
    )
    assert status_of(pipeline).probe == pipeline.observers.nodes.probe


def test_what_was_declared_is_not_shown_as_an_observation(pipeline: Pipeline) -> None:
    shown = text([[job_tables.intents(views.intent_views(pipeline))]])
    assert "declared, not observed" in shown
    assert "1 rank on 1 node," in shown
    assert "1 x settings" not in shown


def test_settings_that_were_never_active_are_shown_as_such(pipeline: Pipeline) -> None:
    failed = msgspec.structs.replace(views.explain_view(pipeline), unpublished="/x/scr.conf: read-only")
    assert "Not active, because they could not be published: /x/scr.conf: read-only" in text(
        job_tables.explain(failed)
    )
    lines = summary(status_of(pipeline, checkpoints=3, config_failure="/x/scr.conf: read-only"))
    assert lines[-1] == "scrtune: the last changes were never active: /x/scr.conf: read-only"


def test_what_waits_for_the_next_launch_is_shown() -> None:
    pipeline = Pipeline()
    mutability = {"SCR_FLUSH": "live", "SCR_COPY_TYPE": "launch"}
    cached = {"SCR_CACHE_BYPASS": 0, "SCR_COPY_TYPE": "SINGLE"}
    job = SettingsObserved(settings=cached, sources=dict.fromkeys(cached, "user config"))
    pipeline.handle(msgspec.structs.replace(job, mutability=mutability, floor="NODE", nodes=2), 1.0)
    assert "The next launch changes SCR_COPY_TYPE SINGLE -> PARTNER." in text(
        job_tables.explain(views.explain_view(pipeline))
    )
    waiting = Decision(
        generation=0,
        time_s=2.0,
        verdict=Verdict.PENDING,
        rule="larger sets",
        changes={"SCR_SET_SIZE": 4},
        previous={"SCR_SET_SIZE": 8},
        because="only a launch can change it",
    )
    shown = text([[job_tables.decisions(tuner_changes([waiting], ()), 1.0)]])
    assert "pending 1. SCR_SET_SIZE 8 -> 4" in shown
    assert "only a launch can change it" in shown


def test_a_trial_that_a_run_under_other_settings_ended_is_shown_with_what_ended_it() -> None:
    trial = Decision(generation=1, time_s=2.0, verdict=Verdict.TRIAL, rule="try it", because="it may pay")
    again = Decision(
        generation=2,
        time_s=9.0,
        verdict=Verdict.BASELINE,
        rule="a run under other settings",
        because="it differs",
    )
    assert text([[job_tables.decisions(tuner_changes([trial, again], ()), 1.0)]]).count("yours again") == 2
    assert tuner_changes([again], ())[0].what == "no parameter changes"


@pytest.mark.parametrize(
    ("savings", "lines"),
    [
        (views.SavingsView(), ["nothing was gained; trying cost nothing"]),
        (
            views.SavingsView(saved_s=-2.5, reverted_s=2.5, applied_s=0.5, why_nothing="w"),
            ["nothing was gained: w; trying cost 500.0 ms applying settings and 2.50 s in trials taken back"],
        ),
        (
            views.SavingsView(
                saved_s=12.0, applied_s=2.0, for_good={"SCR_FLUSH_ASYNC": 1, "SCR_GROUP": "a b"}
            ),
            [
                f"saved about 10.00 s {AGAINST}; trying cost 2.00 s applying settings",
                "for good, in the job script: export SCR_FLUSH_ASYNC=1 SCR_GROUP='a b'",
            ],
        ),
        (
            views.SavingsView(saved_s=3.0, uncounted=7, for_good={"SCR_FLUSH_ASYNC": 1}),
            [
                f"saved about 3.00 s {AGAINST} {SINCE_THEN}; trying cost nothing",
                "for good, in the job script: export SCR_FLUSH_ASYNC=1",
            ],
        ),
        (
            views.SavingsView(saved_s=0.5, applied_s=2.0, for_good={"SCRTUNE_FLUSH_THREADS": 2}),
            [
                f"lost about 1.50 s {AGAINST}; trying cost 2.00 s applying settings",
                f"for good, in the job script: export SCRTUNE_FLUSH_THREADS=2  # {ONLY_UNDER_US}",
            ],
        ),
        (
            views.SavingsView(for_good={"SCR_FLUSH_ASYNC": 1}, is_tried=False),
            ["proposed, not tried: export SCR_FLUSH_ASYNC=1"],
        ),
        (views.SavingsView(why_nothing="w", is_tried=False), ["nothing to propose: w"]),
        (views.SavingsView(is_tried=False), []),
    ],
)
def test_a_job_ends_with_what_was_saved_what_trying_cost_and_what_to_keep(
    pipeline: Pipeline, savings: views.SavingsView, lines: list[str]
) -> None:
    shown = summary(status_of(pipeline, checkpoints=9, savings=savings))
    assert shown[1:-2] == [f"scrtune: {line}" for line in lines]


@pytest.mark.parametrize(("saved_s", "so_far"), [(5.0, "5.00 s"), (-1.0, "nothing")])
def test_a_job_that_ends_within_a_trial_says_so(pipeline: Pipeline, saved_s: float, so_far: str) -> None:
    savings = views.SavingsView(saved_s=saved_s, why_nothing="w")
    shown = summary(status_of(pipeline, checkpoints=9, trying="a: SCR_FLUSH=2", savings=savings))
    said = f"on trial at the end, not decided: a: SCR_FLUSH=2: saves {so_far} so far; trying cost nothing"
    assert shown[1] == f"scrtune: {said}"


def test_a_daemon_that_knows_no_job_says_so() -> None:
    assert "has not reported its engine and ranks yet" in text(job_tables.status(status_of(Pipeline())))


def test_what_ran_beside_the_steps_and_how_far_clocks_are_apart_is_told(pipeline: Pipeline) -> None:
    told = [
        JobStarted(time_s=1.0),
        Interval(kind="data_loading_async", start_s=2.0, end_s=3.5),
        Interval(kind="custom", name="eval [bold]", start_s=4.0, end_s=4.5),
        *(
            StepStarted(step=step, time_s=1.0 + step + ahead, writer=writer)
            for step in range(8)
            for writer, ahead in (("a", 0.0), ("b", 0.25))
        ),
    ]
    for event in told:
        pipeline.handle(event, 10.0)
    shown = goodput_text(pipeline, 10.0)
    assert "1.500 s of data loading ran beside the steps" in shown
    assert "the ranks' clocks are 250.0 ms apart" in shown
    assert "custom:eval [bold]" in shown


def test_what_failed_and_what_scr_brought_back_is_told_with_the_goodput(pipeline: Pipeline) -> None:
    pipeline.handle(JobStarted(time_s=1.0), 1.0)
    assert "1 run; goodput" in goodput_text(pipeline, 2.0)
    pipeline.handle(NodeFailed(time_s=2.0, node="n1"), 2.0)
    for dataset in (3, 4):
        pipeline.handle(Recovered(kind="rebuild", dataset=dataset, start_s=3.0, end_s=4.0), 4.0)
    shown = goodput_text(pipeline, 5.0)
    assert "1 run, 1 node failure, 2 datasets brought back by SCR; goodput" in shown


def test_a_pipe_gets_the_width_of_columns_and_no_trailing_blanks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown = table("name", "text", rows=[("one", "word " * 30), ("two", "")])
    for columns, width in (("", 120), ("40", 40)):
        monkeypatch.setenv("COLUMNS", columns)
        lines = terminal.rendered([[shown]]).splitlines()
        assert lines[-1] == "two"
        assert lines == [line.rstrip() for line in lines]
        assert width - 5 <= max(map(len, lines)) <= width
