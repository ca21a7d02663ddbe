"""Names and shapes of ml-goodput-measurement 0.2.3 as it documents them: what its users' code reads."""

import datetime as dt
import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias, TypedDict


class BadputType(enum.Enum):
    """What time that was not productive went to."""

    TPU_INITIALIZATION = 1
    TRAINING_PREP = 2
    PROGRAM_STARTUP = 3
    DATA_LOADING_SYNC = 4
    DATA_LOADING_ASYNC = 5
    UNPRODUCTIVE_CHECKPOINT_SAVE_TIME = 6
    UNPRODUCTIVE_CHECKPOINT_RESTORE_TIME = 7
    WASTED_PROGRESS_FROM_DISRUPTION = 8
    INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION = 9
    CUSTOM_BADPUT_EVENTS = 10
    OTHER = 11
    ELASTIC_SLICE_DOWN = 12
    ELASTIC_SCALE_UP = 13
    ELASTIC_REINITIALIZATION = 14


class GoodputType(enum.Enum):
    """Productive time is one bucket."""

    TOTAL = 1


class MetricType(enum.Enum):
    """Keys of what ``get_job_goodput_details`` returns."""

    GOODPUT_TIME = "goodput_time"
    BADPUT_TIME = "badput_time"
    MAX_PRODUCTIVE_STEP = "max_productive_step"
    TOTAL_ELAPSED_TIME = "total_elapsed_time"
    DISRUPTION_COUNT = "disruption_count"
    STEP_TIME_DEVIATION = "step_time_deviation"
    IDEAL_STEP_TIME = "ideal_step_time"
    TOTAL_EXCLUDED_TIME = "total_excluded_time"


class IntervalMetricType(enum.Enum):
    """Keys of what ``get_interval_metric_details`` returns."""

    INTERVAL_GOODPUT = "interval_goodput"
    INTERVAL_BADPUT = "interval_badput"
    INTERVAL_SIZE = "interval_size"


ACTIVITY_EXCLUSION_LIST = [BadputType.DATA_LOADING_ASYNC.name]
"""Names of badput that overlaps with steps, and is no part of the total."""

BadputTimes: TypeAlias = dict[BadputType, float | dict[str, float]]
"""Seconds, or percent, of each type; custom events by their upper-cased name."""


class SliceEfficiency(TypedDict, total=False):
    """Slices that work, and that could be had, as shares of all, 0 to 1; nothing if none were recorded."""

    stepping_slice_efficiency: float
    available_slice_efficiency: float


class WorkloadMetricDetails(SliceEfficiency):
    """What ``get_job_goodput_details`` returns; times in seconds."""

    goodput_time: dict[GoodputType, float]
    badput_time: BadputTimes
    max_productive_step: int
    total_elapsed_time: float
    disruption_count: int
    step_time_deviation: dict[int, float]
    ideal_step_time: float
    total_excluded_time: float


class IntervalWorkloadMetricDetails(SliceEfficiency):
    """What ``get_interval_metric_details`` returns: percent of the window, and its size in seconds."""

    interval_goodput: dict[GoodputType, float]
    interval_badput: BadputTimes
    interval_size: int


ElasticWorkloadMetricDetails = WorkloadMetricDetails
ElasticIntervalWorkloadMetricDetails = IntervalWorkloadMetricDetails


@dataclass
class GCPOptions:
    """Where the peer sends its metrics. There is no cloud here: a monitor says so and does not use them."""

    project_id: str | None = None
    location: str | None = None
    replica_id: str = "0"
    acc_type: str | None = None
    cluster_name: str | None = None
    enable_gcp_goodput_metrics: bool = True
    enable_gcp_step_deviation_metrics: bool = True


def compute_ideal_step_time(step_times: Sequence[float]) -> float | None:
    """Return the ideal step time in seconds, or None when no step lasts a second."""
    from ..steps.table import peers_ideal_s  # noqa: PLC0415 - numpy: who only needs names shall not load it

    return peers_ideal_s(step_times)


def get_timestamp_from_log_entry(entry: Mapping[str, object]) -> dt.datetime | None:
    """Return the first time in a log entry, in UTC, or None."""
    found = next((value for key, value in entry.items() if "time" in key), None)
    return dt.datetime.fromtimestamp(found, dt.timezone.utc) if isinstance(found, int | float) else None
