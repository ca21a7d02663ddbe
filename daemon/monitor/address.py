"""Where the metrics endpoint listens, as `--metrics` says it."""

import re
from pathlib import Path

import msgspec

IN_RUN_DIRECTORY = "metrics.sock"
_LOOPBACK = "127.0.0.1"
_PLACE = re.compile(r"(?:(\[[0-9A-Fa-f:.]+(?:%\w+)?\]|[^\[\]:\s]+):)?(\d{1,5})", re.ASCII)
_LAST_PORT = 65_535
_SOCKET_PATH_LIMIT_BYTES = 107  # sun_path of unix(7), less its terminating zero


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """A host and a port, or the path of a unix socket."""

    host: str = ""
    port: int = 0
    path: Path | None = None

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix:{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def address_of(text: str, run_directory: Path) -> Address:
    """The address that `text` means: ``unix``, ``unix:PATH``, ``PORT`` of loopback, ``HOST:PORT``.

    ``unix`` alone is a socket in the run directory, which is the user's alone. Port 0 is any that is free.
    Raises ValueError, with what to write instead.
    """
    kind, _, path = text.partition(":")
    if kind == "unix":
        place = Path(path).absolute() if path else run_directory / IN_RUN_DIRECTORY
        if len(str(place).encode(errors="surrogateescape")) > _SOCKET_PATH_LIMIT_BYTES:
            raise ValueError(
                f"{place} is longer than the {_SOCKET_PATH_LIMIT_BYTES} bytes of a socket's path"
            )
        return Address(path=place)
    match = _PLACE.fullmatch(text)
    if match is None or int(match[2]) > _LAST_PORT:
        raise ValueError(
            f"{text!r} is no address; write PORT or {_LOOPBACK}:PORT for this node alone, 0.0.0.0:PORT for"
            " every interface, unix:PATH for a socket, or unix for one in the run directory"
        )
    return Address(host=(match[1] or _LOOPBACK).strip("[]"), port=int(match[2]))
