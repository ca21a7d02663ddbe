"""What the shell must do: the output of :class:`scrtune.intents.pipeline.Pipeline`."""

import msgspec

from .events import Values


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """The settings every rank applies at the next ``SCR_Start_output``.

    `generation` grows by one with each change; 0 means the user's own settings, untouched.
    """

    generation: int = 0
    settings: Values = {}
    reason: str = "the user's own settings"


class RewriteConfig(msgspec.Struct, frozen=True, tag="rewrite_config", kw_only=True):
    """Write SCR's config file, and keep `advice` as what the next question is answered with."""

    advice: Advice


class Tell(msgspec.Struct, frozen=True, tag="tell", kw_only=True):
    """Tell the operator, once, in the log."""

    text: str
    level: str = "info"


Effect = RewriteConfig | Tell
