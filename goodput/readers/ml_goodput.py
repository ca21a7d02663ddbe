"""What the entries of ml-goodput-measurement's recorder, and of Orbax beside it, say as goodput events."""

from collections.abc import Mapping
from typing import TypeAlias

from .. import events as ev
from ..validation import LARGEST_INTEGER, LARGEST_S

Entry: TypeAlias = Mapping[str, object]

_CHECKPOINTER = {
    "save": ("checkpoint_save", "checkpoint_manager_blocking"),
    "restore": ("checkpoint_restore", "checkpoint_manager"),
    "emergency_restore": ("checkpoint_restore", "checkpoint_manager"),
}
_INTERVALS = {
    "tpu_init": "device_init",
    "training_prep": "training_prep",
    "data_loading": "data_loading",
    "elastic_reinit": "elastic_reinit",
    "elastic_wait": "elastic_wait",
    "custom_badput_event": "custom",
}


class NotUnderstoodError(ValueError):
    """An entry that cannot be used; the text says why."""


def recorder_events(entry: Entry) -> list[ev.GoodputEvent]:
    """Return the events in an entry of the recorder, or of Orbax. Raises NotUnderstoodError."""
    events = [event for key in entry if (event := _event(entry, key)) is not None]
    kind = entry.get("event_type")
    if isinstance(kind, str) and kind in _CHECKPOINTER:
        events.append(_checkpoint(entry, *_CHECKPOINTER[kind]))
    if not events:
        raise NotUnderstoodError("an entry of no kind that is known")
    return events


def elastic_wait_kind(event_type: object) -> str:
    """Return the kind of a wait: as in the peer, whatever is no ``scale_up`` is for fewer slices."""
    is_scale_up = isinstance(event_type, str) and "scale_up" in event_type.lower()
    return "elastic_scale_up" if is_scale_up else "elastic_slice_down"


def checkpoint_name(step: int, directory: object) -> str:
    """Return the same for all hosts that record a checkpoint; another in the cloud than on a file system."""
    is_remote = isinstance(directory, str) and directory.startswith("gs://")
    return f"{step} {'persistent' if is_remote else 'local'}"


def seconds_of(entry: Entry, key: str) -> float:
    """Return the epoch seconds that `key` holds. Raises NotUnderstoodError."""
    value = entry.get(key)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not abs(value) <= LARGEST_S:
        raise NotUnderstoodError(f"{key} is {value!r:.100}, no epoch seconds")
    return float(value)


def integer_of(entry: Entry, key: str) -> int:
    """Return the integer that `key` holds, also of 5.0; 0 of null, or nothing. Raises NotUnderstoodError."""
    value = entry.get(key)
    if value is None:
        return 0
    if isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LARGEST_INTEGER:
        whole = int(value)
        if whole == value:
            return whole
    raise NotUnderstoodError(f"{key} is {value!r:.100}, no whole number")


def _event(entry: Entry, key: str) -> ev.GoodputEvent | None:
    """Return the event whose time `key` holds, or None. Raises NotUnderstoodError."""
    match key:
        case "step_start_time":
            return ev.StepStarted(step=integer_of(entry, "step_count"), time_s=seconds_of(entry, key))
        case "job_start_time":
            return ev.JobStarted(time_s=seconds_of(entry, key))
        case "job_end_time":
            return ev.JobEnded(time_s=seconds_of(entry, key))
        case "elastic_slice_counts_timestamp":
            time_s, counted = seconds_of(entry, key), ("active", "total", "available")
            counts = {name: integer_of(entry, f"{name}_slices") for name in counted}
            return ev.SlicesObserved(time_s=time_s, **counts)
    interval, _, border = key.removesuffix("_time").rpartition("_")
    kind, name = _INTERVALS.get(interval), ""
    if kind is None or key not in (f"{interval}_start_time", f"{interval}_end_time"):
        return None
    if kind == "custom":
        name = str(entry.get("custom_badput_event_type", "unknown")).upper()
    elif kind == "elastic_wait":
        name = str(entry.get("elastic_wait_event_type", "unknown"))
        kind = elastic_wait_kind(name)
    event = ev.IntervalStarted if border == "start" else ev.IntervalEnded
    return event(kind=kind, time_s=seconds_of(entry, key), name=name)


def _checkpoint(entry: Entry, kind: str, key: str) -> ev.Interval:
    """Return what blocked in Orbax's checkpoint manager. Raises NotUnderstoodError if it does not say."""
    start, seconds = f"{key}_start_time", f"{key}_duration_secs"
    if entry.get(start) is None or entry.get(seconds) is None:
        raise NotUnderstoodError(f"{entry['event_type']} without {start} and {seconds}")
    start_s, duration_s = seconds_of(entry, start), seconds_of(entry, seconds)
    if duration_s < 0:
        raise NotUnderstoodError(f"{seconds} is negative")
    has_step = entry.get("step") is not None
    name = checkpoint_name(integer_of(entry, "step"), entry.get("directory")) if has_step else ""
    return ev.Interval(kind=kind, start_s=start_s, end_s=start_s + duration_s, name=name)
