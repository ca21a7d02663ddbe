"""The templates of pages, with what all of them use; whatever is printed has no control characters."""

from jinja2 import Environment, PackageLoader, StrictUndefined

from ...units import duration_text
from ..format import printable
from ..views.story import Story
from ..views.table import Bold
from .theme import DARK, LIGHT, PAPER


def page_environment() -> Environment:
    """Return where templates are loaded from; a page adds its own globals and filters."""
    environment = Environment(
        loader=PackageLoader(__package__, "."),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=lambda value: printable(value) if type(value) in (str, Bold) else value,
    )
    environment.tests["bold"] = lambda text: isinstance(text, Bold)
    environment.globals.update(LIGHT=LIGHT, DARK=DARK, PAPER=PAPER)
    environment.filters.update(number=lambda count: f"{count:,}", duration=duration_text)
    return environment


def story_page(told: Story, *, version: str) -> str:
    """Return a story as one HTML document, the page of `scrtune explain --format html`."""
    return page_environment().get_template("story.html.j2").render(story=told, version=version)
