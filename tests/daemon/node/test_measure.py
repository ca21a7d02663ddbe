"""The probe of a node's storage: real rates, bounded, and a result whatever the cache directory is like."""

import itertools
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from errno import ENOSPC
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scrtune.client.paths import JobPaths
from scrtune.daemon.journal.journal import replay_journal
from scrtune.daemon.journal.records import JournalReader
from scrtune.daemon.launch.environment import ConfigFiles, Job, JobOptions
from scrtune.daemon.node import measure
from scrtune.daemon.node.measure import (
    BUDGET_S,
    CHUNK_BYTES,
    MOST_BYTES,
    MOST_WRITERS,
    Probe,
    unhindered_clock,
)
from scrtune.daemon.node.probes import ProbeProcess
from scrtune.intents.events import SettingsObserved, StorageProbed

WaitUntil = Callable[[Callable[[], object]], None]
CACHE_RATES = {"cache_write_bytes_per_s", "cache_read_bytes_per_s"}
RATES = {*CACHE_RATES, "memory_bytes_per_s", "xor_bytes_per_s"}
DEVICE = "cache_sync_bytes_per_s"
AMPLE_S = 1e6

# what mount says, and the probe's answer
MOUNTS = {"size=8m": "only 8 MiB are free", "ro,size=1g": "Read-only file system"}

# an application that reports to its daemon, and waits until that has heard it
APPLICATION = """
import time
from scrtune.client.paths import JobPaths
from scrtune.client.transport.daemon_client import DaemonUnavailable, ask_daemon
from scrtune.client.transport.sender import Emitter
from scrtune.intents.events import SettingsObserved

paths = JobPaths.of()
emitter = Emitter(paths.events_endpoint)
emitter.emit(SettingsObserved(settings={}, engine="embedded", cache="no/absolute/path"))
for _ in range(600):
    try:
        if b'"engine":"embedded"' in bytes(ask_daemon(paths.control_endpoint, "status", 1.0).result):
            break
    except DaemonUnavailable:
        pass
    time.sleep(0.05)
"""


def measured(
    directory: Path, new_clock: Callable[[], Callable[[], float]], budget_s: float, writers: int = 1
) -> tuple[dict[str, float], list[str]]:
    """Return the numbers that a probe of `directory` yields, and its problems."""
    found = list(Probe(new_clock, budget_s, writers).run(str(directory)))
    problems = [str(value) for name, value in found if name == "problem"]
    return {name: float(value) for name, value in found if name != "problem"}, problems


def probed(journal: Path) -> list[StorageProbed]:
    return [event for _, event in JournalReader(journal) if isinstance(event, StorageProbed)]


def test_all_rates_of_a_real_directory_are_measured_and_nothing_stays_there(tmp_path: Path) -> None:
    numbers, problems = measured(tmp_path, unhindered_clock, AMPLE_S)
    assert problems == []
    assert numbers.keys() - {DEVICE} == {*RATES, "writers", "bytes", "probe_s"}
    assert all(numbers[rate] > CHUNK_BYTES for rate in RATES)  # a chunk takes less than a second
    assert numbers["bytes"] == MOST_BYTES
    assert list(tmp_path.iterdir()) == []


def test_a_sync_takes_the_rate_of_the_device_and_memory_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_memory = Path(tempfile.mkdtemp(dir="/dev/shm"))
    try:
        assert DEVICE not in measured(in_memory, unhindered_clock, AMPLE_S)[0]
        assert list(in_memory.iterdir()) == []
    finally:
        in_memory.rmdir()
    monkeypatch.setattr(os, "fdatasync", lambda _: time.sleep(0.02))
    numbers, _ = measured(tmp_path, unhindered_clock, AMPLE_S)
    assert 0 < numbers[DEVICE] <= 2 * CHUNK_BYTES / 0.02


def test_it_ends_when_its_budget_is_used_and_says_what_was_not_measured(tmp_path: Path) -> None:
    ticks = itertools.count()
    numbers, problems = measured(
        tmp_path, lambda: lambda: next(ticks) / 100, BUDGET_S
    )  # 10 ms between two looks
    assert numbers["bytes"] == CHUNK_BYTES  # that begun after 30 ms, of the 36 for writes
    assert numbers["cache_write_bytes_per_s"] == pytest.approx(CHUNK_BYTES / 0.01)
    assert problems == [f"no time was left to measure {what}" for what in ("cache_read", "memory", "xor")]
    assert numbers["probe_s"] == pytest.approx(0.17)


