"""Intent 7: what the prefix directory is on, in words."""

from typing import Any

import pytest

from scrtune.intents.events import StorageTargetsObserved
from scrtune.intents.observe.io.storage import observe

LUSTRE = {"file_system": "lustre", "mount_type": "lustre", "mount": "/p", "targets": 24}
ON_LUSTRE = "lustre (lustre) at /p"
COMPOSITE = "a composite layout (progressive, mirrored or compressed)"
GPFS = {"file_system": "gpfs", "mount_type": "gpfs", "mount": "/g"}
NFS = {"file_system": "nfs", "mount_type": "nfs4", "mount": "/h"}


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        (
            {**LUSTRE, "stripe_count": 1, "stripe_bytes": 1 << 20},
            "lustre (lustre) at /p; 24 targets, new files get 1 stripe of 1 MiB",
        ),
        (
            {**LUSTRE, "stripe_count": -1, "stripe_bytes": 4 << 20},
            "lustre (lustre) at /p; 24 targets, new files get all as stripes of 4 MiB",
        ),
        (
            {**LUSTRE, "is_composite": True},
            f"{ON_LUSTRE}; 24 targets, new files get {COMPOSITE}",
        ),
        (
            {**LUSTRE, "targets": 0, "problem": "lfs: x"},
            f"{ON_LUSTRE}; how many targets is not known, new files get stripes that are not known; lfs: x",
        ),
        (
            {
                "file_system": "gpfs",
                "mount_type": "gpfs",
                "mount": "/g",
                "targets": 4,
                "stripe_bytes": 16 << 20,
            },
            "gpfs (gpfs) at /g; 4 targets, over those of a pool it spreads blocks of 16 MiB",
        ),
        (
            {
                "file_system": "nfs",
                "mount_type": "nfs4",
                "mount": "/h",
                "targets": 1,
                "stripe_bytes": 1 << 20,
            },
            "nfs (nfs4) at /h; one server, which takes 1 MiB a request",
        ),
        (
            {"file_system": "memory", "mount_type": "tmpfs", "mount": "/m"},
            "memory (tmpfs) at /m; of this node alone: what is there is lost with it",
        ),
        ({"file_system": "other", "mount_type": "fuse.x", "mount": "/o"}, "other (fuse.x) at /o"),
        ({"problem": "p: not an absolute path"}, "p: not an absolute path"),
    ],
)
def test_sentences(fields: dict[str, Any], sentence: str) -> None:
    assert observe(StorageTargetsObserved(host="n", **fields)).sentence() == sentence


def test_the_evidence_is_one_look_as_certain_as_it_was_complete() -> None:
    assert observe(None).evidence.confidence == "none"
    assert observe(StorageTargetsObserved(host="n", **LUSTRE)).evidence.confidence == "declared"
    assert observe(StorageTargetsObserved(host="n", **LUSTRE, problem="lfs: x")).evidence.confidence == "low"
    assert observe(StorageTargetsObserved(host="n", problem="x")).evidence.confidence == "none"
