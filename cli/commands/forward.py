"""`scrtune forward`: DFTracer's files, the library's events and SCR's log, pushed to a daemon."""

import os
import sys
from pathlib import Path
from typing import Annotated

import click
import msgspec

from ...client.capture.forward import forward as forward_traces
from ...client.paths import JobPaths
from ...daemon.process import Signals, end_at_eof
from ..options import PATH, UntilEof, command


class ForwardOptions(msgspec.Struct, frozen=True, kw_only=True):
    """Options of `scrtune forward`."""

    log_prefix: Annotated[Path | None, click.argument("log_prefix", type=PATH, required=False)]
    endpoint: Annotated[str | None, click.argument("endpoint", required=False)]
    until_eof: UntilEof


@command(ForwardOptions)
def forward(options: ForwardOptions) -> None:
    """Follow DFTracer's files LOG_PREFIX-*.pfw and push their lines to ENDPOINT, until SIGTERM.

    With them the file that $SCRTUNE_EVENTS_FILE names, to which the preloaded library writes, and SCR's own
    log. Without arguments: those of this environment's job. `scrtune run` starts it for you.
    """
    paths = JobPaths.of()
    with Signals().watched() as signals:
        if options.until_eof:
            end_at_eof(sys.stdin.fileno())
        events_file = os.environ.get("SCRTUNE_EVENTS_FILE")
        counts = forward_traces(
            options.log_prefix or paths.trace_prefix,
            options.endpoint or paths.events_endpoint,
            lambda: signals.ending,
            reclaim=True,
            events_file=Path(events_file).absolute() if events_file else None,
        )
    click.echo(f"forwarder ended: {counts}", err=True)
