"""A real libscr.so in this process: SCR's calls, and what of its insides a decision can reach.

SCR's public calls mean what they mean in SCR's own Python module. The rest are globals and functions that the
library exports; nothing here assumes the layout of a structure of SCR's.
"""

import ctypes
import os
import pwd
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .find import LibscrUnavailable, find, why_not

__all__ = ["Library", "LibscrUnavailable", "ScrError", "find"]

SUCCESS = 0
MAX_FILENAME = 1024
"""SCR_MAX_FILENAME of scr.h."""

_MISSING = re.compile(r"^([^/:]+\.so[^:]*): cannot open shared object file")
_SYMBOL_OF_AN_ADDRESS = 1  # RTLD_DL_SYMENT of dlfcn.h
_SIZE_IN_A_SYMBOL = 16  # st_size of Elf64_Sym


class ScrError(RuntimeError):
    """A call of SCR's that did not return SCR_SUCCESS."""


class Library:
    """The libscr at `path`, loaded with its symbols open to all.

    All calls but :meth:`route_file` are collective over SCR's world. Raises :class:`LibscrUnavailable`.
    """

    def __init__(self, path: Path) -> None:
        if why := why_not(path):
            raise LibscrUnavailable(f"{path}: {why}")
        self.path = path
        self._library = _load(path)
        missing = [name for name in ("SCR_Init", "SCR_Start_output") if not self.has(name)]
        if missing:
            raise LibscrUnavailable(f"{path}: it has no {' and no '.join(missing)}: it is not SCR's library")

    @property
    def version(self) -> str:
        """What SCR says of itself, such as ``v3.1.0``; empty before the version that says it."""
        if not self.has("SCR_Get_version"):
            return ""
        return _text(self.function("SCR_Get_version", ctypes.c_char_p)())

    # SCR's calls, as in SCR's module scr.py

    def config(self, text: str) -> str | None:
        """``SCR_Config``: ask (``NAME``), or, before init, set (``NAME=value``) and unset (``NAME=``)."""
        value = self.function("SCR_Config", ctypes.c_char_p, ctypes.c_char_p)(os.fsencode(text))
        return None if value is None else _text(value)

    def init(self) -> None:
        """``SCR_Init``. It aborts a job of nobody's, as in some containers: $USER is set where it is not."""
        os.environ.setdefault("USER", _user_name())
        self._call("SCR_Init")

    def finalize(self) -> None:
        """``SCR_Finalize``."""
        self._call("SCR_Finalize")

    def route_file(self, name: str) -> str:
        """``SCR_Route_file``: the path to write or read `name` at. Local to this rank."""
        path = ctypes.create_string_buffer(MAX_FILENAME)
        self._call("SCR_Route_file", os.fsencode(name), path)
        return _text(path.value)

    def have_restart(self) -> str | None:
        """``SCR_Have_restart``: the name of the checkpoint that is loaded, if any."""
        flag, name = ctypes.c_int(), ctypes.create_string_buffer(MAX_FILENAME)
        self._call("SCR_Have_restart", ctypes.byref(flag), name)
        return _text(name.value) if flag.value else None

    def start_restart(self) -> str:
        """``SCR_Start_restart``: the name of the checkpoint to read."""
        name = ctypes.create_string_buffer(MAX_FILENAME)
        self._call("SCR_Start_restart", name)
        return _text(name.value)

    def complete_restart(self, valid: bool) -> bool:
        """``SCR_Complete_restart``: whether every rank read its files."""
        return bool(self.function("SCR_Complete_restart")(int(valid)) == SUCCESS)

    def need_checkpoint(self) -> bool:
        """``SCR_Need_checkpoint``."""
        return self._flag("SCR_Need_checkpoint")

    def start_output(self, name: str, flags: int) -> None:
        """``SCR_Start_output``."""
        self._call("SCR_Start_output", os.fsencode(name), int(flags))

    def complete_output(self, valid: bool) -> bool:
        """``SCR_Complete_output``: whether every rank wrote its files."""
        return bool(self.function("SCR_Complete_output")(int(valid)) == SUCCESS)

    def should_exit(self) -> bool:
        """``SCR_Should_exit``."""
        return self._flag("SCR_Should_exit")

    def current(self, name: str) -> None:
        """``SCR_Current``."""
        self._call("SCR_Current", os.fsencode(name))

    def drop(self, name: str) -> None:
        """``SCR_Drop``."""
        self._call("SCR_Drop", os.fsencode(name))

    def delete(self, name: str) -> None:
        """``SCR_Delete``."""
        self._call("SCR_Delete", os.fsencode(name))

    # what the library exports besides

    @property
    def initialized(self) -> bool:
        """Whether SCR is between SCR_Init and SCR_Finalize, and not disabled."""
        return self.integer("scr_initialized") == 1

    @property
    def rank(self) -> int:
        """This rank in SCR's world; known after :meth:`init`."""
        return self.integer("scr_my_rank_world")

    @property
    def ranks(self) -> int:
        """How many ranks SCR's world has."""
        return self.integer("scr_ranks_world")

    @property
    def dataset(self) -> int:
        """The number of the dataset that was started last."""
        return self.integer("scr_dataset_id")

    @property
    def prefix(self) -> str:
        """SCR_PREFIX as SCR holds it: absolute."""
        return self.string("scr_prefix") or ""

    def nodes(self) -> int:
        """How many nodes SCR counts, by their names. Collective."""
        count, own = ctypes.c_int(), ctypes.c_int()
        name = os.fsencode(self.string("scr_my_hostname") or os.uname().nodename)
        types = [ctypes.c_char_p, self._handle_type, ctypes.c_int, ctypes.c_int]
        pointers = [ctypes.POINTER(ctypes.c_int)] * 2
        count_names = self.function("rankstr_mpi", None, *types, *pointers)
        count_names(name, self._world, 0, 1, ctypes.byref(count), ctypes.byref(own))
        return count.value

    def peers(self) -> int:
        """How many ranks have this one's number on their nodes: what it can share a set with. Collective."""
        mine, size = self._handle_type(), ctypes.c_int()
        pointer = ctypes.POINTER(self._handle_type)
        split = self.function(
            "MPI_Comm_split", ctypes.c_int, self._handle_type, ctypes.c_int, ctypes.c_int, pointer
        )
        split(self._world, self.integer("scr_my_rank_host"), self.rank, ctypes.byref(mine))
        count = self.function("MPI_Comm_size", ctypes.c_int, self._handle_type, ctypes.POINTER(ctypes.c_int))
        count(mine, ctypes.byref(size))
        self.function("MPI_Comm_free", ctypes.c_int, pointer)(ctypes.byref(mine))
        return size.value

    def broadcast(self, text: str | None) -> str | None:
        """The text of rank 0, on every rank. Collective."""
        is_root = self.rank == 0
        # nothing may be raised here on rank 0 alone: the others wait for it
        data = text.encode("utf-8", "surrogatepass") if is_root and text else b""
        mine = ctypes.create_string_buffer(data) if data else None
        pointer = ctypes.cast(mine, ctypes.c_void_p) if mine else ctypes.c_void_p()
        types = [ctypes.POINTER(ctypes.c_void_p), ctypes.c_int, self._handle_type]
        self.function("scr_str_bcast", ctypes.c_int, *types)(ctypes.byref(pointer), 0, self._world)
        if not pointer.value:
            return None
        result = ctypes.string_at(pointer.value).decode("utf-8", "surrogateescape")
        if not is_root:
            self.function("scr_free", None, ctypes.POINTER(ctypes.c_void_p))(ctypes.byref(pointer))
        return result

    def all_true(self, flag: bool) -> bool:
        """Whether `flag` is true on every rank. Collective."""
        call = self.function("scr_alltrue", ctypes.c_int, ctypes.c_int, self._handle_type)
        return bool(call(int(flag), self._world))

    def has(self, symbol: str) -> bool:
        """Whether the library, or one that it needs, exports `symbol`."""
        return hasattr(self._library, symbol)

    def size(self, symbol: str) -> int:
        """How many bytes the object `symbol` has by its entry in the symbol table; 0 if there is none."""
        try:
            address = ctypes.addressof(ctypes.c_char.in_dll(self._library, symbol))
        except ValueError:
            return 0
        entry, place = ctypes.c_void_p(), (ctypes.c_void_p * 4)()
        ask = ctypes.CDLL(None).dladdr1
        ask.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p), ctypes.c_int]
        if not ask(address, place, ctypes.byref(entry), _SYMBOL_OF_AN_ADDRESS) or not entry.value:
            return 0
        return ctypes.c_uint64.from_address(entry.value + _SIZE_IN_A_SYMBOL).value

    def variable(self, symbol: str, kind: Any) -> Any:
        """The exported global `symbol`, as the ctypes type `kind`. Raises ValueError when there is none."""
        return kind.in_dll(self._library, symbol)

    def integer(self, symbol: str) -> int:
        """The value of an exported int. Raises ValueError when there is none."""
        return int(self.variable(symbol, ctypes.c_int).value)

    def string(self, symbol: str) -> str | None:
        """The value of an exported char*. Raises ValueError when there is none."""
        value = self.variable(symbol, ctypes.c_char_p).value
        return None if value is None else _text(value)

    def function(self, name: str, result: Any = ctypes.c_int, *arguments: Any) -> Callable[..., Any]:
        """The exported function `name`. Raises AttributeError when there is none."""
        found = self._library[name]
        found.restype = result
        if arguments:
            found.argtypes = arguments
        return found

    @property
    def _handle_type(self) -> Any:
        """MPI_Comm: an int in MPICH and its kin, a pointer in Open MPI."""
        return ctypes.c_int if self.size("scr_comm_world") == ctypes.sizeof(ctypes.c_int) else ctypes.c_void_p

    def handle(self, symbol: str) -> Any:
        """The communicator in the exported variable `symbol`, of the moment."""
        return self.variable(symbol, self._handle_type)

    @property
    def _world(self) -> Any:
        """SCR's communicator of the moment: another one after each SCR_Init."""
        return self.handle("scr_comm_world")

    def _call(self, name: str, *arguments: Any) -> None:
        if self.function(name)(*arguments) != SUCCESS:
            raise ScrError(f"{name} failed")

    def _flag(self, name: str) -> bool:
        flag = ctypes.c_int()
        self._call(name, ctypes.byref(flag))
        return bool(flag.value)


def _load(path: Path) -> ctypes.CDLL:
    """`path`, and before it what it needs, from the same directory, where the loader does not look."""
    waiting: list[str] = [str(path)]
    tried: set[str] = set()
    while True:
        try:
            loaded = ctypes.CDLL(waiting[-1], mode=ctypes.RTLD_GLOBAL)
        except OSError as error:
            missing = _MISSING.match(str(error))
            near = path.with_name(missing[1]) if missing else None
            if near is None or not near.is_file() or str(near) in tried:
                remedy = f"start the application with LD_LIBRARY_PATH={path.parent}" if missing else ""
                raise LibscrUnavailable(f"{path} cannot be loaded: {error}; {remedy}".rstrip("; ")) from error
            tried.add(str(near))
            waiting.append(str(near))
        else:
            waiting.pop()
            if not waiting:
                return loaded


def _user_name() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _text(data: bytes) -> str:
    return os.fsdecode(data)
