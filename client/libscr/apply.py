"""A decision of the daemon's comes into force on a real libscr: on all ranks, or on none.

One collective point, at the beginning of an output and nowhere else:

1. rank 0 has the text of a decision, or none;
2. SCR's own broadcast takes it to all ranks; without a text all go on;
3. each rank parses and checks it and looks whether it can apply it; SCR's own reduction tells all whether all
   can, and if not, nothing is applied anywhere;
4. all apply it.

Between 2 and 4 nothing returns early for a reason that only one rank has: no rank can be left waiting.
"""

import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Literal

from ...intents.events import Value, Values
from ...scr_config.catalogue import CATALOGUE
from ...scr_config.constraints import FILE_GRAMMAR, validate
from ...scr_config.settings import Settings
from .decision import DECISION_LIMIT_BYTES, parse_decision
from .levers import Capability, FlushCpus, Lever, capability, live_levers, why_not_live
from .library import Library, ScrError
from .reinit import Reinit, ReinitError
from .sharing import Sharing

_NEEDED = ("scr_str_bcast", "scr_alltrue", "scr_free", "scr_comm_world", "scr_my_rank_world", "scr_in_output")
_LONGER_THAN_ANY = DECISION_LIMIT_BYTES + 1


@dataclass(frozen=True)
class Applied:
    """What became of a decision: its generation, how it came into force, what that took, and why not."""

    generation: int
    how: Literal["live", "re-init", "refused"]
    seconds: float
    why: str = ""


@dataclass(frozen=True)
class _Plan:
    """What a decision comes to on this rank: live values, and all values for SCR_Init if that is needed."""

    live: Values
    init: Values | None


