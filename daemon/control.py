"""Answers questions: JSON in, JSON out (`docs/wire.md`). A question changes nothing and breaks nothing.

Four commands are orders: ``off``, ``on``, ``pin`` and ``unpin``. Given twice they are the same as given once.
"""

import logging
from collections import Counter
from collections.abc import Callable
from typing import TypeAlias

import msgspec

from ..client.transport.wire import PROTOCOL_VERSION, Answer, Question
from ..intents.effects import Advice
from ..intents.events import Event, TuningSwitched
from ..intents.pipeline import Pipeline
from . import views
from .options import DaemonOptions
from .settings.executor import Executor
from .settings.pins import PinError, pin, unpin

log = logging.getLogger("scrtune.daemon")

MAX_QUESTION_BYTES = 64 * 1024
_MAX_ECHO = 60
_ORDERS = ("off", "on", "pin", "unpin")

_encoder = msgspec.json.Encoder()
_question_decoder = msgspec.json.Decoder(Question)


Result: TypeAlias = Advice | views.StatusView | views.ExplainView | views.GoodputView | views.OrderView


class Control:
    """Knows the commands and nothing of sockets.

    `handle` takes in an event that an order makes. `complete` adds to a status what only the loop knows.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        executor: Executor,
        options: DaemonOptions,
        handle: Callable[[Event], None],
        complete: Callable[[views.StatusView], views.StatusView],
    ) -> None:
        self._pipeline = pipeline
        self._executor = executor
        self._options = options
        self._handle = handle
        self._complete = complete
        self.elsewhere: Callable[[], str] = str
        """Returns the node that decides about the job, if that is another one, else an empty text."""
        self._refused = 0
        self._commands: dict[str, Callable[[Question, float], Result]] = {
            "explain": lambda _, __: self._explained(),
            "goodput": lambda _, now: views.goodput_view(self._pipeline, now),
            "off": self._switch,
            "on": self._switch,
            "pin": self._fix,
            "recommendation": lambda _, __: (
                self._executor.advice
            ),  # as published: file and answer never differ
            "status": lambda _, now: self.status(now),
            "unpin": self._fix,
        }

    def answer(self, payload: bytes, now: float) -> bytes:
        """Return the answer to one question, whatever its bytes are."""
        try:
            return _encoder.encode(Answer(result=msgspec.Raw(self._encoded(self._asked(payload), now))))
        except _RefusedError as refused:
            self._refused += 1
            return _encoder.encode(Answer(error=str(refused)))

    def _asked(self, payload: bytes) -> Question:
        if len(payload) > MAX_QUESTION_BYTES:
            raise _RefusedError(f"a question has {MAX_QUESTION_BYTES} bytes at most, this has {len(payload)}")
        try:
            question = _question_decoder.decode(payload)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
            raise _RefusedError(f'not a question ({error}); ask {{"command": "status"}}') from error
        if question.version != PROTOCOL_VERSION:
            raise _RefusedError(f"protocol version {question.version}; this daemon speaks {PROTOCOL_VERSION}")
        if question.command not in self._commands:
            known = ", ".join(self._commands)
            raise _RefusedError(f"no command {question.command[:_MAX_ECHO]!r}; there are {known}")
        if question.command in _ORDERS and (leader := self.elsewhere()):
            raise _RefusedError(f"job {self._options.paths.job_id!r} is decided about on node {leader}")
        return question

    def _encoded(self, question: Question, now: float) -> bytes:
        try:
            return _encoder.encode(self._commands[question.command](question, now))
        except Exception as error:  # a question must not end the daemon, whatever state it asks about
            log.exception("%s could not be answered", question.command)
            raise _RefusedError(
                f"{question.command} could not be answered ({error}): a bug, see daemon.log"
            ) from error

    def _explained(self) -> views.ExplainView:
        view = views.explain_view(self._pipeline)
        return msgspec.structs.replace(view, unpublished=self._executor.last_failure)

    def _switch(self, question: Question, _now: float) -> views.OrderView:
        """Turn tuning on or off; what follows is published by the time of the answer, unless it says not."""
        on = question.command == "on"
        if self._pipeline.on != on:
            self._handle(TuningSwitched(on=on))
        return self._ordered(question)

    def _fix(self, question: Question, _now: float) -> views.OrderView:
        """Pin parameters, or unpin them; what follows is published as that of :meth:`_switch` is."""
        job, pinned = self._pipeline.job, self._pipeline.pinned
        is_pin = question.command == "pin"
        try:
            edit = pin(question.values, job) if is_pin else unpin(question.names, job, pinned)
        except PinError as error:
            return self._ordered(question, refused=str(error))
        if edit.changes or edit.released:
            self._handle(edit)
        return self._ordered(question)

    def _ordered(self, question: Question, refused: str = "") -> views.OrderView:
        advice = self._executor.advice
        return views.OrderView(
            job_id=self._options.paths.job_id,
            tuning=self._pipeline.on,
            is_job_known=self._pipeline.job is not None,
            generation=advice.generation,
            is_published=not self._executor.unfinished,
            failure=self._executor.last_failure,
            refused=refused,
            waiting=tuple(sorted({*question.values, *question.names}.intersection(advice.at_launch))),
        )

    def status(self, now: float) -> views.StatusView:
        """Return the state of the job and of its daemon."""
        paths = self._options.paths
        view = self._complete(views.status_view(self._pipeline, now, job_id=paths.job_id, host=paths.host))
        return msgspec.structs.replace(
            view,
            rejected=dict(Counter(view.rejected) + Counter({"questions": self._refused})),
            rewrites=self._executor.rewrites,
            config=str(self._options.scr_conf),
            config_failure=self._executor.last_failure,
        )


class _RefusedError(ValueError):
    """A question that gets an error for an answer."""
