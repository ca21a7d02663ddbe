"""`scrtune status`."""

from .. import job_state
from ..find_job import find
from ..options import ShownJob, command
from ..output import print_view
from ..text import tables


@command(ShownJob)
def status(options: ShownJob) -> None:
    """Show the state of a job: what arrived, what was lost, what is being tried."""
    print_view(job_state.status(find(options.job_id)), options.form, tables.status)
