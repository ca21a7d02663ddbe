"""Records, like those of SCR's log, from the lines that SCR prints when SCR_DEBUG is 1 or more.

    SCR v3.1.0: rank 0 on n1: wait async flush: 0.450333 secs

The lines have no times, and mostly do not say of which dataset they are: that follows from the lines before.
They have what the log has not: how long SCR_Start_output waited for an earlier flush, and how long it took to
start one. They come on the standard output of rank 0, which may be buffered: late.
"""

import re
from collections.abc import Iterator

import msgspec

from .log import Record

_LINE = re.compile(r"SCR v?\d[^ :]*: rank 0 on [^ ]*: (?P<text>.*)")
_DATASET = re.compile(
    r"(?P<what>Starting dataset|Initiating flush of dataset|Initiating async flush of dataset"
    r"|Completing async flush of dataset) (?P<number>\d{1,9}) `"
)
_STATS = re.compile(
    r"(?P<what>[a-z_ ]+): (?P<secs>\d{1,15}\.\d{6}) secs"
    r"(?:, (?P<files>\d{1,9}) files, (?P<bytes>\d\.\d{6}e[+]\d{2}) bytes)?"
)
_NAMES = {
    "scr write stats": "WRITE",
    "scr_reddesc_apply": "ENCODE",
    "wait async flush": "WAIT",
    "scr_flush_async_start": "ASYNC_START",
    "scr_flush_sync": "SYNC_FLUSH",
    "scr_flush_async_complete": "FLUSH_ASYNC",
}


class ScrDebug:
    """Turns the lines of rank 0, in their order, into records for :class:`.join.Joiner`."""

    def __init__(self) -> None:
        self._dataset: int | None = None
        self._flushing: int | None = None
        self._wait: Record | None = None
        self._fetching = False

    def records(self, output: bytes) -> Iterator[Record]:
        """Yield the records in whole lines of a job's output. All else that jobs print is passed over."""
        for line in output.decode("utf-8", "replace").split("\n"):
            match = _LINE.search(line.rstrip("\r"))
            if match is not None:
                yield from self._records(match["text"])

    def _records(self, text: str) -> Iterator[Record]:
        if text.startswith("Attempting fetch: "):
            self._fetching = True
        elif text.startswith("scr_fetch_dset: "):
            self._fetching = False
        elif match := _DATASET.match(text):
            yield from self._begins(match["what"], int(match["number"]))
        elif (match := _STATS.match(text)) and match["what"] in _NAMES:
            yield from self._took(_NAMES[match["what"]], match)

    def _begins(self, what: str, number: int) -> Iterator[Record]:
        if what != "Starting dataset":
            self._flushing = number
            return
        self._dataset, self._fetching = number, False
        if self._wait is not None:
            yield msgspec.structs.replace(self._wait, dataset=number)
            self._wait = None

    def _took(self, name: str, match: re.Match[str]) -> Iterator[Record]:
        record = Record(
            name=name,
            is_transfer=True,
            seconds=float(match["secs"]),
            bytes=None if match["bytes"] is None else int(float(match["bytes"])),
            files=None if match["files"] is None else int(match["files"]),
        )
        if name == "WAIT":
            self._wait = record  # it is printed before the dataset that waited
            return
        number = self._flushing if "FLUSH" in name or name == "ASYNC_START" else self._dataset
        if number is not None and not (self._fetching and name == "ENCODE"):
            yield msgspec.structs.replace(record, dataset=number)
