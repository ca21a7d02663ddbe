"""Log entries of ml-goodput-measurement 0.2.3: what our recorder writes, and what its calculator reads.

An entry is a flat JSON object that carries ``job_name`` and one happening: its keys are in
`docs/goodput-compat.md`. Times are epoch seconds. What an entry says, :mod:`..readers.ml_goodput` reads.
"""

from collections.abc import Iterable, Mapping
from typing import TypeAlias

from ..events import GoodputEvent, StepStarted
from ..readers.jsonl import own_event
from ..readers.ml_goodput import NotUnderstoodError, recorder_events
from ..validation import LARGEST_INTEGER, LARGEST_S

Entry: TypeAlias = dict[str, object]

PREFIXES = {
    "device_init": "tpu_init",
    "training_prep": "training_prep",
    "data_loading": "data_loading",
    "custom": "custom_badput_event",
    "elastic_scale_up": "elastic_wait",
    "elastic_slice_down": "elastic_wait",
    "elastic_reinit": "elastic_reinit",
}
"""Our kinds of interval, and what the keys of their entries begin with."""

NAME_KEYS = {"custom_badput_event": "custom_badput_event_type", "elastic_wait": "elastic_wait_event_type"}
"""What these begin with, and the key that holds the interval's name."""


def interval_entry(kind: str, edge: str, time_s: float, name: str = "") -> Entry:
    """The entry that tells the ``start`` or the ``end`` of an interval; who writes it adds the job's name."""
    prefix = PREFIXES[kind]
    entry: Entry = {NAME_KEYS[prefix]: name} if prefix in NAME_KEYS else {}
    entry[f"{prefix}_{edge}_time"] = time_s
    return entry


def checkpoint_entry(event_type: str, step: int, start_s: float, end_s: float, directory: str) -> Entry:
    """A ``save`` or ``restore`` as Orbax, the checkpointer of the peer's users, logs it."""
    manager = "checkpoint_manager_blocking" if event_type == "save" else "checkpoint_manager"
    checkpointer = "checkpointer_blocking" if event_type == "save" else "checkpointer"
    entry: Entry = {"step": step, "event_type": event_type, "directory": directory}
    for what in (checkpointer, manager):
        entry |= {f"{what}_start_time": start_s, f"{what}_duration_secs": end_s - start_s}
    if event_type == "save":
        for what in ("wait_for_prev", "get_old_steps"):
            entry |= {f"{what}_start_time": start_s, f"{what}_duration_secs": 0.0}
    return entry


_KEYS_OF_A_STEP = {"job_name", "step_count", "step_start_time"}


class EntryReader:
    """Turns entries into events, in order. `job_name` leaves out other jobs' entries; "" takes all.

    Events of our own logs (with a `type`) are taken as they are. What cannot be understood is left out and
    counted in `unread`; `problem` says what the first of it was.
    """

    def __init__(self, job_name: str = "") -> None:
        self.unread = 0
        self.problem = ""
        self._job_name = job_name

    def read(self, entries: Iterable[Mapping[str, object]]) -> list[GoodputEvent]:
        """The events of these entries."""
        events: list[GoodputEvent] = []
        for entry in entries:
            if self._job_name and entry.get("job_name", self._job_name) != self._job_name:
                continue
            if (step := _step(entry)) is not None:
                events.append(step)
                continue
            try:
                events += _events_of(entry)
            except NotUnderstoodError as error:
                self.unread += 1
                self.problem = self.problem or str(error)
        return events


def _step(entry: Mapping[str, object]) -> StepStarted | None:
    """A step as recorders write it, with nothing else; None for any other entry.

    Most of a log is these: looking for all that an entry may tell takes four times as long.
    """
    time_s, step = entry.get("step_start_time"), entry.get("step_count")
    if type(time_s) is not float or type(step) is not int or entry.keys() != _KEYS_OF_A_STEP:
        return None
    if abs(time_s) <= LARGEST_S and abs(step) <= LARGEST_INTEGER:
        return StepStarted(step=step, time_s=time_s)
    return None


def _events_of(entry: Mapping[str, object]) -> list[GoodputEvent]:
    """All that an entry tells. Raises NotUnderstoodError, also for one that tells of nothing."""
    if isinstance(entry.get("type"), str):
        return [own_event(entry)]
    events = list(recorder_events(entry))
    if not events:
        raise NotUnderstoodError("an entry of no kind that is known")
    return events
