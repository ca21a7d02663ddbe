"""The metrics endpoint as the loop sees it: whether somebody asks, and a place to put the answer."""

import logging
import select
import socket
import threading
from pathlib import Path

from .address import Address
from .snapshot import Snapshot
from .unix_listener import listen_at

log = logging.getLogger("scrtune.daemon")

_RETRY_S = 10.0
_FRESH_S = 3.0
"""The loop looks every two seconds at the slowest; if it does not, the last numbers are better than none."""


class Doorbell:
    """The socket at `path` while nobody has asked there yet: a descriptor, no thread and no library.

    Raises OSError as :func:`listen_at` does.
    """

    failure = ""

    def __init__(self, path: Path) -> None:
        self._address = Address(path=path)
        self.name = f"metrics at {self._address}"
        self._path = path
        self._listener = listen_at(path)
        self._poll = select.poll()
        self._poll.register(self._listener, select.POLLIN)

    @property
    def rings(self) -> bool:
        """Whether somebody asks."""
        return bool(self._poll.poll(0))

    def answered(self) -> "Endpoint":
        """An endpoint that takes over, and answers who has asked."""
        return Endpoint(self._address, self._listener)

    def close(self) -> None:
        """Nobody has asked, and nobody will."""
        self._listener.close()
        self._path.unlink(missing_ok=True)


class Endpoint:
    """Serves snapshots at `address` on threads of its own, as soon as that is free.

    A scrape has the loop take a new snapshot and waits for it: one that nobody scrapes costs nothing. Raises
    RuntimeError when no thread can be started.
    """

    def __init__(self, address: Address, listener: socket.socket | None = None) -> None:
        self._listener = listener
        self.name = f"metrics at {address}"
        self.failure = ""
        self.is_asked = False
        """Whether a scrape waits for a snapshot."""
        self._address = address
        self._latest: Snapshot | None = None
        self._given = 0
        self._changed = threading.Condition()
        self._over = threading.Event()
        self._wake, self._woken = socket.socketpair()
        self._thread = threading.Thread(target=self._run, name="metrics", daemon=True)
        try:
            self._thread.start()
        except RuntimeError:  # there are no more
            self._wake.close()
            self._woken.close()
            raise

    def give(self, snapshot: Snapshot) -> None:
        """Answer those who wait with this one."""
        with self._changed:
            self._latest = snapshot
            self._given += 1
            self.is_asked = False
            self._changed.notify_all()

    def finish(self) -> None:
        """Listen no more; scrapes that are under way are left."""
        self._over.set()
        self._wake.close()

    def join(self, timeout_s: float) -> bool:
        """Whether nobody listens any more."""
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _listening(self, where: str) -> None:
        """Somebody can ask, `where`."""
        self.name, self.failure = f"metrics at {where}", ""
        log.info("%s", self.name)

    def _fresh(self) -> Snapshot | None:
        """The next snapshot, if it comes in time; on a scrape's own thread."""
        with self._changed:
            given = self._given
            self.is_asked = True
            self._changed.wait_for(lambda: self._given > given, _FRESH_S)
            return self._latest

    def _run(self) -> None:
        with self._woken:
            while not self._over.is_set():
                try:
                    from .prometheus import serve  # noqa: PLC0415  it loads prometheus_client

                    listener, self._listener = self._listener, None
                    serve(self._address, self._fresh, self._woken, self._listening, listener)
                except ImportError as error:
                    self._failed(f"{error}; pip install 'scrtune[monitoring]'")
                    return
                except Exception as error:  # noqa: BLE001  monitoring never ends a job
                    self._failed(f"{error}; it is tried again")
                    self._over.wait(_RETRY_S)

    def _failed(self, why: str) -> None:
        """Tell it, once while it stays the same."""
        if why != self.failure:
            log.error("no metrics at %s: %s", self._address, why)
        self.failure = why
