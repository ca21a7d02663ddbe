"""The templates of pages; whatever they print has no control characters."""

from jinja2 import Environment, PackageLoader, StrictUndefined

from ..format import printable
from ..tables import job
from ..views.story import Story
from .blocks import block
from .theme import DARK, LIGHT, PAPER


def rendered(template: str, **values: object) -> str:
    """Return a page."""
    environment = Environment(
        loader=PackageLoader(__package__, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) is str else value,
    )
    environment.globals.update(LIGHT=LIGHT, DARK=DARK, PAPER=PAPER)
    environment.filters.update(block=block, number=lambda count: f"{count:,}")
    return environment.get_template(template).render(values)


def story_page(told: Story, *, version: str) -> str:
    """Return a story as one HTML document, the page of `scrtune explain --format html`."""
    (_, *notes), *sections = job.story(told)
    title = f"Job {told.job_id}: {told.about}"
    return rendered(
        "document.html.j2",
        title=title,
        about=f"scrtune {version}",
        kind="story",
        blocks=[*notes, *(each for section in sections for each in section)],
    )
