"""Intent 4 of the LLNL study: whether what an earlier job left in the cache is wanted, and what was found."""

import msgspec

from ....goodput.events import RestartCompleted
from ....units import count_text
from ...events import SettingsObserved
from ...intent import Evidence, Intent

PURGE = "SCR_CACHE_PURGE"


class CleanStart(msgspec.Struct, Intent, frozen=True, kw_only=True):
    """Whether a clean start was `declared`, and made: `purged` when a run's SCR_Init emptied the cache.

    `runs` of the job so far; the last one read the checkpoint `restarted` from `source` (empty: none).
    """

    title, number = "clean start", 4
    unseen = "the job has not described itself yet"

    evidence: Evidence = Evidence()
    declared: bool = False
    purged: bool = False
    runs: int = 0
    restarted: str = ""
    source: str = ""

    def _text(self) -> str:
        wanted = "what an earlier job left in the cache is kept; nothing else was asked for"
        if self.declared:
            made = "the first SCR_Init deleted it" if self.purged else "no SCR_Init deleted it"
            wanted = f"what an earlier job left in the cache is not wanted: {made}"
        found = f"run {self.runs} went on from {self.restarted!r} ({self.source})"
        begun = f"run {self.runs} read no checkpoint"
        return f"{wanted}; {found if self.source else begun}"


class CleanStartObserver:
    """Looks how each run of the job begins."""

    def __init__(self) -> None:
        self.seen = CleanStart()

    def begin_run(self, job: SettingsObserved, now: float) -> None:
        """Take in that a run of `job` begins at `now`."""
        is_declared, runs = job.declared.clean_start, self.seen.runs + 1
        self.seen = CleanStart(
            evidence=Evidence(count=runs, end_s=now, source="the starts of the job", declared=is_declared),
            declared=is_declared,
            purged=self.seen.purged or (is_declared and bool(job.settings.get(PURGE))),
            runs=runs,
        )

    def add(self, restart: RestartCompleted) -> None:
        """Take in that a checkpoint was read."""
        if restart.valid:
            name = restart.name or count_text(restart.dataset, "dataset")
            self.seen = msgspec.structs.replace(self.seen, restarted=name, source=restart.source)
