"""The peer's module `goodput_elastic`: jobs whose number of slices changes while they run."""

import datetime as dt
from typing import ClassVar, cast

from .goodput import (
    _JOB_NAME,
    _TPU_INIT_END_TIME,
    _TPU_INIT_START_TIME,
    _TRAINING_PREPARATION_END_TIME,
    _TRAINING_PREPARATION_START_TIME,
    GoodputCalculator,
    GoodputRecorder,
    epoch_s,
    seconds,
)
from .goodput_utils import ElasticIntervalWorkloadMetricDetails, ElasticWorkloadMetricDetails
from .peer_names import Moment, PeerNames

__all__ = [
    "_JOB_NAME",
    "_TPU_INIT_END_TIME",
    "_TPU_INIT_START_TIME",
    "_TRAINING_PREPARATION_END_TIME",
    "_TRAINING_PREPARATION_START_TIME",
    "ElasticGoodputCalculator",
    "ElasticGoodputRecorder",
    "GoodputRecorder",
]

_ACTIVE_SLICES = "active_slices"
_TOTAL_SLICES = "total_slices"
_AVAILABLE_SLICES = "available_slices"
_ELASTIC_SLICE_COUNTS_TIMESTAMP = "elastic_slice_counts_timestamp"
_ELASTIC_WAIT_EVENT_TYPE = "elastic_wait_event_type"
_ELASTIC_WAIT_START_TIME = "elastic_wait_start_time"
_ELASTIC_WAIT_END_TIME = "elastic_wait_end_time"
_ELASTIC_REINIT_START_TIME = "elastic_reinit_start_time"
_ELASTIC_REINIT_END_TIME = "elastic_reinit_end_time"


class ElasticGoodputRecorder(GoodputRecorder, PeerNames):
    """A recorder that also writes down slices, waits for them, and initialisations anew."""

    def slices(self, active: int, total: int, available: int = 0, at: Moment = None) -> None:
        """Record how many slices work, are asked for, and could be had."""
        self._write(
            lambda: {
                _ACTIVE_SLICES: int(active),
                _TOTAL_SLICES: int(total),
                _AVAILABLE_SLICES: int(available),
                _ELASTIC_SLICE_COUNTS_TIMESTAMP: seconds(at),
            }
        )


class ElasticGoodputCalculator(GoodputCalculator):
    """A calculator with waits and re-initialisations apart."""

    _elastic: ClassVar[bool] = True

    def get_job_goodput_details(self) -> ElasticWorkloadMetricDetails:
        """Return those of every job, with the efficiency of its slices (0 to 1) if any were recorded."""
        details = cast(ElasticWorkloadMetricDetails, super().get_job_goodput_details())
        if (efficiency := self._job.slice_efficiency(details["total_elapsed_time"])) is not None:
            details["stepping_slice_efficiency"], details["available_slice_efficiency"] = efficiency
        return details

    def get_interval_metric_details(
        self, interval_start: dt.datetime, interval_end: dt.datetime
    ) -> ElasticIntervalWorkloadMetricDetails:
        """Return those of every job's window, with the efficiency of the slices that were recorded in it."""
        details = cast(
            ElasticIntervalWorkloadMetricDetails,
            super().get_interval_metric_details(interval_start, interval_end),
        )
        window = epoch_s(interval_start), epoch_s(interval_end)
        if (efficiency := self._job.slice_efficiency_within(*window)) is not None:
            details["stepping_slice_efficiency"], details["available_slice_efficiency"] = efficiency
        return details
