"""The parameters that the tuner may change: their defaults, and how to read their values."""

from math import isfinite

from .events import Values

DEFAULTS: Values = {
    "SCR_CACHE_BYPASS": 1,
    "SCR_CACHE_SIZE": 1,
    "SCR_COPY_TYPE": "XOR",
    "SCR_FILE_BUF_SIZE": 32 * 1024**2,
    "SCR_FLUSH": 10,
    "SCR_FLUSH_ASYNC": 0,
    "SCR_FLUSH_TYPE": "SYNC",
    "SCR_FLUSH_WIDTH": 256,
    "SCR_MPI_BUF_SIZE": 1024**2,
    "SCR_SET_SIZE": 8,
    "SCRTUNE_DROP_BEHIND": 0,
    "SCRTUNE_FLUSH_CPUS": "",
    "SCRTUNE_FLUSH_NICE": 0,
    "SCRTUNE_FLUSH_THREADS": 0,
}
"""The parameters that the tuner reads and changes, with SCR's defaults; those of the SCRTUNE_ levers mean
what there is without them, such as AXL's own number of threads, and the mask that they inherit. A job's
settings are laid over these, so that every change can be reverted."""


def number(settings: Values, name: str) -> int:
    """Return a parameter's value as a number; SCR's default when `settings` has none."""
    value = settings.get(name, DEFAULTS[name])
    if type(value) is int:  # nearly always, and a belief begins with some ten thousand of them
        return value
    if isinstance(value, str) or not isfinite(value):
        value = DEFAULTS[name]
    return int(value)


def is_cached(settings: Values) -> bool:
    """Return whether datasets go through the cache (by SCR's default they do not)."""
    return number(settings, "SCR_CACHE_BYPASS") == 0


def is_asynchronous(settings: Values) -> bool:
    """Return whether flushes run beside the computation; those of type SYNC block in any case."""
    is_beside = number(settings, "SCR_FLUSH_ASYNC") == 1 and settings.get("SCR_FLUSH_TYPE") != "SYNC"
    return is_cached(settings) and is_beside


def flush_every(settings: Values) -> int:
    """Return the number of checkpoints from one flush to the next."""
    return max(1, number(settings, "SCR_FLUSH")) if is_cached(settings) else 1


def difference(after: Values, before: Values) -> Values:
    """Return what of `after` is not so in `before`, by name."""
    return {name: after[name] for name in sorted(after) if before.get(name) != after[name]}


def changes_text(changes: Values) -> str:
    """Return ``NAME=value NAME=value``, sorted."""
    return " ".join(f"{name}={value}" for name, value in sorted(changes.items()))
