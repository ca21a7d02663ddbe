"""Every parameter that a rule derives: from which intent, when it acts and for whom, the rule and its source.

The functions beside this module find the value. `docs/intents.md` tells each rule's story.
"""

from ...mutability import Mutability
from ...observe.faults.fault_tolerance import SET_SHARE
from ..levers import AXL_SOURCE, LEAST_PRIORITY, SCHEDULER, STUDY
from ..parameter import DerivedParameter, Phase, Scope

MOST_LOAD = 0.7
"""Flush seconds per second between checkpoints, beyond which the next one may have to wait for a flush."""
WRITERS_A_TARGET = 4
"""The sources' "a few"."""
INTERVAL_SOURCE = "J. T. Daly, FGCS 22(3), 2006; SCR source (scr.c:3059)"

_INIT, _START = Phase.INIT, Phase.START_OUTPUT
_BETWEEN, _END = Phase.BETWEEN_OUTPUTS, Phase.FINALIZE
_JOB, _NODE, _KIND = Scope.JOB, Scope.NODE, Scope.OUTPUT_KIND
_LIVE, _REINIT, _LAUNCH, _RANK0 = Mutability.LIVE, Mutability.REINIT, Mutability.LAUNCH, Mutability.RANK0


def _row(  # noqa: PLR0913, PLR0917 - a row of the table
    intent: str, name: str, phase: Phase, scope: Scope, change: Mutability, rule: str, source: str
) -> DerivedParameter:
    return DerivedParameter(
        intent=intent, name=name, phase=phase, scope=scope, change=change, rule=rule, source=source
    )


FLUSH_CPUS = _row("core affinity", "SCRTUNE_FLUSH_CPUS", _INIT, _NODE, _LIVE,
    "flush threads run on all CPUs of the cores that no rank is bound to",
    f"{STUDY}: 41.4 s bound, 23.0 s unbound")  # fmt: skip
FLUSH_THREADS = _row("core affinity", "SCRTUNE_FLUSH_THREADS", _INIT, _NODE, _LIVE,
    "as many threads as a rank has files and idle cores (a core is one, whatever its hyperthreads)",
    f"{AXL_SOURCE}; {STUDY}")  # fmt: skip
FLUSH_NICE = _row("core affinity", "SCRTUNE_FLUSH_NICE", _INIT, _NODE, _LIVE,
    f"{LEAST_PRIORITY} where a rank has no idle core for its flush", SCHEDULER)  # fmt: skip
FLUSH_ASYNC = _row("core affinity", "SCR_FLUSH_ASYNC", _START, _JOB, _LIVE,
    f"beside the computation, if a core is idle and flushes take below {MOST_LOAD:.0%} of the time",
    f"derived; {STUDY}")  # fmt: skip

FILE_BUF_SIZE = _row("buffer sizes", "SCR_FILE_BUF_SIZE", _INIT, _JOB, _LIVE,
    "the p90 of the access sizes of all outputs, within 1 and 32 MiB",
    f"{STUDY}: 32 MiB to 1.75 GiB changed nothing; AXL has one for each copy")  # fmt: skip
MPI_BUF_SIZE = _row("buffer sizes", "SCR_MPI_BUF_SIZE", _INIT, _JOB, _LIVE,
    "SCR's own default, where a scheme encodes; a message has no use for the access sizes",
    "SCR source (scr_conf.h:146); redset")  # fmt: skip

COPY_TYPE = _row("fault model", "SCR_COPY_TYPE", _INIT, _JOB, _REINIT,
    "keep the redundancy floor", "SCR manual (Redundancy schemes)")  # fmt: skip
GROUP = _row("fault model", "SCR_GROUP", _INIT, _JOB, _LAUNCH,
    "what fails together is one failure group",
    "SCR manual (Group, store, and redundancy descriptors); redset source (redset.c:407)")  # fmt: skip
CKPT = _row("fault model", "CKPT", _INIT, _JOB, _LAUNCH,
    "SINGLE often, XOR every n-th: each level as often as its failures make it pay",
    "Benoit et al., IEEE TC 66(7), 2017; SCR manual (Example using SINGLE and XOR)")  # fmt: skip

