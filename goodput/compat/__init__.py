"""ml-goodput-measurement's public API over a local log: code that was written for it changes an import.

    from ml_goodput_measurement import goodput, monitoring      # before
    from scrtune.goodput.compat import goodput, monitoring      # after

Same classes, signatures, return shapes and numbers as version 0.2.3, without a cloud, an account or a
network; `docs/goodput-compat.md` has the rules, the faults that are kept and the few things that differ. The
numbers are those of the policy ``compat``; the same log under ``conserving`` (``scrtune goodput``) has
buckets that add up.
"""

from .. import compat as goodput
from ..peer_rules.rules import CompatAccount, CompatError, compat_account, compat_window
from ..peer_rules.types import (
    BadputType,
    ElasticIntervalWorkloadMetricDetails,
    ElasticWorkloadMetricDetails,
    GCPOptions,
    GoodputType,
    IntervalMetricType,
    IntervalWorkloadMetricDetails,
    MetricType,
    WorkloadMetricDetails,
)
from .calculator import ElasticGoodputCalculator, GoodputCalculator
from .monitor import ElasticGoodputMonitor, GoodputMonitor
from .recorder import ElasticGoodputRecorder, GoodputRecorder

# the peer spreads all this over five modules, and its users import those
goodput_elastic = goodput
goodput_utils = goodput
monitoring = goodput
monitoring_elastic = goodput

__all__ = [
    "BadputType",
    "CompatAccount",
    "CompatError",
    "ElasticGoodputCalculator",
    "ElasticGoodputMonitor",
    "ElasticGoodputRecorder",
    "ElasticIntervalWorkloadMetricDetails",
    "ElasticWorkloadMetricDetails",
    "GCPOptions",
    "GoodputCalculator",
    "GoodputMonitor",
    "GoodputRecorder",
    "GoodputType",
    "IntervalMetricType",
    "IntervalWorkloadMetricDetails",
    "MetricType",
    "WorkloadMetricDetails",
    "compat_account",
    "compat_window",
    "goodput",
    "goodput_elastic",
    "goodput_utils",
    "monitoring",
    "monitoring_elastic",
]
