"""`scrtune check`: what in SCR's configuration is wrong, before the job finds out."""

import contextlib
import os
import re
import sys
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.table import Table

from ...scr_config.catalogue import coerce
from ...scr_config.check.check import cache_paths
from ...scr_config.check.check import check as check_sources
from ...scr_config.check.findings import Finding, exit_code
from ...scr_config.check.job_script import nodes_asked_for
from ...scr_config.check.model import Capacity, Situation
from ...scr_config.check.sources import Source, environment_source, source_of, variables
from ...scr_config.resolution import expand, user_conf_path
from ...scr_config.system_conf import system_conf_path
from ..format import printable
from ..text import tables as show
from ..views.config_text import UnreadableError, config_text

EXIT_UNREADABLE = 3
_FILE = click.Path(path_type=Path, readable=False)
"""We look ourselves whether it can be read: click's exit code for that would be the one of errors."""

_NODE_VARIABLES = ("SLURM_JOB_NUM_NODES", "SLURM_NNODES")


def _size(_context: click.Context, _option: click.Parameter, text: str | None) -> int | None:
    """A size such as 4194304, 64g or 1.5GB, in SCR's own units."""
    try:
        return None if text is None else int(coerce("SCR_FILE_BUF_SIZE", text))
    except ValueError:
        raise click.BadParameter(f"{text!r} is no size; write one such as 4194304, 64g or 1.5TB") from None


def _version(_context: click.Context, _option: click.Parameter, text: str) -> tuple[int, ...]:
    """A version such as 3.1 or 3.1.0."""
    if not re.fullmatch(r"v?[0-9]{1,5}(\.[0-9]{1,5}){1,3}", text):
        raise click.BadParameter(f"{text!r} is no version; write one such as 3.1")
    return tuple(int(part) for part in text.removeprefix("v").split("."))


@click.command("check", short_help="Find what is wrong in SCR config files, job scripts, the environment.")
@click.argument("files", nargs=-1, type=_FILE, metavar="[FILE]...")
@click.option("--env", "environment", is_flag=True, help="Check the current environment, too.")
@click.option(
    "--system-conf",
    type=_FILE,
    metavar="FILE",
    help="SCR's system config file, the layer beneath; default: that of the SCR on $PATH, if it is there.",
)
@click.option(
    "--scr-version",
    "version",
    metavar="VERSION",
    callback=_version,
    default="3.1",
    show_default=True,
    help="SCR's version.",
)
@click.option(
    "--checkpoint-size",
    "checkpoint_bytes",
    metavar="SIZE",
    callback=_size,
    help="One checkpoint of all ranks, such as 64g: does this node's cache hold its part? Needs --nodes.",
)
@click.option(
    "--nodes", type=click.IntRange(min=1), help="Nodes of the job; default: what the job script asks for."
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["table", "json", "gcc"]),
    default="table",
    show_default=True,
    help="A table, a JSON list, or file:line:column: severity: message.",
)
def check(
    files: tuple[Path, ...],
    environment: bool,
    system_conf: Path | None,
    checkpoint_bytes: int | None,
    form: str,
    **known: Any,
) -> None:
    """Find what in SCR config files, job scripts and the environment is without effect or harms the job.

    FILE is a config file of SCR's or a job script that exports SCR_*; default: the config file that SCR would
    read here. Exit codes: 0 nothing found, 1 warnings, 2 errors, 3 a file cannot be read or the findings
    cannot be printed.
    """
    try:
        sources = _sources(files, system_conf, environment=environment)
    except UnreadableError as error:
        click.echo(f"scrtune: {error}", err=True)
        sys.exit(EXIT_UNREADABLE)
    nodes = known["nodes"] or _nodes(sources)
    if checkpoint_bytes is not None and nodes is None:
        raise click.UsageError("--checkpoint-size needs --nodes: each node's cache holds its part of it")
    situation = Situation(
        version=known["version"],
        environment=dict(os.environ),
        nodes=nodes,
        checkpoint_bytes=checkpoint_bytes,
    )
    if checkpoint_bytes is not None:
        situation = msgspec.structs.replace(situation, capacities=_capacities(sources, situation))
    findings = check_sources(sources, situation)
    try:
        click.echo(_text_of(findings, form), nl=False)
        _say_what_lies_beneath(sources, to_stderr=form != "table")
    except BrokenPipeError:
        _leave_standard_output()  # the reader has seen enough (head, less)
    except (OSError, UnicodeError) as error:
        _leave_standard_output()
        click.echo(f"scrtune: what was found cannot be printed: {_why_not(error)}", err=True)
        sys.exit(EXIT_UNREADABLE)
    sys.exit(exit_code(findings))


