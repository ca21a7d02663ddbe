"""What is learnt of a job: its checkpoints so far, and the belief that follows from them."""

from collections import Counter
from collections.abc import Iterable
from math import exp, hypot, log
from statistics import median
from typing import NamedTuple

from msgspec.structs import replace

from ....goodput.checkpoint_cost import CheckpointCost
from ...events import FileSystem, StorageProbed, Value, Values
from ...rules.levers import LEVERS, domain, joint_settings
from ...rules.situation import Situation
from ...settings import is_cached
from .belief import Belief
from .model import LOWEST, OF_NFS, OF_VIRTUAL_NODES, PRIORS, Prior
from .observations import Observations, ObservedCheckpoint, identity
from .shape import Shape
from .sizes import UsualSize, scaled

_LOOK_AGAIN = (2, 3, 5, 9)
"""Checkpoints after which candidates and shape are made anew if more is known of the job."""
_ALMOST, _INTERVAL_CHANGED = 1.1, 1.4
_SAME_CORES = 0.25
_SETTLED_EVERY = 4
_SHIFTS = ((4, None, 0.4, "blocking_s"), (2, 3, 0.8, "write_s"))
"""So many checkpoints unlike as many before them, or up to so many, by what log factor, and in which part.

Of a long job two in a row are spikes at some time. Two may both have been the first that waited for a flush.
"""
_COMPARED = 8
_FLUSHES_BEFORE, _FASTER_LOG = 2, 0.5
_SHIFT = {"prefix": 0.8, "cache": 0.3}
_FIXED_SHARE = 0.1
_PROBED_SPREAD = 0.35
_SYNCED_SPREAD = 0.5
_LINK_SPREAD = 0.4
_DIRTY_SHARE, _PAGE_CACHE_DOUBT = 0.15, 0.1
"""Of the available memory, where Linux's own share is not known: the middle of its defaults, 10 and 20 %."""
_OF_AN_ENCODE = 0.7
_RECALLED_SPREAD = 0.25


class _Basis(NamedTuple):
    """What a belief is made from, besides the shape of the job."""

    domains: tuple[tuple[Value, ...], ...]
    priors: dict[str, Prior]


