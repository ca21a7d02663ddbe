"""`scrtune goodput --interval` and `--what-if`: from a job's journal or its logs to a setting of SCR's."""

import re
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner, Result

from scrtune.cli.commands.goodput import asked_schedule, mtbf_prior
from scrtune.cli.errors import UnknownJobError
from scrtune.cli.jobs import record as job_record
from scrtune.cli.jobs.record import JobRecord
from scrtune.cli.main import main
from scrtune.cli.tables import interval as tables
from scrtune.cli.terminal import rendered
from scrtune.cli.views.interval import Inputs, JobOutlook, inputs, outlook
from scrtune.client.paths import JobPaths
from scrtune.daemon.journal.journal import Journal
from scrtune.goodput.events import GoodputEvent, Interval, JobStarted
from scrtune.goodput.interval.failure_rate import NODE_MTBF_S, FailurePrior
from scrtune.goodput.interval.failures import Failures
from scrtune.goodput.interval.model import IntervalError, Schedule
from scrtune.goodput.interval.recommend import ASKED, IN_USE, Estimate, MeasuredCosts
from scrtune.goodput.job_events import JobEvents
from scrtune.intents.events import Event
from scrtune.units import rounded_duration_text

from ....support.simulated_job import CACHED, T0, Job

TWO_LEVELS = Inputs(
    measured=MeasuredCosts(
        checkpoint_s=10, flush_cost_s=80, flush_s=100, interval_s=600, flush_every=1, checkpoints=9
    ),
    failures=Failures(nodes=128, observed_s=864_000, cache=4, prefix=1, unknown=1),
)
ONE_LEVEL = Inputs(measured=MeasuredCosts(checkpoint_s=0.03, checkpoints=3), failures=Failures(observed_s=40))


def text(found: Inputs, prior: FailurePrior | None = None, asked: Schedule | None = None) -> str:
    view = outlook(found, prior, asked)
    return rendered(tables.outlook(JobOutlook(job_name="j", **msgspec.structs.asdict(view))))


@pytest.mark.parametrize(
    ("given", "seconds"), [("600", 600), ("600s", 600), ("10m", 600), ("2.5h", 9000), ("1d", 86_400)]
)
def test_times_have_units(given: str, seconds: float) -> None:
    assert asked_schedule(f"interval={given}") == Schedule(interval_s=seconds, flush_every=0)
    assert asked_schedule(f"flush=4, interval={given}") == Schedule(interval_s=seconds, flush_every=4)


@pytest.mark.parametrize("given", ["", "0", "-5", "ten", "5 y", "1e3", "nan", "inf"])
def test_what_is_no_time_is_reported(given: str) -> None:
    with pytest.raises(ValueError, match="is not a duration: write 600"):
        asked_schedule(f"interval={given}")


@pytest.mark.parametrize(
    "given", ["", "600", "flush=4", "interval=600,flush=x", "interval=600,flush=0", "interval=600,often=1"]
)
def test_what_is_no_question_is_reported(given: str) -> None:
    with pytest.raises(ValueError, match="say interval=600"):
        asked_schedule(given)


@pytest.mark.parametrize("given", ["interval=600,flush=4,flush=5", "interval=600,interval=10m"])
def test_what_is_asked_twice_is_reported(given: str) -> None:
    with pytest.raises(ValueError, match="once each"):
        asked_schedule(given)


def test_a_prior_is_an_mtbf_of_the_job_and_its_weight() -> None:
    assert outlook(TWO_LEVELS).prior.mtbf_s == NODE_MTBF_S / 128
    own = outlook(TWO_LEVELS, mtbf_prior("12h:2.5")).prior
    assert (own.mtbf_s, own.weight, own.source) == (43_200, 2.5, "--mtbf-prior")
    assert mtbf_prior("12h").weight == 1


@pytest.mark.parametrize("given", ["", "12h:x", "12h:0", "12h:-1", "12h:nan", "x:1", "12h:1:2"])
def test_what_is_no_prior_is_reported(given: str) -> None:
    with pytest.raises(ValueError, match="24h:3"):
        mtbf_prior(given)


