"""A decoder that has a scanner beside one that has none."""

from collections.abc import Callable, Iterable, Sequence

from scrtune.client.capture.scanner import NativeScanner
from scrtune.intents.events import TraceDigest
from scrtune.intents.trace.decoder import TraceDecoder
from scrtune.intents.trace.scanner_protocol import Stop

from ...support.trace_lines import TIERS, TRACES, content

FILES = {f"{path.parent.name}/{path.name}": content(path) for path in sorted(TRACES.glob("*/*.pfw*"))}


class Watched(NativeScanner):
    """Counts the lines that were scanned."""

    lines = 0

    def scan(self, data: bytes, start: int, end: int, source: str, room: int) -> Stop:
        stop = super().scan(data, start, end, source, room)
        self.lines += stop.lines
        return stop


Step = tuple[bytes, str] | dict[str, str] | None
"""Lines of a source, new tiers, or a take."""


def digests_of(decoder: TraceDecoder, steps: Iterable[Step]) -> list[TraceDigest | None]:
    """Every digest after these steps."""
    taken: list[TraceDigest | None] = []
    for step in steps:
        if step is None:
            taken.append(decoder.take())
        elif isinstance(step, dict):
            decoder.set_tiers(step)
        else:
            decoder.feed(*step)
    taken.append(decoder.take(final=True))
    return taken


def assert_same(native: Callable[[], Watched], steps: Sequence[Step]) -> int:
    """Compare a decoder that has a scanner with one that has none; return the number of lines scanned."""
    found = native()
    plain, scanning = TraceDecoder(TIERS), TraceDecoder(TIERS, found)
    assert digests_of(scanning, steps) == digests_of(plain, steps)
    assert scanning.blank == plain.blank
    return found.lines
