"""What a run shows of the costs of its settings, as the cost model needs it.

Its settings are those that are named for it; where none are, what the trace shows of them (the tier that is
written, the threads of a flush and their accesses); where it shows nothing, SCR's defaults.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from statistics import fmean, median, variance
from typing import NamedTuple

import msgspec

from ...intents.events import SpanKind, Tier, Value, Values
from ...intents.observe.faults.redundancy import effective
from ...intents.rules.situation import MAX_FLUSH_THREADS
from ...intents.settings import DEFAULTS, is_asynchronous, is_cached
from ...intents.trace.rows import Amount
from ...intents.tune.belief.shape import Shape
from ...scr_config.catalogue import coerce
from ..seen_settings import SCR_OWN, Writes, application_writes, bytes_in, seen_settings
from ..study import Run
from ..study_rows import CheckpointRow, RunRow
from ..table import JobThread, TraceTable

FACTS = ("cores", "cores_per_rank", "files", "interval", "nodes", "ranks_per_node")
"""What may be said of a job beside its parameters: cores of a node and in a rank's mask, files of a rank in a
checkpoint, seconds between two checkpoints."""
_NS = 1e9
_UNKNOWN_INTERVAL_S = 100.0


class RunEvidence(msgspec.Struct, frozen=True, kw_only=True):
    """A run as the model sees it: `settings` are complete, `said` what somebody said of it.

    `checkpoint_s` is the mean of a checkpoint's slowest thread, `spread` its standard error relative to it;
    `outside_s` what a saving thread does not spend of it in calls on files, `flush_s` the mean of the slowest
    rank's background writes: None where the trace does not show them. `node_bytes` are the true ones of a
    node, whose ranks need not all be as heavy as the heaviest, of which `shape` is made.
    """

    run: str
    settings: Values
    said: Values
    shape: Shape
    node_bytes: float
    largest_file: float
    with_scr: bool
    checkpoint_s: float
    spread: float
    outside_s: float | None
    flush_s: float | None

    @property
    def kind(self) -> tuple[Value, ...]:
        """What it has in common with runs that show the same rates."""
        return kind_of(self.settings, self.shape) if self.with_scr else ("plain", is_cached(self.settings))


def kind_of(settings: Values, shape: Shape) -> tuple[Value, ...]:
    """Return what settings have in common that go to the same tier with the same scheme."""
    return (
        ("cache", effective(str(settings["SCR_COPY_TYPE"]), shape.nodes))
        if is_cached(settings)
        else ("prefix",)
    )


def is_flushed(settings: Values) -> bool:
    """Return whether checkpoints are copied from the cache to the prefix directory at all."""
    return is_cached(settings) and settings.get("SCR_FLUSH") != 0


def values_of(texts: Mapping[str, str]) -> Values:
    """Return the values of names that the model knows: of parameters, and of :data:`FACTS`.

    Raises ValueError for a text that is no value.
    """
    return {name: value_of(name, text) for name, text in texts.items() if name in DEFAULTS or name in FACTS}


def value_of(name: str, text: str) -> Value:
    """Return what `text` means for a parameter or one of :data:`FACTS`. Raises ValueError."""
    if name not in FACTS:
        return coerce(name, text)
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < float("inf") or (name != "interval" and value != round(value)):
        raise ValueError(f"{name}={text}: write {'seconds' if name == 'interval' else 'a number'} above 0")
    return value if name == "interval" else int(value)


def evidence(run: Run, row: RunRow, checkpoints: Sequence[CheckpointRow]) -> RunEvidence:
    """Return what `run` shows; `row` and `checkpoints`, at least one, are those of its study.

    Raises ValueError for settings that are none.
    """
    table = run.table.resolved()
    saving = {span.thread for span in table.spans if span.kind == SpanKind.SAVE}
    mine, _ = application_writes(table)
    tier = Tier.CACHE if bytes_in(mine, Tier.CACHE) else Tier.PREFIX
    load = _heaviest([each for each in mine if each[0].tier == tier], len(checkpoints))
    said = values_of(run.settings)
    named = {name: value for name, value in said.items() if name in DEFAULTS}
    has_scr_files = any(key.file_class.startswith(SCR_OWN) for key in table.accesses)
    with_scr = bool(named) or has_scr_files or row.flushes > 0
    settings = DEFAULTS | seen_settings(table, row) | named
    processes = len({thread[:2] for thread in saving}) or row.processes
    between_s = _between_s(table, checkpoints)
    shape = _shape(load, row, between_s, processes, said, settings)
    seconds = [each.seconds for each in checkpoints]
    mean_s = fmean(seconds)
    spread = (variance(seconds) / len(seconds)) ** 0.5 / mean_s if len(seconds) > 1 and mean_s > 0 else 0.0
    is_beside = is_asynchronous(settings)
    io_s = _longest_s(table, saving) / len(checkpoints)
    is_whole = 0 < io_s < mean_s and not row.loads and (is_beside or not is_flushed(settings))
    return RunEvidence(
        run=run.name,
        settings=settings,
        said=said,
        shape=shape,
        node_bytes=bytes_in(mine, tier) / len(checkpoints) / shape.nodes,
        largest_file=load.largest_file,
        with_scr=with_scr,
        checkpoint_s=mean_s,
        spread=spread,
        outside_s=mean_s - io_s if is_whole else None,
        flush_s=row.flush_s if is_beside and is_flushed(settings) else None,
    )


class _Load(NamedTuple):
    """What the rank with the most bytes writes in a checkpoint: bytes, files, the largest's share of both."""

    rank_bytes: float
    files: int
    largest_file: float


