"""`scrtune check`: what in SCR's configuration is wrong, before the job finds out."""

import contextlib
import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import click
import msgspec

from ....scr_config.catalogue import coerce
from ....scr_config.check.check import (
    Source,
    SourceKind,
    cache_paths,
    check_sources,
    environment_source,
    source_of,
    variables,
)
from ....scr_config.check.job_script import nodes_asked_for
from ....scr_config.check.model import Capacity, CheckContext
from ....scr_config.locations import system_conf_path, user_conf_path
from ....scr_config.parse import Pair
from ....scr_config.problems import Code, Finding, Severity, worst_exit_code
from ....scr_config.resolution import expand
from ...blocks import Document, table
from ...format import printable
from ...options import UNREAD, command, option
from ...terminal import print_view
from ...user_files import UnreadableError, config_text

EXIT_UNREADABLE = 3
Form = Literal["table", "json", "gcc"]
_NODE_VARIABLES = ("SLURM_JOB_NUM_NODES", "SLURM_NNODES")


def _size_bytes(text: str) -> int:
    """Return the bytes of a size such as 4194304, 64g or 1.5GB, in SCR's own units. Raises ValueError."""
    try:
        return int(coerce("SCR_FILE_BUF_SIZE", text))
    except ValueError:
        raise ValueError(f"{text!r} is no size; write one such as 4194304, 64g or 1.5TB") from None