def test_a_cache_without_redundancy_is_not_thought_to_survive_nodes() -> None:
    single = Inputs(measured=TWO_LEVELS.measured, failures=Failures(nodes=128), survives_node=False)
    assert outlook(single).prior.cache_share == 0.16
    assert outlook(single).cache_share.value < outlook(TWO_LEVELS).cache_share.value


def test_the_table_says_what_to_set_and_what_it_rests_on() -> None:
    shown = text(TWO_LEVELS)
    for name in ("in use", "Young 1974", "Daly 2006", "exact, two levels"):
        assert name in shown
    best = outlook(TWO_LEVELS)
    setting = f"SCR_CHECKPOINT_SECONDS={best.settings['SCR_CHECKPOINT_SECONDS']} SCR_FLUSH=6"
    assert setting in shown
    assert "6 failures seen in 10.0 d on 128 nodes" in shown
    assert (
        "Mean cost of the last 9 checkpoints, under the active settings: 10.00 s without its flush" in shown
    )
    assert "Llama 3" in shown
    assert "h a day more" in " ".join(shown.split())
    assert max(map(len, shown.splitlines())) <= 120


def test_with_one_level_no_flush_is_mentioned() -> None:
    shown = text(ONE_LEVEL)
    assert "SCR_FLUSH" not in shown
    assert "0 failures seen in 40.00 s on 1 node" in shown
    (setting,) = outlook(ONE_LEVEL).settings.items()
    assert f"{setting[0]}={setting[1]}, in applications" in shown


def test_a_what_if_has_a_row_of_its_own() -> None:
    asked, known = asked_schedule("interval=30m,flush=4"), mtbf_prior("12h")
    view = outlook(TWO_LEVELS, known, asked)
    assert view.choice(ASKED).interval_s.value == 1800
    more = view.choice(ASKED).gained
    assert more is not None
    row = next(line for line in text(TWO_LEVELS, known, asked).splitlines() if line.startswith("what if"))
    assert row.split()[2:5] == ["30.0", "min", "4"]
    told = f"What you ask about: {24 * more.value:.2f} h a day more than now"
    told += f" ({24 * more.low:.2f} to {24 * more.high:.2f})."
    assert told in " ".join(text(TWO_LEVELS, known, asked).split())


def test_what_is_lost_has_an_interval_beside_it_but_the_best_loses_nothing() -> None:
    view = outlook(TWO_LEVELS)
    rows = {
        name: line for line in text(TWO_LEVELS).splitlines() for name in ("in use", view.best) if name in line
    }
    lost = view.choice(IN_USE).lost
    points = [f"{100 * each:.2f}" for each in (lost.value, lost.low, lost.high)]
    assert rows["in use"].split()[-4:] == [points[0], points[1], "to", points[2]]
    assert rows[view.best].split()[-1] == "0.00"


def test_a_what_if_that_is_worse_says_by_how_much_less() -> None:
    told = " ".join(text(TWO_LEVELS, asked=asked_schedule("interval=20")).split())
    assert re.search(r"What you ask about: [\d.]+ h a day less than now \([\d.]+ to [\d.]+\)", told)


def test_an_interval_that_makes_outputs_wait_says_from_which_on_they_do_not() -> None:
    shown = text(TWO_LEVELS, asked=asked_schedule("interval=8,flush=1"))
    waits = (
        "what if: outputs wait 2.00 s for each flush, which lasts 100.00 s; with 10.00 s or more they do not."
    )
    assert waits in shown
    assert "outputs wait" not in text(TWO_LEVELS, asked=asked_schedule("interval=8,flush=2"))


def test_the_best_interval_and_what_another_would_bring_stand_in_one_table() -> None:
    rules = [each.name for each in outlook(TWO_LEVELS).choices]
    both = [each.name for each in outlook(TWO_LEVELS, asked=asked_schedule("interval=8")).choices]
    assert both == [rules[0], ASKED, *rules[1:]]