def _heaviest(writes: Writes, checkpoints: int) -> _Load:
    """Return the load of the heaviest rank.

    Each file of a class is taken to be written by calls of the same sizes: the size with the fewest calls
    tells how many files there are.
    """
    ranks: dict[tuple[str, int], dict[str, list[Amount]]] = defaultdict(lambda: defaultdict(list))
    for key, amount in writes:
        ranks[key.thread[:2]][key.file_class].append(amount)
    loads = [
        [
            (sum(each.bytes for each in sizes), max(checkpoints, min(each.calls for each in sizes)))
            for sizes in classes.values()
        ]
        for classes in ranks.values()
    ]
    heaviest = max(loads, key=lambda load: sum(size for size, _ in load), default=[])
    whole = sum(size for size, _ in heaviest)
    if not whole:
        return _Load(0.0, 1, 1.0)
    files = sum(round(calls / checkpoints) for _, calls in heaviest)
    largest = max(size / calls for size, calls in heaviest) * checkpoints / whole
    return _Load(whole / checkpoints, files, min(1.0, largest))


def _shape(  # noqa: PLR0913, PLR0917 - what is seen, and what is said
    load: _Load,
    row: RunRow,
    between_s: float,
    processes: int,
    said: Values,
    settings: Values,
) -> Shape:
    """Return the shape of the job: as it was said, else as the trace shows it."""

    def fact(name: str, seen: float) -> int:
        return max(1, int(said.get(name, seen)))

    nodes = fact("nodes", row.hosts)
    ranks = fact("ranks_per_node", -(-processes // nodes))
    # with all threads that AXL starts of itself, and ranks that are not bound, where nothing is said of cores
    cores = fact("cores", max(ranks, MAX_FLUSH_THREADS))
    return Shape(
        nodes=nodes,
        ranks_per_node=ranks,
        rank_bytes=load.rank_bytes,
        files=fact("files", load.files),
        between_s=float(said.get("interval", between_s)),
        cores=cores,
        used_cores=1.0,
        mask_cores=min(cores, fact("cores_per_rank", 1 if settings["SCRTUNE_FLUSH_CPUS"] else cores)),
    )


def _between_s(table: TraceTable, checkpoints: Sequence[CheckpointRow]) -> float:
    """Return the seconds between two checkpoints: of a saving thread, for ranks need not keep in step."""
    if len(checkpoints) < 2:  # noqa: PLR2004 - there is no between
        return _UNKNOWN_INTERVAL_S
    spans: dict[JobThread, list[tuple[float, float]]] = defaultdict(list)
    for span in table.spans:
        if span.kind == SpanKind.SAVE:
            spans[span.thread].append((span.start_s, span.end_s))
    between = [_outside_s(sorted(each)) / (len(checkpoints) - 1) for each in spans.values()]
    if between:
        return median(between)
    gaps = [after.start_s - before.start_s - before.wall_s for before, after in pairwise(checkpoints)]
    return max(0.0, fmean(gaps))


def _outside_s(spans: Sequence[tuple[float, float]]) -> float:
    """Return the seconds between the first and the last of `spans` in which there is none."""
    outside_s, until_s = 0.0, spans[0][0]
    for start_s, end_s in spans:
        outside_s += max(0.0, start_s - until_s)
        until_s = max(until_s, end_s)
    return outside_s


def _longest_s(table: TraceTable, saving: Iterable[JobThread]) -> float:
    """Return the seconds of the saving thread with the longest calls on files in the tiers."""
    sums: dict[JobThread, int] = dict.fromkeys(saving, 0)
    for key, amount in table.accesses.items():
        if key.thread in sums and key.tier != Tier.OTHER:
            sums[key.thread] += amount.duration_ns
    return max(sums.values(), default=0) / _NS
