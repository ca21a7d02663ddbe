"""The settings that the embedded engine obeys, and those that advice may change while the job runs."""

import msgspec
from msgspec import field

from ...intents.cpu_list import cpus_of
from ...intents.events import Values
from ...scr_config.catalogue import checked
from ...scr_config.constraints import fatal
from .prefix.copy import CopyOptions

_SUPPORTED = {
    "SCR_COPY_TYPE": ("SINGLE", "PARTNER", "XOR"),
    "SCR_FLUSH_TYPE": ("SYNC", "PTHREAD", "DEFAULT", "NATIVE"),
}
_UNSUPPORTED = {"SCR_COPY_TYPE": ("RS", "FILE"), "SCR_FLUSH_TYPE": ("BBAPI", "DATAWARP")}


class UnsupportedSettingError(ValueError):
    """A value that SCR supports and this engine does not; the text says what to choose."""

    def __init__(self, parameter: str, value: str) -> None:
        supported = ", ".join(_SUPPORTED[parameter])
        super().__init__(
            f"{parameter}={value} is not in scrtune's embedded engine; choose one of {supported}"
        )
        self.parameter = parameter


class Levers(msgspec.Struct, frozen=True, kw_only=True):
    """The parameters that take effect at the next output, by their names in SCR."""

    scheme: str = field(name="SCR_COPY_TYPE")
    set_size: int = field(name="SCR_SET_SIZE")
    bypass: bool = field(name="SCR_CACHE_BYPASS")
    cache_size: int = field(name="SCR_CACHE_SIZE")
    mpi_buffer_bytes: int = field(name="SCR_MPI_BUF_SIZE")
    flush: int = field(name="SCR_FLUSH")
    flush_type: str = field(name="SCR_FLUSH_TYPE")
    asynchronous: bool = field(name="SCR_FLUSH_ASYNC")
    poll_us: int = field(name="SCR_FLUSH_ASYNC_USLEEP")
    file_buffer_bytes: int = field(name="SCR_FILE_BUF_SIZE")
    drop_behind: bool = field(name="SCRTUNE_DROP_BEHIND", default=False)
    flush_threads: int = field(name="SCRTUNE_FLUSH_THREADS", default=0)
    flush_cpus: str = field(name="SCRTUNE_FLUSH_CPUS")
    flush_nice: int = field(name="SCRTUNE_FLUSH_NICE", default=0)
    prefix_size: int = field(name="SCR_PREFIX_SIZE")
    fetch: bool = field(name="SCR_FETCH")
    interval: int = field(name="SCR_CHECKPOINT_INTERVAL")
    seconds: int = field(name="SCR_CHECKPOINT_SECONDS")
    overhead_percent: float = field(name="SCR_CHECKPOINT_OVERHEAD")

    @classmethod
    def of(cls, settings: Values) -> "Levers":
        """Return the levers of `settings`, with SCR's defaults. Raises ValueErrors that say what is wrong."""
        given = checked(settings)
        check_supported(given)
        return msgspec.convert(given, cls, strict=False)  # not strict: flags are 0 or 1

    @property
    def flush_async(self) -> bool:
        """Return whether flushes run in the background: as in SCR not with SCR_FLUSH_TYPE=SYNC."""
        return self.asynchronous and self.flush_type != "SYNC"

    @property
    def copy_options(self) -> CopyOptions:
        """The threads of a flush: one with SCR_FLUSH_TYPE=SYNC."""
        return CopyOptions(
            threads=1 if self.flush_type == "SYNC" else self.flush_threads or None,
            buffer_bytes=self.file_buffer_bytes,
            cpus=tuple(sorted(cpus_of(self.flush_cpus))),
            nice=self.flush_nice if self.flush_async else 0,
        )


def check_supported(settings: Values) -> None:
    """Raise UnsupportedSettingError for a value of `settings` that SCR supports and this engine does not."""
    for name, supported in _SUPPORTED.items():
        if name in settings and settings[name] not in supported:
            raise UnsupportedSettingError(name, str(settings[name]))


LIVE = frozenset(Levers.__struct_encode_fields__)


def overlay(own: Values, current: Values, advised: Values) -> Values:
    """Return the user's `own` settings, and over them what of `advised` can be changed.

    What this engine does not support stays as it is in `current`, and all does when a value is not valid.
    """
    wanted = {name: value for name, value in advised.items() if name in LIVE}
    for name, unsupported in _UNSUPPORTED.items():
        if wanted.get(name) in unsupported:
            wanted[name] = current[name]
    new = {**own, **wanted}
    if fatal({name: value for name, value in new.items() if name in LIVE}):
        return current
    return new
