"""What a shared library says of itself: which others it needs. By the ELF specification, 64-bit."""

import struct
from collections.abc import Iterator
from pathlib import Path

_PT_LOAD, _PT_DYNAMIC = 1, 2
_DT_NEEDED, _DT_STRTAB = 1, 5


def needed(path: Path) -> tuple[str, ...]:
    """The libraries that `path` asks the loader for (DT_NEEDED), in order.

    Raises OSError, and ValueError when it is no 64-bit shared library.
    """
    data = path.read_bytes()
    if data[:5] != b"\x7fELF\x02":
        raise ValueError("it is no 64-bit shared library")
    try:
        return tuple(_needed(data, "<" if data[5] == 1 else ">"))
    except (struct.error, IndexError, ValueError):
        raise ValueError("it is a damaged shared library") from None


def _needed(data: bytes, order: str) -> Iterator[str]:
    table, _sections, _flags, _header, size, count = struct.unpack_from(order + "QQIHHH", data, 32)
    segments = [struct.unpack_from(order + "IIQQQQ", data, table + size * number) for number in range(count)]
    loaded = [
        (address, offset, length) for kind, _, offset, address, _, length in segments if kind == _PT_LOAD
    ]
    for kind, _, offset, _, _, length in segments:
        if kind != _PT_DYNAMIC:
            continue
        entries = [struct.unpack_from(order + "qQ", data, at) for at in range(offset, offset + length, 16)]
        (strings,) = (value for tag, value in entries if tag == _DT_STRTAB)
        (start,) = (strings - base + at for base, at, long in loaded if base <= strings < base + long)
        for tag, value in entries:
            if tag == _DT_NEEDED:
                yield data[start + value : data.index(b"\0", start + value)].decode()
