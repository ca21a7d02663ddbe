"""The rails: what neither a tuner nor the oracle may do with a user's job."""

from .machine import Truth
from .truth import DEFAULTS, LOSSES, Job, Settings, blocks

CACHE_SHARE = 0.8
FLOORS = {"SINGLE": 0, "NODE": 1}


def permitted(truth: Truth, user: Settings, settings: Settings) -> bool:
    """Return whether complete `settings` protect as `user`, the explicit settings, asks for."""
    return (
        settings["SCR_CACHE_BYPASS"] == 1
        or (survives(truth.job, user, settings) and in_time(truth, user, settings))
        or settings == {**DEFAULTS, **user}
    )


def survives(job: Job, user: Settings, settings: Settings) -> bool:
    """Return whether the datasets fit into the cache, under a scheme that keeps the user's floor.

    That is the declared one, else their explicit scheme. Without either, and where none is declared and all
    is on the prefix when an output completes, the cache need not survive anything.
    """
    own = {**DEFAULTS, **user}
    if job.scheme(settings) == "RS" and job.set_size(settings) <= LOSSES["RS"]:
        return False
    if not fits(job, own, settings):
        return False
    if _is_strict(user) and not job.floor:
        return True
    is_kept = LOSSES[str(settings["SCR_COPY_TYPE"])] >= LOSSES[str(own["SCR_COPY_TYPE"])]
    if job.floor:
        enough = LOSSES[job.scheme(settings)] >= FLOORS[job.floor]
        return enough or (own["SCR_CACHE_BYPASS"] == 0 and is_kept)  # one node: they have the same now
    return is_kept or _is_next(job, user) or ("SCR_COPY_TYPE" not in user and own["SCR_CACHE_BYPASS"] == 1)


def in_time(truth: Truth, user: Settings, settings: Settings) -> bool:
    """Return whether the datasets are on the prefix as early as the user asks for.

    An explicit SCR_CACHE_BYPASS=1: when the output completes. Nothing explicit or declared (durability
    `next`): before the next output begins. Else as often as they are now.
    """
    if _is_strict(user):
        return blocks(settings) and settings["SCR_FLUSH"] == 1
    if not _is_next(truth.job, user):
        return int(settings["SCR_FLUSH"]) <= int(user.get("SCR_FLUSH", DEFAULTS["SCR_FLUSH"]))
    return settings["SCR_FLUSH"] == 1 and (blocks(settings) or settings["SCR_CACHE_SIZE"] == 1)


def _is_strict(user: Settings) -> bool:
    return user.get("SCR_CACHE_BYPASS") == 1


def _is_next(job: Job, user: Settings) -> bool:
    return not job.floor and not {"SCR_COPY_TYPE", "SCR_CACHE_BYPASS"} & user.keys()


def fits(job: Job, own: Settings, settings: Settings) -> bool:
    """Return whether the datasets in the cache take at most 80 % of what `own` leave free of it."""
    held = 0.0 if own["SCR_CACHE_BYPASS"] else job.held_bytes(own)
    return job.held_bytes(settings) - held <= CACHE_SHARE * max(0.0, job.cache_free_bytes - held)