class Applier:
    """Applies decisions to `library`. Make it on all ranks, after SCR_Init: that is collective.

    `recorded` has the texts that the application gave to SCR_Config, in order.
    """

    def __init__(self, library: Library, recorded: Sequence[str] = ()) -> None:
        self._library = library
        self._cannot = self._why_nothing_can_change()
        self._levers = {} if self._cannot else live_levers(library)
        self._reinit = Reinit(library, recorded, self._cannot)
        self.capabilities: dict[str, Capability] = self._agree_on_capabilities()
        self._own = self.in_force()
        self._fixed = self._what_only_a_launch_changes()
        self.sharing = None if self._cannot else Sharing(library)
        self._told: set[str] = set()
        self.refused = 0

    def apply(self, text: str | None) -> Applied | None:
        """Bring rank 0's `text` into force; None when it has none. Collective; only between outputs.

        Never raises for what a decision holds: it is refused on all ranks, counted in `refused`, and told
        once on rank 0's standard error.
        """
        if self._cannot or not self._library.initialized:
            return None
        start_s = time.monotonic()
        text = self._library.broadcast(text[:_LONGER_THAN_ANY] if text else None)
        if not text:
            return None
        generation = 0
        try:
            decision = parse_decision(text)
            generation = decision.generation
            plan = self._plan(Settings.of_texts(decision.values))
        except Exception as error:  # noqa: BLE001 - whatever it is, the other ranks wait for this one's word
            return self._carry_out(generation, None, start_s, str(error) or repr(error))
        return self._carry_out(generation, plan, start_s)

    def detach(self) -> Applied | None:
        """Put back what was in force when this was made. Collective; only between outputs."""
        if self._cannot or not self._library.initialized:
            return None
        start_s = time.monotonic()
        try:
            plan = self._plan(self._own)
        except Exception as error:  # noqa: BLE001 - as in apply
            return self._carry_out(0, None, start_s, str(error) or repr(error))
        return self._carry_out(0, plan, start_s)

    def leave_cache(self, kind: int) -> Applied | None:
        """Bring the bypass back before an output of `kind` whose files might meet in the cache.

        Collective; only between outputs. None when it may begin as it is.
        """
        if self.sharing is None or not self.sharing.must_leave(kind):
            return None
        start_s, why = time.monotonic(), "this kind of output was not seen before, or its files have met"
        try:
            plan = self._plan({**self.in_force(), "SCR_CACHE_BYPASS": 1})
        except Exception as error:  # noqa: BLE001 - as in apply
            return self._carry_out(0, None, start_s, str(error) or repr(error))
        done = self._carry_out(0, plan, start_s)
        if done.how == "re-init":
            self._tell(f"SCR_CACHE_BYPASS=0: {why}")
            return replace(done, why=f"{why}; files could meet in the cache: SCR_CACHE_BYPASS is 1 again")
        return done

    @contextmanager
    def around_flush(self) -> Iterator[None]:
        """Threads started in this context run on the CPUs of SCRTUNE_FLUSH_CPUS: AXL's inherit them.

        For SCR_Complete_output and SCR_Finalize: nothing else of SCR starts a flush (scr.c:465, 174).
        """
        lever = self._levers.get("SCRTUNE_FLUSH_CPUS")
        wanted = lever.cpus if isinstance(lever, FlushCpus) else frozenset()
        own = os.sched_getaffinity(0) if wanted else set()
        try:
            with suppress(OSError):  # none of them is one that this process may use
                if wanted:
                    os.sched_setaffinity(0, wanted)
            yield
        finally:
            with suppress(OSError):
                if own:
                    os.sched_setaffinity(0, own)

    def _plan(self, values: Mapping[str, Value]) -> _Plan:
        """What `values` come to here. Not collective.

        Raises ValueError for values that SCR would fail on, ReinitError when it must not start again.
        """
        in_force = self.in_force()
        wanted = {name: value for name, value in values.items() if name in in_force}
        own = {**in_force, **self._fixed}
        own_problems = validate(own)
        for problem in validate({**own, **values}):
            if problem.severity == "error" and problem.code != FILE_GRAMMAR and problem not in own_problems:
                raise ValueError(f"{problem.parameter}: {problem.what}")
        live = {name: value for name, value in wanted.items() if name in self._live()}
        others = {name for name in wanted.keys() - live.keys() if wanted[name] != in_force[name]}
        if others:
            self._reinit.check({**in_force, **wanted}, others)
            self._check_cache(wanted)
        return _Plan(live, {**in_force, **wanted} if others else None)

    def _check_cache(self, wanted: Mapping[str, Value]) -> None:
        why = self.sharing.why_no_cache() if self.sharing and wanted.get("SCR_CACHE_BYPASS") == 0 else ""
        if why:
            raise ReinitError(f"SCR_CACHE_BYPASS=0: {why}")

    def _carry_out(self, generation: int, plan: _Plan | None, start_s: float, why: str = "") -> Applied:
        """Step 3 and 4: on every rank, whatever this rank found."""
        agreed = self._library.all_true(plan is not None)
        if not agreed or plan is None:
            why = why or "another rank cannot apply it"
            self._tell(why)
            return Applied(generation, "refused", time.monotonic() - start_s, why)
        if plan.init is not None:
            try:
                with self.around_flush():
                    self._reinit.perform(plan.init)
                if self.sharing is not None:
                    self.sharing.initialized()
            except ScrError as error:
                self._tell(str(error))
                return Applied(generation, "refused", time.monotonic() - start_s, str(error))
        for name, value in plan.live.items():
            lever = self._levers[name]
            if lever.read() != value:
                lever.prepare(value)
                lever.write(value)
        how: Literal["live", "re-init"] = "live" if plan.init is None else "re-init"
        return Applied(generation, how, time.monotonic() - start_s)

    def in_force(self) -> Values:
        """The values of everything that a decision can change here."""
        live = {name: self._levers[name].read() for name in self._live()}
        return {**live, **self._reinit.in_force()}

    def _live(self) -> dict[str, Lever]:
        return {
            name: lever
            for name, lever in self._levers.items()
            if self.capabilities[name].klass.startswith("live")
        }

    def _agree_on_capabilities(self) -> dict[str, Capability]:
        """What all ranks can do. Collective."""
        if self._cannot:
            return {
                name: Capability("inert" if each.mutability == "none" else "launch", self._cannot)
                for name, each in CATALOGUE.items()
            }
        trouble = {name: why_not_live(lever) for name, lever in sorted(self._levers.items())}
        for name, why in trouble.items():
            if not self._library.all_true(not why):
                trouble[name] = why or "another rank cannot"
        found = {name: capability(name, trouble, self._reinit.why_not) for name in CATALOGUE}
        self._reinit.learn(name for name, each in found.items() if each.klass == "re-init")
        return found

    def _what_only_a_launch_changes(self) -> Values:
        """Values beside which not all others can stand."""
        symbol = "scr_flush_poststage"
        return {"SCR_FLUSH_POSTSTAGE": self._library.integer(symbol)} if self._library.has(symbol) else {}

    def _why_nothing_can_change(self) -> str:
        lacks = [name for name in _NEEDED if not self._library.has(name)]
        if lacks:
            return f"the library does not export {lacks[0]}"
        return "" if self._library.initialized else "SCR is disabled"

    def _tell(self, why: str) -> None:
        self.refused += 1
        if self._library.rank == 0 and why not in self._told:
            self._told.add(why)
            with suppress(OSError, ValueError, AttributeError):  # nobody has to listen
                sys.stderr.write(f"scrtune: settings are refused, what was in force stays: {why}\n")
                sys.stderr.flush()
