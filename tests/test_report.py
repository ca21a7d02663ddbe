"""`scrtune goodput --html` and `--png`: the page, and what a real browser makes of it."""

import io
import json
import os
import re
import shutil
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

import msgspec
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from scrtune.client.paths import JobPaths
from scrtune.daemon import report_svg
from scrtune.daemon.cli import main
from scrtune.daemon.gains import GainView
from scrtune.daemon.journal import Journal
from scrtune.daemon.report_changes import Change, changes
from scrtune.daemon.report_page import page
from scrtune.daemon.report_theme import GROUP_COLOURS, GROUPS, LANE_COLOURS, VERDICTS, group_of
from scrtune.daemon.told import Told
from scrtune.goodput import report as content
from scrtune.goodput.attribution import Gain
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
    Recovered,
    RestartCompleted,
    StepCompleted,
    StepStarted,
)
from scrtune.goodput.report import POINTS, SLICES, Report
from scrtune.goodput.report_lanes import BARS, Bar, thinned
from scrtune.intents.decisions import Decision, Verdict

T = 1.76e9
HOSTILE = '<script>alert(1)</script> & "$x$" \x1b[31m'
CHROMIUM = shutil.which("chromium")

GAIN = Gain(
    pairs=2,
    before_s=1.5,
    saved_s=0.9,
    low_s=0.6,
    high_s=1.3,
    checkpoints=20,
    total_s=18.0,
    total_low_s=12.0,
    total_high_s=26.0,
)
CHANGES = (
    Change(
        time_s=T + 30,
        until_s=T + 60,
        generation=1,
        verdict=Verdict.ACCEPTED,
        rule="flush asynchronously",
        what="SCR_FLUSH_ASYNC 0 -> 1",
        because="the flush blocks <much>",
        gain=GAIN,
    ),
    Change(
        time_s=T + 70,
        until_s=None,
        generation=2,
        verdict=Verdict.VETOED,
        rule="fewer copies",
        what="SCR_COPY_TYPE XOR -> SINGLE",
        because="no failure was declared",
        gain=None,
    ),
)


def checkpointed(steps: int = 60, runs: int = 2) -> list[GoodputEvent]:
    """Runs with a checkpoint every ten steps; all but the last break off and lose five steps."""
    events: list[GoodputEvent] = []
    at_s, first, dataset = T, 0, 0
    for run in range(runs):
        events.append(JobStarted(time_s=at_s, ranks=2))
        if run:
            events += [
                Recovered(kind="rebuild", dataset=dataset, start_s=at_s, end_s=at_s + 2),
                RestartCompleted(
                    dataset=dataset, name="c", start_s=at_s + 2, end_s=at_s + 3, source="rebuild"
                ),
            ]
        at_s += 4
        for step in range(first, first + steps):
            events.append(StepCompleted(step=step, start_s=at_s, end_s=at_s + 1))
            at_s += 1
            if step % 10 == 9:
                dataset += 1
                output = OutputCompleted(
                    dataset=dataset,
                    name=f"step.{step}",
                    start_s=at_s,
                    end_s=at_s + 1,
                    write_s=0.5,
                    encode_s=0.2,
                    flush_due=True,
                )
                at_s += 1
                flush = FlushCompleted(dataset=dataset, start_s=at_s, end_s=at_s + 3, asynchronous=True)
                events += [output, flush]
        first += steps - 5
        events.append(Interval(kind="custom", name=HOSTILE, start_s=at_s, end_s=at_s + 2))
        at_s += 2
        if run < runs - 1:
            events.append(NodeFailed(time_s=at_s + 1, node="node7"))
            at_s += 20
    return [*events, JobEnded(time_s=at_s, exit_code=0)]


def reported(events: list[GoodputEvent], name: str = "a job") -> Report:
    now = max(getattr(event, "end_s", getattr(event, "time_s", 0.0)) for event in events)
    job = Told(name=name, events=events, now=now)
    return content.report(name, events, job.ledger, now, job.tuning.costs)


