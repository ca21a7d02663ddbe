"""The runs of the published study, as its synthetic traces hold them."""

from collections.abc import Iterable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from scrtune.examples.study_traces import CACHE, PREFIX, RUNS, write_run
from scrtune.replay.reading.scan import read_table
from scrtune.replay.study import Run
from scrtune.replay.table import TraceTable

NODES = {"cores": "48", "cores_per_rank": "1"}


@cache
def table(name: str) -> TraceTable:
    """What the traces of a run hold."""
    with TemporaryDirectory() as directory:
        write_run(Path(directory, name), RUNS[name], 4)
        return read_table([Path(directory, name)], {PREFIX: "prefix", CACHE: "cache"})


def runs(names: Iterable[str] = RUNS, *, with_settings: bool = True) -> list[Run]:
    """Runs of the study, with what its authors said of them, or with the traces alone."""
    return [
        Run(name=name, table=table(name), settings=_settings(name) if with_settings else {}) for name in names
    ]


def _settings(name: str) -> dict[str, str]:
    return {key: str(value) for key, value in RUNS[name].settings.items()} | NODES
