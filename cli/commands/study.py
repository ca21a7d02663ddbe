"""`scrtune study`: runs of a job compared by their traces."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Literal, TypeVar

import click
import msgspec

from ...intents.events import Value
from ...intents.settings import DEFAULTS
from ...replay.frames import columns, to_arrow
from ...replay.reading.cache import user_cache
from ...replay.reading.scan import Progress, read_table
from ...replay.reading.traces import tiers_of
from ...replay.study import Run, access_rows
from ...replay.study import study as compare
from ...replay.study_rows import Study
from ...replay.table import TraceTable
from ...scr_config.resolution import DEFAULT, resolve
from ...units import parse_duration_s, parse_rate
from ..errors import extra
from ..options import FILE, command, option
from ..reenact import ReenactOptions, written_again
from ..tables import study as tables
from ..terminal import csv_text, print_view
from ..user_files import TomlFile, config_text, read_toml

Form = Literal["table", "json", "csv"]
S = TypeVar("S", bound=msgspec.Struct)

INTERRUPTED = 130
CONF_NAMES = (".scrconf", "scr.conf")
"""SCR's config file, beside the traces of a run."""


def _varied(text: str) -> tuple[str, tuple[Value, ...]]:
    """Return name and values of ``NAME=V1,V2``. Raises ValueError."""
    from ...replay.what_if.evidence import value_of  # noqa: PLC0415 - it loads numpy

    name, between, values = text.partition("=")
    if not between or not name or not values:
        raise ValueError(f"{text!r}: write NAME=VALUE,VALUE")
    return name, tuple(value_of(name, value) for value in values.split(","))


class RunSource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A run as the file names it. Its `prefix` and `cache` count before those of the whole study.

    `conf` is SCR's config file that it ran with; without it, one beside the traces.
    """

    traces: tuple[str, ...]
    prefix: str = ""
    cache: str = ""
    conf: str = ""
    settings: dict[str, str | int | float | bool] = {}


class StudySource(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The runs of a study: what a TOML file, or a command line, says."""

    runs: dict[str, RunSource]
    prefix: str = ""
    cache: str = ""
    base: str = ""


@dataclass(frozen=True)
class StudyOptions(ReenactOptions):
    """Options of `scrtune study`."""

    runs: tuple[str, ...] = option("RUN...")
    prefix: str = option(
        "--prefix DIR", "The prefix directory, as the paths in the traces name it.", default=""
    )
    cache: str = option("--cache DIR", "The cache directory, as the paths in the traces name it.", default="")
    base: str = option(
        "--base NAME", "The run that the others are compared to; default: the first.", default=""
    )
    form: Form = option("--format", "Output form; csv has a row for each run.", default="table")
    html: Path | None = option("--html FILE", "Also write a page with figures; it needs no other file.", FILE)
    parquet: Path | None = option(
        "--parquet FILE",
        "Also write all accesses, by thread and class of file and size (needs pyarrow).",
        FILE,
    )
    scheduler: str = option(
        "--scheduler ADDRESS",
        "Read on the workers of a Dask cluster: its scheduler's address or file, or slurm:JOBS (needs"
        " scrtune[dask]).",
        default="",
    )
    scheduler_wait_s: float = option(
        "--scheduler-wait TIME",
        "Give up when no worker of the cluster has come for so long.",
        default="10m",
        parse=parse_duration_s,
    )
    what_if: bool = option(
        "--what-if",
        "Also predict, by a model fitted to the runs, what checkpoints would cost with other settings.",
    )
    vary: tuple[tuple[str, tuple[Value, ...]], ...] = option(
        "--vary NAME=V1,V2",
        "Predict for these values of a parameter, or of cores, nodes, ...; may be given again.",
        parse=_varied,
    )
    cache_rate: float | None = option(
        "--cache-rate RATE",
        "Predict for a cache of so many bytes a second and node: 4GiB/s.",
        parse=parse_rate,
    )
    prefix_rate: float | None = option(
        "--prefix-rate RATE", "The same for the file system with the prefix directory.", parse=parse_rate
    )
    reread: bool = option("--reread", "Read all traces again, also those that an earlier study has read.")


