"""What of SCR's settings the embedded engine obeys, and what advice may change while the job runs."""

from dataclasses import dataclass

from ...intents.events import Values
from ...scr_config.constraints import fatal
from ...scr_config.settings import Settings
from .copy import Means

SCHEMES = ("SINGLE", "PARTNER", "XOR")
FLUSH_TYPES = ("SYNC", "PTHREAD", "DEFAULT", "NATIVE")

LIVE = frozenset(
    {
        "SCR_CACHE_BYPASS",
        "SCR_CACHE_SIZE",
        "SCR_CHECKPOINT_INTERVAL",
        "SCR_CHECKPOINT_OVERHEAD",
        "SCR_CHECKPOINT_SECONDS",
        "SCR_COPY_TYPE",
        "SCR_FETCH",
        "SCR_FILE_BUF_SIZE",
        "SCR_FLUSH",
        "SCR_FLUSH_ASYNC",
        "SCR_FLUSH_ASYNC_USLEEP",
        "SCR_FLUSH_TYPE",
        "SCR_MPI_BUF_SIZE",
        "SCR_PREFIX_SIZE",
        "SCR_SET_SIZE",
        "SCRTUNE_FLUSH_CPUS",
        "SCRTUNE_FLUSH_THREADS",
    }
)
"""Parameters that take effect at the next output; all others are read once, when the engine is made."""


class UnsupportedSettingError(ValueError):
    """A value that SCR has and this engine has not; the text says what to choose."""


@dataclass(frozen=True)
class Levers:
    """The settings as the engine uses them."""

    scheme: str
    set_size: int
    bypass: bool
    cache_size: int
    mpi_buffer_bytes: int
    flush: int
    flush_async: bool
    flush_means: Means
    poll_s: float
    prefix_size: int
    fetch: bool
    interval: int
    seconds: int
    overhead_percent: float

    @classmethod
    def of(cls, settings: Values) -> "Levers":
        """The levers of `settings`; what is absent has SCR's default.

        Raises UnsupportedSettingError, and ParameterError for a value that is none.
        """
        given = Settings(settings)
        for name, possible in _POSSIBLE.items():
            if given.text(name) not in possible:
                raise UnsupportedSettingError(
                    f"{name}={given.text(name)} is not in scrtune's embedded engine; choose one of"
                    f" {', '.join(possible)}"
                )
        is_sync = given.text("SCR_FLUSH_TYPE") == "SYNC"
        return cls(
            scheme=given.text("SCR_COPY_TYPE"),
            set_size=given.integer("SCR_SET_SIZE"),
            bypass=given.flag("SCR_CACHE_BYPASS"),
            cache_size=max(1, given.integer("SCR_CACHE_SIZE")),
            mpi_buffer_bytes=given.integer("SCR_MPI_BUF_SIZE"),
            flush=given.integer("SCR_FLUSH"),
            flush_async=given.flag("SCR_FLUSH_ASYNC") and not is_sync,
            flush_means=Means(
                threads=1 if is_sync else int(given.get("SCRTUNE_FLUSH_THREADS", 0)) or None,
                buffer_bytes=given.integer("SCR_FILE_BUF_SIZE"),
                cpus=tuple(sorted(given.cpus("SCRTUNE_FLUSH_CPUS"))),
            ),
            poll_s=max(0, given.integer("SCR_FLUSH_ASYNC_USLEEP")) / 1e6,
            prefix_size=given.integer("SCR_PREFIX_SIZE"),
            fetch=given.flag("SCR_FETCH"),
            interval=given.integer("SCR_CHECKPOINT_INTERVAL"),
            seconds=given.integer("SCR_CHECKPOINT_SECONDS"),
            overhead_percent=given.number("SCR_CHECKPOINT_OVERHEAD"),
        )


_POSSIBLE = {"SCR_COPY_TYPE": SCHEMES, "SCR_FLUSH_TYPE": FLUSH_TYPES}


def overlay(own: Values, current: Values, advised: Values) -> Values:
    """The settings after advice: the user's `own`, and over them what of `advised` can be changed.

    What this engine has not (SCR_COPY_TYPE=RS) stays as it is in `current`, and so does everything when any
    advised value is not valid, by itself or together with the others.
    """
    wanted = {name: value for name, value in advised.items() if name in LIVE}
    for name, possible in _POSSIBLE.items():
        if name in wanted and wanted[name] not in possible and wanted[name] in _SCRS_OWN[name]:
            wanted[name] = current[name]
    new = {**own, **wanted}
    if fatal({name: value for name, value in new.items() if name in LIVE}):
        return current
    return new


_SCRS_OWN = {"SCR_COPY_TYPE": ("RS", "FILE"), "SCR_FLUSH_TYPE": ("BBAPI", "DATAWARP")}
