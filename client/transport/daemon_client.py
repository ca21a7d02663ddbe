"""Questions to the daemon."""

import msgspec
import zmq

from .wire import PROTOCOL_VERSION, Answer, Question

_encoded = msgspec.json.Encoder().encode
_answer = msgspec.json.Decoder(Answer).decode


class DaemonUnavailable(RuntimeError):  # noqa: N818  it is a state of affairs, not a mistake
    """No daemon answers; the text says where it was looked for and what to do."""


def ask_daemon(endpoint: str, asked: str | Question, limit_s: float = 2.0) -> Answer:
    """Return the daemon's answer to a question or command, which may be an error.

    Raises :class:`DaemonUnavailable`.
    """
    question = Question(command=asked) if isinstance(asked, str) else asked
    try:
        with zmq.Context() as context, context.socket(zmq.DEALER) as socket:
            socket.linger = 0
            socket.connect(endpoint)
            socket.send_multipart([b"", _encoded(question)], zmq.NOBLOCK)
            if not socket.poll(max(1, round(limit_s * 1000))):
                raise DaemonUnavailable(
                    f"no daemon answered at {endpoint} within {limit_s:g} s; is the job running on this node"
                    " and was it started with `scrtune run` or `scrtune daemon`?"
                )
            answer = _answer(socket.recv_multipart()[-1])
    except (zmq.ZMQError, UnicodeEncodeError) as error:
        raise DaemonUnavailable(f"{endpoint}: {error}; name the daemon's control endpoint") from error
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise DaemonUnavailable(
            f"{endpoint}: what answers there is no scrtune daemon ({error}); name another endpoint"
        ) from error
    if answer.version != PROTOCOL_VERSION:
        raise DaemonUnavailable(
            f"{endpoint}: the daemon speaks protocol version {answer.version}, not {PROTOCOL_VERSION}"
            " as this scrtune; run both from the same installation"
        )
    return answer
