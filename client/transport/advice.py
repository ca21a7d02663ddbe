"""Questions to the daemon, and what to do when it does not answer in time."""

import contextlib
import time
from pathlib import Path

import msgspec
import zmq

from ...intents.effects import Advice
from .own_socket import OwnSocket
from .wire import PROTOCOL_VERSION, Answer, Question

LIMIT_S = 0.05
_PATIENCE = 2  # asks in a row that may each wait the limit before the daemon counts as gone
_QUEUE_LIMIT = 8  # questions that wait for a daemon that is not there
_ANSWERS_AT_ONCE = 64  # more than the queue above can bring: a peer that floods us stays harmless

_question = msgspec.json.Encoder().encode
_answer = msgspec.json.Decoder(Answer).decode
_advice = msgspec.json.Decoder(Advice).decode


class DaemonUnavailable(RuntimeError):  # noqa: N818  it is a state of affairs, not a mistake
    """No daemon answers; the text says where it was looked for and what to do."""


class AdviceClient:
    """Asks the daemon at `endpoint` what the next output should run under. For use by one thread.

    Never raises and never waits longer than `limit_s`. Without an answer in that time the last known good
    advice counts: the last one received, else the one in the file `last_known`, else None. After two
    unanswered asks in a row it asks without waiting until an answer comes: a dead daemon costs two limits,
    not one for each checkpoint.
    """

    def __init__(self, endpoint: str, *, limit_s: float = LIMIT_S, last_known: Path | None = None) -> None:
        self._limit_s = limit_s
        self._file = last_known
        self._known: Advice | None = None
        self._unanswered = 0
        self.timeouts = 0
        """Asks that went without an answer in time."""
        self.unusable = 0
        """Answers that held no advice: errors, another protocol version, garbage."""
        self.wait_s = 0.0
        """Seconds the last ask took."""
        self.error = ""
        """Why there is no socket, or empty."""
        self._own: OwnSocket | None = None
        try:
            self._own = OwnSocket(zmq.DEALER, endpoint, queue_limit=_QUEUE_LIMIT, linger_s=0.0)
        except zmq.ZMQError as error:
            self.error = f"{endpoint}: {error}; no advice is asked for. Name the daemon's control endpoint."

    def ask(self) -> Advice | None:
        """The daemon's advice if it answers in time, else the last known good, else None."""
        started_s = time.perf_counter()
        try:
            if self._own is not None and self._own.ours:
                self._exchange(self._own.socket)
        except zmq.ZMQError as error:
            self.error = str(error)
        advice = self._known or self._from_file()
        self.wait_s = time.perf_counter() - started_s
        return advice

    def _exchange(self, socket: "zmq.Socket[bytes]") -> None:
        """Ask, wait, and take over what comes.

        An answer carries no number. One that comes late, to an earlier question, is a true statement of the
        daemon's all the same, so the newest generation wins. Only an answer to this question may go back
        behind what is known: a daemon that lost its journal begins at generation 0 again.
        """
        late = self._received(socket)
        if late:
            self._unanswered = 0
        with contextlib.suppress(zmq.Again):  # earlier questions still wait for a daemon
            socket.send_multipart([b"", _question(Question(command="recommendation"))], zmq.NOBLOCK)
        patient = self._unanswered < _PATIENCE
        current = (
            self._received(socket) if socket.poll(_milliseconds(self._limit_s) if patient else 0) else []
        )
        if current:
            self._unanswered = 0
        else:
            self._unanswered += 1
            self.timeouts += 1
        candidates = [*(current if any(current) else [self._known]), *late]
        newest = max(filter(None, candidates), key=lambda advice: advice.generation, default=None)
        self._known = newest or self._known

    def _received(self, socket: "zmq.Socket[bytes]") -> list[Advice | None]:
        """Every answer that is there now; None stands for one without advice."""
        answers: list[Advice | None] = []
        with contextlib.suppress(zmq.Again):
            while len(answers) < _ANSWERS_AT_ONCE:
                answers.append(self._understood(socket.recv_multipart(zmq.NOBLOCK)[-1]))
        return answers

    def _understood(self, payload: bytes) -> Advice | None:
        try:
            answer = _answer(payload)
            if answer.version == PROTOCOL_VERSION and not answer.error:
                return _advice(answer.result)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            pass
        self.unusable += 1
        return None

    def _from_file(self) -> Advice | None:
        try:
            return _advice(self._file.read_bytes()) if self._file is not None else None
        except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None

    def close(self) -> None:
        """Close at once. Later asks give the last known good."""
        if self._own is not None:
            self._own.close(0.0)


def ask_daemon(endpoint: str, command: str, limit_s: float = 2.0) -> Answer:
    """The daemon's answer to `command`, which may be an error it tells. Raises :class:`DaemonUnavailable`."""
    try:
        own = OwnSocket(zmq.DEALER, endpoint, queue_limit=1, linger_s=0.0)
    except zmq.ZMQError as error:
        raise DaemonUnavailable(f"{endpoint}: {error}; name the daemon's control endpoint") from error
    try:
        own.socket.send_multipart([b"", _question(Question(command=command))], zmq.NOBLOCK)
        if not own.socket.poll(_milliseconds(limit_s)):
            raise DaemonUnavailable(
                f"no daemon answered at {endpoint} within {limit_s:g} s; is the job running on this node and"
                " was it started with `scrtune run` or `scrtune daemon`?"
            )
        answer = _answer(own.socket.recv_multipart()[-1])
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DaemonUnavailable(
            f"{endpoint}: what answers there is no scrtune daemon ({error}); name another endpoint"
        ) from error
    finally:
        own.close(0.0)
    if answer.version != PROTOCOL_VERSION:
        raise DaemonUnavailable(
            f"{endpoint}: the daemon speaks protocol version {answer.version}, not {PROTOCOL_VERSION}"
            " as this scrtune; run both from the same installation"
        )
    return answer


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))
