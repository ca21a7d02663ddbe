"""What of SCR's settings can change in a running job, and how: a closed table, verified on the library.

A live lever is a global that libscr exports, or a call of one of its components. Each is written, read back
and restored before anything relies on it. What cannot be verified goes by SCR_Finalize and SCR_Init, or waits
for the next launch.
"""

import ctypes
import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from ...intents.events import Value
from ...scr_config.catalogue import CATALOGUE, cpus_of
from .library import Library

RE_INIT = frozenset(
    {
        "SCR_CACHE_BYPASS",
        "SCR_CACHE_SIZE",
        "SCR_COPY_TYPE",
        "SCR_FLUSH_TYPE",
        "SCR_GROUP",
        "SCR_SET_FAILURES",
        "SCR_SET_SIZE",
    }
)
"""What SCR_Init makes structures of that nobody outside SCR can change."""

_SET_FLUSH_CPUS = "scrtune_set_flush_cpus"
_SET_FLUSH_THREADS = "scrtune_set_flush_threads"


class Capability(NamedTuple):
    """`klass` is ``live``, ``live on rank 0``, ``re-init``, ``launch`` or ``inert``; `why` says more."""

    klass: str
    why: str


class Lever(ABC):
    """One parameter that can be changed at once."""

    @abstractmethod
    def missing(self) -> str:
        """What is not there that this lever needs; empty when it has all."""

    @abstractmethod
    def read(self) -> Value:
        """The value in force."""

    @abstractmethod
    def write(self, value: Value) -> None:
        """Put `value` in force as it is."""

    def prepare(self, value: Value) -> None:  # noqa: B027 - most need nothing
        """Do what must be done before `value` is put in force."""


class Scalar(Lever):
    """A number that libscr exports and looks at each time it needs it."""

    def __init__(self, library: Library, symbol: str, kind: Any = ctypes.c_int) -> None:
        self.library, self.symbol, self.kind = library, symbol, kind

    def missing(self) -> str:
        """The symbol, or its size by the symbol table."""
        size, expected = self.library.size(self.symbol), ctypes.sizeof(self.kind)
        if not size:
            return f"the library does not export {self.symbol}"
        return "" if size == expected else f"{self.symbol} has {size} bytes, not {expected}"

    def read(self) -> Value:
        """From SCR's memory."""
        value: Value = self.library.variable(self.symbol, self.kind).value
        return value

    def write(self, value: Value) -> None:
        """Into SCR's memory."""
        self.library.variable(self.symbol, self.kind).value = value


class FlushAsync(Scalar):
    """SCR_FLUSH_ASYNC: SCR's list of flushes under way must be there before the first.

    To switch it off is safe while a flush is under way: SCR_Complete_output, SCR_Start_output, the next
    synchronous flush and SCR_Finalize all ask for flushes under way, not for the setting (scr.c:2027, 1521,
    scr_flush_sync.c:191, scr.c:210).
    """

    _CALLS = ("scr_flush_async_init", "scr_flush_async_finalize", "scr_flush_async_in_progress")

    def missing(self) -> str:
        """The symbols."""
        lacks = [name for name in self._CALLS if not self.library.has(name)]
        return f"the library does not export {lacks[0]}" if lacks else super().missing()

    def prepare(self, value: Value) -> None:
        """An empty list, unless flushes are under way in the one there is."""
        if value and not self.library.function("scr_flush_async_in_progress")():
            self.library.function("scr_flush_async_finalize")()
            self.library.function("scr_flush_async_init")()


class Component(Lever):
    """A size that one of SCR's libraries takes by its own call: AXL_Config, ER_Config."""

    def __init__(self, library: Library, call: str, key: str) -> None:
        self.library, self.call, self.key = library, call, os.fsencode(key)

    def missing(self) -> str:
        """The symbols."""
        calls = ("kvtree_new", "kvtree_delete", "kvtree_util_set_bytecount", "kvtree_util_get_bytecount")
        lacks = [name for name in (self.call, *calls) if not self.library.has(name)]
        return f"the library does not export {lacks[0]}" if lacks else ""

    def read(self) -> Value:
        """Ask the component; 0 when it does not say."""
        size = ctypes.c_ulong()
        tree = ctypes.c_void_p(self.library.function(self.call, ctypes.c_void_p, ctypes.c_void_p)(None))
        types = [ctypes.c_void_p, ctypes.c_char_p, ctypes.POINTER(ctypes.c_ulong)]
        self.library.function("kvtree_util_get_bytecount", ctypes.c_int, *types)(
            tree, self.key, ctypes.byref(size)
        )
        self._delete(tree)
        return size.value

    def write(self, value: Value) -> None:
        """Tell the component."""
        tree = ctypes.c_void_p(self.library.function("kvtree_new", ctypes.c_void_p)())
        types = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_ulong]
        self.library.function("kvtree_util_set_bytecount", ctypes.c_int, *types)(tree, self.key, int(value))
        self.library.function(self.call, ctypes.c_void_p, ctypes.c_void_p)(tree)
        self._delete(tree)

    def _delete(self, tree: ctypes.c_void_p) -> None:
        self.library.function("kvtree_delete", ctypes.c_int, ctypes.POINTER(ctypes.c_void_p))(
            ctypes.byref(tree)
        )


