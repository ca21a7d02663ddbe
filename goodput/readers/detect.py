"""Which form a file of a job's time has, by its first bytes."""

import re
from typing import Literal

Form = Literal["journal", "gzip", "scr log", "dftracer", "json"]

MARK = b"\xef\xbb\xbf"
"""The byte order mark that some editors begin a file with."""
HEAD_BYTES = 64 * 1024
"""What :func:`detect` wants to see of a file."""

_LINES: dict[Form, re.Pattern[bytes]] = {
    "dftracer": re.compile(rb'\s*\{.*"cat"\s*:.*"ph"\s*:'),
    "scr log": re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d: host=.*?, jobid=.*?, (?:event|xfer)="),
    "json": re.compile(rb"\s*(?:\[\{|\{.*\},?\s*$)"),
}


def detect(head: bytes) -> Form | None:
    """Return what a file is by its first :data:`HEAD_BYTES`, or None when it is nothing that is known."""
    head = head.removeprefix(MARK)
    if head.startswith(b"scrtune journal "):
        return "journal"
    if head.startswith(b"\x1f\x8b"):
        return "gzip"
    for line in head.split(b"\n"):
        for form, pattern in _LINES.items():
            if pattern.match(line):
                return form
    # an array that is printed over several lines; or the whole file is one line, longer than what we see
    return "json" if head.lstrip()[:1] in (b"[", b"{") else None
