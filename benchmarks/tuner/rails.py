"""The rails: what neither a tuner nor the oracle may do with a user's job."""

from .machine import Truth
from .truth import DEFAULTS, LOSSES, Job, Settings

CACHE_SHARE = 0.8
_FLOORS = {"SINGLE": 0, "NODE": 1}


def permitted(truth: Truth, user: Settings, settings: Settings) -> bool:
    """Return whether complete `settings` protect what `user` (their explicit settings) asks to have protected.

    A dataset that a user of SCR's defaults has in the cache may be lost while it is the only one
    (durability `next`): each is flushed, and its flush ends before the next output begins.
    """
    job = truth.job
    own = {**DEFAULTS, **user}
    if settings == own:
        return True
    if settings["SCR_CACHE_BYPASS"]:
        return True
    if settings["SCR_COPY_TYPE"] == "RS" and 1 < job.set_size(settings) <= LOSSES["RS"]:
        return False
    if not fits(job, settings):
        return False
    blocking = not settings["SCR_FLUSH_ASYNC"] or settings["SCR_FLUSH_TYPE"] == "SYNC"
    if user.get("SCR_CACHE_BYPASS") == 1 and not (blocking and settings["SCR_FLUSH"] == 1):
        return False
    if int(settings["SCR_FLUSH"]) > int(own["SCR_FLUSH"]):
        return False
    if job.floor:
        survives = LOSSES[job.scheme(settings)]
        return survives >= _FLOORS[job.floor] or (own["SCR_CACHE_BYPASS"] == 0 and _keeps_scheme(own, settings))
    if "SCR_COPY_TYPE" in user or user.get("SCR_CACHE_BYPASS") == 0:
        return _keeps_scheme(own, settings)
    return settings["SCR_FLUSH"] == 1 and (
        blocking or settings["SCR_CACHE_SIZE"] == 1 or truth.parts(settings).flush_s <= job.interval_s
    )


def fits(job: Job, settings: Settings) -> bool:
    """Return whether the datasets in the cache leave a fifth of it free."""
    held = job.node_bytes * job.stored(settings) * max(1, int(settings["SCR_CACHE_SIZE"]))
    return held <= CACHE_SHARE * job.cache_free_bytes


def _keeps_scheme(own: Settings, settings: Settings) -> bool:
    return LOSSES[str(settings["SCR_COPY_TYPE"])] >= LOSSES[str(own["SCR_COPY_TYPE"])]