def write_log(path: Path, events: list[GoodputEvent], name: str = "a job") -> Path:
    lines = (msgspec.json.encode({**msgspec.to_builtins(event), "job_name": name}) for event in events)
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def scrtune(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["goodput", *map(str, arguments)])


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


def test_slices_of_time_add_up_to_the_account() -> None:
    shown = reported(checkpointed())
    assert len(shown.slices) == SLICES
    assert sum(window.wall_s for window in shown.slices) == pytest.approx(shown.account.wall_s)
    for bucket in ("productive", "wasted_progress", "checkpoint_write", "rebuild", "recovery"):
        assert sum(window.buckets[bucket] for window in shown.slices) == pytest.approx(
            shown.account.buckets[bucket]
        )


def test_slowdown_is_shown_beside_the_flush_that_caused_it() -> None:
    events: list[GoodputEvent] = [JobStarted(time_s=T)]
    events += [StepCompleted(step=step, start_s=T + step, end_s=T + step + 1) for step in range(100)]
    output = OutputCompleted(dataset=1, name="c", start_s=T + 100, end_s=T + 101, flush_due=True)
    slow = [
        StepCompleted(step=100 + step, start_s=T + 101 + 2 * step, end_s=T + 103 + 2 * step)
        for step in range(10)
    ]
    flush = FlushCompleted(dataset=1, start_s=T + 101, end_s=T + 121, asynchronous=True)
    shown = reported([*events, output, *slow, flush])
    assert shown.account.buckets["flush_slowdown"] == pytest.approx(10, rel=0.01)
    late = sum(window.buckets["flush_slowdown"] for window in shown.slices if window.end_s > T + 100.5)
    assert late == pytest.approx(shown.account.buckets["flush_slowdown"], rel=0.05)


def test_lanes_have_every_event_and_their_own_seconds() -> None:
    lanes = {lane.name: lane for lane in reported(checkpointed()).lanes}
    assert (lanes["runs"].events, lanes["steps"].events) == (2, 120)
    assert lanes["write"].events == lanes["encode"].events == lanes["background flush"].events == 12
    assert sum(bar.busy_s for bar in lanes["encode"].bars) == pytest.approx(12 * 0.2, abs=1e-5)
    assert sum(bar.busy_s for bar in lanes["other checkpoint time"].bars) == pytest.approx(12 * 0.3, abs=1e-5)
    assert {"rebuild", "restart", HOSTILE} <= lanes.keys()


def test_thinned_lanes_lose_no_event_and_no_second() -> None:
    bars = [Bar(T + step, T + step + 0.9, 0.9) for step in range(10_000)]
    made = thinned(bars, 10_000 / BARS)
    assert len(made) <= BARS
    assert sum(bar.count for bar in made) == 10_000
    assert sum(bar.busy_s for bar in made) == pytest.approx(9_000)
    assert thinned(bars[:BARS], 10_000) == bars[:BARS]


def test_a_disruption_is_told_once() -> None:
    told = [each.what for each in reported(checkpointed()).disruptions]
    assert told == ["node node7 failed"]
    ended = [JobStarted(time_s=T), JobEnded(time_s=T + 5, exit_code=137), JobStarted(time_s=T + 9)]
    assert [each.what for each in reported(ended).disruptions] == ["a run ended with exit code 137"]
    broken = [JobStarted(time_s=T), StepStarted(step=1, time_s=T + 5), JobStarted(time_s=T + 9)]
    assert [(each.time_s, each.what) for each in reported(broken).disruptions] == [(T + 5, "a run broke off")]
    halted = [JobStarted(time_s=T), JobHalted(time_s=T + 5, reason="X"), JobStarted(time_s=T + 9)]
    assert [each.what for each in reported(halted).disruptions] == ["SCR halted the job (X)"]


