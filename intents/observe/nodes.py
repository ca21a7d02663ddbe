"""What is known of each node of a job, and the rules by which the nodes' evidence becomes one.

A setting is equal on all ranks, so it must fit the node that has least: the fewest spare cores, the CPUs that
are idle on every node, the least memory, the least room in the cache, the slowest storage. Sizes of accesses
are summed (:mod:`.io.buffers`); a flush lasts until the last byte is there, on the slowest node.
A node far from the others is named: it is why the job's settings are what they are (`docs/cluster.md`).
"""

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping
from statistics import median

import msgspec

from ...goodput.between_outputs import BetweenOutputs
from ...goodput.events import OutputCompleted
from ...units import bytes_text
from ..events import NodeObserved, Operation, StorageProbed, Tier, TraceDigest
from .affinity import AffinityObserver, CoreAffinity, Floats

MOST_NODES = 16_384
"""Of more, the one is forgotten that was silent longest."""
_STRAGGLER_SHARE = 0.5
"""A node with less than this share of what the others have (their median) is named."""
_FEWEST_TO_COMPARE = 2


class NodeEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """What one node has said of itself; 0 where it has not. `seen_s` is when it did last (epoch seconds)."""

    host: str
    seen_s: float = 0.0
    ranks: int = 0
    cores: int = 0
    spare_cores: float = 0.0
    memory_available_bytes: int = 0
    cache_free_bytes: int = 0
    link_bytes_per_s: float = 0.0
    cache_write_bytes_per_s: float = 0.0
    trace_events: int = 0
    prefix_write_bytes_per_s: float = 0.0
    """Of one thread, in the calls that were traced."""


class _Node(msgspec.Struct):
    """The observers of one node."""

    affinity: AffinityObserver = msgspec.field(default_factory=AffinityObserver)
    seen_s: float = 0.0
    look: NodeObserved | None = None
    free_with_datasets: int | None = None
    first_look_s: float | None = None
    """When it was looked at for the first time since the last output."""
    free_before: int | None = None
    """`free_with_datasets` before that."""
    probe: StorageProbed | None = None
    trace_events: int = 0
    prefix_bytes: int = 0
    prefix_s: float = 0.0

    def cores(self, busy_share: float) -> CoreAffinity:
        return self.affinity.found.wanted(busy_share)

    def evidence(self, host: str, busy_share: float) -> NodeEvidence:
        cores, look = self.cores(busy_share), self.look
        return NodeEvidence(
            host=host,
            seen_s=self.seen_s,
            ranks=cores.processes,
            cores=cores.cores,
            spare_cores=cores.spare_cores,
            memory_available_bytes=look.memory_available_bytes if look else 0,
            cache_free_bytes=look.cache_free_bytes if look else 0,
            link_bytes_per_s=look.link_bytes_per_s if look else 0.0,
            cache_write_bytes_per_s=self.probe.cache_write_bytes_per_s if self.probe else 0.0,
            trace_events=self.trace_events,
            prefix_write_bytes_per_s=self.prefix_bytes / self.prefix_s if self.prefix_s > 0 else 0.0,
        )


class _State(msgspec.Struct, frozen=True):
    """What a copy goes on with."""

    nodes: dict[str, _Node]
    between: BetweenOutputs