def test_the_page_shows_what_is_printed() -> None:
    page = (Path(__file__).parents[4] / "docs" / "interval.md").read_text(encoding="utf-8")
    samples = page[page.index("    How long to") : page.index("*Goodput* is here")]
    flush_beside = MeasuredCosts(
        checkpoint_s=10, flush_cost_s=20, flush_s=300, interval_s=600, flush_every=1, checkpoints=9
    )
    job = Inputs(measured=flush_beside, failures=TWO_LEVELS.failures)
    printed = text(job) + text(job, asked=asked_schedule("interval=2m,flush=1"))
    indented = [line[4:] for line in samples.splitlines() if line.startswith("    ")]
    assert len(indented) > 20
    assert [line for line in indented if line not in printed] == []


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.03, "30.0 ms"), (119, "119.00 s"), (120, "2.0 min"), (7200, "2.0 h"), (1e6, "11.6 d")],
)
def test_times_read_in_the_unit_that_suits(seconds: float, shown: str) -> None:
    assert rounded_duration_text(seconds) == shown
    assert rounded_duration_text(1e12) == "over 10 years"


def journal_of(told: Sequence[tuple[float, Event]], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    journal = Journal(path)
    for now, event in told:
        journal.append(now, event)
    journal.flush(told[-1][0])
    journal.close()


def crashed_twice(flush_every: int) -> Job:
    """Three runs, of which the first two broke off."""
    job = Job({**CACHED, "SCR_FLUSH": flush_every}, tuning=False)
    for run in range(3):
        if run:
            job.now += 100.0
            job.relaunch()
        for _ in range(6):
            job.checkpoint(flush_every=flush_every)
    return job


def of_job(base: Path) -> Inputs:
    return inputs(job_record.of_job(JobPaths.of("j", base=base)))


def of_events(events: list[GoodputEvent]) -> Inputs:
    return inputs(JobRecord(name="j", events=JobEvents(events), read=len(events), now=0.0))


def test_a_job_s_journal_has_all_that_is_needed(tmp_path: Path) -> None:
    journal_of(crashed_twice(flush_every=3).journal, JobPaths.of("j", base=tmp_path).journal)
    found = of_job(tmp_path)
    assert found.measured.checkpoint_s == pytest.approx(1, rel=0.1)
    assert found.measured.flush_cost_s == pytest.approx(4, rel=0.15)
    assert found.measured.flush_every == 3
    assert found.measured.interval_s == pytest.approx(20, rel=0.01)
    assert found.measured.next_output_waits  # SCR_CACHE_SIZE is 1, SCR's default
    assert found.failures.total == found.failures.unknown == 2
    assert not found.survives_node
    view = outlook(found)
    assert view.choice(IN_USE).flush_every == Estimate(value=3, low=3, high=3)


def test_of_a_journal_and_of_its_job_the_same_is_known(tmp_path: Path) -> None:
    path = JobPaths.of("j", base=tmp_path).journal
    journal_of(crashed_twice(flush_every=3).journal, path)
    ((job,), _) = job_record.of_logs([path])
    assert inputs(job) == of_job(tmp_path)


def test_logs_are_enough_where_settings_are_unknown() -> None:
    job = crashed_twice(flush_every=3)
    found = of_events([event for _, event in reversed(job.journal) if isinstance(event, GoodputEvent)])
    assert found.measured.flush_every == 3
    assert found.measured.checkpoint_s == pytest.approx(1, rel=0.1)
    assert not found.measured.next_output_waits
    assert found.failures.total == 2


SAVES: list[GoodputEvent] = [
    JobStarted(time_s=T0),
    *(Interval(kind="checkpoint_save", start_s=T0 + s, end_s=T0 + s + 3) for s in range(100, 600, 100)),
]


def test_of_writers_that_know_nothing_of_scr_the_saves_count_in_logs_and_in_journals(tmp_path: Path) -> None:
    found = of_events(SAVES)
    assert found.measured == MeasuredCosts(checkpoint_s=3, interval_s=97, checkpoints=5)
    journal_of([(T0 + 600, event) for event in SAVES], JobPaths.of("j", base=tmp_path).journal)
    assert of_job(tmp_path) == found


def test_a_job_that_left_nothing_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UnknownJobError, match="no journal"):
        of_job(tmp_path)
    with pytest.raises(IntervalError, match="no checkpoint was measured yet"):
        of_events([])