def test_of_several_ranks_the_slowest_makes_the_step() -> None:
    events: list[GoodputEvent] = [JobStarted(time_s=T)]
    for step in range(4):
        events += [
            StepCompleted(step=step, start_s=T + step, end_s=T + step + took_s, writer=writer)
            for writer, took_s in (("0", 0.5), ("1", 0.75))
        ]
    steps = reported(events).steps
    assert steps is not None
    assert (steps.count, steps.mean_s, steps.most_s) == (4, pytest.approx(0.75), pytest.approx(0.75))


def test_sparse_starts_share_the_time_between_them() -> None:
    events = [JobStarted(time_s=T), StepStarted(step=0, time_s=T), StepStarted(step=10, time_s=T + 20)]
    steps = reported(events).steps
    assert steps is not None
    assert (steps.count, steps.mean_s) == (10, pytest.approx(2.0))


def test_stragglers_are_marked_or_it_is_said_why_they_cannot_be_told() -> None:
    events: list[GoodputEvent] = [JobStarted(time_s=T)]
    for step in range(20):
        events += [
            StepCompleted(step=step, start_s=T + 2 * step, end_s=T + 2 * step + took_s, writer=writer)
            for writer, took_s in (("rank 0", 1.0), ("rank 1", 1.0), ("rank <2>", 1.5))
        ]
    shown = page(reported(events), (), version="0")
    assert "straggler rank &lt;2&gt;: 1.50 x the others" in shown
    assert "cannot be told" not in shown
    alone = page(reported(checkpointed()), (), version="0")
    assert "Stragglers cannot be told: only one writer tells what its steps took." in alone


def test_the_histogram_has_every_step() -> None:
    events: list[GoodputEvent] = [JobStarted(time_s=T)]
    events += [StepCompleted(step=step, start_s=T + step, end_s=T + step + 0.5) for step in range(999)]
    steps = reported([*events, StepCompleted(step=999, start_s=T + 1000, end_s=T + 1900)]).steps
    assert steps is not None
    assert (sum(steps.heights), steps.beyond, steps.most_s) == (1000, 1, pytest.approx(900))
    assert steps.bins[-1] < 1


def test_every_bucket_has_a_colour_of_a_group() -> None:
    assert {group_of(bucket) for bucket in (*BUCKETS, "custom:x")} == GROUP_COLOURS.keys() == GROUPS.keys()
    assert group_of("custom:x") == "own intervals"
    assert VERDICTS.keys() == set(Verdict)
    assert len({shape for _, shape, _ in VERDICTS.values()}) == len(Verdict)  # told apart without colour


def test_a_trial_and_its_verdict_are_one_change() -> None:
    trial = Decision(
        generation=1,
        time_s=T + 3,
        verdict=Verdict.TRIAL,
        rule="larger buffers",
        changes={"SCR_FILE_BUF_SIZE": 1 << 20},
        previous={"SCR_FILE_BUF_SIZE": 1 << 14},
        because="small",
    )
    kept = msgspec.structs.replace(trial, time_s=T + 9, verdict=Verdict.ACCEPTED, because="cheaper")
    vetoed = msgspec.structs.replace(trial, time_s=T + 12, verdict=Verdict.VETOED)
    view = GainView(
        generation=1,
        time_s=T + 3,
        rule=trial.rule,
        changes=trial.changes,
        previous=trial.previous,
        verdict=kept.verdict,
        gain=GAIN,
    )
    made, left = changes([trial, kept, vetoed], [view])
    assert (made.time_s, made.until_s, made.verdict, made.gain) == (T + 3, T + 9, Verdict.ACCEPTED, GAIN)
    assert made.because == "cheaper"
    assert made.is_made
    assert (left.is_made, left.gain) == (False, None)
    lost = msgspec.structs.replace(GAIN, saved_s=-0.5, low_s=-0.7, high_s=0.1)
    costly = msgspec.structs.replace(made, gain=lost)
    assert costly.short == "larger buffers: costs 500.0 ms (-0.10 to 0.70 s)"


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
    assert "<title>node node7 failed, at" in text
    for heading in (
        "Where the time went",
        "What steps took",
        "What checkpoints cost",
        "What happened",
        "Changes of the tuner",
        "Disruptions",
        "What each change of the tuner gained",
    ):
        assert f"<h2>{heading}</h2>" in text
    assert "0.600 to 1.300" in text
    assert "12.000 to 26.000" in text
    assert "flush asynchronously: saves 900.0 ms (0.60 to 1.30 s), kept" in text


