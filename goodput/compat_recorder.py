"""``GoodputRecorder`` of ml-goodput-measurement, over a local log."""

import datetime as dt
from typing import Any

from .compat_entries import checkpoint_entry, interval_entry
from .store import LocalLog, LogStore, utc_now

Time = dt.datetime | None
"""When it happened (a naive one is local time); None: now."""


class GoodputRecorder:
    """Writes down when a job, its steps and all that is not training begin and end.

    One process of a job has `logging_enabled`; with the others, every call returns at once. `logger_name`
    names the log (:func:`~.store.log_path`). `cloud_logger` takes another :class:`~.store.LogStore`. Entries
    are written at once, so that the three ``background_`` settings change nothing. No call waits for a
    network, and none fails because of the log.
    """

    def __init__(  # noqa: PLR0913  the peer's signature
        self,
        job_name: str,
        logger_name: str,
        logging_enabled: bool = False,
        cloud_logger: LogStore | None = None,
        *,
        background_grace_period_s: float = 5.0,  # noqa: ARG002
        background_batch_size: int = 100,  # noqa: ARG002
        background_max_latency_s: float = 2.0,  # noqa: ARG002
    ) -> None:
        self.job_name = job_name
        self._store = (cloud_logger or LocalLog(logger_name)) if logging_enabled else None

    def flush(self) -> None:
        """Return when all that was recorded is safe on disk."""
        if self._store is not None:
            self._store.flush()

    def record_job_start_time(self, start_time: Time = None) -> None:
        """The job, or its next run, starts."""
        self._write({"job_start_time": _seconds(start_time)})

    def record_job_end_time(self, end_time: Time = None) -> None:
        """The job ends."""
        self._write({"job_end_time": _seconds(end_time)})

    def record_step_start_time(self, step: int, start_time: Time = None) -> None:
        """A step begins; it lasts until the next one does."""
        self._write({"step_count": int(step), "step_start_time": _seconds(start_time)})

    def record_checkpoint_progress(self, step: int, checkpoint_start_time: dt.datetime) -> None:
        """Nothing, as in the peer: see :meth:`record_checkpoint_save`."""

    def record_tpu_init_start_time(self, start_time: Time = None) -> None:
        """The search for devices and their initialisation begin."""
        self._interval("device_init", "start", start_time)

    def record_tpu_init_end_time(self, end_time: Time = None) -> None:
        """The devices are ready."""
        self._interval("device_init", "end", end_time)

    def record_training_preparation_start_time(self, start_time: Time = None) -> None:
        """Preparation (checkpoint managers, the model, its restore) begins."""
        self._interval("training_prep", "start", start_time)

    def record_training_preparation_end_time(self, end_time: Time = None) -> None:
        """Preparation is done."""
        self._interval("training_prep", "end", end_time)

    def record_data_loading_start_time(self, start_time: Time = None) -> None:
        """A batch is asked for."""
        self._interval("data_loading", "start", start_time)

    def record_data_loading_end_time(self, end_time: Time = None) -> None:
        """The batch is here."""
        self._interval("data_loading", "end", end_time)

    def record_custom_badput_event_start_time(
        self, start_time: Time = None, custom_badput_event_type: str = "unknown"
    ) -> None:
        """Something that blocks training begins, such as an evaluation; its type is its name."""
        self._interval("custom", "start", start_time, custom_badput_event_type)

    def record_custom_badput_event_end_time(
        self, end_time: Time = None, custom_badput_event_type: str = "unknown"
    ) -> None:
        """It ends."""
        self._interval("custom", "end", end_time, custom_badput_event_type)

    def record_checkpoint_save(
        self, step: int, start_time: dt.datetime, end_time: Time = None, directory: str = ""
    ) -> None:
        """A checkpoint blocked training. Not in the peer, whose checkpointer logs this to the same cloud."""
        start_s, end_s = start_time.timestamp(), _seconds(end_time)
        self._write(checkpoint_entry("save", int(step), start_s, end_s, directory))

    def record_checkpoint_restore(
        self, step: int, start_time: dt.datetime, end_time: Time = None, directory: str = ""
    ) -> None:
        """A checkpoint was read back. Not in the peer, as :meth:`record_checkpoint_save`."""
        start_s, end_s = start_time.timestamp(), _seconds(end_time)
        self._write(checkpoint_entry("restore", int(step), start_s, end_s, directory))

    def _interval(self, kind: str, edge: str, time: Time, name: str = "") -> None:
        if self._store is not None:
            self._write(interval_entry(kind, edge, _seconds(time), name))

    def _write(self, entry: dict[str, Any]) -> None:
        if self._store is not None:
            self._store.append({"job_name": self.job_name, **entry})


class ElasticGoodputRecorder(GoodputRecorder):
    """A recorder for jobs whose number of slices changes while they run."""

    def record_elastic_slice_counts(
        self, active_slices: int, total_slices: int, available_slices: int, timestamp: Time = None
    ) -> None:
        """How many slices work, are asked for, and could be had."""
        self._write(
            {
                "active_slices": int(active_slices),
                "total_slices": int(total_slices),
                "available_slices": int(available_slices),
                "elastic_slice_counts_timestamp": _seconds(timestamp),
            }
        )

    def record_elastic_wait_start_time(self, event_type: str, start_time: Time = None) -> None:
        """The job waits for slices: `event_type` is ``scale_up`` or ``slice_down``."""
        self._interval("elastic_wait", "start", start_time, event_type)

    def record_elastic_wait_end_time(self, event_type: str, end_time: Time = None) -> None:
        """It need not wait any longer."""
        self._interval("elastic_wait", "end", end_time, event_type)

    def record_elastic_reinit_start_time(self, start_time: Time = None) -> None:
        """The job sets itself up anew, for another number of slices."""
        self._interval("elastic_reinit", "start", start_time)

    def record_elastic_reinit_end_time(self, end_time: Time = None) -> None:
        """It is set up."""
        self._interval("elastic_reinit", "end", end_time)


def _seconds(time: Time) -> float:
    return (time or utc_now()).timestamp()
