"""Who listens at a daemon's endpoint."""

import zmq

from scrtune.client.transport import wire
from scrtune.intents.events import Event


def kinds(events: list[Event]) -> list[str]:
    return [type(event).__name__ for event in events]


class Ear:
    """Who listens at the endpoint, and all that was heard."""

    def __init__(self, endpoint: str) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._endpoint = endpoint
        self.events: list[Event] = []
        self.messages: list[tuple[str, int]] = []
        self.dropped = 0
        """As the last envelope has it."""

    def listen(self) -> None:
        self._socket = self._context.socket(zmq.PULL)
        self._socket.setsockopt(zmq.RCVHWM, 1)
        self._socket.bind(self._endpoint)

    def hear(self, count: int) -> list[Event]:
        """The next `count` events, and no more than those."""
        before = len(self.events)
        while len(self.events) < before + count:
            self.hear_message()
        assert len(self.events) == before + count
        return self.events[before:]

    def hear_message(self) -> None:
        assert self._socket.poll(60_000), kinds(self.events)
        decoded = wire.decode(self._socket.recv())
        assert decoded.envelope is not None
        self.events += decoded.events
        self.dropped = decoded.envelope.dropped
        self.messages.append((decoded.envelope.sender, decoded.envelope.sequence))

    def hears_nothing(self) -> bool:
        return not self._socket.poll(100)

    def close(self) -> None:
        self._context.destroy(linger=0)
