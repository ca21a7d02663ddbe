"""Find out what storage a directory is on: its file system, its servers' targets, and its stripes.

A script that loads no packages, in a process of its own (:mod:`.process`): a file system that hangs holds up
nothing else. What mounts and the kernel do not say is asked of the file system's tools, `TOOL_LIMIT_S` each
at most; a tool that is not there leaves its numbers 0, with a `problem`.
A file system is a row of :data:`KINDS`.
"""

import os
import re
import sys
import time

TYPE_CHECKING = False  # of mypy: to import `typing` takes longer than all that is done here
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Fields = dict[str, int | str]
    Run = Callable[[list[str]], str]
    """Runs a tool and returns what it wrote. Raises OSError."""

TOOL_LIMIT_S = 2.0
MOUNTS = "/proc/self/mountinfo"

_ESCAPED = re.compile(r"\\([0-7]{3})")
_OST_IN_USE = re.compile(r"\[OST:\d+\](?! *[Df]*[RNSI])")
"""Behind an OST are its states: D (degraded) and f (flash) take new files, R, N, S and I (no room) do not."""
_SIZE = re.compile(r"(\d+)\s*([KMGT]?)i?B?", re.IGNORECASE)
_UNITS = "KMGT"
_LFS, _BEEGFS_7, _BEEGFS_8 = "lfs", "beegfs-ctl", "beegfs"
_MMLSDISK = "/usr/lpp/mmfs/bin/mmlsdisk"


class Mount:
    """One line of mountinfo: where, of which type, from what, and with which options."""

    def __init__(self, line: str) -> None:
        first, _, second = line.partition(" - ")
        self.path = _unescaped(first.split(" ")[4])
        self.type, self.device, *options = second.split(" ")
        self.options = ",".join(options)


def mount_of(directory: str, mountinfo: str) -> "Mount | None":
    """Return the mount that `directory`, an absolute path without links, is on."""
    found = None
    for line in mountinfo.splitlines():
        try:
            mount = Mount(line)
        except (IndexError, ValueError):
            continue
        below = mount.path.rstrip("/") + "/"
        # of two at the same place the later one hides the first
        if (directory + "/").startswith(below) and (not found or len(mount.path) >= len(found.path)):
            found = mount
    return found


def lustre(directory: str, mount: Mount, run: "Run") -> "Iterator[Fields]":
    """Ask ``lfs`` for the default stripes of the directory, and for the targets that they may be on."""
    text = run([_LFS, "getstripe", "-d", directory])
    pool = _word(r"pool:\s*(\S+)", text)
    yield {
        "tool": _LFS,
        "stripe_count": _number(r"stripe_count:\s*(-?\d+)", text),
        "stripe_bytes": _number(r"stripe_size:\s*(\d+)", text),
        "is_composite": int("lcm_entry_count:" in text),
        "pool": pool,
    }
    listed = run([_LFS, "df", "--lazy", *(["--pool", pool] if pool else []), mount.path])
    yield {"targets": len(_OST_IN_USE.findall(listed))}


def gpfs(directory: str, mount: Mount, run: "Run") -> "Iterator[Fields]":
    """Ask the kernel for the block size, and ``mmlsdisk`` for the disks that hold data and are up."""
    yield {"stripe_bytes": os.statvfs(directory).f_bsize}
    text = run([_MMLSDISK, mount.device])
    yield {"targets": len(re.findall(r"\s(?:yes|no)\s+yes\s+ready\s+up\b", text, re.IGNORECASE))}


def beegfs(directory: str, mount: Mount, run: "Run") -> "Iterator[Fields]":
    """Ask BeeGFS's tool for the pattern of the directory, and the targets: 8 has another one."""
    here = f"--mount={mount.path}"
    try:
        text = run([_BEEGFS_7, here, "--getentryinfo", directory])
        yield {"tool": _BEEGFS_7, **_pattern(text)}
        listed = run([_BEEGFS_7, here, "--listtargets", "--nodetype=storage", "--state"])
        yield {"targets": len(re.findall(r"^\s*\d+\s+Online\s", listed, re.MULTILINE))}
    except FileNotFoundError:
        pattern = _pattern(run([_BEEGFS_8, here, "entry", "info", "--retro", directory]))
        yield {"tool": _BEEGFS_8, **pattern}
        listed = run([_BEEGFS_8, here, "target", "list"])
        pools = re.findall(r"^s:\d+\s.*\ss:(\d+)\s*$", listed, re.MULTILINE)
        yield {"targets": pools.count(str(pattern["pool"]))}


