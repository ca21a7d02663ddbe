"""The allocation that the job runs in, as its scheduler shows it: its end, its nodes and switches, the steps.

Slurm is asked with its own commands, Flux with its own: in a job of Flux's what that job has, in the script
of a batch job (an instance of its own, whose environment names no job) what the instance has. What the
environment says stands in for what cannot be asked.
"""

import contextlib
import os
import re
from collections.abc import Iterator, Mapping
from itertools import islice

import msgspec
from msgspec.structs import replace

from ...intents.events import AllocationObserved
from ..options import STEP_NAME
from .side_process import SideProcess

EVERY_S = 300.0
"""Seconds between two questions; a run of the job that begins asks, too."""
LIMIT_S = 10.0
MOST_HOSTS, MOST_STEPS = 65_536, 1024

_PART = "===="
_NO_HOSTS = "(null)"
_ASK_SLURM = f"""\
exec 2>/dev/null
scontrol --oneliner show job "$SLURM_JOB_ID"; echo {_PART}
squeue --noheader --steps --jobs="$SLURM_JOB_ID" --format='%i %j'; echo {_PART}
scontrol show topology; echo {_PART}
"""
_ASK_FLUX = f"""\
exec 2>/dev/null
if [ "$FLUX_JOB_ID" ]; then flux job info "$FLUX_JOB_ID" R; echo {_PART}; exit; fi
flux kvs get resource.R; echo {_PART}
flux jobs -a --no-header --format='{{id.dec}} {{name}}'; echo {_PART}
"""
_END = re.compile(r"(?<!\w)EndTime=(\d+)")
_HOSTS = re.compile(r"(?<!\w)NodeList=(\S+)")
_LEAF_SWITCH = re.compile(r"SwitchName=(\S+) Level=0 .*?(?<!\w)Nodes=(\S+)")
_STEP = re.compile(r"\d+(?:\+\d+)?\.(\d+) (.+)")
_JOB = re.compile(r"^(\d+) (.+)$", re.MULTILINE)
_NAMES = re.compile(r"((?:\[[^\]]*\]|[^,\[])+)")
_RANGE = re.compile(r"\[([^\]]*)\]")


class AllocationWatch:
    """Asks the scheduler of this environment, and says what has changed; nothing outside an allocation."""

    def __init__(self, environment: Mapping[str, str] = os.environ, limit_s: float = LIMIT_S) -> None:
        self._environment = environment
        self._told = _of_environment(environment)
        """What is known, to which each answer is added."""
        self._sent: AllocationObserved | None = None
        self._process = SideProcess(limit_s)
        self._next_s = 0.0

    @property
    def is_running(self) -> bool:
        """Return whether an answer is still to be taken."""
        return self._process.is_running

    def ask(self) -> None:
        """Ask at the next :meth:`look`: a run of the job has begun."""
        self._next_s = 0.0

    def recall(self, seen: AllocationObserved | None) -> None:
        """Go on from what an earlier daemon of the job has seen: steps that have ended are not listed."""
        if self._told is not None and seen is not None and seen.job == self._told.job:
            self._told = replace(self._told, steps=seen.steps)

    def look(self, time_s: float, now: float) -> AllocationObserved | None:
        """Return what has changed, as of `now`; ask when that is due at the monotonic `time_s`."""
        if self._told is None:
            return None
        if not self.is_running and time_s >= self._next_s:
            self._next_s = time_s + EVERY_S
            script = _ASK_SLURM if self._told.scheduler == "slurm" else _ASK_FLUX
            # epoch seconds: the scheduler's time zone may be another one
            variables = {**self._environment, "SLURM_TIME_FORMAT": "%s"}
            with contextlib.suppress(OSError):  # no process can be had now: there is a next time
                self._process.start(["/bin/sh", "-c", script], time_s, variables)
        elif (taken := self._process.take(time_s)) is not None:
            self._told = _with_answer(self._told, taken[0])
        if self.is_running or self._told == self._sent:
            return None
        self._sent = self._told
        return replace(self._told, time_s=now)

    def close(self) -> None:
        """End what still runs."""
        self._process.close()