@pytest.mark.parametrize(("cpus", "ranks", "writers"), [(64, 3, 3), (2, 3, 2), (64, 100, MOST_WRITERS)])
def test_as_many_writers_as_ranks_use_the_cache_at_once_and_their_rates_add_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cpus: int, ranks: int, writers: int
) -> None:
    def new_clock() -> Callable[[], float]:
        ticks = itertools.count()
        return lambda: next(ticks) / 1000

    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(cpus))
    numbers, problems = measured(tmp_path, new_clock, AMPLE_S, ranks)
    assert problems == []
    assert numbers["writers"] == writers
    assert numbers["bytes"] == writers * MOST_BYTES / 2
    assert [numbers[rate] for rate in CACHE_RATES] == [pytest.approx(writers * CHUNK_BYTES / 0.001)] * 2
    assert numbers["memory_bytes_per_s"] == pytest.approx(CHUNK_BYTES / 0.001)
    assert list(tmp_path.iterdir()) == []


def test_the_rate_is_that_of_the_median_chunk(tmp_path: Path) -> None:
    """One chunk of the first, of sixteen, takes a thousand times as long."""
    seconds = itertools.chain([0.0], *([0.0, 1.0 if chunk == 3 else 0.001] for chunk in range(10_000)))
    times = itertools.accumulate(seconds)
    numbers, problems = measured(tmp_path, lambda: lambda: next(times), AMPLE_S)
    assert problems == []
    assert numbers["cache_write_bytes_per_s"] == pytest.approx(CHUNK_BYTES / 0.001)


def test_the_clock_goes_on_and_never_counts_more_than_the_time() -> None:
    clock = unhindered_clock()
    outer_s = time.perf_counter()
    inner_s = clock()
    os.sched_yield()
    sum(range(1_000_000))  # takes time
    assert 0 < clock() - inner_s <= time.perf_counter() - outer_s


def test_where_linux_does_not_say_who_waits_time_is_just_time(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise FileNotFoundError

    monkeypatch.setattr(os, "open", refuse)
    assert unhindered_clock() is measure.time.perf_counter


def test_a_directory_that_is_not_there_yet_is_made_for_the_user_alone(tmp_path: Path) -> None:
    numbers, problems = measured(tmp_path / "a" / "b", unhindered_clock, AMPLE_S)
    assert problems == []
    assert numbers["cache_write_bytes_per_s"] > 0
    assert stat.S_IMODE((tmp_path / "a" / "b").stat().st_mode) == 0o700


def test_a_directory_that_cannot_be_made_costs_only_the_rates_of_the_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    numbers, problems = measured(tmp_path / "file" / "cache", unhindered_clock, AMPLE_S)
    assert problems == [f"{tmp_path}/file/cache: Not a directory"]
    assert RATES & numbers.keys() == RATES - CACHE_RATES


@pytest.mark.parametrize("options", MOUNTS)
def test_a_small_or_read_only_file_system_is_not_written_to(tmp_path: Path, options: str) -> None:
    if subprocess.run(["unshare", "--mount", "true"], check=False, capture_output=True).returncode:
        pytest.skip("to mount a file system needs unshare --mount, which needs root")
    script = 'mount -t tmpfs -o "$1" none "$2" && exec "$3" -I -S "$4" "$2" 2'
    command = ["unshare", "--mount", "sh", "-c", script, "sh", options, str(tmp_path), sys.executable]
    shown = subprocess.run([*command, measure.__file__], capture_output=True, text=True, check=True).stdout
    assert f"problem={tmp_path}: {MOUNTS[options]}\0" in shown
    assert "cache_write" not in shown
    assert "probe_s=" in shown


@pytest.mark.parametrize("writers", [1, 2])
def test_a_disk_that_is_full_half_way_ends_the_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, writers: int
) -> None:
    write, chunks = os.write, itertools.count()

    def fill(fd: int, data: memoryview) -> int:
        if next(chunks) == 3:
            raise OSError(ENOSPC, os.strerror(ENOSPC))
        return write(fd, data)

    monkeypatch.setattr(os, "write", fill)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1})
    numbers, problems = measured(tmp_path, unhindered_clock, AMPLE_S, writers)
    assert problems == [f"{tmp_path}: No space left on device"]
    assert RATES & numbers.keys() == RATES - CACHE_RATES
    assert list(tmp_path.iterdir()) == []