def _pattern(text: str) -> "Fields":
    """Return what files of a BeeGFS directory get; both versions print it alike."""
    return {
        "stripe_count": _number(r"Number of storage targets:\s*desired:\s*(\d+)", text),
        "stripe_bytes": _bytes(_word(r"Chunksize:\s*(\S+)", text)),
        "pool": _word(r"Storage Pool:\s*(\S+)", text),
    }


def nfs(_directory: str, mount: Mount, _run: "Run") -> "Iterator[Fields]":
    """Take from the mount's options how much one request to its server writes."""
    yield {"targets": 1, "stripe_bytes": _number(r"\bwsize=(\d+)", mount.options)}


def here(directory: str, _mount: Mount, _run: "Run") -> "Iterator[Fields]":
    """Take from the kernel the block size of a file system of this node."""
    yield {"targets": 1, "stripe_bytes": os.statvfs(directory).f_bsize}


KINDS = (
    ("lustre", ("lustre",), lustre),
    ("gpfs", ("gpfs", "mmfs"), gpfs),
    ("beegfs", ("beegfs", "fuse.beegfs"), beegfs),
    ("nfs", ("nfs", "nfs4"), nfs),
    ("memory", ("tmpfs", "ramfs"), here),
    ("local", ("ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay"), here),
)
"""The name of a kind, the types that mounts of it have, and what finds out more."""


def look(directory: str, mountinfo: str, run: "Run") -> "Iterator[Fields]":
    """Yield fields of StorageTargetsObserved as they are known; every `problem` by itself."""
    place = os.path.realpath(directory)
    while not os.path.isdir(place) and place != "/":  # noqa: PTH112 - pathlib takes as long to load as all this
        place = os.path.dirname(place)  # noqa: PTH120 - the prefix directory is not made yet
    mount = mount_of(place, mountinfo)
    if mount is None:
        yield {"problem": f"{directory}: no mount has it"}
        return
    kind, ask = next(((kind, ask) for kind, types, ask in KINDS if mount.type in types), ("other", None))
    yield {"file_system": kind, "mount": mount.path, "mount_type": mount.type}
    try:
        yield from ask(place, mount, run) if ask else ()
    except OSError as error:
        yield {"problem": f"{kind}: {error}"}


def run_tool(command: list[str]) -> str:
    """Run one tool, in English, and return what it wrote. Raises OSError."""
    import subprocess  # noqa: PLC0415 - takes longer to load than all else, and most need no tool

    try:
        done = subprocess.run(
            command,
            env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=TOOL_LIMIT_S,
            check=True,
        )
    except subprocess.SubprocessError as error:
        raise OSError(str(error)) from error
    return done.stdout.decode("utf-8", "replace")


def _unescaped(text: str) -> str:
    """Return a path as it is: mountinfo has blanks and the like as octal numbers."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), text)


def _number(pattern: str, text: str) -> int:
    found = re.search(pattern, text)
    return int(found[1]) if found else 0


def _word(pattern: str, text: str) -> str:
    found = re.search(pattern, text, re.MULTILINE)
    return found[1] if found else ""


def _bytes(text: str) -> int:
    found = _SIZE.match(text)
    return int(found[1]) * 1024 ** (_UNITS.find(found[2].upper()) + 1 if found[2] else 0) if found else 0


def main(directory: str) -> None:
    """Write what is found out, as :mod:`.measure` does."""
    begin_s = time.perf_counter()
    with open(MOUNTS, encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123 - as above
        mountinfo = file.read()
    for fields in look(directory, mountinfo, run_tool):
        for name, value in fields.items():
            os.write(1, f"{name}={value}\0".encode("utf-8", "surrogateescape"))
    os.write(1, f"probe_s={time.perf_counter() - begin_s}\0".encode())


if __name__ == "__main__":
    main(sys.argv[1])
