"""The page of `scrtune explain --format html`, one file without scripts."""

from ..views.story import Story
from .templates import page_environment


def story_page(told: Story, *, version: str) -> str:
    """Return a story as one HTML document."""
    return page_environment().get_template("story.html.j2").render(story=told, version=version)
