"""The effects for the shell to perform: the output of :class:`scrtune.intents.pipeline.Pipeline`."""

import msgspec

from .events import Values


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """The settings that every rank applies at the next ``SCR_Start_output``.

    `generation` grows by one with each change; 0 are the user's own settings. `at_launch` becomes active with
    the next launch of the job (over `settings`, where both name a parameter); no run under way applies it.

    `kept` is all that SCR's config file has beyond the user's own text: accepted changes, what the user wrote
    into it while the job ran, and what waits for the next launch, but no trial. None: all of `settings` and
    `at_launch`.
    """

    generation: int = 0
    settings: Values = {}
    at_launch: Values = {}
    kept: Values | None = None
    reason: str = "the user's own settings"


class RewriteConfig(msgspec.Struct, frozen=True, tag="rewrite_config", kw_only=True):
    """Write SCR's config file, and answer the next question with `advice`."""

    advice: Advice


class Observe(msgspec.Struct, frozen=True, tag="observe", kw_only=True):
    """Trace the next outputs of this node's ranks, or do not."""

    on: bool


class Tell(msgspec.Struct, frozen=True, tag="tell", kw_only=True):
    """Write one line for the operator into the log."""

    text: str
    level: str = "info"


Effect = RewriteConfig | Observe | Tell
