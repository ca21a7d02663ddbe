"""``GoodputRecorder`` of ml-goodput-measurement, over a local log."""

from collections.abc import Callable

from ..log.store import CloudLogger, LogStore, store_of, utc_now
from ..peer_rules.peer_names import JobNames, Moment, PeerNames
from .entries import checkpoint_entry, interval_entry


class GoodputRecorder(JobNames):
    """Writes down when a job, its steps and all that is not training begin and end.

    One process of a job has `logging_enabled`; with the others, every call returns at once. `logger_name`
    names the log (:func:`~.line_log.log_path`). `cloud_logger` takes another :class:`~.store.LogStore`, or
    a logger with the peer's two methods. No call waits for a disk or a network, and none fails because of
    the log; the three ``background_`` settings change nothing.
    """

    def __init__(  # noqa: PLR0913  the peer's signature
        self,
        job_name: str,
        logger_name: str,
        logging_enabled: bool = False,
        cloud_logger: LogStore | CloudLogger | None = None,
        *,
        background_grace_period_s: float = 5.0,  # noqa: ARG002
        background_batch_size: int = 100,  # noqa: ARG002
        background_max_latency_s: float = 2.0,  # noqa: ARG002
    ) -> None:
        self.job_name = job_name
        self._store = store_of(cloud_logger, logger_name) if logging_enabled else None

    def flush(self) -> None:
        """Return when all that was recorded is safe on disk, or after a second; it is told when it is not."""
        if self._store is not None:
            self._store.flush()

    def job_started(self, ranks: int = 1, nodes: int = 1, at: Moment = None) -> None:  # noqa: ARG002
        """The job, or its next run, starts; its entries have no number of ranks or nodes."""
        self._write(lambda: {"job_start_time": _seconds(at)})

    def job_ended(self, exit_code: int | None = None, at: Moment = None) -> None:  # noqa: ARG002
        """The job ends; its entries have no exit code."""
        self._write(lambda: {"job_end_time": _seconds(at)})

    def step_started(self, step: int, at: Moment = None) -> None:
        """A step begins; it lasts until the next one does."""
        self._write(lambda: {"step_count": int(step), "step_start_time": _seconds(at)})

    def started(self, kind: str, name: str = "", at: Moment = None) -> None:
        """An interval of a kind of :data:`~.entries.PREFIXES` begins."""
        self._write(lambda: interval_entry(kind, "start", _seconds(at), name))

    def ended(self, kind: str, name: str = "", at: Moment = None) -> None:
        """It ends."""
        self._write(lambda: interval_entry(kind, "end", _seconds(at), name))

    def checkpointed(
        self, kind: str, step: int, start: Moment, end: Moment = None, directory: str = ""
    ) -> None:
        """A ``checkpoint_save`` or ``checkpoint_restore`` blocked the training from `start` to `end`."""
        event_type = kind.removeprefix("checkpoint_")
        self._write(
            lambda: checkpoint_entry(event_type, int(step), _seconds(start), _seconds(end), directory)
        )

    def _write(self, entry: Callable[[], dict[str, object]]) -> None:
        if self._store is not None:
            self._store.append({"job_name": self.job_name, **entry()})


class ElasticGoodputRecorder(GoodputRecorder, PeerNames):
    """A recorder for jobs whose number of slices changes while they run."""

    def slices(self, active: int, total: int, available: int = 0, at: Moment = None) -> None:
        """How many slices work, are asked for, and could be had."""
        self._write(
            lambda: {
                "active_slices": int(active),
                "total_slices": int(total),
                "available_slices": int(available),
                "elastic_slice_counts_timestamp": _seconds(at),
            }
        )


def _seconds(moment: Moment) -> float:
    """Epoch seconds; a datetime without a zone is local."""
    if moment is None:
        return utc_now().timestamp()
    return float(moment) if isinstance(moment, float | int) else moment.timestamp()
