"""What `scrtune replay` prints."""

from collections.abc import Iterator

from ...intents.rules.explain import why_nothing
from ...intents.settings import changes_text
from ...replay.run import are_apart
from ...units import count_text
from ..blocks import Document, facts, table
from ..views.replay import ReplayView
from . import job


def replay(view: ReplayView) -> Document:
    """Return what was read, what it means, and what is recommended."""
    counters = view.counters
    found = (f"{count} of generation {number}" for number, count in sorted(counters.generations.items()))
    generations, lines = ", ".join(found) or "nothing", count_text(view.lines, "line")
    dropped = count_text(sum(counters.dropped.values()), "line")
    events = count_text(counters.trace_events, "event")
    processes = count_text(view.processes, "process", "processes")
    unresolved = count_text(counters.unresolved, "access", "accesses")
    rows = {
        "read": f"{count_text(view.files, 'file')}, {lines}: {generations}",
        "merged": "\n".join(_merged(view)),
        "job": f"{processes} on {count_text(view.hosts, 'host')}, {view.span_s:.2f} s",
        "settings": view.settings_from,
        "found": f"{events}, {count_text(view.checkpoints, 'checkpoint')}",
        "checkpoints": view.checkpoints_from,
        "dropped": f"{dropped}: {job.counts(counters.dropped)}" if counters.dropped else "",
        "unresolved": f"{unresolved} to files that no line names" if counters.unresolved else "",
        "not seen": view.unseen,
        "damaged": "\n".join(view.damage),
    }
    answers = ((each.intent, changes_text(each.recommended) or "-", each.why) for each in view.answers)
    title = "What follows from each intent"
    follows = [each for each in view.parameters if each.is_wanted or each.command]
    return [
        [facts(rows)],
        [job.intents(view.intents)],
        [table("intent", "recommended", "why nothing", rows=answers, title=title)],
        *_recommendations(view),
        [job.parameters(follows)] if follows else [],
        [job.levers(view.levers)],
    ]


def _merged(view: ReplayView) -> Iterator[str]:
    start_s = min((each.start_s for each in view.merged if each.end_s > 0), default=0.0)
    for each in view.merged:
        when = f"from {each.start_s - start_s:,.2f} to {each.end_s - start_s:,.2f} s"
        yield f"{each.path}: {count_text(each.files, 'file')}, {when if each.end_s else 'no event'}"
    if view.merged:
        apart = ", though they do not overlap" if are_apart(view.merged) else ""
        yield f"read as one job{apart}; scrtune study NAME=PATH... compares several runs"


def _recommendations(view: ReplayView) -> Document:
    if not view.proposals:
        return [[f"Nothing to recommend: {why_nothing(view.levers)}."]]
    title = "Recommendations (by the cost model and the trace, untried)"
    return [
        job.proposals(view.proposals, title),
        ["For the job script: the same command with --format sh."],
    ]
