"""Intent 7 of the LLNL study: the storage targets that the prefix directory is on."""

import msgspec

from ....units import bytes_text, count_text
from ...events import FileSystem, StorageTargetsObserved
from ...intent import Evidence, Intent

PARALLEL = (FileSystem.LUSTRE, FileSystem.BEEGFS)
"""Whose users choose over how many targets a file is spread."""
NOT_SHARED = (FileSystem.MEMORY, FileSystem.LOCAL)
"""Of one node: what is there is lost with it."""
ON_ALL = -1
"""Stripes: one on each target."""


class StorageTargets(msgspec.Struct, Intent, frozen=True, kw_only=True):
    """What the prefix directory is on; without `found` it was not looked at."""

    title, number = "storage targets", 7

    evidence: Evidence = Evidence()
    found: StorageTargetsObserved | None = None

    def _text(self) -> str:
        found = self.found
        if found is None:
            return "the prefix directory was not looked at yet"
        what = f"{found.file_system} ({found.mount_type}) at {found.mount}" if found.file_system else ""
        return "; ".join(filter(None, (what, _layout(found), found.problem)))


def _layout(found: StorageTargetsObserved) -> str:
    size = bytes_text(found.stripe_bytes)
    match found.file_system:
        case FileSystem.MEMORY | FileSystem.LOCAL:
            return "of this node alone: what is there is lost with it"
        case FileSystem.NFS:
            return f"one server, which takes {size} a request" if found.stripe_bytes else "one server"
        case FileSystem.GPFS:
            return f"{_targets(found)}, over those of a pool it spreads blocks of {size}"
        case FileSystem.LUSTRE | FileSystem.BEEGFS:
            return f"{_targets(found)}, new files get {_stripes(found)}"
    return ""


def _targets(found: StorageTargetsObserved) -> str:
    return count_text(found.targets, "target") if found.targets else "how many targets is not known"


def _stripes(found: StorageTargetsObserved) -> str:
    if found.is_composite:
        return "a composite layout (progressive, mirrored or compressed)"
    if not found.stripe_count:
        return "stripes that are not known"
    count = "all as stripes" if found.stripe_count == ON_ALL else count_text(found.stripe_count, "stripe")
    return f"{count} of {bytes_text(found.stripe_bytes)}"


def observe(found: StorageTargetsObserved | None) -> StorageTargets:
    """Return the intent from what the probe found."""
    if found is None:
        return StorageTargets()
    return StorageTargets(
        evidence=Evidence(
            count=int(bool(found.file_system)),
            end_s=found.time_s,
            source=f"mounts and tools of {found.host}",
            declared=bool(found.file_system) and not found.problem,
        ),
        found=found,
    )
