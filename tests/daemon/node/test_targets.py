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
MIB = 1 << 20
IN_MEMORY = "/dev/shm"  # noqa: S108 - a mount of those in the data
DATA = Path(__file__).parents[2] / "data" / "file_systems"
MOUNTINFO = (DATA / "mountinfo").read_text()
TOOLS = {
    "getstripe": "lfs-getstripe",
    "df": "lfs-df",
    "/usr/lpp/mmfs/bin/mmlsdisk": "mmlsdisk",
    "--getentryinfo": "beegfs-ctl-getentryinfo",
    "--listtargets": "beegfs-ctl-listtargets",
    "entry": "beegfs-entry-info",
    "list": "beegfs-target-list",
}
TOOLS_BY_NAME = {"getstripe": "getstripe", "df": "df", "mmlsdisk": "/usr/lpp/mmfs/bin/mmlsdisk"}


def answers(missing: str = "", asked: list[str] | None = None, **changed: str) -> Run:
    """Tools that print what was recorded, but for a `missing` one; `changed` names other files for some."""
    files = TOOLS | {TOOLS_BY_NAME[name]: file for name, file in changed.items()}

    def run(command: list[str]) -> str:
        if command[0] == missing:
            raise FileNotFoundError(2, "No such file or directory", missing)
        if asked is not None:
            asked.append(" ".join(command))
        (word,) = [word for word in command if word in files]
        return (DATA / files[word]).read_text()

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
            {"file_system": "lustre", "targets": 2, "stripe_count": 1, "stripe_bytes": MIB, "tool": "lfs"},
        ),
        ("/gpfs/alpine/me", {"file_system": "gpfs", "targets": 2, "stripe_bytes": 16 * MIB}),
        (
            "/mnt/beegfs/me",
            {
                "file_system": "beegfs",
                "targets": 2,
                "stripe_count": 8,
                "stripe_bytes": 4 * MIB,
                "pool": "1",
                "tool": "beegfs-ctl",
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


@pytest.mark.parametrize("file", ["composite", "compressed"])
def test_a_layout_of_components_is_told(file: str, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = found("/p/lustre1", monkeypatch, answers(getstripe=f"lfs-getstripe-{file}"))
    assert (seen.is_composite, seen.targets) == (True, 2)


def test_of_a_pool_its_own_targets_are_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    run = answers(asked=asked, getstripe="lfs-getstripe-file-in-pool")
    seen = found("/p/lustre1/me", monkeypatch, run)
    assert (seen.pool, seen.stripe_count, seen.is_composite) == ("original", 8, False)
    assert asked[-1] == "lfs df --lazy --pool original /p/lustre1"


def test_targets_that_are_out_of_use_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found("/p/lustre1", monkeypatch, answers(df="lfs-df-inactive")).targets == 4


@pytest.mark.parametrize(
    ("states", "targets"), [("", 2), (" D", 2), (" f", 2), (" R", 1), (" DR", 1), (" S", 1)]
)
def test_nor_are_those_that_take_no_new_files(
    states: str, targets: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `showdf` of lustre/utils/lfs.c prints the states of an OST."""

    def run(command: list[str]) -> str:
        return answers()(command).replace("[OST:1]", f"[OST:1]{states}")

    assert found("/p/lustre1", monkeypatch, run).targets == targets


def test_disks_for_metadata_alone_are_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    assert found("/gpfs/alpine", monkeypatch, answers(mmlsdisk="mmlsdisk-two-pools")).targets == 2


def test_beegfs_8_is_asked_with_its_own_tool_for_the_targets_of_the_pool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = found("/mnt/beegfs/me", monkeypatch, answers(missing="beegfs-ctl"))
    assert (seen.stripe_count, seen.stripe_bytes, seen.pool, seen.targets) == (4, MIB, "1", 1)
    assert (seen.tool, seen.problem) == ("beegfs", "")


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
    assert (seen.stripe_count, seen.targets, bool(seen.problem)) == (1, 0, True)


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
