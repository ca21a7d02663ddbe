"""Labels of the tuner's changes: none lies on another, however many there are."""

import re
from itertools import combinations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from scrtune.cli.html.figures import WIDTH, Canvas
from scrtune.cli.html.labels import LEVELS, LabelledSpan, placed, width_of
from scrtune.cli.html.page import page
from scrtune.cli.html.theme import LIGHT
from scrtune.cli.html.timeline import TimelineFigure
from scrtune.cli.views.tuner_changes import TunerChange
from scrtune.goodput.report import Report
from scrtune.intents.tune.decisions import Verdict

from ...support.report_job import checkpointed, reported, trial

RULES = (
    "no more redundancy than declared",
    "flush asynchronously",
    "flush threads for the spare cores",
    "file buffer of the application's size",
)
FOUR = ((0.17, 0.26), (0.25, 0.34), (0.34, 0.42), (0.81, None))
"""When trials of a real job began and ended, as shares of its time: the last label stands before its mark."""


@pytest.fixture(scope="module")
def job() -> Report:
    return reported(checkpointed())


def made(job: Report, trials: tuple[tuple[float, float | None], ...]) -> list[TunerChange]:
    wall_s = job.account.wall_s
    return [
        trial(
            number,
            wall_s * begin,
            None if end is None else wall_s * end,
            verdict=(Verdict.ACCEPTED, Verdict.REVERTED)[number % 2],
            rule=RULES[number % len(RULES)],
        )
        for number, (begin, end) in enumerate(trials, start=1)
    ]


def evenly(count: int) -> tuple[tuple[float, float], ...]:
    return tuple((index / count, (index + 0.6) / count) for index in range(count))


def extents(timeline: TimelineFigure) -> tuple[Bbox, dict[str, Bbox]]:
    """Of the figure, and of each label in it, as a renderer measures them."""
    with rc_context(LIGHT.settings()):
        figure = Figure(figsize=(WIDTH, timeline.height), dpi=150)
        renderer = FigureCanvasAgg(figure).get_renderer()
        timeline.draw(Canvas(figure, LIGHT))
        labels = {label.text for label in timeline.labels if label.text}
        drawn = [text for text in figure.findobj(Text) if text.get_text() in labels]
        return figure.bbox, {text.get_text(): text.get_window_extent(renderer) for text in drawn}


@pytest.mark.parametrize("trials", [FOUR, evenly(14), evenly(60), ((0.2, 0.21),) * 3, ((0.05, 0.95),) * 3])
def test_no_label_lies_on_another_or_leaves_the_figure(
    job: Report, trials: tuple[tuple[float, float | None], ...]
) -> None:
    timeline = TimelineFigure(job, made(job, trials))
    figure, drawn = extents(timeline)
    assert len(drawn) == len(trials)
    for (one, first), (other, second) in combinations(drawn.items(), 2):
        assert not first.overlaps(second), f"{one!r} lies on {other!r}"
    for text, extent in drawn.items():
        assert figure.x0 <= extent.x0 < extent.x1 <= figure.x1, text
        assert figure.y0 <= extent.y0 < extent.y1 <= figure.y1, text


def test_few_changes_say_what_they_saved_and_the_figure_grows_with_them(job: Report) -> None:
    timeline = TimelineFigure(job, made(job, FOUR))
    assert [label.text for label in timeline.labels] == [
        "1. flush asynchronously: saves 0.900 s (0.600 to 1.300 s), taken back",
        "2. flush threads for the spare cores: saves 0.900 s (0.600 to 1.300 s), kept",
        "3. file buffer of the application's size: saves 0.900 s (0.600 to 1.300 s), taken back",
        "4. no more redundancy than declared: saves 0.900 s (0.600 to 1.300 s), on trial",
    ]
    assert not timeline.is_abridged
    assert timeline.height > TimelineFigure(job, made(job, FOUR[:1])).height


def test_more_changes_have_their_names_and_very_many_the_numbers_of_the_table(job: Report) -> None:
    names = TimelineFigure(job, made(job, evenly(14))).labels
    assert [label.text for label in names][:2] == [
        "1. flush asynchronously",
        "2. flush threads for the spare cores",
    ]
    changes = made(job, evenly(60))
    assert [label.text for label in TimelineFigure(job, changes).labels] == [
        f"{each}." for each in range(1, 61)
    ]
    text = page(job, changes, version="0")
    assert "Changes have the numbers that they have in the table." in text
    assert "<b>60. no more redundancy than declared</b>" in text


def test_where_not_even_numbers_fit_there_are_marks_only(job: Report) -> None:
    labels = TimelineFigure(job, made(job, ((0.5, 0.5),) * 100)).labels
    assert {label.text for label in labels} == {""}
    assert max(label.level for label in labels) == LEVELS - 1


@given(
    st.lists(
        st.tuples(st.floats(0, 9), st.floats(0, 2), st.text("abc ", min_size=1, max_size=40)), max_size=40
    )
)
def test_wherever_bars_are_their_labels_find_a_place(bars: list[tuple[float, float, str]]) -> None:
    wide = [
        LabelledSpan(begin, min(9.5, begin + length), (text, "1.")) for begin, length, text in sorted(bars)
    ]
    labels = placed(wide, 9.5)
    taken: list[list[tuple[float, float]]] = [[] for _ in range(LEVELS)]
    for bar, label in zip(wide, labels, strict=True):
        end = label.begin + width_of(label.text)
        assert 0 <= label.begin <= end <= 9.5 + 1e-9 or not label.text
        if label.text:
            extent = min(bar.begin, label.begin), max(bar.end, end)
            assert all(extent[1] < low or high < extent[0] for low, high in taken[label.level])
            taken[label.level].append(extent)


def test_all_of_the_time_line_fits_on_a_sheet_in_letters_of_six_points(job: Report) -> None:
    bars = msgspec.structs.replace(job.lanes[1], name="custom:one of many")
    crowded = msgspec.structs.replace(job, lanes=(*job.lanes, *[bars] * 20))
    changes = made(crowded, evenly(60))
    timeline = TimelineFigure(crowded, changes)
    figures = page(crowded, changes, version="0")
    least = min(float(size) for size in re.findall(r"font: ([\d.]+)px", figures))
    paper_mm, room_mm = 273.0, 168.0  # A4 across without its margins, and without headings
    scale = min(paper_mm / (25.4 * WIDTH), room_mm / (25.4 * timeline.height))
    assert least * scale >= 6
