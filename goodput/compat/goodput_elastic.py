"""The peer's module `goodput_elastic`."""

from .goodput import _JOB_NAME, ElasticGoodputCalculator, ElasticGoodputRecorder, GoodputRecorder

__all__ = ["_JOB_NAME", "ElasticGoodputCalculator", "ElasticGoodputRecorder", "GoodputRecorder"]

# keys of entries, under the names that the peer's users read raw entries by
_ACTIVE_SLICES = "active_slices"
_TOTAL_SLICES = "total_slices"
_AVAILABLE_SLICES = "available_slices"
_ELASTIC_SLICE_COUNTS_TIMESTAMP = "elastic_slice_counts_timestamp"
_ELASTIC_WAIT_EVENT_TYPE = "elastic_wait_event_type"
_ELASTIC_WAIT_START_TIME = "elastic_wait_start_time"
_ELASTIC_WAIT_END_TIME = "elastic_wait_end_time"
_ELASTIC_REINIT_START_TIME = "elastic_reinit_start_time"
_ELASTIC_REINIT_END_TIME = "elastic_reinit_end_time"
