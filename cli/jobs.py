"""Find a job and what is known of it: from its daemon while it runs, from its journal afterwards."""

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

import msgspec

from ..client.paths import (
    NO_JOB_ID,
    JobPaths,
    bases,
    check_base,
    default_base,
    job_id_from_environment,
    latest_job,
)
from ..client.transport.daemon_client import DaemonUnavailable, ask_daemon
from ..daemon import apply_event, views
from ..intents.effects import Advice
from ..intents.pipeline import Pipeline
from ..intents.tune.gains import gains
from ..scr_config.decision import DecisionError, parse_decision

T = TypeVar("T")

PUBLISHED_LIMIT_S = 15.0  # the daemon tries again every 5 s
_PAUSE_S = 0.2


class UnknownJobError(LookupError):
    """There is no such job, or it left nothing; the text says what to do."""


class NotPublishedError(RuntimeError):
    """What was ordered is not in force yet; the text says why and what to do."""


def find(job_id: str | None, *, no_other: bool = False) -> JobPaths:
    """The run directory of `job_id`, else of the job of this environment, else of the latest one here.

    With `no_other` the latest one counts only where the environment names no job. Raises UnknownJobError, and
    :class:`scrtune.client.paths.RunDirectoryError` when what is found may be somebody else's.
    """
    own = job_id or job_id_from_environment()
    is_named = own != NO_JOB_ID
    strict = is_named and (job_id is not None or no_other)
    for base in bases():
        named = JobPaths.of(own, base=base)
        if is_named and named.check().root.is_dir():
            return named
    latest = None if strict else next(filter(None, map(latest_job, bases())), None)
    if latest is None:
        wanted = f"job {own!r}" if strict else "a job"
        raise UnknownJobError(f"{default_base()}: no trace of {wanted} here; start one with `scrtune run`")
    return latest


def find_to_follow(job_id: str | None) -> JobPaths:
    """The job `job_id`, else that of this environment, else the one that runs on this host.

    What one exports is for the job at hand: another that has ended must be named. Raises as :func:`find`.
    """
    if job_id is not None or job_id_from_environment() != NO_JOB_ID:
        return find(job_id, no_other=True)
    running = [*_running()]
    if len(running) > 1:
        names = ", ".join(sorted(paths.job_id for paths in running))
        raise UnknownJobError(f"{default_base()}: several jobs run here ({names}); name one with --job-id")
    if not running:
        raise UnknownJobError(
            f"{default_base()}: no job of yours runs here; name one that has ended with --job-id, or"
            " start one with `scrtune run`"
        )
    return running[0]


def _running() -> Iterator[JobPaths]:
    """The jobs with a daemon on this node; what others put there is passed over."""
    for base in bases():
        check_base(base)
        names = [each.name for each in base.iterdir()] if base.is_dir() else []
        for name in names:
            paths = JobPaths.of(name, base=base)
            with contextlib.suppress(OSError):
                if is_running(paths.check()):
                    yield paths


def is_running(paths: JobPaths) -> bool:
    """Whether the job has a daemon on this node."""
    return _somebody_listens(paths.control_socket)


def ask(paths: JobPaths, command: str, kind: type[T]) -> T:
    """What the daemon of a running job answers. Raises DaemonUnavailable, at once when nobody listens."""
    if not is_running(paths):
        raise DaemonUnavailable(f"{paths.root}: the daemon of this job does not run")
    answer = ask_daemon(paths.control_endpoint, command)
    if answer.error:
        raise DaemonUnavailable(answer.error)
    try:
        return msgspec.json.decode(answer.result, type=kind)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise DaemonUnavailable(
            f"{paths.root}: the daemon's answer cannot be read ({error}); run it and this command from the"
            " same installation"
        ) from error


def _somebody_listens(path: Path) -> bool:
    """Whether a process holds the socket at `path`; a daemon that was killed leaves it behind."""
    with socket.socket(socket.AF_UNIX) as probe:
        probe.setblocking(False)
        try:
            probe.connect(str(path))
        except BlockingIOError:
            return True  # its queue is full
        except OSError:
            return False
    return True


def replayed(paths: JobPaths) -> tuple[Pipeline, float]:
    """The pipeline of a job as its journal left it, and the time of the last record.

    Raises :class:`UnknownJobError` when there is no journal.
    """
    try:
        return apply_event.replayed(paths.journal)
    except FileNotFoundError as error:
        raise UnknownJobError(f"{paths.journal}: no journal; the job's daemon never ran") from error


def advice(paths: JobPaths) -> Advice:
    """Return what a job's next output runs under, or the last decision for it. Raises UnknownJobError."""
    try:
        return ask(paths, "recommendation", Advice)
    except DaemonUnavailable:
        pass
    try:
        decision = parse_decision(paths.decision.read_bytes())
        return Advice(generation=decision.generation, settings=decision.settings())
    except (OSError, DecisionError):
        replayed(paths)  # of a job that never was there is nothing to say; of this one nothing was published
        return Advice()


def status(paths: JobPaths) -> views.StatusView:
    """The state of a job, running or not."""
    try:
        return ask(paths, "status", views.StatusView)
    except DaemonUnavailable:
        pipeline, last_s = replayed(paths)
        view = views.status(pipeline, last_s, job_id=paths.job_id, host=paths.host, running=False)
        return msgspec.structs.replace(view, config_failure=_unpublished(paths, pipeline))


def explain(paths: JobPaths) -> views.ExplainView:
    """Why a job's settings are what they are, running or not, and what each change gained."""
    try:
        view, spent = ask(paths, "explain", views.ExplainView), ask(paths, "goodput", views.GoodputView)
    except DaemonUnavailable:
        pipeline, last_s = replayed(paths)
        view, spent = views.explain(pipeline), views.goodput(pipeline, last_s)
        view = msgspec.structs.replace(view, unpublished=_unpublished(paths, pipeline))
    return msgspec.structs.replace(view, job_id=paths.job_id, gains=gains(spent.decisions, spent.costs))


def switch(paths: JobPaths, *, on: bool, limit_s: float = PUBLISHED_LIMIT_S) -> views.SwitchView:
    """Turn the tuning of a running job on or off; returns when what follows from that is published.

    Raises DaemonUnavailable, and :class:`NotPublishedError` when it is not within `limit_s`: tuning is as was
    ordered then, and the daemon goes on trying.
    """
    deadline_s = time.monotonic() + limit_s
    while True:
        view = ask(paths, "on" if on else "off", views.SwitchView)
        if view.is_published:
            return view
        if time.monotonic() >= deadline_s:
            why = view.failure or "the config file was edited just now, and that is taken in first"
            raise NotPublishedError(
                f"job {view.job_id}: tuning is {'on' if on else 'off'}, but the settings that follow are not"
                f" in force yet: {why}. The daemon goes on trying; ask `scrtune status`"
            )
        time.sleep(_PAUSE_S)


def _unpublished(paths: JobPaths, pipeline: Pipeline) -> str:
    """Return why the last settings of a job that has ended were never active; empty when they were."""
    try:
        published = parse_decision(paths.decision.read_bytes()).generation
    except (OSError, DecisionError):
        published = 0
    if pipeline.advice.generation == published:
        return ""
    return f"generation {published} was the last that could be written; {paths.log} says why"


def goodput(paths: JobPaths) -> views.GoodputView:
    """Where a job's time went, running or not, and what each decision gained."""
    try:
        view = ask(paths, "goodput", views.GoodputView)
    except DaemonUnavailable:
        view = views.goodput(*replayed(paths))
    return msgspec.structs.replace(view, gains=gains(view.decisions, view.costs))
