"""The time line: changes have the numbers of the table, and all of it fits on a sheet."""

import re
from itertools import combinations

import msgspec
import pytest
from matplotlib import rc_context
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.transforms import Bbox

from scrtune.cli.html.canvas import WIDTH, Canvas
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
    "copy with few calls, through the processor's cache, and 1 more of what the tuner found",
)
FOUR = ((0.17, 0.26), (0.25, 0.34), (0.34, 0.42), (0.81, None))
"""When trials of a real job began and ended, as shares of its time: the last label stands before its mark."""
IN_THE_MIDDLE = ((0.1, 0.2), (0.2, 0.3), (0.25, 0.35), (0.32, 0.49), (0.6, 0.7))
"""The long label of the fourth has room on neither side of its span."""


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


def labels(timeline: TimelineFigure) -> tuple[Bbox, dict[str, Bbox]]:
    """Of the figure, and of each change's label in it, as a renderer measures them."""
    with rc_context(LIGHT.settings()):
        figure = Figure(figsize=(WIDTH, timeline.height), dpi=150)
        renderer = FigureCanvasAgg(figure).get_renderer()
        timeline.draw(Canvas(figure, LIGHT))
        drawn = [text for text in figure.findobj(Text) if re.match(r"\d+\.( |$)", text.get_text())]
        return figure.bbox, {text.get_text(): text.get_window_extent(renderer) for text in drawn}


@pytest.mark.parametrize(
    "trials", [FOUR, IN_THE_MIDDLE, evenly(14), evenly(60), ((0.2, 0.21),) * 3, ((0.05, 0.95),) * 3]
)
def test_no_label_lies_on_another_or_leaves_the_figure(
    job: Report, trials: tuple[tuple[float, float | None], ...]
) -> None:
    figure, drawn = labels(TimelineFigure(job, made(job, trials)))
    assert len(drawn) == len(trials)
    for (one, first), (other, second) in combinations(drawn.items(), 2):
        assert not first.overlaps(second), f"{one!r} lies on {other!r}"
    for text, extent in drawn.items():
        assert figure.x0 <= extent.x0 < extent.x1 <= figure.x1, text
        assert figure.y0 <= extent.y0 < extent.y1 <= figure.y1, text


def test_the_figure_grows_with_the_changes_whose_numbers_are_those_of_the_table(job: Report) -> None:
    few, many = made(job, FOUR[:1]), made(job, evenly(60))
    assert TimelineFigure(job, many).height > TimelineFigure(job, few).height
    text = page(job, many, version="0")
    assert "Changes have the numbers that they have in the table." in text
    assert "<b>60. " in text


def test_all_of_the_time_line_fits_on_a_sheet_in_letters_of_six_points(job: Report) -> None:
    bars = msgspec.structs.replace(job.lanes[1], name="custom:one of many")
    crowded = msgspec.structs.replace(job, lanes=(*job.lanes, *[bars] * 20))
    changes = made(crowded, evenly(60))
    timeline = TimelineFigure(crowded, changes)
    figures = page(crowded, changes, version="0")
    least = min(float(size) for size in re.findall(r"font: ([\d.]+)px", figures))
    paper_mm, room_mm = 273.0, float(re.findall(r"max-height: (\d+)mm", figures)[0])  # A4 across
    assert room_mm <= 168, "what is left of its height below a heading"
    scale = min(paper_mm / (25.4 * WIDTH), room_mm / (25.4 * timeline.height))
    assert least * scale >= 6
