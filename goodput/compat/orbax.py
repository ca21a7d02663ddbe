"""Orbax's logger of saves and restores, over a local log: what MaxText passes to its checkpoint manager.

    from orbax.checkpoint.logging import CloudLogger, CloudLoggerOptions          # before
    from scrtune.goodput.compat.orbax import CloudLogger, CloudLoggerOptions      # after

With the `logger_name` of the job's recorder, saves and restores are badput of the job.
"""

from dataclasses import dataclass

from .store import Entry, LocalLog


@dataclass(frozen=True)
class CloudLoggerOptions:
    """The job, and the log it is recorded in; `client` and `checkpoint_metadata` change nothing."""

    job_name: str = "checkpoint_job"
    logger_name: str = "checkpoint_logger"
    client: object = None
    checkpoint_metadata: object = None


class CloudLogger:
    """Writes what a ``CheckpointManager(..., logger=...)`` reports to the log of a job."""

    def __init__(self, options: CloudLoggerOptions | None = None) -> None:
        self.options = options or CloudLoggerOptions()
        self.job_name, self.log_name = self.options.job_name, self.options.logger_name
        self._log = LocalLog(self.log_name)

    def log_entry(self, entry: Entry, severity: str | None = "INFO") -> None:  # noqa: ARG002
        """Write down a save or a restore; no disk is waited for, and nothing raised because of it."""
        self._log.append({**entry, "job_name": self.job_name})
