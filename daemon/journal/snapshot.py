"""The state of a daemon on disk, so that the next one replays only what the journal has since then.

A snapshot is a shortcut and nothing else: where it does not fit, it is ignored, and all of the journal is
replayed. It fits when the same scrtune wrote it and the journal still has, up to there, what it had.
"""

import hashlib
import io
import logging
import os
import pickle
import stat
import struct
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from ...client.paths import JobPaths
from ...goodput.steps.recent import RecentSteps
from ...heap import give_back
from ...intents.pipeline import Pipeline
from ...scr_config.files import write_atomic
from .journal import Journal, apply_event
from .records import JournalReader, Senders

log = logging.getLogger("scrtune.daemon")

# a restart replays what came since the last snapshot: this is 0.3 s of it; one costs 5 % of the time at most
SNAPSHOT_EVENTS, _PACE = 4096, 20.0

_MODE = 0o600
_LIMIT_BYTES = 256 * 1024 * 1024
_LENGTH = struct.Struct("<Q")
_SEEN_BYTES = 4096  # of the journal, before where the snapshot ends
_PACKAGE = Path(__file__).parents[2]
_OURS = Pipeline.__module__.partition(".")[0] + "."
_OTHERS = {
    "array": "_array_reconstructor array",
    "builtins": "frozenset set slice",
    "collections": "Counter defaultdict deque",
    "msgspec._utils": "rebuild",
    "numpy": "dtype ndarray",
    "numpy._core.multiarray": "_reconstruct scalar",
    "numpy._core.numeric": "_frombuffer",
    "numpy.core.multiarray": "_reconstruct scalar",
    "numpy.core.numeric": "_frombuffer",
    "numpy.random._pcg64": "PCG64",
    "numpy.random._pickle": "__bit_generator_ctor __generator_ctor",
    "numpy.random.bit_generator": "SeedSequence __pyx_unpickle_SeedSequence",
}
"""What is not ours and makes up a state: of these nothing runs code that the file brings."""


class State(NamedTuple):
    """What the events of the journal up to `end` (bytes), `number` of them until `last_s`, have come to."""

    pipeline: Pipeline
    steps: RecentSteps
    senders: Senders
    end: int
    number: int
    last_s: float


class SnapshotError(ValueError):
    """A snapshot that does not fit; the text says why."""


class Snapshots:
    """Writes snapshots of one daemon: the loop only copies its state, a thread compresses and writes."""

    def __init__(self, paths: JobPaths) -> None:
        self._paths = paths
        self._thread: threading.Thread | None = None
        self._next_s = 0.0
        self._packed_s: float | None = None

    @property
    def is_due(self) -> bool:
        """Return whether the journal is packed, and the snapshot of that is still to be taken."""
        return self._packed_s is not None

    def keep(
        self, journal: Journal, pipeline: Pipeline, steps: RecentSteps, senders: Callable[[], Senders]
    ) -> None:
        """Pack the journal, and write a snapshot in the next turn, when enough has come since the last."""
        begun_s = time.monotonic()
        try:
            if self._packed_s is not None:
                begun_s, self._packed_s = self._packed_s, None
                self.write(journal, pipeline, steps, senders())
            elif journal.unsealed >= SNAPSHOT_EVENTS and begun_s >= self._next_s and not journal.error:
                journal.seal()
                self._packed_s = begun_s
            else:
                return
        except Exception as error:  # noqa: BLE001 - the journal is as good as before, only longer
            log.warning("the journal could not be packed (%s); a restart replays more", error)
        self._next_s = begun_s + _PACE * (time.monotonic() - begun_s)

    def write(self, journal: Journal, pipeline: Pipeline, steps: RecentSteps, senders: Senders) -> None:
        """Write the state that a flushed `journal` has come to, unless the last is still being written."""
        if self._thread is not None and self._thread.is_alive():
            return
        state = State(pipeline, steps, senders, journal.end, journal.number, journal.last_s)
        seen = _seen(self._paths.journal, state.end)
        arrays: list[pickle.PickleBuffer] = []  # of numpy's, which nobody changes: they need no copy
        content = pickle.dumps((seen, state), 5, buffer_callback=arrays.append)
        give_back()  # before messages come to lie in what pickling needed
        parts: list[bytes | memoryview] = [content, *(each.raw() for each in arrays)]
        self._thread = threading.Thread(target=self._write, args=[parts], name="snapshot", daemon=True)
        self._thread.start()

    def wait(self, seconds: float) -> None:
        """Wait for the one that is being written, so long at most."""
        if self._thread is not None:
            self._thread.join(seconds)

    def _write(self, parts: list[bytes | memoryview]) -> None:
        try:
            write_atomic(self._paths.snapshot, _fingerprint() + _packed(parts), durable=False, mode=_MODE)
        except OSError as error:
            log.warning("no snapshot could be written: %s; a restart replays more", error.strerror)
        parts.clear()  # else it would be freed only after this
        give_back()


