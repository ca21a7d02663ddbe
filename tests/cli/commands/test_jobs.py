"""`scrtune jobs` and `scrtune clean`: what runs and ran here, and what it left."""

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import Result

from scrtune.client.embedded.cache import CachedFile, FileMap, NodeCache
from scrtune.client.embedded.prefix.index import IndexEntry, Prefix, RankSummary
from scrtune.client.paths import JobPaths
from scrtune.intents.events import SettingsObserved
from scrtune.replay.reading.cache import user_cache

from ...support.ended_job import JOB, ended_job, run_directory

Scrtune = Callable[..., Result]


@pytest.fixture(autouse=True)
def _nothing_is_left(base: Path) -> Iterator[None]:
    """DFTracer's files lie outside of the test's own directories."""
    yield
    for job in base.iterdir() if base.exists() else ():
        shutil.rmtree(JobPaths.of(job.name).trace_directory.parent, ignore_errors=True)


def finished(job_id: str, base: Path, cached: Path | None = None) -> JobPaths:
    """A job that ended in order, on the embedded engine with its cache and prefix below `cached`."""
    events = JOB
    if cached is not None:
        places = {"cache": str(cached / "cache"), "prefix": str(cached / "prefix")}
        events = tuple(
            msgspec.structs.replace(each, **places) if isinstance(each, SettingsObserved) else each
            for each in JOB
        )
    paths = ended_job(job_id, events)
    paths.lock.touch()
    paths.last_status.write_bytes(b"{}")
    paths.trace_directory.mkdir(parents=True)
    (paths.trace_directory / "trace-1.pfw").write_bytes(bytes(5000))
    return paths


def dataset(root: Path, number: int, *, checkpoint: int, on_prefix: bool, complete: bool = True) -> Path:
    """One dataset in the cache, on the prefix directory, too, or there alone."""
    cache = NodeCache(root / "cache" / "node0")
    cache.create(number)
    cache.file(number, f"d{number}").write_bytes(bytes(100 * number))
    filemap = FileMap(
        dataset=number,
        name=f"d{number}",
        flags=1 if checkpoint else 2,
        checkpoint=checkpoint,
        ranks=1,
        rank=0,
        generation=0,
        scheme="SINGLE",
        members=(0,),
        files=((CachedFile(f"d{number}", 100 * number),),),
    )
    if complete:
        cache.write(filemap)
    if on_prefix:
        prefix = Prefix(root / "prefix")
        prefix.load()
        (root / "prefix").mkdir(exist_ok=True)
        (root / "prefix" / f"d{number}").write_bytes(bytes(100 * number))
        prefix.write_summary(RankSummary.of(filemap, [prefix.sync_written(f"d{number}")]))
        prefix.publish(IndexEntry.of(filemap))
    return cache.directory(number)


def test_clean_shows_what_jobs_that_ended_left_and_removes_it_when_told(scrtune: Scrtune, base: Path) -> None:
    paths = finished("over", base)
    shown = scrtune("clean")
    assert shown.exit_code == 0
    assert str(paths.root) in shown.stdout.replace("\n", "")
    assert paths.journal.exists()  # nobody was there to ask
    assert "removed 1 job" in scrtune("clean", "--yes").stdout
    assert not paths.root.parent.exists()
    assert not paths.trace_directory.parent.exists()
    assert scrtune("clean", "--yes").stdout == "No job that has ended left anything here.\n"


def test_clean_removes_the_tables_of_studies_unless_a_job_is_named(scrtune: Scrtune, base: Path) -> None:
    directory = user_cache().directory
    directory.mkdir(parents=True)
    (directory / "a.table").write_bytes(bytes(3 << 20))
    assert f"{directory}: 3 MiB of tables" in scrtune("clean").stdout
    finished("over", base)
    assert "of tables" not in scrtune("clean", "--job-id", "over", "--yes").stdout
    assert scrtune("clean", "--yes").exit_code == 0
    assert list(directory.iterdir()) == []


