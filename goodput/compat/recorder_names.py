"""The methods of ml-goodput-measurement 0.2.3's recorders, with their signatures, on any recorder of ours."""

from collections.abc import Callable
from datetime import datetime
from functools import partialmethod

from ..readers.ml_goodput import elastic_wait_kind

Moment = datetime | float | None
"""A time as a caller has it: a datetime (without a zone: local), epoch seconds, or None for now."""


class PeerNames:
    """Needs seven methods, as :class:`~.client.recorder.Recorder` has them, and gives the peer's."""

    job_started: Callable[..., None]
    job_ended: Callable[..., None]
    step_started: Callable[..., None]
    started: Callable[..., None]
    ended: Callable[..., None]
    checkpointed: Callable[..., None]
    slices: Callable[..., None]

    def custom_name(self, event_type: str) -> str:
        """Return the name that a custom event is recorded under: in upper case, as the peer counts it."""
        return event_type.upper() if isinstance(event_type, str) else event_type

    def record_job_start_time(self, start_time: Moment = None) -> None:
        """Record the start of the job, or of its next run."""
        self.job_started(at=start_time)

    def record_job_end_time(self, end_time: Moment = None) -> None:
        """Record the end of the job."""
        self.job_ended(at=end_time)

    def record_step_start_time(self, step: int, start_time: Moment = None) -> None:
        """Record the start of `step`; it lasts until what is recorded next."""
        self.step_started(step, start_time)

    def record_checkpoint_progress(self, step: int, checkpoint_start_time: Moment) -> None:
        """Do nothing, as the peer: which steps were for nothing shows when they are done again."""

    def _start(self, kind: str, start_time: Moment = None) -> None:
        self.started(kind, at=start_time)

    def _end(self, kind: str, end_time: Moment = None) -> None:
        self.ended(kind, at=end_time)

    record_tpu_init_start_time = partialmethod(_start, "device_init")
    record_tpu_init_end_time = partialmethod(_end, "device_init")
    record_training_preparation_start_time = partialmethod(_start, "training_prep")
    record_training_preparation_end_time = partialmethod(_end, "training_prep")
    record_data_loading_start_time = partialmethod(_start, "data_loading")
    record_data_loading_end_time = partialmethod(_end, "data_loading")
    record_elastic_reinit_start_time = partialmethod(_start, "elastic_reinit")
    record_elastic_reinit_end_time = partialmethod(_end, "elastic_reinit")

    def record_custom_badput_event_start_time(
        self, start_time: Moment = None, custom_badput_event_type: str = "unknown"
    ) -> None:
        """Record the start of what holds up the training, such as an evaluation."""
        self.started("custom", self.custom_name(custom_badput_event_type), start_time)

    def record_custom_badput_event_end_time(
        self, end_time: Moment = None, custom_badput_event_type: str = "unknown"
    ) -> None:
        """Record its end."""
        self.ended("custom", self.custom_name(custom_badput_event_type), end_time)

    def _checkpoint(
        self, kind: str, step: int, start_time: Moment, end_time: Moment = None, directory: str = ""
    ) -> None:
        """Record a checkpoint that held up the training. The peer has it from the checkpointer."""
        self.checkpointed(kind, step, start_time, end_time, directory)

    record_checkpoint_save = partialmethod(_checkpoint, "checkpoint_save")
    record_checkpoint_restore = partialmethod(_checkpoint, "checkpoint_restore")

    def record_elastic_slice_counts(
        self, active_slices: int, total_slices: int, available_slices: int, timestamp: Moment = None
    ) -> None:
        """Record how many slices work, are asked for, and could be had."""
        self.slices(active_slices, total_slices, available_slices, timestamp)

    def record_elastic_wait_start_time(self, event_type: str, start_time: Moment = None) -> None:
        """Record the start of a wait for slices: ``scale_up`` or ``slice_down``."""
        self.started(elastic_wait_kind(event_type), event_type, start_time)

    def record_elastic_wait_end_time(self, event_type: str, end_time: Moment = None) -> None:
        """Record its end."""
        self.ended(elastic_wait_kind(event_type), event_type, end_time)
