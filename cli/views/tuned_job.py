"""What the page of a job says beside its account: its settings and why, its intents, what to run it with."""

import msgspec

from ...daemon.views import ExplainView, StatusView, explain_view, status_view
from ...goodput.interval.model import IntervalError
from ...goodput.interval.recommend import Outlook
from ...scr_config.render import RenderError, environment_text
from ..jobs import state as job_state
from ..jobs.find import is_running
from ..jobs.record import JobRecord
from .interval import inputs, outlook


class TunedJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job with a daemon: what explains its settings, what they saved, and which nodes it has."""

    explain: ExplainView
    status: StatusView

    @property
    def environment(self) -> str:
        """What a shell needs to run the next job with what was found, or proposed; empty if nothing was."""
        try:
            return environment_text(self.status.savings.for_good, "sh")
        except RenderError:
            return ""


def tuned_job(job: JobRecord) -> TunedJob | None:
    """Return what its daemon knew of `job`; None if it had none, or if its application never reported."""
    pipeline = job.pipeline
    if pipeline is None or pipeline.job is None:
        return None
    status = status_view(pipeline, job.now, job_id=job.name, host="")
    if job.paths is not None:  # only its daemon knows which nodes it hears
        status = msgspec.structs.replace(status, cluster=job_state.status(job.paths).cluster)
    running = job.paths is not None and is_running(job.paths)
    explain = msgspec.structs.replace(explain_view(pipeline), running=running)
    return TunedJob(explain=explain, status=status)


def outlook_of(job: JobRecord) -> Outlook | None:
    """Return how often `job` should take checkpoints; None if nothing can be said of it."""
    try:
        return outlook(inputs(job))
    except IntervalError:
        return None
