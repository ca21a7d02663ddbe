"""The peer's module `monitoring_elastic`: a monitor for jobs whose number of slices changes."""

import datetime as dt
from typing import ClassVar

from .goodput_utils import GCPOptions
from .monitoring import GoodputMonitor

__all__ = ["ElasticGoodputMonitor", "GCPOptions"]


class ElasticGoodputMonitor(GoodputMonitor):
    """A monitor for an elastic job; `include_slice_efficiency` adds how many of its slices work."""

    _elastic: ClassVar[bool] = True

    def __init__(  # noqa: PLR0913, PLR0917  the peer's signature
        self,
        job_name: str,
        logger_name: str,
        tensorboard_dir: str,
        upload_interval: float,
        monitoring_enabled: bool = False,
        include_badput_breakdown: bool = False,
        include_step_deviation: bool = False,
        include_slice_efficiency: bool = False,
        configured_ideal_step_time: float | None = None,
        step_deviation_interval_seconds: float = 10,
        gcp_options: GCPOptions | None = None,
        skip_final_flush: bool = False,
        final_flush_timeout_seconds: float | None = 1.0,
        gcs_sync_interval_seconds: int = 3600,
        cache_dir: str = "/tmp",  # noqa: S108  the peer's signature; nothing is written there
        max_logs_retention_period: dt.timedelta | float | None = None,
    ) -> None:
        super().__init__(
            job_name,
            logger_name,
            tensorboard_dir,
            upload_interval,
            monitoring_enabled,
            True,
            include_badput_breakdown,
            include_step_deviation,
            configured_ideal_step_time,
            step_deviation_interval_seconds,
            gcp_options,
            skip_final_flush,
            final_flush_timeout_seconds,
            gcs_sync_interval_seconds,
            cache_dir,
            max_logs_retention_period,
        )
        self._with_slices = include_slice_efficiency
