"""What the daemons of a job say to each other: a beat, and the reply to it (`docs/cluster.md`).

Both are MessagePack. Events travel in a beat as an envelope of :mod:`scrtune.client.transport.wire`.
"""

from typing import TypeVar

import msgspec

from ...goodput.validation import is_within_bounds
from ...intents.events import Name, SettingsObserved

CLUSTER_VERSION = 1
LARGEST_MESSAGE_BYTES = 16 * 1024 * 1024


class MessageError(ValueError):
    """No message of this protocol; the text says what is wrong, without values."""


class Address(msgspec.Struct, frozen=True, array_like=True):
    """A node of the job, where its daemon listens, and its place in the job's order of nodes."""

    host: Name
    endpoint: Name
    order: int = 0

    @property
    def place(self) -> tuple[int, str]:
        """What nodes are sorted by: the lower leads first."""
        return self.order, self.host


class Leadership(msgspec.Struct, frozen=True, array_like=True):
    """The node that decides for all since `since_s` (epoch seconds, its own clock).

    `term` grows with each leader. `is_heard`: rank 0 has spoken to its daemon, so the ranks obey it.
    """

    address: Address
    term: int
    since_s: float
    is_heard: bool
    why: Name = ""

    @property
    def host(self) -> str:
        """The node that leads."""
        return self.address.host


class Holding(msgspec.Struct, frozen=True, array_like=True):
    """How much a node has of a file of the leader's."""

    name: Name
    version: Name = ""
    size: int = 0


class Part(msgspec.Struct, frozen=True, array_like=True):
    """A part of a file of the leader's, which has `size` bytes now."""

    name: Name
    version: Name
    offset: int
    size: int
    data: bytes


class Beat(msgspec.Struct, frozen=True, array_like=True):
    """A node is there. `number` counts its beats that had events; `job_key` names the job that it knows.

    A node that is to hold the leader's state says what it has of it in `holding`.
    """

    version: int
    job_id: Name
    sender: Address
    time_s: float
    leader: Leadership | None = None
    number: int = 0
    events: bytes = b""
    job_key: int = 0
    holding: tuple[Holding, ...] | None = None


class Reply(msgspec.Struct, frozen=True, array_like=True):
    """The answer to a beat. `line` are the next leaders, should this one be lost; `nodes` how many there are.

    The job is told to those that do not know it: its directories, and the processes on that node. Of its
    state a node that said what it holds is sent the next `part`; none is left where `has_all`.
    """

    version: int
    job_id: Name
    sender: Address
    leader: Leadership | None = None
    number: int = 0
    line: tuple[Address, ...] = ()
    nodes: int = 1
    job_key: int = 0
    job: SettingsObserved | None = None
    part: Part | None = None
    has_all: bool = False


class _Versioned(msgspec.Struct, frozen=True, array_like=True):
    version: int


Message = TypeVar("Message", Beat, Reply)

_encoder = msgspec.msgpack.Encoder()
_version_decoder = msgspec.msgpack.Decoder(_Versioned)
_NOT_UNDERSTOOD = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def encode(message: Beat | Reply) -> bytes:
    """Return `message` as it is sent."""
    return _encoder.encode(message)


def decode(kind: type[Message], data: bytes, job_id: str) -> Message:
    """Return a message of `job_id` that is of this `kind`. Raises :class:`MessageError`."""
    try:
        if (version := _version_decoder.decode(data).version) != CLUSTER_VERSION:
            raise MessageError(f"messages of protocol version {version}, not {CLUSTER_VERSION}")
        message = msgspec.msgpack.decode(data, type=kind)
    except _NOT_UNDERSTOOD as error:
        raise MessageError("messages that are none of this protocol") from error
    if message.job_id != job_id:
        raise MessageError("messages of another job")
    if not _is_within_bounds(message):
        raise MessageError("messages with a number or text out of bounds")
    return message


def _is_within_bounds(message: msgspec.Struct) -> bool:
    """Return the same as for an event, of all that is no file's or envelope's content."""
    values = msgspec.structs.astuple(message)
    return all(
        _is_within_bounds(value) if isinstance(value, Part) else is_within_bounds(value)
        for value in values
        if not isinstance(value, bytes)
    )