def _packed(parts: list[bytes | memoryview]) -> bytes:
    """Return `parts`, each with its length before it, compressed."""
    compressor = zlib.compressobj(1)
    packed = [compressor.compress(each) for part in parts for each in (_LENGTH.pack(len(part)), part)]
    return b"".join([*packed, compressor.flush()])


def _unpacked(packed: bytes) -> Iterator[bytearray]:
    """Yield the parts, each where it may be changed. Raises zlib.error and struct.error."""
    content, at = zlib.decompressobj().decompress(packed, _LIMIT_BYTES), 0
    while at < len(content):
        (size,) = _LENGTH.unpack_from(content, at)
        at += _LENGTH.size + size
        yield bytearray(content[at - size : at])


def restore(paths: JobPaths) -> State | None:
    """Return the state of the last snapshot; None when there is none that fits."""
    try:
        return _read(paths)
    except FileNotFoundError:
        return None
    except Exception as error:  # noqa: BLE001 - whatever is wrong with it, there is the journal
        log.warning("%s: ignored (%s); the whole journal is replayed", paths.snapshot, error)
        return None


def recovered(paths: JobPaths) -> tuple[Pipeline, float]:
    """Return the pipeline as the job's journal left it, and the time of its last record.

    The same as :func:`scrtune.daemon.journal.journal.replay_journal`, and faster. Raises as reading does.
    """
    state = restore(paths) or State(Pipeline(), RecentSteps(), {}, end=0, number=0, last_s=0.0)
    pipeline, last_s = state.pipeline, state.last_s
    for now, event in JournalReader(paths.journal, state.end, state.number):
        apply_event(pipeline, event, now)
        last_s = now
    return pipeline, last_s


def _read(paths: JobPaths) -> State:
    descriptor = os.open(paths.snapshot, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    with os.fdopen(descriptor, "rb") as file:
        status = os.fstat(descriptor)
        if status.st_uid != os.geteuid() or stat.S_IMODE(status.st_mode) != _MODE:
            raise SnapshotError("it is not yours alone")
        if file.read(len(_fingerprint())) != _fingerprint():
            raise SnapshotError("another scrtune wrote it")
        content, *arrays = _unpacked(file.read())
    seen, state = _Unpickler(io.BytesIO(content), buffers=arrays).load()
    if not isinstance(state, State) or seen != _seen(paths.journal, state.end):
        raise SnapshotError("it is of another journal")
    return state


def _seen(journal: Path, end: int) -> tuple[int, bytes]:
    """Return what tells a journal that had this up to `end` from another one."""
    with journal.open("rb") as file:
        file.seek(max(0, end - _SEEN_BYTES))
        last = file.read(min(end, _SEEN_BYTES))
    return len(last), hashlib.sha256(last).digest()


def sources() -> list[Path]:
    """Return the modules whose classes a snapshot has: one that was written under others does not fit."""
    return sorted(path for room in ("goodput", "intents") for path in (_PACKAGE / room).rglob("*.py"))


@cache
def _fingerprint() -> bytes:
    """Return what tells this scrtune from any other."""
    seen = [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in sources()]
    return hashlib.sha256(repr(seen).encode()).digest()


def _member(kind: type[Enum], name: str) -> Enum:
    """Return a member of an Enum: what `getattr` may do here."""
    return kind.__members__[name]


class _Unpickler(pickle.Unpickler):
    """Knows our own classes, and what they are made of."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == ("builtins", "getattr"):  # of an Enum's member, by Python 3.11.2
            return _member
        if name in _OTHERS.get(module, "").split():
            return super().find_class(module, name)
        found = super().find_class(module, name) if module.startswith(_OURS) else None
        if not isinstance(found, type) or found.__module__ != module:
            raise SnapshotError(f"it has a {module}.{name}")
        return found
