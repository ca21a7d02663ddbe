"""The best interval between checkpoints of a job, or what another one would bring.

Costs are the pipeline's own, those that every other view shows; failures are counted in the same events.
"""

from collections.abc import Sequence

import msgspec

from ...goodput.checkpoint_cost import CheckpointCost, costs_of
from ...goodput.interval.failure_rate import FailurePrior, typical
from ...goodput.interval.failures import failures_of
from ...goodput.interval.model import Schedule
from ...goodput.interval.recommend import Outlook, measured, recommend
from ...intents.rules.pace import Inputs
from ...intents.rules.pace import inputs as inputs_under
from ..jobs.record import JobRecord


class JobOutlook(Outlook, frozen=True, kw_only=True):
    """The schedules of the job of that name."""

    job_name: str


def inputs(job: JobRecord) -> Inputs:
    """Return what is known of `job`: with its active settings by its daemon's journal, or by any logs.

    Where the settings are not known, how often the job flushed is counted. Of writers that know nothing of
    SCR the saves count as checkpoints. Raises IntervalError.
    """
    failures = failures_of(job.events)
    costs, settings = job.costs or costs_of(job.events), job.settings
    if settings is None:
        return Inputs(measured=measured(costs, _flushed_every(costs)), failures=failures)
    return inputs_under(costs, failures, settings)


def _flushed_every(costs: Sequence[CheckpointCost]) -> int:
    flushed = sum(cost.flushed for cost in costs)
    return max(1, round(len(costs) / flushed)) if flushed else 0


def outlook(found: Inputs, known: FailurePrior | None = None, asked: Schedule | None = None) -> Outlook:
    """Return the best schedule beside others, and what was `asked`. Raises IntervalError.

    The MTBF and its weight may be `known`; of the failures that the cache survives the typical share counts.
    """
    prior = typical(found.failures.nodes, survives_node=found.survives_node)
    if known is not None:
        prior = msgspec.structs.replace(known, cache_share=prior.cache_share, share_weight=prior.share_weight)
    return recommend(found.measured, found.failures, prior, asked)
