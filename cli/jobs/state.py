"""The state of one of scrtune's jobs: from its daemon while it runs, from its journal afterwards."""

import contextlib
from typing import TypeVar

import msgspec

from ...client.paths import JobPaths
from ...client.transport.daemon_client import DaemonUnavailable, ask_daemon
from ...client.transport.wire import Question
from ...daemon import views
from ...daemon.journal.snapshot import recovered
from ...intents.effects import Advice
from ...intents.events import Values
from ...intents.pipeline import Pipeline
from ...intents.rules.parameters import advised
from ...scr_config.decision import DecisionError, parse_decision
from ..errors import UnknownJobError
from .find import is_running, journal_of

T = TypeVar("T")


def ask(paths: JobPaths, question: str | Question, kind: type[T]) -> T:
    """Return what the daemon of a running job answers.

    Raises DaemonUnavailable, at once when nobody listens.
    """
    if not is_running(paths):
        raise DaemonUnavailable(f"{paths.root}: the daemon of this job does not run")
    answer = ask_daemon(paths.control_endpoint, question)
    if answer.error:
        raise DaemonUnavailable(answer.error)
    try:
        return msgspec.json.decode(answer.result, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DaemonUnavailable(
            f"{paths.root}: the daemon's answer cannot be read ({error}); run it and this command from the"
            " same installation"
        ) from error


def advice(paths: JobPaths) -> Advice:
    """Return what a job's next output runs under, or what was published last. Raises UnknownJobError."""
    try:
        return ask(paths, "recommendation", Advice)
    except DaemonUnavailable:
        if (published := _published(paths)) is None:
            journal_of(paths)  # raises if there never was such a job; of this one nothing was published
        return published or Advice()


def recommended(paths: JobPaths) -> Values:
    """Return the settings to run a job with: those of :func:`advice`, with what is advised and proposed.

    Raises UnknownJobError.
    """
    settings = advice(paths).settings
    with contextlib.suppress(UnknownJobError, OSError):  # of a job without a journal nothing is proposed
        view = explain(paths)
        settings = {**settings, **advised(view.parameters), **views.merged(view.proposals)}
    return settings


def status(paths: JobPaths) -> views.StatusView:
    """Return the state of a job, running or not."""
    try:
        return ask(paths, "status", views.StatusView)
    except DaemonUnavailable:
        pipeline, last_s = _recovered(paths)
        silent = is_running(paths)  # a daemon that is stopped
        view = views.status_view(pipeline, last_s, job_id=paths.job_id, host=paths.host, running=silent)
        return msgspec.structs.replace(view, silent=silent, config_failure=_unpublished(paths, pipeline))


def explain(paths: JobPaths) -> views.ExplainView:
    """Return why a job's settings are what they are, running or not, and what each change gained."""
    try:
        view = ask(paths, "explain", views.ExplainView)
    except DaemonUnavailable:
        pipeline, _ = _recovered(paths)
        view = views.explain_view(pipeline)
        unpublished = _unpublished(paths, pipeline)
        view = msgspec.structs.replace(view, running=is_running(paths), unpublished=unpublished)
    return msgspec.structs.replace(view, job_id=paths.job_id)


def goodput(paths: JobPaths) -> views.GoodputView:
    """Return where a job's time went, running or not, and what each decision gained."""
    try:
        return ask(paths, "goodput", views.GoodputView)
    except DaemonUnavailable:
        return views.goodput_view(*_recovered(paths))


def _recovered(paths: JobPaths) -> tuple[Pipeline, float]:
    """Return the pipeline at the end of a job, and when that was. Raises UnknownJobError."""
    journal_of(paths)
    return recovered(paths)


def _published(paths: JobPaths) -> Advice | None:
    try:
        decision = parse_decision(paths.decision.read_bytes())
        return Advice(generation=decision.generation, settings=decision.settings())
    except (OSError, DecisionError):
        return None


def _unpublished(paths: JobPaths, pipeline: Pipeline) -> str:
    """Return why the last settings of a job that has ended were never active; empty when they were."""
    published = (_published(paths) or Advice()).generation
    if pipeline.advice.generation == published:
        return ""
    return f"generation {published} was the last that could be written; {paths.log} says why"