def _version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version such as 3.1 or 3.1.0. Raises ValueError."""
    if not re.fullmatch(r"v?[0-9]{1,5}(\.[0-9]{1,5}){1,3}", text):
        raise ValueError(f"{text!r} is no version; write one such as 3.1")
    return tuple(int(part) for part in text.removeprefix("v").split("."))


@dataclass(frozen=True)
class CheckOptions:
    """Options of `scrtune check`."""

    files: tuple[Path, ...] = option("[FILE]...", kind=UNREAD)
    environment: bool = option("--env", "Check the current environment, too.")
    system_conf: Path | None = option(
        "--system-conf FILE",
        "SCR's system config file, the layer beneath; default: that of the SCR on $PATH, if it is there.",
        UNREAD,
    )
    version: tuple[int, ...] = option(
        "--scr-version VERSION", "SCR's version.", default="3.1", parse=_version
    )
    checkpoint_bytes: int | None = option(
        "--checkpoint-size SIZE",
        "One checkpoint of all ranks, such as 64g: does this node's cache hold its part? Needs --nodes.",
        parse=_size_bytes,
    )
    nodes: int | None = option(
        "--nodes", "Nodes of the job; default: what the job script asks for.", click.IntRange(min=1)
    )
    form: Form = option(
        "--format", "A table, a JSON list, or file:line:column: severity: message.", default="table"
    )


@command(CheckOptions)
def check(options: CheckOptions) -> None:
    """Find what in SCR config files, job scripts and the environment is without effect or harms the job.

    FILE is a config file of SCR's or a job script that exports SCR_*; default: the config file that SCR would
    read here. Exit codes: 0 nothing found, 1 warnings, 2 errors, 3 a file cannot be read or the findings
    cannot be printed.
    """
    try:
        sources = _sources(options)
    except UnreadableError as error:
        click.echo(f"scrtune: {error}", err=True)
        sys.exit(EXIT_UNREADABLE)
    findings = check_sources(sources, _situation(options, sources))
    if not any(source.kind is SourceKind.CONFIG_FILE for source in sources):
        findings = (*filter(None, map(_missing_config, sources)), *findings)
    try:
        print_view([_printable(each) for each in findings], options.form, _table, _gcc)
        for source in sources:
            if source.kind is SourceKind.SYSTEM_FILE:
                text = f"scrtune: SCR's system config file counts beneath: {source.file}"
                click.echo(printable(text), err=options.form != "table")
    except BrokenPipeError:
        _leave_standard_output()  # the reader has seen enough (head, less)
    except (OSError, UnicodeError) as error:
        _leave_standard_output()
        click.echo(f"scrtune: what was found cannot be printed: {_why_not(error)}", err=True)
        sys.exit(EXIT_UNREADABLE)
    sys.exit(worst_exit_code(findings))


def _situation(options: CheckOptions, sources: list[Source]) -> CheckContext:
    nodes, size = options.nodes or _nodes(sources), options.checkpoint_bytes
    found = CheckContext(
        version=options.version, environment=dict(os.environ), nodes=nodes, checkpoint_bytes=size
    )
    if size is None:
        return found
    if nodes is None:
        raise click.UsageError("--checkpoint-size needs --nodes: each node's cache holds its part of it")
    return msgspec.structs.replace(found, capacities=_capacities(sources, found))


def _sources(options: CheckOptions) -> list[Source]:
    """Return all there is to check.

    The environment comes first: a job script sets its variables over those it was started with.
    """
    system_conf = options.system_conf
    sources = [environment_source(dict(os.environ))] if options.environment else []
    sources += [source_of(str(path), config_text(path)) for path in options.files]
    sources += _named_by_scripts(sources, options.files)
    if not options.files:
        path = user_conf_path(os.environ)
        if path.exists():
            sources.append(_file(path, SourceKind.CONFIG_FILE))
        elif not (options.environment or system_conf) or "SCR_CONF_FILE" in os.environ:
            raise UnreadableError(
                f"{path}: SCR would read this file here, but there is none; name a FILE, or set SCR_CONF_FILE"
                " or SCR_PREFIX as the job has them"
            )
    system = _file(system_conf, SourceKind.SYSTEM_FILE) if system_conf else _system_source(sources)
    return sources if system is None else [*sources, system]


def _file(path: Path, kind: SourceKind) -> Source:
    return Source(file=str(path), kind=kind, text=config_text(path))


def _named_by_scripts(sources: list[Source], files: tuple[Path, ...]) -> list[Source]:
    """Return the config files that job scripts name in SCR_CONF_FILE, if they are here and were not given."""
    found: list[Source] = []
    for source in sources:
        path = _conf_file_of(source) if source.kind is SourceKind.JOB_SCRIPT else None
        if path is None or any(map(path.samefile, [*files, *(Path(each.file) for each in found)])):
            continue
        try:
            found.append(_file(path, SourceKind.CONFIG_FILE))
        except UnreadableError as error:
            click.echo(f"scrtune: the config file of {source.file} is left out: {error}", err=True)
        else:
            click.echo(f"scrtune: {source.file} names {path}, which is checked with it", err=True)
    return found


def _conf_file_of(script: Source) -> Path | None:
    """Return the existing config file that a job script names, if it names one."""
    if (named := _names_config(script)) is None:
        return None
    text = expand(named.value, os.environ)
    for directory in (Path(script.file).parent, Path()):
        with contextlib.suppress(OSError, ValueError):
            if text and (directory / text).exists():
                return directory / text
    return None


def _names_config(script: Source) -> Pair | None:
    """Return the last setting of SCR_CONF_FILE in a job script."""
    return next((each for each in reversed([*variables(script)]) if each.key == "SCR_CONF_FILE"), None)


def _missing_config(script: Source) -> Finding | None:
    """Return that the config file which a job script names is not here, or not known."""
    named = _names_config(script) if script.kind is SourceKind.JOB_SCRIPT else None
    if named is None or not named.value or _conf_file_of(script) is not None:
        return None
    why = (
        "is not there: without it SCR runs with its defaults"
        if named.is_known
        else "is known to the script alone"
    )
    what = f"SCR_CONF_FILE: {named.raw} {why}; nothing of that file was checked"
    remedy = "correct the path, or name the file to `scrtune check` beside the script"
    return Finding(
        script.file, named.line, named.value_column, Severity.WARNING, Code.NO_CONFIG_FILE, what, remedy
    )


def _system_source(sources: list[Source]) -> Source | None:
    """Return the system file of the SCR on $PATH, unless it is among `sources` or cannot be read."""
    path = system_conf_path(os.environ.get("PATH", ""))
    try:
        files = [source.file for source in sources if source.kind is SourceKind.CONFIG_FILE]
        if not path.exists() or any(map(path.samefile, files)):
            return None
        return _file(path, SourceKind.SYSTEM_FILE)
    except OSError as error:
        click.echo(f"scrtune: SCR's system config file is left out: {error}", err=True)
        return None


def _nodes(sources: list[Source]) -> int | None:
    """Return how many nodes the job gets, as far as its script or this allocation says."""
    for source in sources:
        if source.kind is SourceKind.JOB_SCRIPT and (nodes := nodes_asked_for(source.text)):
            return nodes
        for name in _NODE_VARIABLES:
            if source.kind is SourceKind.ENVIRONMENT and (text := source.variables.get(name, "")).isdecimal():
                return int(text)
    return None


def _capacities(sources: list[Source], situation: CheckContext) -> dict[str, Capacity]:
    """Return the capacity of each cache directory that is on this node, or will be; others are reported."""
    found: dict[str, Capacity] = {}
    for path in sorted(cache_paths(sources, situation)):
        for candidate in (Path(path), Path(path).parent):
            with contextlib.suppress(OSError, ValueError):
                seen = os.statvfs(candidate)
                total, free = (each * seen.f_frsize for each in (seen.f_blocks, seen.f_bavail))
                found[path] = Capacity(total_bytes=total, free_bytes=free)
                break
        else:
            click.echo(
                f"scrtune: {path}: not on this node; whether it is large enough is not known", err=True
            )
    return found


def _why_not(error: OSError | UnicodeError) -> str:
    if isinstance(error, OSError):
        return f"{error.strerror}; redirect standard output to where there is room"
    encoding = getattr(error, "encoding", "the encoding")
    return f"{encoding} has no such characters; use a UTF-8 locale, or set PYTHONIOENCODING=utf-8"


def _leave_standard_output() -> None:
    """Discard what is printed from now on: a failure at Python's end would change the exit code."""
    with contextlib.suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)


def _printable(finding: Finding) -> Finding:
    texts = {name: printable(getattr(finding, name)) for name in ("file", "message", "remedy")}
    return msgspec.structs.replace(finding, **texts)


def _gcc(findings: list[Finding]) -> str:
    return "".join(f"{finding.gcc}\n" for finding in findings)


def _table(findings: list[Finding]) -> Document:
    if not findings:
        return [["scrtune: nothing found"]]
    places = (f"{each.file}:{each.line}:{each.column}" if each.line else each.file for each in findings)
    rows = (
        (place, each.severity, each.message, each.remedy, each.code)
        for place, each in zip(places, findings, strict=True)
    )
    return [[table("place", "", "what happens", "remedy", "code", rows=rows)]]
