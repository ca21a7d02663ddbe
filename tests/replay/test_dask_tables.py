"""Workers of a Dask cluster make the tables that one machine makes."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from scrtune.cli.main import main
from scrtune.examples.study_traces import CACHE, PREFIX, RUNS, write_run, write_runs
from scrtune.replay.reading.cache import TableCache
from scrtune.replay.reading.scan import Progress, read_table

distributed = pytest.importorskip("distributed")
from scrtune.replay import dask_tables  # noqa: E402 - needs it

TIERS = {PREFIX: "prefix", CACHE: "cache"}
LOOPBACK = {
    "host": "127.0.0.1",
    "dashboard_address": "127.0.0.1:0",
    "worker_dashboard_address": "127.0.0.1:0",
}
TRACES = Path(__file__).parents[1] / "data" / "traces"

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning:distributed")


@pytest.fixture(scope="module")
def client() -> Iterator["distributed.Client"]:
    """Two worker processes on the loopback interface."""
    with (
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, **LOOPBACK) as cluster,
        dask_tables.connected(cluster.scheduler_address) as connected,
    ):
        yield connected


@pytest.mark.parametrize("task_files", [1, 3, 256])
def test_the_table_is_that_of_one_machine(
    client: "distributed.Client", tmp_path: Path, monkeypatch: pytest.MonkeyPatch, task_files: int
) -> None:
    monkeypatch.setattr(dask_tables, "_TASK_FILES", task_files)
    monkeypatch.setattr(dask_tables, "_FAN_IN", 2)
    write_run(tmp_path / "run", RUNS["scr_pfs_one"], 4)
    progress = Progress()
    found = dask_tables.read_table(client, [tmp_path], TIERS, progress=progress)
    assert found == read_table([tmp_path], TIERS)
    assert (progress.done_files, progress.done_bytes) == (progress.files, progress.total_bytes)
    assert progress.lines == found.reading.lines > 0


def test_real_traces_of_all_generations(client: "distributed.Client") -> None:
    tiers = {"/scratch/study/data": "prefix"}
    found, expected = dask_tables.read_table(client, [TRACES], tiers), read_table([TRACES.resolve()], tiers)
    assert found.resolved() == expected.resolved()


def test_workers_remember_what_they_have_read(client: "distributed.Client", tmp_path: Path) -> None:
    write_run(tmp_path / "run", RUNS["base"], 0, ranks=3)
    cache = TableCache(tmp_path / "cache")
    found = dask_tables.read_table(client, [tmp_path / "run"], TIERS, cache=cache)
    again = Progress()
    assert read_table([tmp_path / "run"], TIERS, cache=cache, progress=again) == found
    assert again.remembered == 3


def test_what_a_worker_cannot_read_is_said(
    client: "distributed.Client", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "run", RUNS["base"], 4, ranks=2)
    monkeypatch.setattr(dask_tables, "_RETRIES", 0)
    # a worker takes strings for the tiers' directories
    reading = dask_tables.read_table(client, [tmp_path], {3: "prefix"}).reading  # type: ignore[dict-item]
    assert (reading.files, reading.lines) == (2, 0)
    assert all("not read by a worker: " in text for text in reading.damage)


def test_an_interrupt_leaves_what_was_read(
    client: "distributed.Client", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_run(tmp_path / "run", RUNS["base"], 4, ranks=4)
    monkeypatch.setattr(dask_tables, "_TASK_FILES", 1)

    def interrupt() -> None:
        if progress.done_files == 2:
            raise KeyboardInterrupt

    progress = Progress(on_tick=interrupt)
    reading = dask_tables.read_table(client, [tmp_path], TIERS, progress=progress).reading
    assert (progress.stop, reading.files, reading.unread) == (True, 4, 2)
    assert reading.events > 0


def test_slurm_is_asked_as_dask_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    jobqueue = pytest.importorskip("dask_jobqueue")
    asked: list[int] = []

    class Cluster(distributed.LocalCluster):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__(n_workers=0, processes=True, **LOOPBACK)

        def scale(self, jobs: int) -> None:
            asked.append(jobs)

    monkeypatch.setattr(jobqueue, "SLURMCluster", Cluster)
    for scheduler in ("slurm", "slurm:8"):
        with dask_tables.connected(scheduler) as connected:
            assert connected.scheduler_info()["workers"] == {}
    assert asked == [1, 0, 8, 0], "the cluster itself asks for none at its end"


def test_where_there_is_no_scheduler_that_is_said() -> None:
    dask = pytest.importorskip("dask")
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "0.5s"}),
        pytest.raises(OSError, match="Timed out"),
        dask_tables.connected("tcp://127.0.0.1:1"),
    ):
        pass


def test_a_study_on_a_cluster_prints_what_it_prints_here(
    client: "distributed.Client", tmp_path: Path
) -> None:
    runs = [f"{name}={path}" for name, path in write_runs(tmp_path, 0).items()]
    tiers = ("--prefix", PREFIX, "--cache", CACHE, "--reread")
    scheduler = ("--scheduler", client.scheduler_info()["address"])
    there, here = (CliRunner().invoke(main, ["study", *runs, *tiers, *given]) for given in (scheduler, ()))
    assert there.stdout == here.stdout
    assert there.exit_code == here.exit_code == 0


@pytest.fixture
def bare_scheduler() -> Iterator["distributed.Client"]:
    """A scheduler without workers."""
    with (
        distributed.LocalCluster(n_workers=0, processes=True, **LOOPBACK) as cluster,
        dask_tables.connected(cluster.scheduler_address) as connected,
    ):
        yield connected


def test_what_is_waited_for_is_told_and_without_workers_the_study_ends(
    bare_scheduler: "distributed.Client", tmp_path: Path
) -> None:
    address = bare_scheduler.scheduler_info()["address"]
    write_run(tmp_path / "run", RUNS["base"], 4, ranks=2)
    asked = ("study", f"a={tmp_path / 'run'}", "--scheduler", address, "--scheduler-wait", "2.5s")
    ran = CliRunner().invoke(main, asked)
    assert ran.exit_code == 1
    assert ran.stdout == ""
    waiting, ended = ran.stderr.splitlines()
    assert waiting == f"scrtune: waiting for a worker of {address}, 2.50 s at most"
    assert ended == (
        f"scrtune: no worker of {address} has come in 2.50 s: start some: dask worker ADDRESS;"
        " --scheduler-wait TIME waits longer"
    )


def test_ctrl_c_ends_the_wait_for_workers(
    bare_scheduler: "distributed.Client", tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(distributed.Client, "wait_for_workers", interrupt)
    write_run(tmp_path / "run", RUNS["base"], 4, ranks=2)
    address = bare_scheduler.scheduler_info()["address"]
    ran = CliRunner().invoke(main, ["study", f"a={tmp_path / 'run'}", "--scheduler", address])
    assert ran.exit_code == 130
    assert ran.stderr == "scrtune: interrupted: no worker had come, nothing was read\n"


def test_a_cluster_with_workers_is_not_waited_for(client: "distributed.Client") -> None:
    said: list[str] = []
    dask_tables.await_worker(client, "slurm:2", 60.0, said.append)
    assert said == []