class Learner:
    """The observations of one job and the belief about its settings; None before the first checkpoint."""

    def __init__(self) -> None:
        self.belief: Belief | None = None
        self.observations = Observations()
        self.usual_size = UsualSize()
        self.run = 0
        self.knows_prefix = False
        """The prefix directory's rate was seen, by a flush or by writes past the cache."""
        self._made_at = 0
        self._basis: _Basis | None = None
        self.is_shifted = False
        """The machine has changed: what was seen before says nothing any more."""
        self.regime = 0
        """Counts how often the machine, the size or the user's own settings have become others."""

    def take(
        self, cost: CheckpointCost, settings: Values, now: Situation, keep: list[Values], *, settled: bool
    ) -> bool:
        """Take in a checkpoint under `settings`; return whether the belief is up to date with it.

        All costs are those of a checkpoint of :attr:`usual_size`. The candidates `keep` stay. A `settled`
        belief is updated at every fourth checkpoint only.
        """
        if (larger := self.usual_size.add(cost.bytes)) != 1:
            self.observations.resize(larger)
            self.rebase()
        cost = scaled(cost, 1 / self.usual_size.share(cost.bytes))
        self.observations.add(cost, settings, self.run)
        is_first = not self.knows_prefix and (cost.flushed or not is_cached(settings))
        self.knows_prefix |= is_first
        shape, shifted_at = _shape(now, cost, self.observations.all), self._shifted_at()
        keep = [now.own, settings, *keep]
        if self.belief is None:
            self.belief = self._made(shape, now, keep, joint_settings(now))
        elif self._is_other(self.belief.shape, shape, now):
            is_alike = _is_alike(shape, self.belief.shape) and self._basis_now(now) == self._basis
            some = self.belief.candidates if is_alike else joint_settings(now)
            self.belief = self._made(shape, now, keep, some)
        elif settled and self.observations.count % _SETTLED_EVERY and not (is_first or shifted_at):
            return False
        if shifted_at:
            self.belief.shift(_SHIFT)
            self.observations.forget(shifted_at)
            self.is_shifted = True
            self.regime += 1
        self.belief.update(self.observations.all)
        return True

    def amend(self, cost: CheckpointCost) -> None:
        """Take in what is known by now of the slowdown of a checkpoint: for the next update of the belief."""
        self.observations.amend(scaled(cost, 1 / self.usual_size.share(cost.bytes)), self.run)

    def rebase(self) -> None:
        """The user's own settings or the size are others now: make candidates anew, keep what was seen."""
        self.belief = None
        self.regime += 1

    def seen(self) -> Counter[int]:
        """Return the number of checkpoints by candidate."""
        belief = self.belief
        found = (belief.index_of(each.settings) for each in self.observations.all) if belief else ()
        return Counter(index for index in found if index is not None)

    def flush_share(self, index: int) -> float:
        """Return the last flush under a candidate as a share of what is believed of it.

        It is 1 where there is none since the user's own settings were measured last.
        """
        if self.belief is None:
            return 1.0
        own, settings = (identity(self.belief.candidates[each]) for each in (0, index))
        for each in reversed(self.observations.all):
            if each.settings == own:
                break
            if each.settings == settings and each.flush_s > 0:
                return each.flush_s / max(LOWEST, float(self.belief.flush_s[index]))
        return 1.0

    def _is_other(self, before: Shape, shape: Shape, now: Situation) -> bool:
        """Return whether the job is another than the belief was made for, by what is known of it now."""
        count = self.observations.count
        if self.is_shifted:
            return False
        if count in _LOOK_AGAIN:
            return not _is_almost(shape, before) or self._basis_now(now) != self._basis
        is_due = count - self._made_at >= _LOOK_AGAIN[-1]
        return is_due and not _is_near(shape.between_s, before.between_s, _INTERVAL_CHANGED)

    def _basis_now(self, now: Situation) -> _Basis:
        return _Basis(tuple(domain(lever, now) for lever in LEVERS), _priors(now, self._own_s(now)))

    def _made(self, shape: Shape, now: Situation, keep: list[Values], some: Iterable[Values]) -> Belief:
        self._made_at, self._basis = self.observations.count, self._basis_now(now)
        seen = self.observations.all
        made = Belief([*keep, *some], shape, self._basis.priors, kept=len(keep), seen=seen)
        made.prune(each.settings for each in seen)
        return made

    def _own_s(self, now: Situation) -> float:
        """Return what the first checkpoint under the user's own settings blocked; 0 before there was one."""
        own = identity(now.own)
        return next((each.blocking_s for each in self.observations.all if each.settings == own), 0.0)

    def _shifted_at(self) -> int:
        """Return from which checkpoint on they cost unlike those before, all under the same settings.

        0: the last ones do not. One flush is enough that was far faster than all before it, as no spike makes
        it.
        """
        seen = self.observations.all
        flushes = [each for each in seen if each.settings == seen[-1].settings and each.flush_s > 0]
        if seen[-1].flush_s > 0 and _is_faster([each.flush_s for each in flushes]):
            return flushes[-2].time + 1
        kind = [each for each in seen if each.flushed == seen[-1].flushed]
        for count, most, least, part in _SHIFTS:
            last = kind[-count:]
            before = [each for each in kind if each.settings == last[-1].settings][:-count]
            if len({each.settings for each in last}) > 1 or not count <= len(before) <= (most or len(before)):
                continue
            if any(_is_apart(name, last, before[-_COMPARED:], least) for name in (part, "flush_s")):
                return last[0].time
        return 0


def _is_almost(shape: Shape, before: Shape) -> bool:
    """Return whether the belief would hardly be another with `shape` instead of `before`."""
    is_as_busy = abs(shape.used_cores - before.used_cores) <= _SAME_CORES
    return is_as_busy and _is_alike(shape, before) and _is_near(shape.between_s, before.between_s, _ALMOST)


def _is_alike(shape: Shape, before: Shape) -> bool:
    """Return whether the candidates that are the best for `before` are likely to be so for `shape`."""
    same = replace(shape, between_s=before.between_s, used_cores=before.used_cores) == before
    return same and _is_near(shape.between_s, before.between_s, _INTERVAL_CHANGED)


def _is_near(one: float, other: float, most: float) -> bool:
    return 1 / most < one / other < most


def _is_faster(flushes_s: list[float]) -> bool:
    """Return whether the last of `flushes_s` was far faster than those before it."""
    *before, last = flushes_s
    return len(before) >= _FLUSHES_BEFORE and log(min(before) / last) > _FASTER_LOG


def _is_apart(
    name: str, last: list[ObservedCheckpoint], before: list[ObservedCheckpoint], least: float
) -> bool:
    """Return whether a part of the `last` checkpoints is all longer or shorter than `before`, by `least`."""
    new, old = ([log(max(getattr(each, name), LOWEST)) for each in group] for group in (last, before))
    usual = median(old)
    limit = max(least, 3 * median(abs(each - usual) for each in old))
    return min(new) > usual + limit or max(new) < usual - limit


