"""Which processes of this node are the job's ranks: as the application says, else as the system shows."""

import re
from collections.abc import Iterator

import psutil

from ..client.paths import JobPaths
from ..intents.events import SettingsObserved

_LIBSCR = re.compile(r"/libscr(?!tune)[^/\n]*\.so")


class Ranks:
    """The ranks on this node. An application under the preloaded library does not say which they are."""

    def __init__(self, paths: JobPaths) -> None:
        self._paths = paths
        self._job: SettingsObserved | None = None
        self._found: list[int] = []

    def pids(self, job: SettingsObserved) -> list[int]:
        """Those of this node that `job` names; where it names none, the job's processes that have libscr.

        They are looked for until some are found, once for each run: by then SCR_Init has returned on all.
        """
        if job.processes:
            return [pid for host, pid in job.processes if host == self._paths.host]
        if job is not self._job or not self._found:
            self._job = job
            self._found = sorted(each.pid for each in psutil.process_iter() if self._is_rank(each))
        return self._found

    def _is_rank(self, process: psutil.Process) -> bool:
        """Whether it was started with this job's variables and has mapped libscr; others' are none."""
        try:
            variables = process.environ()
            is_of_job = variables.get("SCRTUNE_JOB_ID") == self._paths.job_id and variables.get(
                "SCRTUNE_EVENTS_FILE"
            ) == str(self._paths.library_events)
            return is_of_job and any(map(_LIBSCR.search, _maps(process.pid)))
        except (psutil.Error, OSError):
            return False


def _maps(pid: int) -> Iterator[str]:
    with open(f"/proc/{pid}/maps", encoding="utf-8", errors="replace") as lines:  # noqa: PTH123
        yield from lines
