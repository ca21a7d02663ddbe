"""What the shell must do: the output of :class:`scrtune.intents.pipeline.Pipeline`."""

import msgspec

from .events import Values


class Advice(msgspec.Struct, frozen=True, kw_only=True):
    """The settings every rank applies at the next ``SCR_Start_output``.

    `generation` grows by one with each change; 0 means the user's own settings, untouched. `at_launch` is
    what SCR's config file says beyond `settings` (over them, where both name a parameter): what the next
    launch of the job puts in force. It is applied to no run that is under way.

    `kept` is all that SCR's config file says beyond the user's own text: what was tuned and is kept, what the
    user wrote into it while the job ran, and what waits for the next launch. What is only tried is not in it.
    None: all of `settings` and `at_launch`.
    """

    generation: int = 0
    settings: Values = {}
    at_launch: Values = {}
    kept: Values | None = None
    reason: str = "the user's own settings"


class RewriteConfig(msgspec.Struct, frozen=True, tag="rewrite_config", kw_only=True):
    """Write SCR's config file, and keep `advice` as what the next question is answered with."""

    advice: Advice


class Tell(msgspec.Struct, frozen=True, tag="tell", kw_only=True):
    """Tell the operator, once, in the log."""

    text: str
    level: str = "info"


Effect = RewriteConfig | Tell
