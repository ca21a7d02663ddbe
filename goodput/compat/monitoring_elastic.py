"""The peer's module `monitoring_elastic`."""

from .goodput_utils import GCPOptions
from .monitoring import ElasticGoodputMonitor

__all__ = ["ElasticGoodputMonitor", "GCPOptions"]
