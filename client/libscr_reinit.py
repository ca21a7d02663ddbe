"""SCR_Finalize and SCR_Init inside a running job, so that nothing but the settings differs after it."""

import ctypes
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from pathlib import Path

from ..intents.events import Value, Values
from ..scr_config.parameters import CATALOGUE, ParameterError, coerce, text_of
from .libscr import Library

_INTEGERS = {
    "SCR_CACHE_BYPASS": "scr_cache_bypass",
    "SCR_CACHE_SIZE": "scr_cache_size",
    "SCR_SET_FAILURES": "scr_set_failures",
    "SCR_SET_SIZE": "scr_set_size",
}
_FORBIDS = {
    "scr_purge": "with SCR_CACHE_PURGE=1 SCR_Init deletes datasets",
    "scr_prefix_purge": "with SCR_PREFIX_PURGE=1 SCR_Init deletes datasets",
    "scr_global_restart": "with SCR_GLOBAL_RESTART=1 SCR_Init deletes what is in the cache",
    "scr_halt_exit": "with SCR_HALT_EXIT=1 SCR_Init ends a job that is to halt, before its checkpoint",
}
_COUNTS = ("scr_dataset_id", "scr_checkpoint_id", "scr_ckpt_dset_id", "scr_need_checkpoint_count")
_EXPORTED = (
    *_INTEGERS.values(),
    *_FORBIDS,
    *_COUNTS,
    "SCR_Finalize",
    "scr_distribute",
    "scr_flush_type",
    "scr_group",
    "scr_my_rank_host",
    "scr_prefix",
    "kvtree_read_file",
    "kvtree_unset",
    "kvtree_write_file",
)
_PROTECTING = frozenset({"PARTNER", "XOR", "RS"})
_SCHEME = frozenset({"SCR_COPY_TYPE", "SCR_SET_SIZE", "SCR_SET_FAILURES"})


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
        self.why_not = cannot or self._why_not()
        if not cannot and not library.all_true(not self.why_not):
            self.why_not = self.why_not or "another rank cannot"
        if not self.why_not:
            self.learn(["SCR_COPY_TYPE"])
            self._nodes, self._peers = library.nodes(), library.peers()
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
        if "$" in self._library.prefix:
            raise ReinitError("SCR would expand the $ in SCR_PREFIX")
        if "SCR_FLUSH_TYPE" in changed:
            self._check_flush_type(str(values["SCR_FLUSH_TYPE"]))
        if changed & _SCHEME:
            self._check_scheme(values)

    def perform(self, values: Mapping[str, Value]) -> None:
        """SCR_Finalize and SCR_Init under `values`, the application's own SCR_Config calls and its prefix.

        Collective, and the same on all ranks. It flushes the newest checkpoint when SCR_FLUSH > 0, and waits
        for flushes under way. The environment is what it was, afterwards. Raises ScrError.
        """
        library, prefix = self._library, self._library.prefix
        is_root = library.rank == 0
        counts = {symbol: library.integer(symbol) for symbol in _COUNTS}
        texts = {name: text_of(value) for name, value in values.items() if not CATALOGUE[name].is_lever}
        library.finalize()
        if is_root:
            self._forget_the_end(Path(prefix) / ".scr" / "halt.scr")
        with _environment({**texts, "SCR_PREFIX": prefix}):
            for text in self._recorded:
                library.config(text)
            library.init()
        for symbol, count in counts.items():
            if library.integer(symbol) < count:
                library.variable(symbol, ctypes.c_int).value = count
        self._texts.update({name: texts[name] for name in self._texts if name in texts})

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
        if name == "SCR_FLUSH_TYPE":
            return self._library.string("scr_flush_type") or str(CATALOGUE[name].default)
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
        if kind not in _PROTECTING or self._nodes == 1:
            return  # on one node SCR makes SINGLE of all
        if self._library.string("scr_group") != "NODE":
            raise ReinitError("SCR_GROUP is the user's, and whether its sets are large enough cannot be told")
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
