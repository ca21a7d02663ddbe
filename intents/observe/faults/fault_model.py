"""Intent 3 of the LLNL study: what may fail together, how often, and what of it a checkpoint must survive."""

from functools import cached_property

import msgspec

from ....goodput.interval.failure_rate import PROCESS_SHARE, Posterior, posterior, typical
from ....goodput.interval.failures import Failures
from ....units import count_text, rounded_duration_text
from ...events import AllocationObserved, SettingsObserved
from ...intent import Evidence, Intent
from ...tune.knowledge import Knowledge
from .redundancy import SURVIVES, declared_floor, declared_losses, effective


class FaultModel(msgspec.Struct, Intent, frozen=True, kw_only=True, dict=True):
    """What fails in a job on `nodes` nodes, and what of it a checkpoint in the cache must survive.

    `floor` is the weakest scheme that keeps what was declared, else the user's own; `losses` are the nodes
    that it may lose at once. `switches` has the job's hosts below each switch, as far as the scheduler tells
    (none otherwise). `failures` are those of this job, `earlier` those of `earlier_node_s` node-seconds of
    jobs before it. `is_single`: the cache has no redundancy, so that what it survived ended processes alone.
    """

    title, number = "fault model", 3
    unseen = "the job has not described itself yet"

    evidence: Evidence = Evidence()
    nodes: int = 1
    floor: str = "SINGLE"
    losses: int = 0
    declared: bool = False
    switches: dict[str, tuple[str, ...]] = {}
    failures: Failures = Failures()
    earlier: int = 0
    earlier_node_s: float = 0.0
    is_single: bool = True

    @cached_property
    def rate(self) -> Posterior:
        """The rate of failures of the whole job: the prior of the machine, and what was seen."""
        seen = msgspec.structs.replace(
            self.failures,
            unknown=self.failures.unknown + self.earlier,
            observed_s=self.failures.observed_s + self.earlier_node_s / self.nodes,
        )
        return posterior(seen, typical(self.nodes, survives_node=not self.is_single))

    @property
    def process_share(self) -> float:
        """The share of failures that end processes and leave the nodes; a prior where schemes hide it."""
        return self.rate.cache_share if self.is_single else PROCESS_SHARE

    @property
    def node_mtbf_s(self) -> float:
        """The mean seconds until one given node is lost with what it caches."""
        return self.rate.mtbf_s * self.nodes / (1 - self.process_share)

    def _text(self) -> str:
        who, losses = "your own scheme", self.losses
        if self.declared and losses < (asked := SURVIVES.get(self.floor, 0)):
            who, losses = f"declared; on {count_text(self.nodes, 'node')} no scheme does", asked
        elif self.declared:
            who = "declared"
        must = f"a checkpoint in the cache must survive {count_text(losses, 'lost node')}"
        seen = self.failures.total + self.earlier
        rate = f"the job fails about every {rounded_duration_text(self.rate.mtbf_s)}"
        below = f"; its nodes hang on {count_text(len(self.switches), 'switch', 'switches')}"
        return (
            f"{must} ({self.floor}, {who}); {rate} ({count_text(seen, 'failure')} seen), and"
            f" {1 - self.process_share:.0%} of failures take a node{below if self.switches else ''}"
        )


def observe(
    job: SettingsObserved | None,
    scheme: str,
    failures: Failures,
    allocation: AllocationObserved | None,
    recalled: Knowledge | None,
) -> FaultModel:
    """Return the intent for a job that runs under `scheme` now."""
    if job is None:
        return FaultModel()
    nodes, floor = max(1, job.nodes), declared_floor(job)
    own = floor or str(job.settings.get("SCR_COPY_TYPE", "XOR"))
    by_scheme = SURVIVES.get(effective(own, nodes), 0)
    earlier = recalled.failures if recalled else 0
    sources = [typical(nodes).source, *(["the failures of this job"] if failures.total else [])]
    sources += [f"{recalled.failures} of earlier jobs"] if recalled and recalled.node_s else []
    return FaultModel(
        evidence=Evidence(
            1 + failures.total + earlier, failures.observed_s, source=", ".join(sources), declared=bool(floor)
        ),
        nodes=nodes,
        floor=own,
        losses=max(declared_losses(job), by_scheme),
        declared=bool(floor),
        switches=_switches(allocation) if allocation else {},
        failures=failures,
        earlier=earlier,
        earlier_node_s=recalled.node_s if recalled else 0.0,
        is_single=effective(scheme, nodes) == "SINGLE",
    )


def _switches(allocation: AllocationObserved) -> dict[str, tuple[str, ...]]:
    """Return the job's hosts by switch; none where that of any host is not known."""
    known = [(allocation.switches.get(host, ""), host) for host in allocation.hosts]
    if not all(switch for switch, _ in known):
        return {}
    return {
        switch: tuple(host for at, host in known if at == switch)
        for switch in sorted({switch for switch, _ in known})
    }