def scrtune_goodput(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, ["goodput", *map(str, arguments)])


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = JobPaths.of("j", base=tmp_path).journal
    journal_of(crashed_twice(flush_every=3).journal, path)
    return path


def test_the_command_shows_the_best_interval_of_a_log(journal: Path) -> None:
    done = scrtune_goodput(journal, "--interval")
    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("=== Goodput Analysis for Job: j ===")
    assert "exact, two levels" in done.stdout
    assert "2 failures seen" in done.stdout


def test_and_what_another_would_bring_as_json_too(journal: Path) -> None:
    done = scrtune_goodput(
        journal, "--what-if", "interval=10m,flush=2", "--mtbf-prior", "12h:2", "--format", "json"
    )
    assert done.exit_code == 0, done.output
    view = msgspec.json.decode(done.stdout, type=JobOutlook)
    assert view.job_name == "j"
    assert view.choice(ASKED).interval_s.value == 600
    assert view.choice(ASKED).flush_every.value == 2
    assert (view.prior.mtbf_s, view.prior.weight) == (43_200, 2)
    assert view.settings.keys() == {"SCR_CHECKPOINT_SECONDS", "SCR_FLUSH"}


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--mtbf-prior", "1h"), 2, "--mtbf-prior goes with --interval or --what-if"),
        (("--interval", "--mtbf-prior", "x"), 2, "'x': say an MTBF of the job"),
        (("--what-if", "often"), 2, "say interval=600"),
        (("--interval", "--format", "csv"), 2, "--format table or json only"),
        (("--interval", "--window", "1h"), 2, "--format table or json only"),
        (("--interval", "--policy", "both"), 2, "--format table or json only"),
        (("--interval", "--job-id", "j"), 2, "of LOG, name one with --job-name"),
        (("--interval", "--job-name", "other"), 3, "no job 'other' in these logs; there are 'j'"),
    ],
)
def test_what_the_command_cannot_do_is_reported(
    journal: Path, options: tuple[str, ...], code: int, says: str
) -> None:
    done = scrtune_goodput(journal, *options)
    assert done.exit_code == code
    assert says in " ".join(done.output.split())


def test_logs_of_several_jobs_need_a_name(tmp_path: Path) -> None:
    logs = [JobPaths.of(name, base=tmp_path).journal for name in ("a", "b")]
    for log in logs:
        journal_of([(T0 + 600, event) for event in SAVES], log)
    done = scrtune_goodput(*logs, "--interval")
    assert done.exit_code == 3
    assert "the logs are of several jobs: 'a', 'b'; name one with --job-name" in done.output
    assert scrtune_goodput(*logs, "--interval", "--job-name", "b").exit_code == 0


def test_a_job_that_logs_only_its_saves_has_an_interval_by_its_id_and_by_its_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path))
    journal = JobPaths.of("live").journal
    journal_of([(T0 + 600, event) for event in SAVES], journal)
    of_id, of_log = scrtune_goodput("--job-id", "live", "--interval"), scrtune_goodput(journal, "--interval")
    assert of_id.exit_code == 0, of_id.output
    assert "Mean cost of the last 5 checkpoints, under the active settings: 3.00 s." in of_id.stdout
    assert of_id.stdout == of_log.stdout


def test_without_a_checkpoint_there_is_no_interval(tmp_path: Path) -> None:
    path = JobPaths.of("j", base=tmp_path).journal
    journal_of(Job(CACHED).journal, path)
    done = scrtune_goodput(path, "--interval")
    assert done.exit_code == 1
    assert "no checkpoint was measured yet" in done.output
