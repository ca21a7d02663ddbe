"""Intent 5 of the LLNL study: how much redundancy is needed; the sets of nodes that protect each other.

A set of n nodes is lost when more than k of them are, while a checkpoint is nowhere but in their caches. With
nodes that fail independently at the rate r, one is lost in e seconds with probability q = 1 - exp(-r e), and

    P(set) = sum over i > k of C(n, i) q^i (1 - q)^(n - i)
    P(job) = 1 - product over all sets of (1 - P(set))

The sets are redset's (`redset_group_id` in redset.c): D nodes in D // N sets of as equal size as possible.
The exposure e is the longest that a checkpoint is only in the cache: SCR_FLUSH intervals, and the flush. A
rebuild after a loss ends it sooner, so that P is an upper bound. Components that fail together are one
failure group and not independent nodes (SCR_GROUP; SCR's manual, "Redundancy schemes").
"""

from collections import Counter
from math import exp, expm1, fsum, lgamma, log, log1p

import msgspec

from ....units import count_text, rounded_duration_text
from ...events import Values
from ...intent import Evidence, Intent
from ...settings import flush_every, is_cached, number
from ..io.flush import FlushBehaviour
from .fault_model import FaultModel
from .redundancy import Redundancy, set_failures

SET_SHARE = 0.01
"""Of the losses of any node: so many may be more than a set survives."""
LARGEST_RS = 256
_SMALLEST = 2
_NEGLIGIBLE = 1e-17


class FaultTolerance(msgspec.Struct, Intent, frozen=True, kw_only=True):
    """The sets of a job on `nodes` nodes under the `scheme` in use, each of which may lose `tolerated` nodes.

    Each checkpoint is for `exposure_s` seconds nowhere but in the cache; 0 where nothing is cached.
    """

    title, number = "fault tolerance", 5
    unseen = "how long checkpoints are only in the cache is not known yet"

    evidence: Evidence = Evidence()
    nodes: int = 1
    scheme: str = "SINGLE"
    set_size: int = 8
    tolerated: int = 0
    exposure_s: float = 0.0
    faults: FaultModel = FaultModel()

    @property
    def p_node(self) -> float:
        """The probability that one given node is lost during the exposure."""
        return -expm1(-self.exposure_s / self.faults.node_mtbf_s)

    @property
    def p_any(self) -> float:
        """The probability that any node is lost during the exposure."""
        return p_loss(self.nodes, 1, 0, self.p_node)

    def _text(self) -> str:
        if self.exposure_s <= 0:
            return "nothing is only in the cache: checkpoints go to the prefix directory"
        survives = f"{self.scheme} survives the loss of no node"
        if self.tolerated:
            sizes = set_sizes(self.nodes, self.set_size)
            sets = f"{count_text(len(sizes), 'set')} of {min(sizes)} nodes or more"
            losses = count_text(self.tolerated, "loss", "losses")
            survives = f"{self.scheme} in {sets} survives {losses} a set"
        lost = p_loss(self.nodes, self.set_size, self.tolerated, self.p_node)
        return (
            f"a checkpoint is only in the cache for {rounded_duration_text(self.exposure_s)}; {survives}:"
            f" it is lost with probability {lost:.1e}, any node with {self.p_any:.1e}"
        )


def observe(
    faults: FaultModel, redundancy: Redundancy, flush: FlushBehaviour, settings: Values
) -> FaultTolerance:
    """Return the intent under `settings`."""
    scheme = redundancy.effective
    tolerated = set_failures(settings) if scheme == "RS" else int(scheme in ("XOR", "PARTNER"))
    seen = FaultTolerance(
        nodes=redundancy.nodes,
        scheme=scheme,
        set_size=number(settings, "SCR_SET_SIZE"),
        tolerated=tolerated,
        faults=faults,
    )
    if not flush.evidence.count or flush.interval_s <= 0:
        return seen
    exposed_s = flush.interval_s * flush_every(settings) + flush.flush_s if is_cached(settings) else 0.0
    return msgspec.structs.replace(
        seen,
        evidence=msgspec.structs.replace(flush.evidence, source="intervals, flushes and failures"),
        exposure_s=exposed_s,
    )


def set_sizes(nodes: int, set_size: int) -> tuple[int, ...]:
    """Return the members of each set of `nodes` nodes, `set_size` at least where there are so many."""
    count = max(1, nodes // max(1, set_size))
    return tuple(nodes // count + (number < nodes % count) for number in range(count))


def p_loss(nodes: int, set_size: int, tolerated: int, p_node: float) -> float:
    """Return the probability that any set loses more than `tolerated`, each node being lost with `p_node`."""
    total = 0.0
    for members, count in Counter(set_sizes(nodes, set_size)).items():
        p_set = _p_more(tolerated, members, p_node)
        if p_set >= 1:
            return 1.0
        total += count * log1p(-p_set)
    return -expm1(total)


def largest_set(nodes: int, tolerated: int, p_node: float, scheme: str = "XOR") -> tuple[int, str]:
    """Return the largest set for `nodes` nodes of which each is lost with `p_node`, and what bounded it."""
    least = max(_SMALLEST, tolerated + 1)
    most = min(nodes, LARGEST_RS - tolerated) if scheme == "RS" else nodes
    bound = SET_SHARE * p_loss(nodes, 1, 0, p_node)
    low, high = least, max(least, most)
    while low < high:  # a larger set is never safer
        middle = (low + high + 1) // 2
        low, high = (middle, high) if p_loss(nodes, middle, tolerated, p_node) <= bound else (low, middle - 1)
    if low == most < nodes:
        return low, f"redset's Reed-Solomon codes have {LARGEST_RS} symbols at most"
    if low == nodes:
        return low, f"the job has {count_text(nodes, 'node')}"
    if low == least and p_loss(nodes, low, tolerated, p_node) > bound:
        return low, "no set is small enough: flush more often, or survive more losses"
    return low, ""


def _p_more(tolerated: int, members: int, p_node: float) -> float:
    """Return the probability that more than `tolerated` of `members` are lost, as precise as it is small.

    It is scipy.special.bdtrc, which takes 0.3 s to load: the daemon asks at a job's end, and its user waits.
    """
    if members <= tolerated or p_node <= 0:
        return 0.0
    if p_node >= 1:
        return 1.0

    def p_exactly(lost: int) -> float:
        ways = lgamma(members + 1) - lgamma(lost + 1) - lgamma(members - lost + 1)
        return exp(ways + lost * log(p_node) + (members - lost) * log1p(-p_node))

    p_fewer = fsum(map(p_exactly, range(tolerated + 1)))
    if p_fewer < 1 / 2:  # else the difference would lose digits
        return 1 - p_fewer
    total = 0.0
    for lost in range(tolerated + 1, members + 1):  # beyond the mean they become ever less probable
        p_lost = p_exactly(lost)
        total += p_lost
        if p_lost < _NEGLIGIBLE * total:
            break
    return total
