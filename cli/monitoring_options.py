"""The options by which a job's goodput is watched, for the three commands that start daemons."""

from collections.abc import Callable, Iterator
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

import click

from ..daemon.options import OFF, Monitoring, address_of
from ..units import parse_duration_s

_F = TypeVar("_F", bound=Callable[..., Any])

_DEFAULT = Monitoring()


def monitoring_options(command: _F) -> _F:
    """Give a command these options; it gets them as one :class:`Monitoring`, named `monitoring`."""

    @wraps(command)
    def wrapped(*args: Any, monitor_every: float, monitor_window: tuple[int, ...], **kwargs: Any) -> Any:
        watchers = {name: kwargs.pop(name) for name in ("metrics", "tensorboard", "csv")}
        windows_s = tuple(dict.fromkeys(monitor_window)) or _DEFAULT.windows_s
        monitoring = Monitoring(every_s=monitor_every, windows_s=windows_s, **watchers)
        return command(*args, monitoring=monitoring, **kwargs)

    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    return wrapped  # type: ignore[return-value]


def missing(monitoring: Monitoring) -> Iterator[str]:
    """What was asked for and cannot be had, and what to do: the job runs all the same."""
    needed = {
        "--metrics": (monitoring.metrics != OFF, "prometheus_client"),
        "--tensorboard": (monitoring.tensorboard, "tensorboardX"),
    }
    for option, (is_asked_for, library) in needed.items():
        if is_asked_for and find_spec(library) is None:
            yield f"{option} does nothing: {library} is not installed; pip install 'scrtune[monitoring]'"


def _address(_context: click.Context, _option: click.Parameter, text: str) -> str:
    """As the daemon will take it, wherever that is started."""
    try:
        if text != OFF:
            address_of(text)
    except ValueError as error:
        raise click.BadParameter(str(error)) from None
    return text


def _absolute(_context: click.Context, _option: click.Parameter, path: Path | None) -> Path | None:
    return None if path is None else path.absolute()


def _seconds(_context: click.Context, _option: click.Parameter, texts: tuple[str, ...]) -> tuple[int, ...]:
    return tuple(map(_duration_s, texts))


def _duration_s(text: str) -> int:
    try:
        return max(1, round(parse_duration_s(text)))
    except ValueError as error:
        raise click.BadParameter(str(error)) from None


_OPTIONS = (
    click.option(
        "--metrics",
        default=_DEFAULT.metrics,
        show_default=True,
        callback=_address,
        metavar="ADDRESS",
        help="Serve OpenMetrics at PORT (of this node alone) or HOST:PORT, or not at all: off.",
    ),
    click.option(
        "--tensorboard",
        type=click.Path(path_type=Path, file_okay=False),
        callback=_absolute,
        metavar="DIR",
        help="Write goodput and badput as scalars for TensorBoard.",
    ),
    click.option(
        "--csv",
        type=click.Path(path_type=Path, dir_okay=False),
        callback=_absolute,
        metavar="FILE",
        help="Append the same to FILE as rows.",
    ),
    click.option(
        "--monitor-every",
        type=click.FloatRange(min=1),
        default=_DEFAULT.every_s,
        show_default=True,
        metavar="SECONDS",
        help="How often scalars and rows are written.",
    ),
    click.option(
        "--monitor-window",
        multiple=True,
        callback=_seconds,
        metavar="LAST",
        help="A rolling window, as in 900, 15m, 2h; may be given again.  [default: 60, 300, 900]",
    ),
)
