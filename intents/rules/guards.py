"""Guard rails: the changes that must not be tried at any gain. A new one is a function in `GUARDS`."""

from ...units import bytes_text
from ..events import SettingsObserved, Values, ValueSource
from ..mutability import LEVER, Mutability
from ..observe.faults.redundancy import keeps_floor, members, set_failures, storage_factor
from ..settings import changes_text, is_cached, number
from .durability import permits
from .situation import Held, Situation

CACHE_SHARE = 0.8
_CACHE_USERS = {"SCR_CACHE_SIZE", "SCR_CACHE_BYPASS", "SCR_COPY_TYPE", "SCR_SET_SIZE"}

NEVER = frozenset(
    {"SCR_CACHE_PURGE", "SCR_PREFIX_PURGE", "SCR_PREFIX_SIZE", "SCR_PREFIX", "SCR_ENABLE", "SCR_CURRENT"}
)
"""Parameters that delete or move data, or go back to older ones: they are the user's alone."""


def _forbidden(changes: Values, _now: Situation) -> str | None:
    names = NEVER & changes.keys()
    return f"{', '.join(sorted(names))}: only the user may change this" if names else None


def overruled(name: str, job: SettingsObserved) -> str:
    """Return what wins over a value of `name` in the config file of `job`; empty when nothing does."""
    source = job.sources.get(name)
    if source == ValueSource.UNSAFE_CACHE:
        return "the cache directory is not yours alone, so that nothing is cached"
    if source == ValueSource.ENVIRONMENT and not job.override:
        return "your environment sets it, which wins (scrtune run --override allows it)"
    return ""


def not_by_us(name: str, now: Situation) -> str:
    """Return why nothing but the user may change `name` in this job; empty when the tuner may."""
    if now.job and now.job.sources.get(name) == ValueSource.EDITED:
        return f"{name}: you gave it in the config file while the job ran, which wins"
    if now.job and (why := overruled(name, now.job)):
        return f"{name}: {why}"
    if now.mutability.of(name) is Mutability.INERT:
        return f"{name}: this SCR does not read it"
    if name.startswith(LEVER) and now.mutability.is_fixed(name):
        return f"{name}: nothing in this job applies it (scrtune run preloads a library that does)"
    return ""


def _not_ours(changes: Values, now: Situation) -> str | None:
    changed = sorted(name for name, value in changes.items() if value != now.settings.get(name))
    return next((reason for name in changed if (reason := not_by_us(name, now))), None)


def _wrong_tier(changes: Values, now: Situation) -> str | None:
    """Files may collide in the cache, or the only good copy of those that are written again be in it."""
    is_cached_after = is_cached({**now.settings, **changes})
    if is_cached_after == now.cached:
        return None
    return (now.why_no_cache if is_cached_after else now.why_no_bypass) or None


def _not_durable(changes: Values, now: Situation) -> str | None:
    """What is not in the prefix directory must survive what the user asked for (:mod:`.durability`)."""
    after, asked = {**now.settings, **changes}, now.rails
    if not permits(asked, after):
        return f"{changes_text(changes)}: less durable than what is asked for ({asked.because})"
    if not is_cached(after) or is_cached(now.own):
        return None
    # a user who caches has what SCR makes of their scheme on one node; no other may lose protection
    in_use = now.scheme(after)
    if keeps_floor(in_use, asked.floor):
        return None
    return (
        f"on one node the cache survives what {in_use} does, less than the floor {asked.floor};"
        " declare --redundancy-floor PROCESS if that is enough"
    )


