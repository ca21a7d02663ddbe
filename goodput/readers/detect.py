"""Which form a file of a job's time has, by its first bytes."""

import re
from typing import Literal

Form = Literal["journal", "gzip", "scr log", "dftracer", "json"]

MARK = b"\xef\xbb\xbf"
"""The byte order mark that some editors begin a file with."""
HEAD_BYTES = 64 * 1024
"""What :func:`detect` wants to see of a file."""

_JOURNAL = b"scrtune journal "
_GZIP = b"\x1f\x8b"
_SCR_LINE = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d: host=.*?, jobid=.*?, (?:event|xfer)=")
_TRACE_LINE = re.compile(rb'\s*\{.*"cat"\s*:.*"ph"\s*:')


def detect(head: bytes) -> Form | None:
    """Return what a file is by its first :data:`HEAD_BYTES`, or None when it is nothing that is known."""
    head = head.removeprefix(MARK)
    if head.startswith(_JOURNAL):
        return "journal"
    if head.startswith(_GZIP):
        return "gzip"
    for line in head.split(b"\n"):
        if _TRACE_LINE.match(line):
            return "dftracer"
        if _SCR_LINE.match(line):
            return "scr log"
        text = line.strip()
        if text.startswith(b"[{") or (text.startswith(b"{") and text.endswith((b"}", b"},"))):
            return "json"
    # an array that is printed over several lines; or the whole file is one line, longer than what we see
    return "json" if head.lstrip()[:1] in (b"[", b"{") else None
