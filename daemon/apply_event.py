"""Drives the pipeline, live and from the journal in the same way: what fails now fails when recovered."""

import logging
from pathlib import Path

from ..intents.effects import Effect
from ..intents.events import Event
from ..intents.pipeline import Pipeline
from .journal import JournalReader

log = logging.getLogger("scrtune.daemon")

FAILED_ON = "events that scrtune failed on: a bug, see daemon.log"
_TOLD = 10


def apply_event(pipeline: Pipeline, event: Event, now: float) -> list[Effect]:
    """``pipeline.handle``; an event that it fails on costs only itself, is counted as lost and told."""
    try:
        return pipeline.handle(event, now)
    except Exception:
        lost = pipeline.counters.lost
        lost[FAILED_ON] = lost.get(FAILED_ON, 0) + 1
        if lost[FAILED_ON] <= _TOLD:
            log.exception("%s: it is left out, everything else goes on", type(event).__name__)
        return []


def replayed(journal: Path) -> tuple[Pipeline, float]:
    """The pipeline as a journal left it, and the time of the last record. Raises what reading raises."""
    pipeline, last_s = Pipeline(), 0.0
    for now, event in JournalReader(journal):
        apply_event(pipeline, event, now)
        last_s = now
    return pipeline, last_s