def _sources(files: tuple[Path, ...], system_conf: Path | None, *, environment: bool) -> list[Source]:
    """The environment first: a job script sets its variables over those it was started with."""
    sources = [environment_source(dict(os.environ))] if environment else []
    sources += [source_of(str(path), config_text(path)) for path in files]
    sources += _named_by_scripts(sources, files)
    if not files:
        path = user_conf_path(os.environ)
        if path.exists():
            sources.append(Source(file=str(path), kind="config file", text=config_text(path)))
        elif not (environment or system_conf) or "SCR_CONF_FILE" in os.environ:
            raise UnreadableError(
                f"{path}: SCR would read this file here, but there is none; name a FILE, or set SCR_CONF_FILE"
                " or SCR_PREFIX as the job has them"
            )
    if system_conf is not None:
        sources.append(Source(file=str(system_conf), kind="system file", text=config_text(system_conf)))
    elif (found := _system_source(sources)) is not None:
        sources.append(found)
    return sources


def _named_by_scripts(sources: list[Source], files: tuple[Path, ...]) -> list[Source]:
    """The config files that job scripts name in SCR_CONF_FILE, if they are here and were not given."""
    found: list[Source] = []
    for source in sources:
        path = _conf_file_of(source) if source.kind == "job script" else None
        if path is None or any(map(path.samefile, [*files, *(Path(each.file) for each in found)])):
            continue
        try:
            found.append(Source(file=str(path), kind="config file", text=config_text(path)))
        except UnreadableError as error:
            click.echo(f"scrtune: the config file of {source.file} is left out: {error}", err=True)
        else:
            click.echo(f"scrtune: {source.file} names {path}, which is checked with it", err=True)
    return found


def _conf_file_of(script: Source) -> Path | None:
    said = [setting.text for setting in variables(script) if setting.name == "SCR_CONF_FILE"]
    text = expand(said[-1], os.environ) if said and said[-1] else ""
    for directory in (Path(script.file).parent, Path()):
        with contextlib.suppress(OSError, ValueError):
            if text and (directory / text).exists():
                return directory / text
    return None


def _system_source(sources: list[Source]) -> Source | None:
    """The system file of the SCR on $PATH, unless it is among `sources`; one that cannot be read is told."""
    path = system_conf_path(os.environ.get("PATH", ""))
    try:
        files = [source.file for source in sources if source.kind == "config file"]
        if not path.exists() or any(map(path.samefile, files)):
            return None
        return Source(file=str(path), kind="system file", text=config_text(path))
    except OSError as error:
        click.echo(f"scrtune: SCR's system config file is left out: {error}", err=True)
        return None


def _nodes(sources: list[Source]) -> int | None:
    """How many nodes the job gets, as far as its script or this allocation says."""
    for source in sources:
        if source.kind == "job script" and (nodes := nodes_asked_for(source.text)):
            return nodes
        for name in _NODE_VARIABLES:
            if source.kind == "environment" and (text := source.variables.get(name, "")).isdecimal():
                return int(text)
    return None


def _capacities(sources: list[Source], situation: Situation) -> dict[str, Capacity]:
    """Of every cache directory that there is on this node; the others are told."""
    found: dict[str, Capacity] = {}
    for path in sorted(cache_paths(sources, situation)):
        if (capacity := _capacity(path)) is not None:
            found[path] = capacity
        else:
            click.echo(
                f"scrtune: {path}: not on this node; whether it is large enough is not known", err=True
            )
    return found


def _capacity(path: str) -> Capacity | None:
    """Of the file system that holds `path`, or will once it is made; None when even its parent is missing."""
    for candidate in (Path(path), Path(path).parent):
        try:
            measured = os.statvfs(candidate)
        except (OSError, ValueError):
            continue
        size = measured.f_frsize
        return Capacity(total_bytes=measured.f_blocks * size, free_bytes=measured.f_bavail * size)
    return None


def _text_of(findings: tuple[Finding, ...], form: str) -> str:
    if form == "json":
        return msgspec.json.format(msgspec.json.encode(_printable(findings)), indent=2).decode() + "\n"
    if form == "gcc":
        return "".join(f"{finding.gcc}\n" for finding in _printable(findings))
    if not findings:
        return "scrtune: nothing found\n"
    console = show.console()
    with console.capture() as captured:
        console.print(_table(_printable(findings)))
    return captured.get()


def _why_not(error: OSError | UnicodeError) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror}; redirect standard output to where there is room"
    encoding = getattr(error, "encoding", "the encoding")
    return f"{encoding} has no such characters; use a UTF-8 locale, or set PYTHONIOENCODING=utf-8"


def _leave_standard_output() -> None:
    """Nothing more can be said there, at Python's end neither: that would change the exit code."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _say_what_lies_beneath(sources: list[Source], *, to_stderr: bool) -> None:
    for source in sources:
        if source.kind == "system file":
            click.echo(
                printable(f"scrtune: SCR's system config file counts beneath: {source.file}"),
                err=to_stderr,
            )


def _printable(findings: tuple[Finding, ...]) -> list[Finding]:
    return [
        msgspec.structs.replace(
            finding,
            file=printable(finding.file),
            message=printable(finding.message),
            remedy=printable(finding.remedy),
        )
        for finding in findings
    ]


def _table(findings: list[Finding]) -> Table:
    table = show.plain_table("place", "", "what happens", "how to mend it", "code")
    for finding in findings:
        place = f"{finding.file}:{finding.line}:{finding.column}" if finding.line else finding.file
        table.add_row(place, finding.severity, finding.message, finding.remedy, finding.code)
    return table
