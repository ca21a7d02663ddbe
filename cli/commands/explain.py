"""`scrtune explain`."""

from .. import job_state
from ..find_job import find
from ..options import ShownJob, command
from ..output import print_view
from ..text import tables


@command(ShownJob)
def explain(options: ShownJob) -> None:
    """Show why the settings are what they are: intents with evidence, every change with its reason."""
    print_view(job_state.explain(find(options.job_id)), options.form, tables.explain)
