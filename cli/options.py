"""Options as structs: a field for each option, with its declaration for click beside its type.

:func:`command` makes a click command of a function that takes such a struct.
"""

from collections.abc import Callable
from functools import wraps
from inspect import get_annotations
from pathlib import Path
from typing import Annotated, TypeVar, get_args, get_type_hints

import click
import msgspec

from ..daemon.monitor.address import address_of
from ..daemon.options import OFF, Monitoring
from ..units import parse_duration_s
from .output import Form

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")

PATH = click.Path(path_type=Path)

JobId = Annotated[
    str | None,
    click.option(
        "--job-id", metavar="ID", help="The job; default: this environment's, else the latest on this host."
    ),
]
ViewForm = Annotated[
    Form,
    click.option(
        "--format",
        "form",
        type=click.Choice(get_args(Form)),
        default="table",
        show_default=True,
        help="Output form.",
    ),
]
UntilEof = Annotated[
    bool,
    click.option("--until-eof", is_flag=True, help="The end of standard input ends it as SIGTERM does."),
]


class ShownJob(msgspec.Struct, frozen=True, kw_only=True):
    """Options of a command that shows one job."""

    job_id: JobId
    form: ViewForm


def command(
    options: type[S], *, context_settings: dict[str, bool] | None = None
) -> Callable[[Callable[[S], None]], click.Command]:
    """Return a decorator that makes a click command of a function of `options`, with the function's name."""

    def decorate(run: Callable[[S], None]) -> click.Command:
        @wraps(run)
        def call(**given: object) -> None:
            run(msgspec.convert(given, options))

        hints = get_type_hints(options, include_extras=True)
        names = [name for kind in options.__mro__ for name in get_annotations(kind)]  # its own come first
        for name in reversed(names):
            for declare in get_args(hints[name])[1:]:
                declare(call)
        return click.command(run.__name__, context_settings=context_settings)(call)

    return decorate


def parsed_by(parse: Callable[[str], T]) -> Callable[[click.Context, click.Parameter, str | None], T | None]:
    """Return a click callback that gives what `parse` makes of a text; its ValueError is a usage error."""

    def callback(_context: click.Context, _option: click.Parameter, text: str | None) -> T | None:
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def _address(text: str) -> str:
    """Return the address as the daemon will take it, wherever that is started."""
    return text if text in {"", "unix", OFF} else str(address_of(text, Path()))


def _absolute(_context: click.Context, _option: click.Parameter, path: Path | None) -> Path | None:
    return None if path is None else path.absolute()


def _windows_s(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[int, ...]:
    try:
        return tuple(dict.fromkeys(max(1, round(parse_duration_s(text))) for text in texts))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_DEFAULT = Monitoring()


class MonitoringOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The options by which a job's goodput is watched: those of all commands that start daemons."""

    metrics: Annotated[
        str,
        click.option(
            "--metrics",
            default="",
            callback=parsed_by(_address),
            metavar="ADDRESS",
            help="Serve OpenMetrics: PORT (of this node alone), HOST:PORT, unix:PATH, unix (a socket in the"
            " run directory) or off.  [default: unix, if prometheus_client is installed]",
        ),
    ]
    tensorboard: Annotated[
        Path | None,
        click.option(
            "--tensorboard",
            type=click.Path(path_type=Path, file_okay=False),
            callback=_absolute,
            metavar="DIR",
            help="Write goodput and badput as scalars for TensorBoard.",
        ),
    ]
    csv: Annotated[
        Path | None,
        click.option(
            "--csv",
            type=click.Path(path_type=Path, dir_okay=False),
            callback=_absolute,
            metavar="FILE",
            help="Append the same to FILE as rows.",
        ),
    ]
    monitor_every: Annotated[
        float,
        click.option(
            "--monitor-every",
            type=click.FloatRange(min=1),
            default=_DEFAULT.every_s,
            show_default=True,
            metavar="SECONDS",
            help="How often scalars and rows are written.",
        ),
    ]
    monitor_window: Annotated[
        tuple[int, ...],
        click.option(
            "--monitor-window",
            multiple=True,
            callback=_windows_s,
            metavar="LAST",
            help="A rolling window, as in 900, 15m, 2h; may be given again.  [default: 60, 300, 900]",
        ),
    ]

    @property
    def monitoring(self) -> Monitoring:
        """The same, as a daemon takes it."""
        return Monitoring(
            metrics=self.metrics,
            tensorboard=self.tensorboard,
            csv=self.csv,
            every_s=self.monitor_every,
            windows_s=self.monitor_window or _DEFAULT.windows_s,
        )
