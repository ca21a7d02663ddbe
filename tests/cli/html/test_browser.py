"""What a real browser makes of the page of a job: wide, narrow, in the dark, and on paper."""

import io
import re
from pathlib import Path

import pytest
from PIL import Image

from scrtune.cli.html.page import page
from scrtune.cli.html.theme import GROUPS, colour_of

from ...support.report_job import CHANGES, HOSTILE, browse, checkpointed, reported, trial


@pytest.fixture(scope="module")
def a_page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("page") / "out.html"
    text = page(reported(checkpointed(), HOSTILE), CHANGES, version="0")
    path.write_text(text, encoding="utf-8")
    return path


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
        *(GROUPS[group].colour for group in ("productive", "checkpoints")),
        colour_of("checkpoint_encode"),
    ):
        assert seen[colour] > 0.0005
    assert seen[GROUPS["productive"].colour] > 0.03


def test_a_browser_that_prefers_dark_gets_dark(a_page: Path) -> None:
    seen = shares(screenshot(a_page, "--blink-settings=preferredColorScheme=0"))
    assert seen["#12161b"] > 0.5
    assert seen.get("#ffffff", 0.0) < 0.001
    assert seen[GROUPS["productive"].colour] > 0.03


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
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", text)) <= 4


OVERLAPS = """<script>
const found = [];
for (const figure of document.querySelectorAll("svg")) {
  const texts = [...figure.querySelectorAll("text")].filter((text) => text.textContent.trim());
  const boxes = texts.map((text) => text.getBoundingClientRect());
  texts.forEach((text, one) => texts.slice(0, one).forEach((other, two) => {
    const width = Math.min(boxes[one].right, boxes[two].right) - Math.max(boxes[one].left, boxes[two].left);
    const height = Math.min(boxes[one].bottom, boxes[two].bottom) - Math.max(boxes[one].top, boxes[two].top);
    if (width > 1 && height > 0.4 * boxes[one].height)
      found.push(text.textContent + " | " + other.textContent);
  }));
}
const texts = document.querySelectorAll("svg text").length;
document.body.innerHTML = "";
document.body.dataset.texts = texts;
document.body.dataset.overlaps = found.join("; ");
</script></body>"""


@pytest.mark.parametrize("count", [2, 4, 14])
def test_no_text_of_a_figure_lies_on_another(tmp_path: Path, count: int) -> None:
    shown = reported(checkpointed(runs=3), HOSTILE)
    each_s = shown.account.wall_s / count
    changes = [trial(number + 1, each_s * number, each_s * (number + 0.5)) for number in range(count)]
    text = page(shown, changes, version="0")
    at = tmp_path / "out.html"
    at.write_text(re.sub("<meta http-equiv.*?>", "", text).replace("</body>", OVERLAPS), encoding="utf-8")
    dom = browse(at, "--window-size=1280,1800", "--dump-dom")
    assert int(re.findall(r'data-texts="(\d+)"', dom)[0]) > 50
    assert re.findall(r'data-overlaps="(.*?)"', dom) == [""]


LETTERS = """<script>
const figure = document.querySelector("svg");
const scale = figure.getBoundingClientRect().width / figure.viewBox.baseVal.width;
const sizes = [...figure.querySelectorAll("text")].map((text) => parseFloat(getComputedStyle(text).fontSize));
document.body.innerHTML = "";
document.body.dataset.texts = sizes.length;
document.body.dataset.least = scale * Math.min(...sizes);
</script></body>"""


def test_letters_of_a_figure_have_11_pixels_on_a_screen_of_1400(a_page: Path) -> None:
    text = re.sub("<meta http-equiv.*?>", "", a_page.read_text(encoding="utf-8"))
    at = a_page.with_name("letters.html")
    at.write_text(text.replace("</body>", LETTERS), encoding="utf-8")
    dom = browse(at, "--window-size=1400,1800", "--dump-dom")
    assert int(re.findall(r'data-texts="(\d+)"', dom)[0]) > 20
    assert float(re.findall(r'data-least="(.*?)"', dom)[0]) >= 11
