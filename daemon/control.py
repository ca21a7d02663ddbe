"""Answers questions: JSON in, JSON out (`docs/wire.md`). A question changes nothing and breaks nothing.

Two are orders: ``off`` and ``on``. Given twice they are the same as given once.
"""

import logging
from collections import Counter
from collections.abc import Callable

import msgspec

from ..client.transport.wire import PROTOCOL_VERSION, Answer, Question
from ..intents.effects import Advice
from ..intents.pipeline import Pipeline
from . import views
from .executor import Executor
from .ingest import Ingest
from .options import DaemonOptions

log = logging.getLogger("scrtune.daemon")

MAX_QUESTION_BYTES = 64 * 1024
_MAX_ECHO = 60

_encoder = msgspec.json.Encoder()
_question_decoder = msgspec.json.Decoder(Question)


class Control:
    """Knows the commands and nothing of sockets. `switch` turns tuning on or off."""

    def __init__(
        self,
        pipeline: Pipeline,
        ingest: Ingest,
        executor: Executor,
        options: DaemonOptions,
        switch: Callable[[bool], None],
    ) -> None:
        self._pipeline = pipeline
        self._ingest = ingest
        self._executor = executor
        self._options = options
        self._switch = switch
        self._refused = 0
        self.journal_lost = 0
        self.flush_threads: dict[str, int] = {}
        self.monitors: Callable[[], tuple[views.MonitorView, ...]] = tuple
        self._commands: dict[str, Callable[[float], object]] = {
            "recommendation": self._recommendation,
            "status": self._status,
            "explain": self._explain,
            "goodput": lambda now: views.goodput(pipeline, now),
            "off": lambda _now: self._switched(on=False),
            "on": lambda _now: self._switched(on=True),
        }

    def answer(self, payload: bytes, now: float) -> bytes:
        """The answer to one question, whatever its bytes are."""
        try:
            return _encoder.encode(Answer(result=msgspec.Raw(self._result(payload, now))))
        except _RefusedError as refused:
            self._refused += 1
            return _encoder.encode(Answer(error=str(refused)))

    def _result(self, payload: bytes, now: float) -> bytes:
        if len(payload) > MAX_QUESTION_BYTES:
            raise _RefusedError(f"a question has {MAX_QUESTION_BYTES} bytes at most, this has {len(payload)}")
        try:
            question = _question_decoder.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise _RefusedError(f'not a question ({error}); ask {{"command": "status"}}') from error
        if question.version != PROTOCOL_VERSION:
            raise _RefusedError(f"protocol version {question.version}; this daemon speaks {PROTOCOL_VERSION}")
        command = self._commands.get(question.command)
        if command is None:
            asked, known = question.command[:_MAX_ECHO], ", ".join(sorted(self._commands))
            raise _RefusedError(f"no command {asked!r}; there are {known}")
        try:
            return _encoder.encode(command(now))
        except Exception as error:  # a question must not end the daemon, whatever state it asks about
            log.exception("%s could not be answered", question.command)
            raise _RefusedError(
                f"{question.command} could not be answered ({error}): a bug, see daemon.log"
            ) from error

    def _recommendation(self, _now: float) -> Advice:
        """Return what was published, not what is about to be: file and answer never differ."""
        return self._executor.advice

    def _switched(self, *, on: bool) -> views.SwitchView:
        """Turn tuning on or off; what follows is published by the time of the answer, unless it says not."""
        if self._pipeline.on != on:
            self._switch(on)
        return views.SwitchView(
            job_id=self._options.paths.job_id,
            tuning=self._pipeline.on,
            is_job_known=self._pipeline.job is not None,
            generation=self._executor.advice.generation,
            is_published=not self._executor.unfinished,
            failure=self._executor.last_failure,
        )

    def _explain(self, _now: float) -> views.ExplainView:
        view = views.explain(self._pipeline)
        return msgspec.structs.replace(view, unpublished=self._executor.last_failure)

    def _status(self, now: float) -> views.StatusView:
        paths = self._options.paths
        view = views.status(self._pipeline, now, job_id=paths.job_id, host=paths.host)
        return msgspec.structs.replace(
            view,
            rejected=dict(Counter(self._ingest.rejected) + Counter({"questions": self._refused})),
            rewrites=self._executor.rewrites,
            config=str(self._options.scr_conf),
            config_failure=self._executor.last_failure,
            journal_lost=self.journal_lost,
            monitors=self.monitors(),
            flush_threads={what: count for what, count in self.flush_threads.items() if count},
        )


class _RefusedError(ValueError):
    """A question that gets an error for an answer."""
