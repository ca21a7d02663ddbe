"""What the prefix directory is on: mounts, and what each file system's tools print."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scrtune.daemon.journal.journal import replay_journal
from scrtune.daemon.node import targets
from scrtune.daemon.node.probes import ProbeProcess
from scrtune.daemon.node.targets import KINDS, look, mount_of
from scrtune.intents.events import FileSystem, SettingsObserved, StorageTargetsObserved

WaitUntil = Callable[[Callable[[], object]], None]
Run = Callable[[list[str]], str]
MIB, KIB = 1 << 20, 1 << 10
LUSTRE = {"file_system": "lustre", "targets": 3, "stripe_count": 2, "stripe_bytes": MIB, "pool": "flash"}
BEEGFS = {"file_system": "beegfs", "targets": 6, "stripe_count": 4, "stripe_bytes": 512 * KIB, "pool": "1"}
IN_MEMORY = "/dev/shm"  # noqa: S108 - a mount of those in the data
DATA = Path(__file__).parents[2] / "data" / "file_systems"
MOUNTINFO = (DATA / "mountinfo").read_text()
TOOLS = {"getstripe": "lfs-getstripe", "df": "lfs-df", "--getentryinfo": "beegfs-getentryinfo"}


def answers(**changed: str) -> Run:
    """Tools that print what was recorded; `changed` names other files for some."""
    files = {**TOOLS, "--listtargets": "beegfs-listtargets", "-d": "mmlsfs", **changed}

    def run(command: list[str]) -> str:
        words = [word for word in command if word in files and not (word == "-d" and "lfs" in command)]
        return (DATA / files[words[0]]).read_text()

    return run


def found(directory: str, monkeypatch: pytest.MonkeyPatch, run: Run | None = None) -> StorageTargetsObserved:
    monkeypatch.setattr(targets.os.path, "realpath", lambda path: path)
    monkeypatch.setattr(targets.os.path, "isdir", lambda _: True)
    monkeypatch.setattr(targets.os, "statvfs", lambda _: type("", (), {"f_bsize": 16_777_216})())
    fields: dict[str, int | str] = {}
    for each in look(directory, MOUNTINFO, run or answers()):
        fields |= each
    return msgspec.convert({**fields, "host": "n"}, StorageTargetsObserved, strict=False)


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        (
            "/p/lustre1/me/run",
            {
                "file_system": "lustre",
                "targets": 3,
                "stripe_count": 2,
                "stripe_bytes": 1 << 20,
                "pool": "flash",
            },
        ),
        ("/gpfs/alpine/me", {"file_system": "gpfs", "targets": 4, "stripe_bytes": 16 << 20}),
        (
            "/mnt/beegfs/me",
            {
                "file_system": "beegfs",
                "targets": 6,
                "stripe_count": 4,
                "stripe_bytes": 512 << 10,
                "pool": "1",
            },
        ),
        ("/home/me", {"file_system": "nfs", "mount_type": "nfs4", "targets": 1, "stripe_bytes": 512 << 10}),
        ("/home/my scratch/x", {"file_system": "local", "mount_type": "xfs", "mount": "/home/my scratch"}),
        (f"{IN_MEMORY}/x", {"file_system": "memory", "mount": IN_MEMORY}),
        ("/p/lustre10", {"file_system": "local", "mount": "/"}),
        ("/odd/x", {"file_system": "other", "mount_type": "fuse.sshfs", "targets": 0}),
    ],
)
def test_a_directory_is_known_by_its_mount_and_its_tools(
    directory: str, expected: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = found(directory, monkeypatch)
    assert {name: getattr(seen, name) for name in expected} == expected
    assert seen.problem == ""


def test_a_progressive_layout_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    seen = found("/p/lustre1", monkeypatch, answers(getstripe="lfs-getstripe-progressive"))
    assert (seen.is_progressive, seen.targets) == (True, 3)


@pytest.mark.parametrize(
    "error", [FileNotFoundError(2, "No such file", "lfs"), OSError("lfs timed out after 2.0 seconds")]
)
def test_a_tool_that_is_not_there_or_hangs_leaves_what_the_mount_says(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_: list[str]) -> str:
        raise error

    seen = found("/p/lustre1/x", monkeypatch, run)
    assert (seen.file_system, seen.mount, seen.targets) == ("lustre", "/p/lustre1", 0)
    assert "lfs" in seen.problem


@pytest.mark.parametrize("code", ["exit 3", "sleep 60"])
def test_a_tool_is_run_for_a_bounded_time(code: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(targets, "TOOL_LIMIT_S", 0.2)
    with pytest.raises(OSError, match="sh"):
        targets.run_tool(["sh", "-c", code])
    assert targets.run_tool(["sh", "-c", "echo $LC_ALL"]) == "C\n"


def test_the_stripes_are_known_where_only_the_targets_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def run(command: list[str]) -> str:
        if "df" in command:
            raise OSError("lfs timed out after 2.0 seconds")
        return answers()(command)

    seen = found("/p/lustre1/x", monkeypatch, run)
    assert (seen.stripe_count, seen.targets, bool(seen.problem)) == (2, 0, True)


def test_nonsense_of_a_tool_is_nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    for directory in ("/p/lustre1/x", "/mnt/beegfs/x", "/gpfs/alpine"):
        seen = found(directory, monkeypatch, lambda _: "\0 error: -1\n")
        assert (seen.targets, seen.stripe_count, seen.problem) == (0, 0, "")


@pytest.mark.parametrize("text", ["", "nonsense\n", "1 2 3\n\n - \n"])
def test_without_a_mount_nothing_is_found(text: str) -> None:
    assert mount_of("/x", text) is None
    assert [*look("/", text, answers())] == [{"problem": "/: no mount has it"}]


def test_of_two_mounts_at_one_place_the_later_one_counts() -> None:
    again = "40 21 0:99 / /p/lustre1 rw - tmpfs tmpfs rw\n"
    mount = mount_of("/p/lustre1/x", MOUNTINFO + again)
    assert mount is not None
    assert mount.type == "tmpfs"


def test_every_kind_is_a_word_of_the_event() -> None:
    assert {kind for kind, _, _ in KINDS} | {"other"} == {each.value for each in FileSystem}


def test_the_process_finds_a_real_directory_that_is_not_there_yet(
    tmp_path: Path, wait_until: WaitUntil
) -> None:
    process = ProbeProcess("n1", targets.__file__, StorageTargetsObserved, limit_s=60)
    assert process.start(str(tmp_path / "not" / "yet"), 1.0) is None
    results: list[StorageTargetsObserved] = []
    wait_until(lambda: results.extend(filter(None, [process.take(7.0)])) or results)
    assert results[0].host == "n1"
    assert results[0].file_system
    assert tmp_path.is_relative_to(results[0].mount)


def test_it_loads_no_package() -> None:
    code = (
        f"import runpy, sys; sys.argv = ['x', '/']; runpy.run_path({targets.__file__!r}, run_name='__main__')"
    )
    names = "; print('msgspec' in sys.modules or 'scrtune' in sys.modules)"
    command = [sys.executable, "-I", "-S", "-c", code + names]
    assert subprocess.run(command, capture_output=True, check=True).stdout.endswith(b"False\n")


def test_a_daemon_looks_once_a_job(tmp_path: Path, real_daemon: Any, wait_until: WaitUntil) -> None:
    job = SettingsObserved(settings={}, engine="embedded", prefix=str(tmp_path))
    daemon = real_daemon.start()
    daemon.tell(job)

    def sentence() -> str:
        return next(
            each.sentence for each in daemon.view("explain").intents if each.name == "storage targets"
        )

    wait_until(lambda: "not looked at" not in sentence())
    daemon.tell(job)
    daemon.until_events(3)
    daemon.end(15)
    pipeline = replay_journal(daemon.paths.journal)[0]
    assert pipeline.observers.targets is not None
    assert pipeline.observers.targets.host == daemon.paths.host
    assert pipeline.counters.events == 3