@command(StudyOptions)
def study(options: StudyOptions) -> None:
    """Compare runs of a job by their DFTracer traces: one row a run, and what differs.

    RUN is NAME=PATH: a name, and a trace (.pfw, .pfw.gz) or a directory that is searched for them; the same
    NAME again adds to its run. Or it is a TOML file with a table [runs.NAME] for each run: traces = [...],
    and if need be prefix, cache and settings.

    Checkpoint, cache and prefix seconds are of the thread (host, pid, tid) with the largest sum, for all
    alike.
    """
    _check_extras(options)
    source = _source(options)
    base = options.base or source.base
    if base and base not in source.runs:
        raise click.UsageError(f"the base {base!r} is no run; there are {', '.join(source.runs)}")
    progress = Progress()
    with _reader(options) as read_traces, _shown(progress):
        cache = replace(user_cache(), is_read=not options.reread)
        read = partial(read_traces, cache=cache, progress=progress)
        runs = [_read(name, run, source, read) for name, run in source.runs.items()]
        for recorded, run in zip(tuple(runs), source.runs.values(), strict=True):
            runs += written_again(options, recorded, _traces(run), _tiers(run, source), progress)
    found = compare(runs, base)
    if options.what_if or options.vary or options.cache_rate or options.prefix_rate:
        found = _predicted(runs, found, options)
    print_view(found, options.form, tables.study, _csv)
    if options.parquet is not None:
        _write_parquet(runs, options.parquet)
    if options.html is not None:
        _write_page(found, options.html)
    if progress.stop:
        _say("interrupted: these are the results of what was read until then")
        sys.exit(INTERRUPTED)


def _say(text: str) -> None:
    click.echo(f"scrtune: {text}", err=True)


def _check_extras(options: StudyOptions) -> None:
    """Raise click.UsageError where a library is missing, before anything is read."""
    for option_name, path, library, name in (
        ("--html", options.html, "jinja2", "report"),
        ("--html", options.html, "matplotlib", "report"),
        ("--parquet", options.parquet, "pyarrow", "frames"),
    ):
        if path is not None:
            with extra(f"{option_name} needs", name):
                import_module(library)


def _predicted(runs: Sequence[Run], found: Study, options: StudyOptions) -> Study:
    """Return `found` with what is predicted from it. Raises click.UsageError."""
    from ...replay.what_if.predictions import Stated, what_if  # noqa: PLC0415 - it loads numpy

    recorded = [run for run in runs if not run.base]  # what was written again here is of another machine
    of_them = found if len(recorded) == len(runs) else compare(recorded, found.base)
    stated = Stated(options.cache_rate, options.prefix_rate)
    try:
        predicted = what_if(recorded, of_them, dict(options.vary), stated)
    except ValueError as error:
        raise click.UsageError(f"--what-if: {error}") from None
    return msgspec.structs.replace(found, what_if=predicted)


def _traces(run: RunSource) -> list[Path]:
    return [Path(path) for path in run.traces]


def _tiers(run: RunSource, source: StudySource) -> dict[str, str]:
    return tiers_of(run.prefix or source.prefix, run.cache or source.cache)


@contextmanager
def _reader(options: StudyOptions) -> Iterator[Callable[..., TraceTable]]:
    """Return what reads tables: this machine, or a cluster with workers.

    Raises click.UsageError, TimeoutError.
    """
    scheduler = options.scheduler
    if not scheduler:
        yield read_table
        return
    with ExitStack() as stack:
        try:
            with extra("--scheduler needs", "dask"):
                from ...replay import dask_tables  # noqa: PLC0415 - an extra

                client = stack.enter_context(dask_tables.connected(scheduler))
            dask_tables.await_worker(client, scheduler, options.scheduler_wait_s, _say)
        except ValueError as error:
            raise click.UsageError(f"--scheduler {scheduler}: {error}") from error
        except KeyboardInterrupt:
            _say("interrupted: no worker had come, nothing was read")
            sys.exit(INTERRUPTED)
        yield partial(dask_tables.read_table, client)


def _read(name: str, run: RunSource, source: StudySource, read: Callable[..., TraceTable]) -> Run:
    settings = {key: str(value) for key, value in run.settings.items()}
    table = read(_traces(run), _tiers(run, source))
    return Run(name=name, table=table, settings=_settings_in_files(run) | settings)


def _settings_in_files(run: RunSource) -> dict[str, str]:
    """Return the parameters that the config file of a run sets, which may lie beside its traces."""
    beside = (Path(trace) / name for trace in run.traces for name in CONF_NAMES)
    path = Path(run.conf) if run.conf else next((each for each in beside if each.is_file()), None)
    if path is None:
        return {}
    found = resolve({}, config_text(path))
    said = (name for name in DEFAULTS if found.sources.get(name, DEFAULT) != DEFAULT)
    return {name: str(found.settings[name]) for name in said if name in found.settings}