def _does_not_fit(changes: Values, now: Situation) -> str | None:
    """The cache may grow by at most 80 % of what the user's own settings leave free on this node."""
    if not _CACHE_USERS & changes.keys() or now.job is None:
        return None
    after = {**now.settings, **changes}
    largest_bytes = now.intents.flush.largest_bytes
    more_bytes = max(_more_bytes(after, now, largest_bytes), _more_at_first_bytes(after, now, largest_bytes))
    if more_bytes <= 0:
        return None
    free_bytes = now.cache_free_bytes
    if free_bytes <= 0:  # from a recorded trace, of which nothing is tried
        return "the free space of the cache is not known" if now.job.tuning else None
    # datasets that only a change of ours put there would be free space
    ours_bytes = max(0.0, _held_bytes(now) - _needed_bytes(now.own, now, now.intents.flush.largest_bytes))
    more_bytes, room_bytes = more_bytes + ours_bytes, free_bytes + ours_bytes
    if more_bytes <= CACHE_SHARE * room_bytes:
        return None
    return (
        f"{bytes_text(more_bytes)} more do not fit into {CACHE_SHARE:.0%} of the cache's"
        f" {bytes_text(room_bytes)} free"
    )


def outgrown(now: Situation) -> str:
    """Return why the cache cannot take the next checkpoints under the active settings; empty when it can.

    Checkpoints that fitted when the settings were chosen may have grown. What the user's own settings would
    need as much as these is theirs to know.
    """
    each_bytes = now.intents.flush.checkpoint_bytes
    more_bytes, free_bytes = _more_bytes(now.settings, now, each_bytes), now.cache_free_bytes
    if (
        now.held is None
        or not 0 < free_bytes < more_bytes
        or more_bytes <= _more_bytes(now.own, now, each_bytes)
    ):
        return ""
    before, after = now.held.checkpoint_bytes, each_bytes
    if after <= before:  # one that was written since the cache was observed
        return ""
    grown = f"{bytes_text(after)} instead of {bytes_text(before)}"
    return (
        f"checkpoints have grown to {grown}: {bytes_text(more_bytes)} more do not fit into the cache's"
        f" {bytes_text(free_bytes)} free"
    )


def _more_bytes(settings: Values, now: Situation, each_bytes: int) -> float:
    """Return the bytes that the cache takes under `settings`, but for what it held when it was observed.

    Each checkpoint of the job has `each_bytes`.
    """
    needed_bytes = _needed_bytes(settings, now, each_bytes)
    return needed_bytes - _held_bytes(now) if needed_bytes else 0.0


def _needed_bytes(settings: Values, now: Situation, each_bytes: int) -> float:
    """Return the bytes that the cache takes under `settings`: 0 past the cache."""
    if not is_cached(settings):
        return 0.0
    return _datasets_bytes(number(settings, "SCR_CACHE_SIZE"), each_bytes, settings, now)


def _more_at_first_bytes(settings: Values, now: Situation, each_bytes: int) -> float:
    """Return the bytes that the first dataset under `settings` takes beside those of before.

    SCR gives up one of these only where the cache holds as many as it may.
    """
    if now.held is None or not is_cached(settings):
        return 0.0
    given_up = max(0, _held_datasets(now.held) - number(settings, "SCR_CACHE_SIZE") + 1)
    given_up_bytes = _datasets_bytes(given_up, now.held.checkpoint_bytes, now.held.settings, now)
    return _datasets_bytes(1, each_bytes, settings, now) - given_up_bytes


def _held_bytes(now: Situation) -> float:
    """Return the bytes of the job's datasets that the cache held when it was observed."""
    if now.held is None:
        return 0.0
    datasets = _held_datasets(now.held)
    return _datasets_bytes(datasets, now.held.checkpoint_bytes, now.held.settings, now)


def _held_datasets(held: Held) -> int:
    return min(number(held.settings, "SCR_CACHE_SIZE"), held.checkpoints)


def _datasets_bytes(datasets: int, each_bytes: int, settings: Values, now: Situation) -> float:
    """Return the bytes of `datasets` in this node's cache: its ranks' part of each x storage factor."""
    in_a_set = members(settings, now.intents.redundancy.nodes)
    factor = storage_factor(now.scheme(settings), in_a_set, set_failures(settings))
    return datasets * now.node_bytes(each_bytes) * factor


GUARDS = (_forbidden, _not_ours, _wrong_tier, _not_durable, _does_not_fit)


def veto(changes: Values, now: Situation) -> str | None:
    """Return why `changes` must not be tried, or None."""
    return next((reason for guard in GUARDS if (reason := guard(changes, now))), None)
