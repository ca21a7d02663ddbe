"""What is to be known of a study's numbers beside them, as sentences."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ..units import count_text
from .study_rows import RunRow

_UNEQUAL = 1.01
"""A sum over threads that is larger than the largest of one by this factor is another number."""


def notes_of(
    rows: Sequence[RunRow], groups: Mapping[str, int], said: Iterable[str], base: str, *, is_compared: bool
) -> Iterator[str]:
    """Yield the notes of runs; what was `said` of them, and the `groups` of their processes, by name."""
    for row in rows:
        yield from _of_run(row)
    yield from _of_all(rows)
    for name, count in groups.items():
        if count > 1:
            yield (
                f"{name}: what saves is {count} groups of processes, one after the other: a job"
                " that was restarted, or several jobs, which are several runs with a NAME each"
            )
    yield from dict.fromkeys(filter(None, said))
    if is_compared:
        yield "Intervals are over the checkpoints of one run each: how runs vary is not in them"
    elif any(row.checkpoints for row in rows) and not any(
        row.checkpoints for row in rows if row.name == base
    ):
        yield f"Nothing is compared: {base}, the base, has no checkpoints; --base names another run"


def _of_run(row: RunRow) -> Iterator[str]:
    if row.reading.unread:
        unread = count_text(row.reading.unread, "file")
        yield f"{row.name}: interrupted: {unread} of {row.reading.files} not read to the end"
    if row.unseen:
        yield f"{row.name}: {row.unseen}"
    if not row.reading.events:
        yield f"{row.name}: its traces have no event"
    elif not row.checkpoints:
        yield f"{row.name}: no checkpoints: none by spans, nor by bursts of writes in a tier"
    elif not row.saving_threads:
        yield (
            f"{row.name}: its checkpoints are {row.checkpoints_from}; their seconds are from the first"
            " write of a burst to its last, not those of a thread"
        )


def _of_all(rows: Sequence[RunRow]) -> Iterator[str]:
    calls = sum(row.cache.calls + row.prefix.calls for row in rows)
    if not calls and any(row.reading.events for row in rows):
        yield "No run has a file below a cache or prefix directory: all accesses count for the tier other"
    if len({row.checkpoints_from for row in rows if row.checkpoints}) > 1:
        yield "Checkpoints of some runs are spans, of others inferred: their seconds are not alike"
    mixed = [
        f"{row.name} {tier} {total.seconds:,.2f} s, summed {total.sum_s:,.2f} s"
        for row in rows
        for tier, total in (("cache", row.cache), ("prefix", row.prefix))
        if total.sum_s > _UNEQUAL * total.seconds
    ]
    if mixed:
        yield (
            "Sums over all threads are other numbers than the largest of one; compare like with like: "
            + "; ".join(mixed)
        )
    threads = {row.name: row.saving_threads for row in rows if row.saving_threads}
    if len(set(threads.values())) > 1:
        counts = ", ".join(f"{name} {count}" for name, count in threads.items())
        yield f"Runs have different numbers of threads that save: {counts}"