def finished(process: ProbeProcess[StorageProbed], wait_until: WaitUntil) -> StorageProbed:
    results: list[StorageProbed] = []

    def take() -> bool:
        results.extend(filter(None, [process.take(7.0)]))
        return bool(results)

    wait_until(take)
    assert not process.is_running
    assert process.take(8.0) is None
    return results[0]


def test_the_process_has_the_result(tmp_path: Path, wait_until: WaitUntil) -> None:
    process = ProbeProcess("n1", measure.__file__, StorageProbed, limit_s=60)
    assert process.start(str(tmp_path), 1.0, "2") is None
    result = finished(process, wait_until)
    assert (result.host, result.time_s) == ("n1", 7.0)
    assert result.cache_write_bytes_per_s > 0
    assert 0 < result.bytes <= MOST_BYTES
    assert result.probe_s > 0


@pytest.mark.parametrize(
    ("cache", "why"), [("a/b", "a/b: not an absolute path"), ("/\0", "/\0: embedded null byte")]
)
def test_what_cannot_be_started_has_its_result_at_once(cache: str, why: str) -> None:
    process = ProbeProcess("n1", measure.__file__, StorageProbed)
    assert process.start(cache, 3.0, "1") == StorageProbed(host="n1", time_s=3.0, problem=why)
    assert not process.is_running


@pytest.mark.parametrize("ending", ["raise SystemExit(3)", "time.sleep(60)"])
def test_of_a_process_that_fails_or_hangs_stays_what_it_has_said(
    tmp_path: Path, wait_until: WaitUntil, ending: str
) -> None:
    script = tmp_path / "probe.py"
    said = "print('memory_bytes_per_s=5e9', 'problem=slow', '', sep=chr(0), end='', flush=True)"
    script.write_text(f"import time\n{said}\n{ending}\n")
    is_hanging = "sleep" in ending
    process = ProbeProcess("n1", str(script), StorageProbed, limit_s=3 if is_hanging else 60)
    process.start(str(tmp_path), 1.0, "2")
    why = "it had not ended after 3 s" if is_hanging else "it ended with 3"
    expected = StorageProbed(host="n1", memory_bytes_per_s=5e9, time_s=7.0, problem=f"slow; {why}")
    assert finished(process, wait_until) == expected


def test_a_daemon_probes_once_a_job_also_after_it_was_killed(
    tmp_path: Path, real_daemon: Any, wait_until: WaitUntil
) -> None:
    job = SettingsObserved(settings={}, engine="embedded", cache=str(tmp_path / "cache"))
    daemon = real_daemon.start()
    daemon.tell(job)
    wait_until(lambda: daemon.view("status").probe)
    result = daemon.view("explain").probe
    assert result.host == daemon.paths.host
    assert result.bytes > 0
    daemon.tell(job)
    daemon.until_events(3)
    daemon.end(signal.SIGKILL)
    daemon.start().tell(msgspec.structs.replace(job, cache="no/absolute/path"))  # would have a result at once
    daemon.until_events(4)
    assert daemon.end(signal.SIGTERM) == 0
    assert probed(daemon.paths.journal) == [result]
    assert replay_journal(daemon.paths.journal)[0].observers.nodes.probe == result


@pytest.mark.parametrize("options", [[], ["--no-probe"]])
def test_a_job_is_not_probed_where_its_user_does_not_want_it(tmp_path: Path, options: list[str]) -> None:
    environment = {**os.environ, "SCRTUNE_RUN_DIR": str(tmp_path)}
    command = [sys.executable, "-m", "scrtune", "run", "--job-id", "j", "--trace", "off", *options, "--"]
    ran = subprocess.run(
        [*command, sys.executable, "-c", APPLICATION], env=environment, timeout=60, check=False, cwd=tmp_path
    )
    assert ran.returncode == 0
    problems = [event.problem for event in probed(JobPaths.of("j", base=tmp_path).journal)]
    assert problems == ([] if options else ["no/absolute/path: not an absolute path"])


def test_the_daemons_of_other_nodes_are_told_not_to_probe() -> None:
    files = ConfigFiles(scr_conf=Path("c"))
    assert "--no-probe" not in Job(files=files).options()
    assert "--no-probe" in Job(files=files, asked=JobOptions(probe=False)).options()