def _of_environment(environment: Mapping[str, str]) -> AllocationObserved | None:
    """Return what the environment says of its allocation; None outside."""
    if job := environment.get("SLURM_JOB_ID", ""):
        end = environment.get("SLURM_JOB_END_TIME", "")  # Slurm 23.02 and later
        hosts = expanded(environment.get("SLURM_JOB_NODELIST", ""))
        end_s = float(end) if end.isdecimal() else 0.0
        return AllocationObserved(scheduler="slurm", job=job, end_s=end_s, hosts=hosts)
    if job := environment.get("FLUX_JOB_ID", "") or environment.get("FLUX_URI", ""):
        return AllocationObserved(scheduler="flux", job=job)
    return None


def _with_answer(told: AllocationObserved, answer: str) -> AllocationObserved:
    """Return `told` with what the scheduler answered: each part that is whole."""
    parts = answer.split(f"{_PART}\n")[:-1]
    if told.scheduler == "flux":
        return _with_flux(told, parts)
    if parts and (found := _HOSTS.findall(parts[0])):
        ends = [float(end) for end in _END.findall(parts[0])]  # none: EndTime=Unknown, it has no limit
        hosts = expanded(",".join(found))
        told = replace(told, hosts=hosts or told.hosts, end_s=min(ends, default=0.0))
    if len(parts) > 1:
        told = replace(told, steps=_steps(told.steps, parts[1]))
    if len(parts) > 2:  # noqa: PLR2004 - the third of the commands
        mine = {*told.hosts}
        leaves = ((switch, expanded(names)) for switch, names in _LEAF_SWITCH.findall(parts[2]))
        switches = {host: switch for switch, hosts in leaves for host in hosts if host in mine}
        told = replace(told, switches=switches)
    return told


def _steps(before: tuple[str, ...], listed: str) -> tuple[str, ...]:
    """Return the application's steps so far: ``number name``, each once, in the order of their numbers.

    Slurm lists only those that run now, among them its own (batch, extern) and our daemons'.
    """
    seen = {int(number): name for number, _, name in (each.partition(" ") for each in before)}
    for line in listed.splitlines():
        if (match := _STEP.fullmatch(line.strip())) and match[2] != STEP_NAME:
            seen[int(match[1])] = match[2]
    return tuple(f"{number} {seen[number]}" for number in sorted(seen)[-MOST_STEPS:])


class _Execution(msgspec.Struct):
    """What of Flux's resource set is read (RFC 20)."""

    nodelist: list[str] = []
    expiration: float = 0.0


class _ResourceSet(msgspec.Struct):
    execution: _Execution


def _with_flux(told: AllocationObserved, parts: list[str]) -> AllocationObserved:
    """Return `told` with the resources and, of an instance, all jobs that it had."""
    if parts:
        with contextlib.suppress(msgspec.MsgspecError):
            found = msgspec.json.decode(parts[0], type=_ResourceSet).execution
            hosts = expanded(",".join(found.nodelist))
            told = replace(told, hosts=hosts, end_s=max(0.0, found.expiration))
    if len(parts) > 1:
        jobs = sorted((len(number), number, name) for number, name in _JOB.findall(parts[1]))[-MOST_STEPS:]
        told = replace(told, steps=tuple(f"{place} {name}" for place, (*_, name) in enumerate(jobs)))
    return told


def expanded(names: str) -> tuple[str, ...]:
    """Return the hosts of a list as Slurm and Flux write it: ``n[1-2,4],login1``; 65,536 at most."""
    hosts: list[str] = []
    for name in _NAMES.findall(names):
        hosts += islice(_hosts_of(name), MOST_HOSTS - len(hosts))
    return tuple(hosts)


def _hosts_of(name: str) -> Iterator[str]:
    match = _RANGE.search(name)
    if match is None:
        if name != _NO_HOSTS:
            yield name
        return
    for part in match[1].split(","):
        first, _, last = part.partition("-")
        if not (first.isdecimal() and (last or first).isdecimal()):
            continue
        for number in range(int(first), int(last or first) + 1):
            yield from _hosts_of(f"{name[: match.start()]}{number:0{len(first)}}{name[match.end() :]}")
