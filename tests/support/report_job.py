"""A job to draw, the page of it, and a browser to look at that."""

import os
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path

import msgspec
import pytest

from scrtune.cli.jobs.record import JobRecord
from scrtune.cli.views.tuner_changes import TunerChange
from scrtune.goodput.events import (
    FlushCompleted,
    GoodputEvent,
    Interval,
    JobEnded,
    JobStarted,
    NodeFailed,
    OutputCompleted,
    Recovered,
    RestartCompleted,
    StepCompleted,
)
from scrtune.goodput.job_events import JobEvents
from scrtune.goodput.report import Report, report
from scrtune.intents.tune.decisions import Decision, Verdict
from scrtune.intents.tune.gains import Gain, GainView

T = 1.76e9
HOSTILE = '<script>alert(1)</script> & "$x$" \x1b[31m'
CHROMIUM = shutil.which("chromium")

GAIN = Gain(
    before_s=1.5,
    saved_s=0.9,
    low_s=0.6,
    high_s=1.3,
    checkpoints=20,
    total_s=18.0,
)


def trial(  # noqa: PLR0913 - the parts of a change
    number: int,
    begin_s: float,
    end_s: float | None,
    *,
    verdict: Verdict = Verdict.ACCEPTED,
    rule: str = "flush asynchronously",
    gain: Gain | None = GAIN,
) -> TunerChange:
    """A trial from `begin_s` to `end_s` (seconds since the job began) and what became of it."""
    decision = Decision(
        generation=number,
        time_s=T + begin_s,
        verdict=Verdict.TRIAL,
        rule=rule,
        changes={"SCR_FLUSH_ASYNC": 1},
        previous={"SCR_FLUSH_ASYNC": 0},
        because="the flush blocks <much>",
    )
    judged = "0.42 times the cost before"
    ended = None
    if end_s is not None:
        ended = msgspec.structs.replace(decision, time_s=T + end_s, verdict=verdict, because=judged)
    return TunerChange(number=number, decision=decision, ended=ended, gain=gain)


VETOED = Decision(
    generation=2,
    time_s=T + 70,
    verdict=Verdict.VETOED,
    rule="fewer copies",
    changes={"SCR_COPY_TYPE": "SINGLE"},
    previous={"SCR_COPY_TYPE": "XOR"},
    because="no failure was declared",
)
CHANGES = (trial(1, 30, 60), TunerChange(number=2, decision=VETOED))


def view_of(change: TunerChange) -> GainView:
    """The gain of a change that was measured."""
    assert change.gain is not None
    decision = change.decision
    return GainView(
        generation=decision.generation,
        time_s=decision.time_s,
        rule=decision.rule,
        changes=decision.changes,
        previous=decision.previous,
        verdict=change.verdict,
        gain=change.gain,
    )


def checkpointed(steps: int = 60, runs: int = 2) -> list[GoodputEvent]:
    """Runs with a checkpoint every ten steps; all but the last break off and lose five steps."""
    events: list[GoodputEvent] = []
    at_s, first, dataset = T, 0, 0
    for run in range(runs):
        events.append(JobStarted(time_s=at_s, ranks=2))
        if run:
            events += [
                Recovered(kind="rebuild", dataset=dataset, start_s=at_s, end_s=at_s + 2),
                RestartCompleted(
                    dataset=dataset, name="c", start_s=at_s + 2, end_s=at_s + 3, source="rebuild"
                ),
            ]
        at_s += 4
        for step in range(first, first + steps):
            events.append(StepCompleted(step=step, start_s=at_s, end_s=at_s + 1))
            at_s += 1
            if step % 10 == 9:
                dataset += 1
                output = OutputCompleted(
                    dataset=dataset,
                    name=f"step.{step}",
                    start_s=at_s,
                    end_s=at_s + 1,
                    write_s=0.5,
                    encode_s=0.2,
                    flush_due=True,
                )
                at_s += 1
                flush = FlushCompleted(dataset=dataset, start_s=at_s, end_s=at_s + 3, asynchronous=True)
                events += [output, flush]
        first += steps - 5
        events.append(Interval(kind="custom", name=HOSTILE, start_s=at_s, end_s=at_s + 2))
        at_s += 2
        if run < runs - 1:
            events.append(NodeFailed(time_s=at_s + 1, node="node7"))
            at_s += 20
    return [*events, JobEnded(time_s=at_s, exit_code=0)]


def reported(events: list[GoodputEvent], name: str = "a job") -> Report:
    now = max(getattr(event, "end_s", getattr(event, "time_s", 0.0)) for event in events)
    job = JobRecord(name=name, events=JobEvents(events), read=len(events), now=now)
    return report(name, job.events, job.ledger, now, job.costs)


def write_log(path: Path, events: list[GoodputEvent], name: str = "a job") -> Path:
    lines = (msgspec.json.encode({**msgspec.to_builtins(event), "job_name": name}) for event in events)
    path.write_bytes(b"\n".join(lines) + b"\n")
    return path


def section(text: str, heading: str) -> list[list[str]]:
    """The cells of the table below `heading`, as they are read."""
    table = text[text.index(f"<h2>{heading}</h2>") :].partition("</table>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table.partition("<tbody>")[2], re.DOTALL)
    return [
        [
            " ".join(unescape(re.sub(r"<.*?>", "", cell)).split())
            for cell in re.findall(r"<td[^>]*>(.*?)</td>", row, re.DOTALL)
        ]
        for row in rows
    ]


def browse(at: Path, *options: str) -> str:
    """What the browser says of the page `at`, if it is asked to say anything."""
    if CHROMIUM is None:
        pytest.skip("no chromium here: what a browser makes of the page is not checked")
    command = [
        CHROMIUM,
        "--headless",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--hide-scrollbars",
        f"--user-data-dir={at.parent / 'profile'}",
    ]
    if os.getuid() == 0:
        command.append("--no-sandbox")
    told = subprocess.run([*command, *options, at.as_uri()], capture_output=True, check=True, timeout=60)
    return told.stdout.decode()
