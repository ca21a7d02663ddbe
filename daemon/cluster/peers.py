"""The nodes of a job, by which the daemons find each other: a file for each in a directory that all see.

Its name has the node's place in the job's order, its text the endpoint. Where no directory is shared,
``--peers`` names all of them, in this order. Only the first ones are ever needed: they know who leads.
"""

import os
import socket
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

from ...client.paths import private_directory
from ...scr_config.files import write_atomic
from .messages import Address

_ANY_PORT = 0
_PORT_OF_NOBODY = 9  # discard: nothing is sent
_OUTSIDE = (
    "192.0.2.1"  # of a range that is nobody's: by it the system says which address the default route has
)
_MOST_FILES = 32


class PeersError(ValueError):
    """The nodes cannot be known; the text says why and what to write instead."""


class Peers:
    """The nodes of a job as this one knows them before any has spoken."""

    def __init__(
        self, directory: Path, named: tuple[str, ...], host: str, environment: Mapping[str, str]
    ) -> None:
        """Raises :class:`PeersError` for `named` that are no ``HOST:PORT``, or without this `host`."""
        self._directory = directory / "nodes"
        self._named = tuple(_address(text, order) for order, text in enumerate(named))
        self._host = host
        self._order = _order(environment)
        address = own_address(environment)
        self.listens_at = (address, self._port_before(address))
        """Address and port to listen at; a daemon that is started again has the port that it had."""
        if named:
            own = next((each for each in self._named if each.host == host), None)
            if own is None:
                raise PeersError(f"this node, {host}, is not among --peers {','.join(named)}; name it there")
            at = urlsplit(own.endpoint)
            self._order, self.listens_at = own.order, (str(at.hostname), at.port or _ANY_PORT)

    def _port_before(self, address: str) -> int:
        with suppress(OSError, ValueError):
            before = urlsplit(self._path(Address(self._host, "", self._order)).read_text(encoding="ascii"))
            if before.hostname == address.strip("[]"):
                return before.port or _ANY_PORT
        return _ANY_PORT

    def announce(self, endpoint: str) -> Address:
        """Tell the others that this node listens at `endpoint`. Raises OSError."""
        own = Address(self._host, endpoint, self._order)
        if not self._named:
            private_directory(self._directory, "SCR_PREFIX")
            write_atomic(self._path(own), endpoint.encode(), durable=False, mode=0o600)
        return own

    def leave(self, own: Address) -> None:
        """Take that back."""
        if not self._named:
            with suppress(OSError):
                self._path(own).unlink()

    def first(self) -> list[Address]:
        """Return the first nodes, in the job's order: those that are known now."""
        if self._named:
            return list(self._named[:_MOST_FILES])
        found = []
        with suppress(OSError):
            for name in sorted(os.listdir(self._directory))[:_MOST_FILES]:  # noqa: PTH208
                order, _, host = name.partition("-")
                with suppress(OSError, ValueError):
                    endpoint = (self._directory / name).read_text(encoding="ascii")
                    found.append(Address(host, endpoint, int(order)))
        return found

    def _path(self, own: Address) -> Path:
        return self._directory / f"{own.order:06d}-{own.host}"


def _order(environment: Mapping[str, str]) -> int:
    """Return this node's place in the order of the job's nodes, as Slurm or Flux have it; 0: by name."""
    places = (environment.get(name, "") for name in ("SLURM_NODEID", "FLUX_TASK_RANK"))
    return next((int(place) for place in places if place.isdecimal()), 0)


def _address(text: str, order: int) -> Address:
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal():
        raise PeersError(f"--peers {text}: write HOST:PORT of each node, with commas between them")
    return Address(host.split(".")[0], f"tcp://{text}", order)


def own_address(environment: Mapping[str, str]) -> str:
    """Return the address that other nodes reach this one at: ``SCRTUNE_ADDRESS``, else as the system routes.

    That is the address of the way to where srun was started, or of the default route; without a network
    that of loopback.
    """
    if own := environment.get("SCRTUNE_ADDRESS"):
        return own
    for target in (environment.get("SLURM_LAUNCH_NODE_IPADDR", ""), _OUTSIDE):
        with suppress(OSError, ValueError):
            if not ip_address(target).is_loopback:
                return _source_address(target)
    return "127.0.0.1"


def _source_address(target: str) -> str:
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as route:
        route.connect((target, _PORT_OF_NOBODY))
        found = str(route.getsockname()[0])
    return f"[{found}]" if ":" in found else found