class Nodes:
    """The evidence of all nodes, by host. With one node it is that node's as it is."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Node] = {}
        self._between = BetweenOutputs()
        self._affinity: CoreAffinity | None = CoreAffinity()

    def __getstate__(self) -> bytes:
        """Return all as one message: pickling thousands of nodes needs as many objects more for a moment."""
        return msgspec.msgpack.encode(_State(self._nodes, self._between), enc_hook=array.tobytes)

    def __setstate__(self, state: bytes) -> None:
        """Take over what :meth:`__getstate__` has returned."""
        kept = msgspec.msgpack.decode(state, type=_State, dec_hook=lambda _, content: Floats("d", content))
        self._nodes, self._between = kept.nodes, kept.between
        self._affinity = None

    def add_output(self, output: OutputCompleted) -> None:
        """Take in what an output tells of rank 0: the others are taken to compute as it does."""
        self._between.add(output)
        self._affinity = None

    def add_look(self, look: NodeObserved, now: float, *, is_cached: bool) -> bool:
        """Take in one look at a node; return whether it shows what is free beside the datasets in force.

        `is_cached`: its cache has them.
        """
        node = self._node(look.host, now)
        node.affinity.add(look, now)
        self._affinity = None
        node.look = msgspec.structs.replace(look, processes=(), cpus=(), siblings=(), numa=())
        if not is_cached or look.cache_free_bytes <= 0:
            return False
        if node.first_look_s is None:
            node.first_look_s, node.free_before = min(look.time_s or now, now), node.free_with_datasets
            node.free_with_datasets = None
        node.free_with_datasets = min(look.cache_free_bytes, node.free_with_datasets or look.cache_free_bytes)
        return True

    def end_looks(self, start_s: float) -> bool:
        """Take in that an output that began at `start_s` has ended; return whether a node was seen before it.

        SCR deletes the oldest dataset at an output's start, so a look during one may find its place free. The
        start may be told only with the end: of a node that was not looked at before, such looks do not count.
        After looks that were, they count as far as they found less.
        """
        is_seen = False
        for node in self._nodes.values():
            if node.first_look_s is not None:
                is_before = node.first_look_s <= start_s
                node.free_with_datasets = node.free_with_datasets if is_before else node.free_before
                node.first_look_s, is_seen = None, is_seen or is_before
        return is_seen

    def add_probe(self, probe: StorageProbed, now: float) -> None:
        """Take in the rates of a node's storage."""
        self._node(probe.host, now).probe = probe

    def add_digest(self, digest: TraceDigest, now: float) -> None:
        """Take in a stretch of trace; one of several hosts (a recorded trace) is no single node's."""
        hosts = {host for host, _ in digest.processes}
        if len(hosts) != 1:
            return
        node = self._node(hosts.pop(), now)
        node.trace_events += digest.events
        for access in digest.accesses:
            if (access.tier, access.op) == (Tier.PREFIX, Operation.WRITE):
                node.prefix_bytes += access.bytes
                node.prefix_s += access.duration_s

    def forget(self, host: str) -> None:
        """Forget a node that has left the job: it is no node's worst case any more."""
        self._nodes.pop(host, None)
        self._affinity = None

    def _node(self, host: str, now: float) -> _Node:
        node = self._nodes.pop(host, None) or _Node()
        node.seen_s = now
        self._nodes[host] = node
        if len(self._nodes) > MOST_NODES:
            del self._nodes[next(iter(self._nodes))]
        return node

    def is_probed(self, host: str) -> bool:
        """Return whether the storage of `host` was probed."""
        return host in self._nodes and self._nodes[host].probe is not None

    @property
    def traced(self) -> int:
        """The number of nodes that a trace came from."""
        return sum(node.trace_events > 0 for node in self._nodes.values())

    @property
    def affinity(self) -> CoreAffinity:
        """The cores: worst case over the nodes."""
        if self._affinity is None:
            share = self._between.busy_share
            seen = {host: node.cores(share) for host, node in self._nodes.items() if node.affinity.found.cpus}
            self._affinity = merged_affinity(seen)
        return self._affinity

    @property
    def look(self) -> NodeObserved | None:
        """Memory, what may be dirty of it, room in the cache, rate of the link: each the least of all nodes.

        `host` has the least memory. It `is_virtual` if any of them is.
        """
        looks = [node.look for node in self._nodes.values() if node.look]
        if not looks:
            return None
        tightest = min(looks, key=lambda look: look.memory_available_bytes)
        free_bytes = min(look.cache_free_bytes for look in looks)
        is_virtual = any(look.is_virtual for look in looks)
        return msgspec.structs.replace(
            tightest,
            cache_free_bytes=free_bytes,
            is_virtual=is_virtual,
            link_bytes_per_s=_lowest("link_bytes_per_s", looks),
            dirty_limit_bytes=min(look.dirty_limit_bytes for look in looks),
        )

    @property
    def free_with_datasets(self) -> int:
        """The least room in a cache when it was last seen with datasets in it; 0: never."""
        free = (node.free_with_datasets for node in self._nodes.values())
        return min((each for each in free if each is not None), default=0)

    @property
    def probe(self) -> StorageProbed | None:
        """The rates: each the lowest that a node measured; None before the first probe."""
        probes = [node.probe for node in self._nodes.values() if node.probe]
        if not probes:
            return None
        slowest = min(probes, key=lambda each: each.cache_write_bytes_per_s or float("inf"))
        return msgspec.structs.replace(slowest, **{name: _lowest(name, probes) for name in _RATES})

    def evidence(self) -> tuple[NodeEvidence, ...]:
        """Return what each node has said, by host."""
        share = self._between.busy_share
        return tuple(self._nodes[host].evidence(host, share) for host in sorted(self._nodes))


