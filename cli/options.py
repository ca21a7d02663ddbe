"""Options of commands as frozen dataclasses: each field is an option, declared where it stands.

    form: Form = option("--format", "Output form.", default="table")

The field's type says of which kind it is: a flag (bool), a choice (Literal), one that may be given again
(tuple), a path, a number, a text. :func:`command` makes a click command of a function of such a class.
"""

from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, field, fields
from inspect import getdoc
from pathlib import Path
from typing import Any, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

import click
from click.shell_completion import CompletionItem

from ..daemon.options import OFF, ClusterOptions, Monitoring, address_of
from ..units import parse_duration_s

Form = Literal["table", "json"]
T = TypeVar("T")
_Parse: TypeAlias = Callable[[Any], object]
_Kind: TypeAlias = "click.ParamType[Any] | type | None"

PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
UNREAD = click.Path(path_type=Path, readable=False)
"""A file that we open ourselves: when it cannot be read, click's exit code is not ours."""

_DEFAULT = Monitoring()


def option(
    usage: str, text: str = "", kind: _Kind = None, *, default: object = None, parse: _Parse | None = None
) -> Any:
    """Declare a field as an option, as in ``--job-id ID``, or as an argument: ``NAME``, ``[LOG]...``.

    Without a default, an option whose field takes no None must be given. `kind` is click's type, where the
    field's own does not say it. `parse` makes the value of what was given; its ValueError is a usage error.
    """
    return field(metadata={"usage": usage, "help": text, "kind": kind, "default": default, "parse": parse})


def command(
    options: type[T], *, context_settings: dict[str, bool] | None = None
) -> Callable[[Callable[[T], None]], click.Command]:
    """Return a decorator that makes a click command of a function of `options`, with the function's name."""

    def decorate(run: Callable[[T], None]) -> click.Command:
        return click.Command(
            run.__name__,
            callback=lambda **given: run(options(**given)),
            params=list(_parameters(options)),
            help=getdoc(run),
            context_settings=context_settings,
        )

    return decorate


def _parameters(options: type) -> Iterator[click.Parameter]:
    hints = get_type_hints(options)
    inherited = {each.name for base in options.__bases__ if base is not object for each in fields(base)}
    for each in sorted(fields(options), key=lambda each: each.name in inherited):  # its own come first
        yield _parameter(each, hints[each.name])


def _parameter(declared: "Field[object]", hint: Any) -> click.Parameter:
    usage, kind, parse = (declared.metadata[name] for name in ("usage", "kind", "parse"))
    is_optional = type(None) in get_args(hint)
    hint = get_args(hint)[0] if is_optional else hint
    is_many = get_origin(hint) is tuple
    if kind is None and parse is None:
        kind = get_args(hint)[0] if is_many else hint
        kind = click.Choice(get_args(kind)) if get_origin(kind) is Literal else PATH if kind is Path else kind
    flag, _, metavar = usage.partition(" ")
    given: dict[str, Any] = {"type": kind, "callback": parse and _callback(parse)}
    if not flag.startswith("-"):
        given |= {"nargs": -1 if is_many else 1, "required": not flag.startswith("["), "metavar": flag}
        return click.Argument([declared.name], **given)
    default = False if hint is bool else declared.metadata["default"]
    return click.Option(
        [flag, declared.name],
        is_flag=hint is bool,
        multiple=is_many and default is None,
        default=default,
        show_default=bool(default),
        required=default is None and not is_optional and not is_many,
        metavar=metavar or None,
        help=declared.metadata["help"],
        **given,
    )


def _callback(parse: _Parse) -> Callable[[click.Context, click.Parameter, Any], object]:
    def callback(_context: click.Context, _option: click.Parameter, given: Any) -> object:
        try:
            if isinstance(given, tuple):
                return tuple(map(parse, given))
            return None if given is None else parse(given)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


class JobId(click.ParamType):  # type: ignore[type-arg]
    """A job's id, which a shell completes by those of the jobs on this host."""

    name = "id"

    def shell_complete(
        self, _ctx: click.Context, _param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Return the jobs whose ids begin with `incomplete`."""
        from .jobs.find import jobs  # noqa: PLC0415 - only for a shell

        return [CompletionItem(each.job_id) for each in jobs() if each.job_id.startswith(incomplete)]


@dataclass(frozen=True)
class OneJob:
    """The option of a command that is about one job."""

    job_id: str | None = option(
        "--job-id ID", "The job; default: this environment's, else the latest on this host.", JobId()
    )


@dataclass(frozen=True)
class ShownJob(OneJob):
    """Options of a command that shows one job."""

    form: Form = option("--format", "Output form.", default="table")


@dataclass(frozen=True)
class Remembered:
    """The option of a process whose daemon keeps what the job teaches."""

    application: str | None = option(
        "--application NAME", "Keep what the job teaches for the next one of that name; default: do not."
    )


def _address(text: str) -> str:
    if text != OFF:
        address_of(text)  # raises ValueError
    return text


@dataclass(frozen=True)
class Probed:
    """The option of the commands that start daemons, by which nothing is measured but the job."""

    no_probe: bool = option(
        "--no-probe", "Do not measure the cache, memory and XOR at the start, nor ask what the prefix is on."
    )


@dataclass(frozen=True)
class Clustered:
    """The options of a daemon that is one of several of its job."""

    directory: Path | None = option(
        "--cluster DIR",
        "The job has daemons on other nodes, too; they find each other in DIR, which all nodes see.",
        parse=Path.absolute,
        kind=click.Path(path_type=Path, file_okay=False),
    )
    peers: str | None = option(
        "--peers HOST:PORT,...", "The nodes in the job's order, this one among them, where not all see DIR."
    )

    @property
    def cluster(self) -> ClusterOptions | None:
        """The same, as a daemon takes it. Raises UsageError."""
        if self.directory is None:
            if self.peers:
                raise click.UsageError("--peers needs --cluster DIR, where the job's keys are")
            return None
        return ClusterOptions(self.directory, tuple(filter(None, (self.peers or "").split(","))))


@dataclass(frozen=True)
class MonitoringOptions:
    """The options by which a job's goodput is watched: those of all commands that start daemons."""

    metrics: str = option(
        "--metrics ADDRESS",
        "Serve OpenMetrics at PORT (of this node alone) or HOST:PORT, or not at all: off.",
        default=_DEFAULT.metrics,
        parse=_address,
    )
    tensorboard: Path | None = option(
        "--tensorboard DIR",
        "Write goodput and badput as scalars for TensorBoard.",
        click.Path(path_type=Path, file_okay=False),
        parse=Path.absolute,
    )
    csv: Path | None = option("--csv FILE", "Append the same to FILE as rows.", FILE, parse=Path.absolute)
    monitor_every_s: float = option(
        "--monitor-every SECONDS",
        "How often scalars and rows are written.",
        click.FloatRange(min=1),
        default=_DEFAULT.every_s,
    )
    monitor_windows_s: tuple[int, ...] = option(
        "--monitor-window LAST",
        "A rolling window, as in 900, 15m, 2h; may be given again.  [default: 60, 300, 900]",
        parse=lambda text: max(1, round(parse_duration_s(text))),
    )

    @property
    def monitoring(self) -> Monitoring:
        """The same, as a daemon takes it."""
        windows_s = tuple(dict.fromkeys(self.monitor_windows_s)) or _DEFAULT.windows_s
        files = {"tensorboard": self.tensorboard, "csv": self.csv}
        return Monitoring(metrics=self.metrics, every_s=self.monitor_every_s, windows_s=windows_s, **files)
