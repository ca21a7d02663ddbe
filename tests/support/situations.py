"""The input of rules for a job as it is described: observed by the real observers, without a pipeline."""

import msgspec

from scrtune.goodput.interval.failures import Failures
from scrtune.intents.declared import Declared
from scrtune.intents.events import AllocationObserved, NodeObserved, SettingsObserved, Values
from scrtune.intents.intent import Evidence
from scrtune.intents.observe import checkpoints_required
from scrtune.intents.observe.faults import fault_model, fault_tolerance
from scrtune.intents.observe.intents import Observers
from scrtune.intents.observe.io.flush import FlushBehaviour
from scrtune.intents.rules.parameter import DerivedParameter
from scrtune.intents.rules.parameters import derived
from scrtune.intents.rules.situation import Situation
from scrtune.intents.settings import DEFAULTS

GIB = 1024**3
MEASURED = FlushBehaviour(
    evidence=Evidence(count=10),
    checkpoint_bytes=40 * GIB,
    largest_bytes=40 * GIB,
    interval_s=600.0,
    flush_s=60.0,
    write_s=10.0,
)


def situation(  # noqa: PLR0913 - each has a default
    settings: Values | None = None,
    *,
    said: Declared = Declared(),  # noqa: B008 - frozen
    flush: FlushBehaviour = MEASURED,
    failures: Failures = Failures(),  # noqa: B008 - frozen
    allocation: AllocationObserved | None = None,
    sources: dict[str, str] | None = None,
    free_bytes: int = 1000 * GIB,
    **described: int | str | bool,
) -> Situation:
    """A job on 8 nodes with 2 ranks each, that caches; its user gave `settings` and `said` the rest."""
    own = {**DEFAULTS, "SCR_CACHE_BYPASS": 0, "SCR_SET_FAILURES": 2, **(settings or {})}
    given = dict.fromkeys(settings or {}, "user config") if sources is None else sources
    given = {"SCR_CACHE_BYPASS": "user config", **given}
    shape = {"ranks": 16, "nodes": 8, **described}
    job = SettingsObserved(settings=own, sources=given, declared=said, **shape)
    observers = Observers()
    observers.begin_run(job, 0.0)
    observers.allocation = allocation
    intents = observers.observe(job, own)
    faults = fault_model.observe(job, str(own["SCR_COPY_TYPE"]), failures, allocation, None)
    intents = msgspec.structs.replace(
        intents,
        flush=flush,
        faults=faults,
        tolerance=fault_tolerance.observe(faults, intents.redundancy, flush, own),
        checkpoints=checkpoints_required.observe(said, 0, failures.observed_s, allocation, 0.0),
    )
    return Situation(
        intents=intents,
        own=own,
        settings=own,
        job=job,
        node=NodeObserved(host="n", cpus=(), cache_free_bytes=free_bytes),
        allocation=allocation,
        failures=failures,
    )


def parameter(name: str, now: Situation) -> DerivedParameter:
    """The derived parameter of that name; there is one."""
    (found,) = (each for each in derived(now) if each.name == name)
    return found