def _source(options: StudyOptions) -> StudySource:
    """Return what the command line and its files say. Raises TomlError, click.UsageError."""
    paths: dict[str, list[str]] = {}
    source = StudySource(runs={}, prefix=options.prefix, cache=options.cache)
    for given in options.runs:
        name, between, path = given.partition("=")
        if between and name and path:
            paths.setdefault(name, []).append(path)
        elif given.endswith(".toml") and not between:
            where = "two files: give it another name in one"
            source = _joined(source, read_study_file(Path(given)), where)
        else:
            raise click.UsageError(
                f"{given!r} is no run: write NAME=PATH, or name a .toml file with [runs.NAME]"
            )
    named = StudySource(runs={name: RunSource(traces=tuple(each)) for name, each in paths.items()})
    return _joined(source, named, "the file already: give this one another name")


def _joined(source: StudySource, more: StudySource, where: str) -> StudySource:
    if repeated := sorted(more.runs.keys() & source.runs.keys()):
        raise click.UsageError(f"the run {repeated[0]} is in {where}")
    first = {name: getattr(source, name) or getattr(more, name) for name in ("prefix", "cache", "base")}
    return StudySource(runs=source.runs | more.runs, **first)


def read_study_file(path: Path) -> StudySource:
    """Return the study that a TOML file describes; its traces are relative to it.

    Raises TomlError, with file, line and key.
    """
    file = read_toml(path)
    given = file.decoded()
    runs = given.get("runs", {})
    if not isinstance(runs, dict) or not runs:
        raise file.error("name the runs, as in [runs.base]", "runs")
    read = {name: _converted(file, run, RunSource, "runs", name) for name, run in runs.items()}
    if bare := next((name for name, run in read.items() if not run.traces), ""):
        raise file.error("name a trace, or a directory of them", "runs", bare, "traces")
    rest = _converted(file, given | {"runs": {}}, StudySource)
    found = {name: _relative(run, path.parent) for name, run in read.items()}
    return msgspec.structs.replace(rest, runs=found)


def _converted(file: TomlFile, value: object, kind: type[S], *keys: str) -> S:
    """Return `value`, which stands at `keys` of `file`, as a `kind`. Raises TomlError."""
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:
        why, _, at = str(error).partition(" - at `$")
        if "unknown field" in why:
            why += f"; there are {', '.join(kind.__struct_fields__)}"
        raise file.error(why, *keys, *filter(None, [at.removesuffix("`").removeprefix(".")])) from None


def _relative(run: RunSource, directory: Path) -> RunSource:
    traces = tuple(str(directory / trace) for trace in run.traces)
    return msgspec.structs.replace(run, traces=traces, conf=str(directory / run.conf) if run.conf else "")


@contextmanager
def _shown(progress: Progress) -> Iterator[None]:
    """Show on a terminal how far the reading is."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console  # noqa: PLC0415 - only on a terminal
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn  # noqa: PLC0415
    from rich.progress import Progress as Bars  # noqa: PLC0415

    shown = (BarColumn(), DownloadColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    with Bars(*shown, console=Console(stderr=True), transient=True) as bars:
        task = bars.add_task("", total=None)

        def tick() -> None:
            elapsed_s = bars.tasks[0].elapsed or 0.0
            rate = progress.lines / elapsed_s / 1e6 if elapsed_s > 0 else 0.0
            text = (
                f"{progress.done_files} of {progress.files} files  {progress.lines:,} lines  {rate:.2f} M/s"
            )
            bars.update(task, total=progress.total_bytes, completed=progress.done_bytes, description=text)

        progress.on_tick = tick
        yield


def _csv(found: Study) -> str:
    """Return a row for each prediction, without any for each run, with the names of its fields above."""
    rows = columns(found.runs if found.what_if is None else found.what_if.predictions)
    return csv_text(rows, zip(*rows.values(), strict=True))


def _write_parquet(runs: Sequence[Run], path: Path) -> None:
    from pyarrow import parquet  # noqa: PLC0415 - an extra

    parquet.write_table(to_arrow(access_rows(runs)), path)


def _write_page(found: Study, path: Path) -> None:
    from importlib.metadata import version  # noqa: PLC0415 - it loads the email package

    from ..html.study import study_page  # noqa: PLC0415 - an extra

    path.write_text(study_page(found, version=version("scrtune")), encoding="utf-8")
