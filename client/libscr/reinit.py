"""SCR_Finalize and SCR_Init inside a running job, so that nothing but the settings differs after it."""

import ctypes
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path

from ...intents.events import Value, Values
from ...scr_config.catalogue import CATALOGUE, ParameterError, coerce, text_of
from .library import Library

_INTEGERS = {
    "SCR_CACHE_BYPASS": "scr_cache_bypass",
    "SCR_CACHE_SIZE": "scr_cache_size",
    "SCR_SET_FAILURES": "scr_set_failures",
    "SCR_SET_SIZE": "scr_set_size",
}
_STRINGS = {"SCR_FLUSH_TYPE": "scr_flush_type", "SCR_GROUP": "scr_group"}
_FORBIDS = {
    "scr_purge": "with SCR_CACHE_PURGE=1 SCR_Init deletes datasets",
    "scr_prefix_purge": "with SCR_PREFIX_PURGE=1 SCR_Init deletes datasets",
    "scr_global_restart": "with SCR_GLOBAL_RESTART=1 SCR_Init deletes what is in the cache",
    "scr_flush_poststage": "with SCR_FLUSH_POSTSTAGE=1 SCR_Finalize leaves flushes to a script",
}
HELD = {
    "SCR_CACHE_PURGE": "0",
    "SCR_DISTRIBUTE": "1",
    "SCR_ENABLE": "1",
    "SCR_FLUSH_ON_RESTART": "0",
    "SCR_GLOBAL_RESTART": "0",
    "SCR_HALT_EXIT": "0",
    "SCR_LOG_ENABLE": "0",
    "SCR_PREFIX_PURGE": "0",
}
"""What SCR_Init is told, whatever the user's file says by now: the job goes on, with its checkpoints."""
PLACES = {
    "SCR_CACHE_BASE": "scr_cache_base",
    "SCR_CNTL_BASE": "scr_cntl_base",
    "SCR_JOB_ID": "scr_jobid",
    "SCR_PREFIX": "scr_prefix",
    "SCR_USER_NAME": "scr_username",
}
"""Where the datasets are that SCR_Init must find again, and whose they are."""
RISING = ("scr_dataset_id", "scr_checkpoint_id", "scr_ckpt_dset_id", "scr_need_checkpoint_count")
"""Numbers that must not fall: SCR_Init begins again at 0 when nothing is cached."""
KEPT = ("scr_halt_exit", "scr_flush_on_restart", "scr_log_enable")
"""What SCR_Init sets from :data:`HELD`. libscrtune.so holds the same (native/reinit.c)."""
_EXPORTED = (
    *_INTEGERS.values(),
    *_STRINGS.values(),
    *_FORBIDS,
    *PLACES.values(),
    *RISING,
    *KEPT,
    "SCR_Finalize",
    "scr_cindex",
    "scr_distribute",
    "scr_flush",
    "scr_flush_async_waitall",
    "scr_flush_file_need_flush",
    "scr_flush_sync",
    "scr_in_output",
    "scr_my_rank_host",
    "kvtree_read_file",
    "kvtree_unset",
    "kvtree_write_file",
)
_LEAVE_CACHED = "scrtune_set_initializing"
_PROTECTING = frozenset({"PARTNER", "XOR", "RS"})
_SCHEME = frozenset({"SCR_COPY_TYPE", "SCR_GROUP", "SCR_SET_FAILURES", "SCR_SET_SIZE"})


class ReinitError(RuntimeError):
    """SCR must not be initialized again with these values; the text says why."""