CACHE_PURGE = _row("clean start", "SCR_CACHE_PURGE", _INIT, _JOB, _LAUNCH,
    "delete the cache at the job's first start alone", "SCR source (scr.c:2499)")  # fmt: skip
DISTRIBUTE = _row("clean start", "SCR_DISTRIBUTE", _INIT, _JOB, _LAUNCH,
    "rebuild what the cache holds", "SCR source (scr.c:2512)")  # fmt: skip

SET_FAILURES = _row("fault tolerance", "SCR_SET_FAILURES", _INIT, _JOB, _REINIT,
    "as many losses as you want to survive, all in one set",
    "SCR manual (Redundancy schemes); redset source (redset_reedsolomon.c:158)")  # fmt: skip
SET_SIZE = _row("fault tolerance", "SCR_SET_SIZE", _INIT, _JOB, _REINIT,
    f"the largest set of which more than it survives are lost in {SET_SHARE:.0%} of losses at most",
    "SCR manual (Redundancy schemes); derived (binomial, redset's sets)")  # fmt: skip

PREFIX_SIZE = _row("history", "SCR_PREFIX_SIZE", _START, _JOB, _LIVE,
    "keep the history that you ask for, and as much as a rollback needs",
    "SCR manual (Control, cache, and prefix directories); SCR source (scr_prefix.c:332)")  # fmt: skip
PREFIX_PURGE = _row("history", "SCR_PREFIX_PURGE", _INIT, _JOB, _LAUNCH,
    "delete nothing that was not asked for", "SCR source (scr.c:2506)")  # fmt: skip

STRIPES = _row("storage targets", "stripes of the prefix directory", _INIT, _JOB, _LAUNCH,
    "1 stripe below 1 MiB, 4 up to 1 GiB, 8 above (as many as nodes for a file of several),"
    " no more than files leave targets; of the size of a write",
    "Lustre wiki, NERSC and KISTI, which disagree: derived, to be seen at the next output")  # fmt: skip
FLUSH_WIDTH = _row("storage targets", "SCR_FLUSH_WIDTH", _INIT, _JOB, _LAUNCH,
    f"ranks that write at once: {WRITERS_A_TARGET} files for each target;"
    " SCR up to 2.0 obeys, SCR 3 reads it and never uses it"
    " (real levers: SCRTUNE_FLUSH_THREADS, SCR_FLUSH_TYPE and the stripes of the directory)",
    "SCR source (scr.c:1066); Lustre wiki")  # fmt: skip

CHECKPOINT_SECONDS = _row("checkpoint rate", "SCR_CHECKPOINT_SECONDS", _BETWEEN, _JOB, _RANK0,
    "Daly's interval, within what was declared", INTERVAL_SOURCE)  # fmt: skip
FLUSH = _row("checkpoint rate", "SCR_FLUSH", _START, _JOB, _LIVE,
    "sqrt(M2 C2 / (M1 C1)): each level by Young",
    "Benoit et al., IEEE TC 66(7), 2017; SCR source (scr.c:434)")  # fmt: skip
CACHE_SIZE = _row("checkpoints required", "SCR_CACHE_SIZE", _START, _JOB, _REINIT,
    "ceil(flush / time between two checkpoints) + 1, at least 2",
    "SCR documentation, PR #544")  # fmt: skip

HALT_SECONDS = _row("workflow", "SCR_HALT_SECONDS", _END, _JOB, _LAUNCH,
    "1.5 times: until the application asks, a checkpoint, the flush under way, and the last one",
    "SCR source (scr.c:300, scr_env.c:80)")  # fmt: skip
FLUSH_POSTSTAGE = _row("workflow", "SCR_FLUSH_POSTSTAGE", _END, _JOB, _LAUNCH,
    "let the next application begin while the last flush goes on",
    "SCR source (scr.c:144, scr_flush_async.c:339)")  # fmt: skip

CURRENT = _row("divergence", "SCR_CURRENT", _BETWEEN, _JOB, _LAUNCH,
    "the newest checkpoint that had ended while the metric was usual, and is still kept",
    "LLNL study, next step 3; SCR documentation (SCR_CURRENT)")  # fmt: skip