def _shape(now: Situation, cost: CheckpointCost, seen: list[ObservedCheckpoint]) -> Shape:
    redundancy, affinity = now.intents.redundancy, now.intents.affinity
    between = [each.between_s for each in seen if each.between_s > 0]
    between_s = median(between) if between else max(_before_s(cost, now), cost.blocking_s)
    cores = affinity.cores or max(1, len(affinity.cpus))
    return Shape(
        nodes=redundancy.nodes,
        ranks_per_node=now.ranks_per_node,
        rank_bytes=max(1.0, cost.bytes / redundancy.ranks),
        files=max(1, cost.files // redundancy.ranks),
        between_s=max(1e-3, between_s),
        cores=cores,
        used_cores=affinity.used_cores / max(1, affinity.processes),
        mask_cores=affinity.mask_cores or cores,
        on_device=now.caches_on_device,
    )


def _before_s(cost: CheckpointCost, now: Situation) -> float:
    """Return the seconds from the job's start to its first checkpoint, less a flush after it."""
    flushed_after_s = max(0.0, cost.flush_s - cost.blocked_on_flush_s)
    return cost.time_s - now.start_s - cost.blocking_s - flushed_after_s


def _priors(now: Situation, own_s: float) -> dict[str, Prior]:
    """Return the priors of all rates, with what earlier jobs and a probe of the node say of some.

    A checkpoint of the user's own takes `own_s`: what is fixed in the cache is a small part of that.
    """
    is_virtual = now.node is not None and now.node.is_virtual
    prefix = now.intents.storage.found
    is_nfs = prefix is not None and prefix.file_system == FileSystem.NFS
    priors = {**PRIORS, **(OF_VIRTUAL_NODES if is_virtual else {}), **(OF_NFS if is_nfs else {})}
    if own_s > 0:
        fixed = priors["cache_fixed_s"]
        priors["cache_fixed_s"] = Prior(min(fixed.median, _FIXED_SHARE * own_s), fixed.spread)
    device = _device(now)
    priors["synced_bytes_per_s"] = device
    for name, found in _measured(now).items():
        priors[name] = priors[name].given(found.median, found.spread)
    priors["cache_bytes_per_s"] = _past_page_cache(now, priors["cache_bytes_per_s"], device)
    for name, (mean, spread) in now.recalled.rates.items() if now.recalled else ():
        # of whole checkpoints: a probe adds nothing where that is the surer one
        if name in priors and (wide := hypot(spread, _RECALLED_SPREAD)) < priors[name].spread:
            priors[name] = Prior(exp(mean), wide)
    return priors


def _past_page_cache(now: Situation, memory: Prior, device: Prior) -> Prior:
    """Return the rate of a checkpoint of which the page cache takes a part at the rate of `memory`.

    What is more than may be dirty waits for the device; a probe of some MiB does not see that.
    """
    if now.node is None or not now.caches_on_device or now.node.memory_available_bytes <= 0:
        return memory
    dirty_bytes = now.node.dirty_limit_bytes or _DIRTY_SHARE * now.node.memory_available_bytes
    share = dirty_bytes / max(1, now.node_bytes())
    if share >= 1:
        return memory
    slow = (1 - share) / device.median
    rate = 1 / (share / memory.median + slow)
    doubt = _PAGE_CACHE_DOUBT * log(memory.median / device.median)
    return Prior(rate, hypot(max(memory.spread, device.spread * slow * rate), doubt))


def _device(now: Situation) -> Prior:
    """Return the prior of the cache's device: a probe of it had little to sync."""
    prior, rate = PRIORS["synced_bytes_per_s"], now.probe.cache_sync_bytes_per_s if now.probe else 0.0
    return prior.given(rate, _SYNCED_SPREAD) if rate > 0 else prior


def _measured(now: Situation) -> dict[str, Prior]:
    """Return the rates that the probe and the network's link say; an encode does what they do, and more."""
    probe = now.probe or StorageProbed(host="")
    link_bytes_per_s = now.node.link_bytes_per_s if now.node else 0.0
    found = {
        "cache_bytes_per_s": Prior(probe.cache_write_bytes_per_s, _PROBED_SPREAD),
        "encode_read_bytes_per_s": Prior(_OF_AN_ENCODE * probe.cache_read_bytes_per_s, _PROBED_SPREAD),
        "encode_xor_bytes_per_s": Prior(
            _OF_AN_ENCODE * probe.writers * probe.xor_bytes_per_s, _PROBED_SPREAD
        ),
        "encode_send_bytes_per_s": Prior(_OF_AN_ENCODE * link_bytes_per_s, _LINK_SPREAD),
    }
    return {name: each for name, each in found.items() if each.median > 0}