def test_clean_leaves_who_runs_what_is_young_and_who_is_not_named(
    scrtune: Scrtune, base: Path, real_daemon: Any
) -> None:
    assert real_daemon.start().paths.base == base
    finished("over", base)
    os.utime(finished("old", base).journal, (0, time.time() - 7200))
    os.utime(JobPaths.of("old").lock, (0, time.time() - 7200))
    broke_off = ended_job("broke-off")  # perhaps its daemon is being started again
    broke_off.lock.touch()
    assert "removed 1 job" in scrtune("clean", "--yes", "--keep", "1h").stdout
    assert sorted(each.name for each in base.iterdir()) == ["broke-off", "j", "over"]
    unknown = scrtune("clean", "--yes", "--job-id", "other")
    assert (unknown.exit_code, unknown.stdout) == (3, "")
    assert "job 'other' left nothing here" in unknown.stderr
    assert "job 'j' runs" in scrtune("clean", "--yes", "--job-id", "j").stderr
    assert "removed 1 job" in scrtune("clean", "--yes").stdout
    assert sorted(each.name for each in base.iterdir()) == ["broke-off", "j"]
    assert real_daemon.answers()
    for path in (broke_off.journal, broke_off.lock):
        os.utime(path, (0, time.time() - 7200))
    assert "removed 1 job" in scrtune("clean", "--yes").stdout
    assert [each.name for each in base.iterdir()] == ["j"]


def test_clean_never_removes_a_checkpoint_that_is_nowhere_else(
    scrtune: Scrtune, base: Path, tmp_path: Path
) -> None:
    finished("over", base, tmp_path)
    superseded = dataset(tmp_path, 1, checkpoint=1, on_prefix=False)
    output = dataset(tmp_path, 2, checkpoint=0, on_prefix=False)
    flushed = dataset(tmp_path, 3, checkpoint=2, on_prefix=True)
    newest = dataset(tmp_path, 4, checkpoint=3, on_prefix=False)
    being_written = dataset(tmp_path, 5, checkpoint=4, on_prefix=False, complete=False)
    shown = scrtune("clean", "--yes").stdout
    assert "its newest checkpoint is nowhere else, and stays" in " ".join(shown.split())
    assert not superseded.exists()
    assert not flushed.exists()
    assert all(each.exists() for each in (output, newest, being_written))
    assert (tmp_path / "prefix" / "d3").stat().st_size == 300


def test_clean_believes_no_index_whose_files_are_not_there(
    scrtune: Scrtune, base: Path, tmp_path: Path
) -> None:
    finished("over", base, tmp_path)
    older, flushed = (dataset(tmp_path, n, checkpoint=n, on_prefix=n == 2) for n in (1, 2))
    (tmp_path / "prefix" / "d2").write_bytes(b"cut")
    scrtune("clean", "--yes")
    assert older.exists()
    assert flushed.exists()


def test_clean_leaves_nothing_of_a_cache_that_is_on_the_prefix_directory(
    scrtune: Scrtune, base: Path, tmp_path: Path
) -> None:
    finished("over", base, tmp_path)
    dataset(tmp_path, 1, checkpoint=1, on_prefix=True)
    assert "stays" not in scrtune("clean", "--yes").stdout
    assert not (tmp_path / "cache").exists()


def test_clean_leaves_the_cache_that_a_running_job_has_now(
    scrtune: Scrtune, base: Path, tmp_path: Path, real_daemon: Any
) -> None:
    finished("over", base, tmp_path)
    flushed = dataset(tmp_path, 1, checkpoint=1, on_prefix=True)
    daemon = real_daemon.start()
    places = {"cache": str(tmp_path / "cache"), "prefix": str(tmp_path / "prefix")}
    daemon.tell(JOB[0], msgspec.structs.replace(JOB[1], **places))
    daemon.until_events(2)
    assert "removed 1 job" in scrtune("clean", "--yes").stdout
    assert flushed.exists()


def test_clean_leaves_directories_of_others_in_a_run_directory(scrtune: Scrtune, base: Path) -> None:
    paths = finished("over", base)
    (paths.root / "mine").mkdir()
    (paths.root / "mine" / "results").write_text("of a year")
    scrtune("clean", "--yes")
    assert [each.name for each in paths.root.iterdir()] == ["mine"]
    assert "left anything" in scrtune("clean").stdout


def test_jobs_lists_what_runs_and_ran_here(scrtune: Scrtune, base: Path, real_daemon: Any) -> None:
    assert "No job of yours runs or ran here" in scrtune("jobs").stdout
    os.utime(finished("killed", base).journal, (0, time.time() - 86_400))
    daemon = real_daemon.start()
    daemon.tell(*JOB)
    daemon.until_events(len(JOB))
    run_directory("empty")
    lines = [line.split() for line in scrtune("jobs").stdout.splitlines()]
    assert [line[0] for line in lines] == ["job", "j", "killed"]
    assert lines[1][1] == "runs"
    assert lines[1][-1] == "40.0%"
    assert "has ended 24.0 h ago" in " ".join(lines[2])
    daemon.end(15)
    rows = json.loads(scrtune("jobs", "--format", "json").stdout)
    assert [(row["job_id"], row["running"]) for row in rows] == [("j", False), ("killed", False)]
    assert "runs" not in scrtune("jobs").stdout