class FlushCpus(Lever):
    """SCRTUNE_FLUSH_CPUS: where threads may run that are started while a flush may start.

    The preloaded library knows the very moment when AXL starts them. Without it :attr:`cpus` are for the
    whole of SCR's call.
    """

    def __init__(self) -> None:
        self._text = ""
        self.cpus: frozenset[int] = frozenset()

    def missing(self) -> str:
        """The system's call."""
        return "" if hasattr(os, "sched_setaffinity") else "the system cannot bind threads to CPUs"

    def read(self) -> Value:
        """The cpu list."""
        return self._text

    def write(self, value: Value) -> None:
        """Tell the preloaded library, or remember it for the next flush."""
        self._text, process = str(value), ctypes.CDLL(None)
        if hasattr(process, _SET_FLUSH_CPUS):
            process[_SET_FLUSH_CPUS](ctypes.c_char_p(os.fsencode(self._text)))
        else:
            self.cpus = cpus_of(self._text)


class FlushThreads(Lever):
    """SCRTUNE_FLUSH_THREADS: AXL asks for the number of CPUs, and scrtune's preloaded library answers."""

    def __init__(self) -> None:
        self._count = 0

    def missing(self) -> str:
        """The preloaded library."""
        if hasattr(ctypes.CDLL(None), _SET_FLUSH_THREADS):
            return ""
        return "libscrtune.so is not preloaded, and AXL has no other way to be told"

    def read(self) -> Value:
        """The number that was set last; 0: AXL's own."""
        return self._count

    def write(self, value: Value) -> None:
        """Tell the preloaded library."""
        self._count = int(value)
        ctypes.CDLL(None)[_SET_FLUSH_THREADS](ctypes.c_uint(self._count))


def live_levers(library: Library) -> dict[str, Lever]:
    """Every parameter that may be changed at once, by name."""
    return {
        "SCR_CHECKPOINT_INTERVAL": Scalar(library, "scr_checkpoint_interval"),
        "SCR_CHECKPOINT_OVERHEAD": Scalar(library, "scr_checkpoint_overhead", ctypes.c_double),
        "SCR_CHECKPOINT_SECONDS": Scalar(library, "scr_checkpoint_seconds"),
        "SCR_FILE_BUF_SIZE": Component(library, "AXL_Config", "FILE_BUF_SIZE"),
        "SCR_FLUSH": Scalar(library, "scr_flush"),
        "SCR_FLUSH_ASYNC": FlushAsync(library, "scr_flush_async"),
        "SCR_FLUSH_ASYNC_USLEEP": Scalar(library, "scr_flush_async_usleep"),
        "SCR_MPI_BUF_SIZE": Component(library, "ER_Config", "MPI_BUF_SIZE"),
        "SCR_PREFIX_SIZE": Scalar(library, "scr_prefix_size"),
        "SCRTUNE_FLUSH_CPUS": FlushCpus(),
        "SCRTUNE_FLUSH_THREADS": FlushThreads(),
    }


def why_not_live(lever: Lever) -> str:
    """Try the lever: write another value, read it back, restore. Empty when all went as it must."""
    if missing := lever.missing():
        return missing
    own = lever.read()
    if isinstance(own, str):
        return ""
    other = own - 1 if own > 1 else own + 1
    lever.write(other)
    seen = lever.read()
    lever.write(own)
    if not (_same(seen, other) and _same(lever.read(), own)):
        return f"{other} was written and {seen} read back"
    return ""


def capability(name: str, trouble: Mapping[str, str], no_re_init: str) -> Capability:
    """How parameter `name` can change.

    `trouble` says of each live lever why it is none (empty when it is one); `no_re_init` says why SCR cannot
    be initialized again (empty when it can).
    """
    parameter = CATALOGUE[name]
    if parameter.mutability == "none":
        return Capability("inert", parameter.note)
    why = trouble.get(name)
    if why == "":
        return Capability("live on rank 0" if parameter.rank_0_decides else "live", parameter.mechanism)
    if why is None and name not in RE_INIT:
        return Capability("launch", "read by SCR_Init only" if parameter.mutability != "live" else "no lever")
    if parameter.is_lever or no_re_init:
        return Capability("launch", why or no_re_init)
    return Capability("re-init", why or parameter.mechanism)


def _same(one: Value, other: Value) -> bool:
    return math.isclose(float(one), float(other))
