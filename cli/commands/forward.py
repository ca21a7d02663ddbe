"""`scrtune forward`: DFTracer's files, the library's events and SCR's log, pushed to a daemon."""

import os
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from ...client.capture.forward import forward as forward_traces
from ...client.paths import JobPaths
from ...daemon.lock import Signals, end_at_eof
from ..options import UntilEof, command, option


@dataclass(frozen=True)
class ForwardOptions(UntilEof):
    """Options of `scrtune forward`."""

    log_prefix: Path | None = option("[LOG_PREFIX]")
    endpoint: str | None = option("[ENDPOINT]")


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
