"""Answers questions: JSON in, JSON out (`docs/wire.md`). A question changes nothing and breaks nothing."""

from collections.abc import Callable

import msgspec

from ..client.wire import PROTOCOL_VERSION, Answer, Question
from ..intents.effects import Advice
from ..intents.pipeline import Pipeline
from . import views
from .execute import Executor
from .ingest import Ingest
from .options import DaemonOptions

_encoder = msgspec.json.Encoder()
_question_decoder = msgspec.json.Decoder(Question)


class Control:
    """Knows the commands and nothing of sockets."""

    def __init__(
        self, pipeline: Pipeline, ingest: Ingest, executor: Executor, options: DaemonOptions
    ) -> None:
        self._pipeline = pipeline
        self._ingest = ingest
        self._executor = executor
        self._options = options
        self.journal_lost = 0
        self._commands: dict[str, Callable[[float], object]] = {
            "recommendation": self._recommendation,
            "status": self._status,
            "explain": lambda _now: views.explain(pipeline),
            "goodput": lambda now: views.goodput(pipeline, now),
        }

    def answer(self, payload: bytes, now: float) -> bytes:
        """The answer to one question, whatever its bytes are."""
        try:
            question = _question_decoder.decode(payload)
        except (msgspec.MsgspecError, RecursionError) as error:
            return _error(f'not a question ({error}); ask {{"command": "status"}}')
        if question.version != PROTOCOL_VERSION:
            return _error(f"protocol version {question.version}; this daemon speaks {PROTOCOL_VERSION}")
        command = self._commands.get(question.command)
        if command is None:
            return _error(f"no command {question.command!r}; there are {', '.join(sorted(self._commands))}")
        return _encoder.encode(Answer(result=msgspec.Raw(_encoder.encode(command(now)))))

    def _recommendation(self, _now: float) -> Advice:
        """What was published, not what is about to be: file and answer never differ."""
        return self._executor.advice

    def _status(self, now: float) -> views.StatusView:
        paths = self._options.paths
        view = views.status(self._pipeline, now, job_id=paths.job_id, host=paths.host)
        return msgspec.structs.replace(
            view,
            rejected=self._ingest.rejected,
            rewrites=self._executor.rewrites,
            config=str(self._options.scr_conf),
            config_failure=self._executor.last_failure,
            journal_lost=self.journal_lost,
        )


def _error(text: str) -> bytes:
    return _encoder.encode(Answer(error=text))
