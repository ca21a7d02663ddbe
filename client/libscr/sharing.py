"""Whether the files of an output could lie in SCR's cache, where an application bypasses it.

SCR ends the job when ranks of several nodes register one file of an output that goes through the cache
(scr_assign_ownership in scr.c), and files of one node that have the same base name overwrite each other
there. Past the cache, all that is fine. So nobody is moved to the cache before their outputs have been looked
at, and who was moved is brought back before an output of a kind that was not. libscrtune.so does the same
(native/sharing.c).
"""

import ctypes
import os
from collections.abc import Sequence
from pathlib import PurePath

from .library import Library

_CALL = "DTCMP_Rankv_strings"
_MIND = "scrtune_fail_if_files_meet"


class Sharing:
    """What was seen of an application's outputs. Make it on all ranks after SCR_Init: that is collective.

    A kind of output is what its flags say: checkpoint, pure output, both, none.
    """

    def __init__(self, library: Library) -> None:
        self._library = library
        has_all = all(map(library.has, (_CALL, "scr_comm_node", "scr_cache_bypass")))
        bypasses = has_all and library.integer("scr_cache_bypass") == 1
        self.is_watching = library.all_true(bypasses)
        """Whether the application itself bypasses the cache, so that it matters."""
        self._nodes = library.nodes() if self.is_watching else 0
        self._can_mind = self.is_watching and library.all_true(hasattr(ctypes.CDLL(None), _MIND))
        self._apart: set[int] = set()
        self._outputs = 0
        self._is_due = True
        self._meet = self._is_barred = self._is_cached = False

    def why_no_cache(self) -> str:
        """Why a decision must not choose the cache now; empty when it may. The same on all ranks."""
        if not self.is_watching or self._is_cached:
            return ""
        if self._meet:
            return "files of several ranks would meet in the cache"
        if self._is_barred:
            return "another kind of output has begun, which was not seen before"
        return (
            "" if self._apart else "no output was seen yet whose files have places of their own in the cache"
        )

    def initialized(self) -> None:
        """SCR was initialized again. Collective."""
        if self.is_watching:
            self._is_cached = not self._library.all_true(self._library.integer("scr_cache_bypass") != 0)

    def must_leave(self, kind: int) -> bool:
        """Whether an output of `kind` must not go through the cache that we have chosen. Collective."""
        if not self._is_cached or self._library.all_true(kind in self._apart and not self._meet):
            return False
        self._is_barred = True
        return True

    def look(self, kind: int, names: Sequence[str]) -> bool | None:
        """Whether the files `names` of this rank would meet others in the cache. Collective.

        `names` are absolute; an empty one stands for two that have met already. None: not known. In the cache
        each output is looked at; past it each of a new kind, and ever fewer of the others.
        """
        if not self.is_watching:
            return None
        self._outputs += 1
        is_power_of_two = self._outputs & (self._outputs - 1) == 0
        self._is_due = self._is_cached or is_power_of_two or not self._library.all_true(kind in self._apart)
        if not self._is_due:
            return None
        names = [os.path.normpath(name) if name else "" for name in names]
        counts, places = self._tally(names, "scr_comm_world")
        bases = [PurePath(name).name for name, place in zip(names, places, strict=True) if place == 0]
        meet, _ = self._tally(bases, "scr_comm_node")
        is_empty = self._library.all_true(not names)
        is_shared = self._nodes != 1 and any(count > 1 for count in counts)
        if is_shared or any(count > 1 for count in meet) or "" in names:
            return True
        return None if is_empty else False

    def mind(self) -> None:
        """SCR is about to complete an output. What would end the job fails it, if libscrtune.so is there."""
        if self._is_cached and self._can_mind:
            ctypes.CDLL(None)[_MIND](ctypes.c_int(self._nodes))

    def completed(self, kind: int, meets: bool | None, valid: bool) -> bool | None:
        """An output has ended, of which :meth:`look` said `meets` here. Collective; what all ranks see."""
        if not self.is_watching or not self._is_due:
            return None
        if self._library.all_true(meets is False and valid):
            self._apart.add(kind)
            return False
        if self._library.all_true(meets is not True):
            return None
        self._meet = True
        return True

    def _tally(self, names: Sequence[str], communicator: str) -> tuple[list[int], list[int]]:
        """How often each of `names` is given by the ranks of `communicator`, and its place among them."""
        count, numbers = len(names), ctypes.c_uint64 * (len(names) + 1)
        texts = (ctypes.c_char_p * (count + 1))(*map(os.fsencode, names))
        groups, identities, counts, places = numbers(), numbers(), numbers(), numbers()
        handle = self._library.handle(communicator)
        pointer = ctypes.POINTER(ctypes.c_uint64)
        types = (ctypes.c_int, ctypes.POINTER(ctypes.c_char_p), *(pointer,) * 4, ctypes.c_uint, type(handle))
        call = self._library.function(_CALL, ctypes.c_int, *types)
        call(count, texts, groups, identities, counts, places, 0, handle)
        return list(counts)[:count], list(places)[:count]