def test_figures_are_well_formed_and_in_the_colours_of_the_page(text: str) -> None:
    figures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(figures) == 4
    for figure in figures:
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
    assert "The figures are thinned out" in text
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
def test_of_a_job_that_said_little_little_is_shown(events: list[GoodputEvent]) -> None:
    shown = reported(events)
    assert "Where the time went" in page(shown, (), version="0")


# The command


def test_the_command_writes_a_page_and_a_picture(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", checkpointed())
    result = scrtune(log, "--html", tmp_path / "out.html", "--png", tmp_path / "out.png")
    assert (result.exit_code, result.output) == (0, "")
    assert "Where the time of a job went" in (tmp_path / "out.html").read_text(encoding="utf-8")
    picture = Image.open(tmp_path / "out.png")
    assert picture.size[0] == round(report_svg.WIDTH * 150)
    colours = {colour[:3] for _, colour in picture.getcolors(1 << 24)}
    for group in ("productive", "checkpoints", "wasted progress", "restore, recovery"):
        assert bytes.fromhex(GROUP_COLOURS[group][1:]) in {bytes(colour) for colour in colours}


def test_a_journal_is_enough(tmp_path: Path) -> None:
    root = tmp_path / "job-7" / "host"
    root.mkdir(parents=True)
    journal = Journal(root / "journal")
    for event in checkpointed():
        journal.append(getattr(event, "end_s", getattr(event, "time_s", T)), event)
    journal.flush(T)
    journal.close()
    result = scrtune(root / "journal", "--html", tmp_path / "out.html")
    assert (result.exit_code, result.output) == (0, "")
    assert "Where the time of job-7 went" in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_a_job_is_known_by_its_run_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SCRTUNE_RUN_DIR", str(tmp_path / "run"))
    paths = JobPaths.of("job-8").create()
    assert scrtune("--job-id", "job-8", "--html", tmp_path / "out.html").exit_code == 3  # no journal
    journal = Journal(paths.journal)
    for event in checkpointed():
        journal.append(getattr(event, "end_s", getattr(event, "time_s", T)), event)
    journal.flush(T)
    journal.close()
    result = scrtune("--job-id", "job-8", "--html", tmp_path / "out.html")
    assert (result.exit_code, result.output) == (0, "")
    shown = json.loads(scrtune("--job-id", "job-8", "--format", "json").stdout)
    wall = f"<b>{shown['account']['wall_s']:,.3f}</b>"
    assert wall in (tmp_path / "out.html").read_text(encoding="utf-8")


def test_a_page_is_about_one_job(tmp_path: Path) -> None:
    one = write_log(tmp_path / "1.jsonl", checkpointed(), "one")
    two = write_log(tmp_path / "2.jsonl", checkpointed(), "two")
    result = scrtune(one, two, "--html", tmp_path / "out.html")
    assert result.exit_code == 3
    assert "'one', 'two'; a page is about one: --job-name" in result.output
    assert not (tmp_path / "out.html").exists()
    assert scrtune(one, two, "--job-name", "two", "--html", tmp_path / "out.html").exit_code == 0


@pytest.mark.parametrize(
    "more",
    [["--format", "json"], ["--window", "60"], ["--policy", "both"], ["--interval"], ["--job-id", "x"]],
)
def test_options_that_a_page_has_no_use_for_are_refused(tmp_path: Path, more: list[str]) -> None:
    log = write_log(tmp_path / "log.jsonl", checkpointed())
    result = scrtune(log, "--html", tmp_path / "out.html", *more)
    assert result.exit_code == 2
    assert not (tmp_path / "out.html").exists()


def test_without_matplotlib_the_user_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(tmp_path / "log.jsonl", checkpointed())
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    result = scrtune(log, "--html", tmp_path / "out.html")
    assert result.exit_code == 2
    assert "pip install 'scrtune[report]'" in result.output


def test_who_draws_nothing_does_not_load_the_library(tmp_path: Path) -> None:
    log = write_log(tmp_path / "log.jsonl", checkpointed())
    code = (
        "import sys; from scrtune.daemon.cli import main;"
        f" main(['goodput', {str(log)!r}], standalone_mode=False); print('matplotlib' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert shown.stdout.splitlines()[-1] == "False"


# In a browser


@pytest.fixture(scope="module")
def a_page(tmp_path_factory: pytest.TempPathFactory, text: str) -> Path:
    path = tmp_path_factory.mktemp("page") / "out.html"
    path.write_text(text, encoding="utf-8")
    return path


def browse(at: Path, *options: str) -> None:
    if CHROMIUM is None:
        pytest.skip("no chromium here: what a browser makes of the page is not checked")
    command = [
        CHROMIUM,
        "--headless",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        f"--user-data-dir={at.parent / 'profile'}",
    ]
    if os.getuid() == 0:
        command.append("--no-sandbox")
    subprocess.run([*command, *options, at.as_uri()], capture_output=True, check=True, timeout=60)


def screenshot(at: Path, *options: str, width: int = 1280) -> Image.Image:
    picture = at.with_name(f"shot{width}.png")
    browse(at, *options, f"--window-size={width},1800", f"--screenshot={picture}")
    return Image.open(io.BytesIO(picture.read_bytes())).convert("RGB")


def shares(picture: Image.Image) -> dict[str, float]:
    """How much of the picture has which colour."""
    total = picture.width * picture.height
    return {"#{:02x}{:02x}{:02x}".format(*colour): n / total for n, colour in picture.getcolors(1 << 24)}


@pytest.fixture(scope="module")
def wide(a_page: Path) -> Image.Image:
    return screenshot(a_page)


def test_a_browser_shows_the_figures(wide: Image.Image) -> None:
    seen = shares(wide)
    assert seen["#ffffff"] > 0.5
    for colour in (
        *(GROUP_COLOURS[group] for group in ("productive", "checkpoints")),
        LANE_COLOURS["encode"],
    ):
        assert seen[colour] > 0.0005
    assert seen[GROUP_COLOURS["productive"]] > 0.03


def test_a_browser_that_prefers_dark_gets_dark(a_page: Path) -> None:
    seen = shares(screenshot(a_page, "--blink-settings=preferredColorScheme=0"))
    assert seen["#12161b"] > 0.5
    assert seen.get("#ffffff", 0.0) < 0.001
    assert seen[GROUP_COLOURS["productive"]] > 0.03


def test_nothing_is_cut_off_at_the_edge(a_page: Path, wide: Image.Image) -> None:
    for picture in (wide, screenshot(a_page, width=500)):
        edge = picture.crop((picture.width - 8, 0, picture.width, picture.height))
        assert [colour for _, colour in edge.getcolors()] == [(255, 255, 255)]


def test_it_prints_on_a_few_pages_even_when_the_reader_prefers_dark(a_page: Path) -> None:
    printed = a_page.with_name("out.pdf")
    browse(
        a_page,
        "--blink-settings=preferredColorScheme=0",
        "--no-pdf-header-footer",
        f"--print-to-pdf={printed}",
    )
    text = printed.read_bytes()
    assert text.startswith(b"%PDF")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", text)) <= 6