_RATES = tuple(name for name in StorageProbed.__struct_fields__ if name.endswith("_bytes_per_s"))


def _lowest(rate: str, seen: Iterable[NodeObserved | StorageProbed]) -> float:
    """Return the lowest of a rate among the nodes that know it."""
    return min((found for each in seen if (found := float(getattr(each, rate))) > 0), default=0.0)


def merged_affinity(seen: Mapping[str, CoreAffinity]) -> CoreAffinity:
    """Return the cores that all nodes, by host, have: those of the one with fewest spare, idle where all are.

    It is as certain as what is known of the node that was looked at least.
    """
    each_is = seen.values()
    if len(seen) < _FEWEST_TO_COMPARE:
        return next(iter(each_is), CoreAffinity())
    host = min(seen, key=lambda name: seen[name].spare_cores)
    worst = seen[host]
    evidence = min((each.evidence for each in each_is), key=lambda found: found.count)
    idle = set(worst.unbound)
    for masks in {each.unbound for each in each_is}:
        idle.intersection_update(masks)
    return msgspec.structs.replace(
        worst,
        evidence=msgspec.structs.replace(
            evidence,
            source=f"{evidence.source} on each of {len(seen)} nodes",
            end_s=max(each.evidence.end_s for each in each_is),
        ),
        processes=max(each.processes for each in each_is),
        bound=any(each.bound for each in each_is),
        unbound=tuple(sorted(idle)),
        idle_cores=min(len(idle), *(each.idle_cores for each in each_is)),
        mask_cores=min(each.mask_cores for each in each_is),
        nodes=len(seen),
        host=host,
        others_spare_cores=median(each.spare_cores for name, each in seen.items() if name != host),
    )


def _rate(value: float) -> str:
    return f"{bytes_text(value)}/s"


_SPARE = "spare_cores"
_COMPARED: dict[str, tuple[str, Callable[[float], str]]] = {
    _SPARE: ("spare cores", "{:.1f}".format),
    "memory_available_bytes": ("of available memory", bytes_text),
    "cache_free_bytes": ("free in the cache", bytes_text),
    "link_bytes_per_s": ("on the network's link", _rate),
    "cache_write_bytes_per_s": ("into the cache", _rate),
    "prefix_write_bytes_per_s": ("into the prefix directory", _rate),
}
"""What nodes are compared by: more is better. 0 means not known, but for the spare cores of known cores."""


def stragglers(nodes: Iterable[NodeEvidence]) -> Iterator[str]:
    """Yield a sentence for each number of which a node has less than half of what the others have."""
    known = list(nodes)
    for field, (name, text) in _COMPARED.items():
        every = ((getattr(node, field), node) for node in known)
        found = [(value, node.host) for value, node in every if (node.cores if field == _SPARE else value)]
        if len(found) < _FEWEST_TO_COMPARE:
            continue
        value, host = min(found)
        others = median(other for other, each in found if each != host)
        if value < _STRAGGLER_SHARE * others:
            yield f"node {host} has {text(value)} {name}, the others {text(others)}"