class Reinit:
    """The second way of a decision into force. Make it on all ranks after SCR_Init: that is collective."""

    def __init__(self, library: Library, recorded: Sequence[str] = (), cannot: str = "") -> None:
        """`cannot` says why nothing can be done with this library at all, if so."""
        self._library = library
        self._recorded = [text for text in recorded if "=" in text]
        self._texts: dict[str, str | None] = {}
        self._nodes = self._peers = 0
        self._leaves_cached = False
        self.why_not = cannot or self._why_not()
        if not cannot and not library.all_true(not self.why_not):
            self.why_not = self.why_not or "another rank cannot"
        if not self.why_not:
            self.learn(["SCR_COPY_TYPE"])
            self._nodes, self._peers = library.nodes(), library.peers()
            self._leaves_cached = library.all_true(hasattr(ctypes.CDLL(None), _LEAVE_CACHED))
            if self._copy_type() == "FILE":
                self.why_not = "SCR_COPY_TYPE=FILE: the CKPT lines are the user's"

    def learn(self, names: Iterable[str]) -> None:
        """Ask SCR for the values of `names` that are to go by this way. Collective."""
        for name in sorted(names):
            self._texts[name] = self._library.config(name)

    def in_force(self) -> Values:
        """The values of all that :meth:`learn` was told, as SCR holds them."""
        return {name: self._value(name) for name in self._texts}

    def check(self, values: Mapping[str, Value], changed: AbstractSet[str]) -> None:
        """Whether SCR_Init would go well with `values`, of which those of `changed` differ from what is.

        It must, for it aborts otherwise. Not collective. Raises ReinitError.
        """
        if self._library.integer("scr_in_output"):
            raise ReinitError("an output is open")
        for name, symbol in PLACES.items():
            if "$" in (self._library.string(symbol) or "$"):
                raise ReinitError(f"SCR would expand the $ in {name}")
        if "SCR_FLUSH_TYPE" in changed:
            self._check_flush_type(str(values["SCR_FLUSH_TYPE"]))
        if changed & _SCHEME:
            self._check_scheme(values)

    def perform(self, values: Mapping[str, Value]) -> None:
        """SCR_Finalize and SCR_Init under `values`, the application's own SCR_Config calls and its prefix.

        Collective, and the same on all ranks. It flushes the newest checkpoint when SCR_FLUSH > 0, and waits
        for flushes under way. The environment is what it was, afterwards. Raises ScrError.
        """
        library, root = self._library, self._library.rank == 0
        places = {name: library.string(symbol) or "" for name, symbol in PLACES.items()}
        rising = {symbol: library.integer(symbol) for symbol in RISING}
        kept = {symbol: library.integer(symbol) for symbol in KEPT}
        texts = {name: text_of(value) for name, value in values.items() if not CATALOGUE[name].is_lever}
        self._flush()
        # SCR_Finalize closes SCR's log, SCR_Init does not open it again, and the next line in it would end
        # the job (scr_log.c:799, 944; scr_io.c:374): neither of them is told that there is a log
        library.variable("scr_log_enable", ctypes.c_int).value = 0
        library.finalize()
        if root:
            self._forget_the_end(Path(places["SCR_PREFIX"]) / ".scr" / "halt.scr")
        with _environment({**texts, **places, **HELD}):
            for text in self._recorded:
                library.config(text)
            with self._cached_left_alone():
                library.init()
        # SCR_Init begins again at 0 when nothing is cached
        kept.update({symbol: max(count, library.integer(symbol)) for symbol, count in rising.items()})
        for symbol, number in kept.items():
            library.variable(symbol, ctypes.c_int).value = number
        self._texts.update({name: texts[name] for name in self._texts if name in texts})

    @contextmanager
    def _cached_left_alone(self) -> Iterator[None]:
        """Nothing was lost, so SCR_Init recovers nothing, where all ranks have libscrtune.so."""
        call = ctypes.CDLL(None)[_LEAVE_CACHED] if self._leaves_cached else None
        try:
            if call:
                call(1)
            yield
        finally:
            if call:
                call(0)

    def _flush(self) -> None:
        """What SCR_Finalize would flush, while SCR logs it. Collective."""
        library, flush = self._library, self._library.integer("scr_flush") > 0
        newest, index = library.integer("scr_ckpt_dset_id"), library.variable("scr_cindex", ctypes.c_void_p)
        wait = library.function("scr_flush_async_waitall", ctypes.c_int, ctypes.c_void_p)
        wait(index)
        if flush and library.function("scr_flush_file_need_flush")(newest):
            library.function("scr_flush_sync", ctypes.c_int, ctypes.c_void_p, ctypes.c_int)(index, newest)

    def _why_not(self) -> str:
        lacks = [name for name in _EXPORTED if not self._library.has(name)]
        if lacks:
            return f"the library does not export {lacks[0]}"
        for symbol, why in _FORBIDS.items():
            if self._library.integer(symbol):
                return why
        if not self._library.integer("scr_distribute"):
            return "with SCR_DISTRIBUTE=0 SCR_Init deletes what is in the cache"
        return ""

    def _value(self, name: str) -> Value:
        if symbol := _INTEGERS.get(name):
            return self._library.integer(symbol)
        if symbol := _STRINGS.get(name):
            return self._library.string(symbol) or str(CATALOGUE[name].default)
        if name == "SCR_COPY_TYPE":
            return self._copy_type()
        default = CATALOGUE[name].default
        try:
            return coerce(name, self._texts[name] or "")
        except ParameterError:
            return "" if default is None else default

    def _copy_type(self) -> str:
        """As SCR reads it: any word that it does not know is FILE (scr.c:813)."""
        parameter = CATALOGUE["SCR_COPY_TYPE"]
        text = (self._texts.get("SCR_COPY_TYPE") or str(parameter.default)).upper()
        return text if text in parameter.choices else "FILE"

    def _check_flush_type(self, kind: str) -> None:
        if kind in ("BBAPI", "DATAWARP"):
            raise ReinitError(
                f"whether AXL was built with {kind} cannot be told, and a flush that fails aborts"
            )
        if kind == "PTHREAD" and not self._library.has("axl_pthread_start"):
            raise ReinitError("AXL was built without PTHREAD, and a flush that fails aborts")

    def _check_scheme(self, values: Mapping[str, Value]) -> None:
        """Sets must have enough members, or SCR_Init aborts (redset_xor.c:172, redset_reedsolomon.c:159)."""
        kind, size = str(values["SCR_COPY_TYPE"]), int(values["SCR_SET_SIZE"])
        failures = int(values["SCR_SET_FAILURES"])
        if kind == "FILE":
            raise ReinitError("SCR_COPY_TYPE=FILE needs CKPT lines")
        if values["SCR_GROUP"] != "NODE" and (
            values["SCR_GROUP"] != self._value("SCR_GROUP") or kind in _PROTECTING
        ):
            raise ReinitError("whether SCR has such a SCR_GROUP, with sets large enough, cannot be told")
        if kind not in _PROTECTING or self._nodes == 1:
            return  # on one node SCR makes SINGLE of all
        members = self._peers // max(1, self._peers // size)
        least = failures + 1 if kind == "RS" else 2
        if members < least:
            raise ReinitError(
                f"SCR_COPY_TYPE={kind} needs sets of {least} ranks on as many nodes; a set here has {members}"
            )

    def _forget_the_end(self, path: Path) -> None:
        """SCR_Finalize notes that the job is done, and scr_run would not restart it after a failure."""
        library, name = self._library, os.fsencode(path)
        tree = ctypes.c_void_p(library.function("kvtree_new", ctypes.c_void_p)())
        types = [ctypes.c_char_p, ctypes.c_void_p]
        if library.function("kvtree_read_file", ctypes.c_int, *types)(name, tree) == 0:
            library.function("kvtree_unset", ctypes.c_int, *reversed(types))(tree, b"ExitReason")
            library.function("kvtree_write_file", ctypes.c_int, *types)(name, tree)
        pointer = ctypes.POINTER(ctypes.c_void_p)
        library.function("kvtree_delete", ctypes.c_int, pointer)(ctypes.byref(tree))


@contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """The environment with `values` over it, for SCR_Init to read: there they come first."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
