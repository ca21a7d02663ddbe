"""`scrtune goodput --interval` and `--what-if`: the best interval between checkpoints, beside others."""

import re

import msgspec

from ...goodput.interval.failure_rate import RATE_WEIGHT, Prior
from ...goodput.interval.model import Schedule
from ...units import parse_duration_s
from ..job_record import JobRecord
from ..output import print_view
from ..text import interval as text
from ..views.interval import JobOutlook, inputs, outlook

_FLUSH_EVERY = re.compile(r"[1-9][0-9]{0,5}")
_MOST_FAILURES = 1e6


def asked_schedule(words: str) -> Schedule:
    """Return the schedule of ``interval=600`` or ``interval=10m,flush=4``. Raises ValueError.

    Without `flush` its `flush_every` is 0: flushes stay as they are.
    """
    pairs = [each.strip().partition("=") for each in words.split(",")]
    given = {name: value for name, _, value in pairs}
    if len(given) < len(pairs):
        raise ValueError(f"{words!r}: say interval and flush once each; one command answers one question")
    flush = given.pop("flush", None)
    if given.keys() != {"interval"} or not (flush is None or _FLUSH_EVERY.fullmatch(flush)):
        raise ValueError(f"{words!r}: say interval=600 (seconds, or 10m, 2h), and flush=4 if you like")
    return Schedule(interval_s=parse_duration_s(given["interval"]), flush_every=int(flush or 0))


def mtbf_prior(words: str) -> Prior:
    """Return the prior of ``24h``, or ``24h:3``: an MTBF of the job, and its weight. Raises ValueError."""
    mtbf, _, failures = words.partition(":")
    try:
        weight = float(failures) if failures else RATE_WEIGHT
        prior = Prior(mtbf_s=parse_duration_s(mtbf), weight=weight, source="--mtbf-prior")
    except ValueError:
        weight = _MOST_FAILURES + 1
    if weight > _MOST_FAILURES:
        raise ValueError(f"{words!r}: say an MTBF of the job, and the failures it weighs: 24h:3")
    return prior


def print_outlook(job: JobRecord, prior: Prior | None, asked: Schedule | None, form: str) -> None:
    """Print the schedules of `job`. Raises IntervalError."""
    view = outlook(inputs(job), prior, asked)
    print_view(JobOutlook(job_name=job.name, **msgspec.structs.asdict(view)), form, text.outlook)
