"""Intents 7 and 9: how files should be spread over the storage targets, and how many ranks may write at once.

scrtune changes no directory: what it advises is a command for the user. The sources disagree
(`docs/intents.md`): the advice follows from the number of files, clients and targets. The next output shows
what it was worth.
"""

import shlex
from collections.abc import Iterator
from typing import NamedTuple

from msgspec.structs import replace

from ....units import bytes_text, count_text
from ...events import FileSystem, StorageTargetsObserved
from ...observe.io.output_sizes import CHECKPOINTS, KindSizes
from ...observe.io.storage import NOT_SHARED, ON_ALL, PARALLEL
from ...settings import number
from ..levers import KIB, MIB, in_steps
from ..parameter import DerivedParameter, Phase, Scope
from ..situation import Situation
from .table import FLUSH_WIDTH, STRIPES, WRITERS_A_TARGET

BEEGFS_8 = "beegfs"
"""BeeGFS's tool from version 8 on; before it was another one."""
GIB = 1024 * MIB
LEAST_STRIPE_BYTES, MOST_STRIPE_BYTES = MIB, 32 * MIB
DEFAULT_STRIPE_BYTES = 4 * MIB

_FEW, _SEVERAL = 4, 8


class Stripes(NamedTuple):
    """The stripes of a file, and the bound that changed their number."""

    number: int
    size_bytes: int
    clipped: str = ""


def stripes(file_bytes: int, files: int, clients: int, targets: int, write_bytes: int = 0) -> Stripes:
    """Return the stripes for `files` of `file_bytes` each, every one written by `clients` nodes.

    There are so many `targets` (0: not known); a write has `write_bytes` (0: not known).
    """
    size = stripe_size(write_bytes)
    wanted = 1
    if file_bytes > GIB:
        wanted = max(_SEVERAL, clients) if clients > 1 else _SEVERAL
    elif file_bytes >= MIB:
        wanted = _FEW
    bounds = {"no more whole stripes in a file": max(1, file_bytes // size)}
    if targets:
        bounds[f"{count_text(files, 'file')} share {count_text(targets, 'target')}"] = max(
            1, targets // max(1, files)
        )
    clipped = min(bounds, key=bounds.__getitem__)
    if bounds[clipped] >= wanted:
        return Stripes(wanted, size)
    return Stripes(bounds[clipped], size, f"{bounds[clipped]}: {clipped}")


def stripe_size(write_bytes: int) -> int:
    """Return the bytes of a stripe for writes of `write_bytes`: a multiple of 64 KiB from 1 to 32 MiB."""
    return min(MOST_STRIPE_BYTES, max(LEAST_STRIPE_BYTES, in_steps(write_bytes) or DEFAULT_STRIPE_BYTES))


def storage_targets(now: Situation) -> Iterator[DerivedParameter]:
    """Derive the stripes of the prefix directory from its targets, and SCR_FLUSH_WIDTH."""
    found = now.intents.storage.found
    if found is None:
        return
    sizes = now.intents.outputs.kinds.get(CHECKPOINTS)
    yield _advice(now, found, sizes)
    yield _width(now, found, _stripes_of(sizes, now).number if sizes else 1)


def next_output(now: Situation) -> Iterator[DerivedParameter]:
    """Derive the stripes of the next output of each kind from the sizes of the last ones."""
    found = now.intents.storage.found
    if found is None:
        return
    for kind, sizes in now.intents.outputs.kinds.items():
        drift = "" if sizes.drift is None else f"{sizes.drift:+.0%} against the one before"
        advice = _advice(now, found, sizes)
        yield replace(
            advice,
            intent="output sizes",
            name=f"stripes of the next {kind}",
            phase=Phase.START_OUTPUT,
            scope=Scope.OUTPUT_KIND,
            inputs=(*advice.inputs, *([drift] if drift else [])),
        )


def _stripes_of(sizes: KindSizes, now: Situation) -> Stripes:
    prefix = now.intents.storage.found
    targets = prefix.targets if prefix else 0
    return stripes(sizes.file_bytes, sizes.files, _clients(sizes, now), targets, _write_bytes(sizes, now))


def _clients(sizes: KindSizes, now: Situation) -> int:
    return now.intents.redundancy.nodes if sizes.is_shared else 1


def _write_bytes(sizes: KindSizes, now: Situation) -> int:
    """Return the bytes of a write into the prefix directory: a flush copies buffer by buffer."""
    if not now.cached:
        return sizes.writes.p90_bytes
    return min(number(now.settings, "SCR_FILE_BUF_SIZE"), max(1, sizes.file_bytes))


def _advice(now: Situation, found: StorageTargetsObserved, sizes: KindSizes | None) -> DerivedParameter:
    """Return what to set on the prefix directory: no setting of SCR's does it, so that is a command."""
    wanted = _stripes_of(sizes, now) if sizes else None
    prefix = now.job.prefix if now.job else ""
    why_not = _why_as_it_is(found, wanted)
    return replace(
        STRIPES,
        why_not=why_not,
        command="" if why_not else _command(found, wanted, prefix),
        inputs=tuple(_inputs(now, found, sizes)),
        clipped=wanted.clipped if wanted else "",
    )


def _inputs(now: Situation, found: StorageTargetsObserved, sizes: KindSizes | None) -> Iterator[str]:
    yield count_text(found.targets, "target") if found.targets else "targets not known"
    if sizes is not None:
        yield f"{count_text(sizes.files, 'file')} of {bytes_text(sizes.file_bytes)}"
        yield f"{count_text(_clients(sizes, now), 'node')} for a file"
        write_bytes = _write_bytes(sizes, now)
        yield f"writes of {bytes_text(write_bytes)}" if write_bytes else "writes not traced"


def _why_as_it_is(found: StorageTargetsObserved, wanted: Stripes | None) -> str:
    """Return why the directory stays as it is; empty where other stripes are advised."""
    if found.file_system == FileSystem.GPFS:
        return "GPFS spreads every file over all disks of its pool"
    if found.file_system not in (FileSystem.LUSTRE, FileSystem.BEEGFS):
        return f"there are no stripes on {found.mount_type or 'what it is on'}"
    if wanted is None:
        return "no checkpoint was seen yet: its file system's default stays"
    if found.is_composite:
        return "its layout is composite (progressive, mirrored or compressed): stripes alone would undo that"
    present = found.targets if found.stripe_count == ON_ALL else found.stripe_count
    if present == wanted.number and (present == 1 or found.stripe_bytes == wanted.size_bytes):
        return "it has these stripes already"
    return ""


def _command(found: StorageTargetsObserved, wanted: Stripes | None, prefix: str) -> str:
    assert wanted is not None  # noqa: S101 - else it stays as it is
    path = shlex.quote(prefix)
    if found.file_system == FileSystem.BEEGFS:
        chunk_bytes = 1 << (wanted.size_bytes - 1).bit_length()  # BeeGFS takes powers of two
        count, size = wanted.number, _size(chunk_bytes)
        if found.tool == BEEGFS_8:
            return f"beegfs entry set --num-targets={count} --chunk-size={size}iB {path}"
        return f"beegfs-ctl --setpattern --numtargets={count} --chunksize={size} {path}"
    pool = f" -p {shlex.quote(found.pool)}" if found.pool else ""
    return f"lfs setstripe -c {wanted.number} -S {_size(wanted.size_bytes)}{pool} {path}"


def _size(count: int) -> str:
    return f"{count // MIB}M" if count % MIB == 0 else f"{count // KIB}K"


def _width(now: Situation, found: StorageTargetsObserved, stripes_of_file: int) -> DerivedParameter:
    ranks, targets = now.intents.redundancy.ranks, found.targets
    spread = stripes_of_file if found.file_system in PARALLEL else 1
    most = max(1, WRITERS_A_TARGET * targets // spread)
    width = min(ranks, most)
    why_not = "" if targets else "how many targets there are is not known"
    if found.file_system in NOT_SHARED:
        why_not = f"{found.mount_type} is of this node alone"
    return replace(
        FLUSH_WIDTH,
        value=None if why_not else width,
        why_not=why_not,
        inputs=(count_text(ranks, "rank"), count_text(targets, "target"), f"{spread} of them for a file"),
        clipped=f"{width}: the job has no more ranks" if not why_not and most > ranks else "",
    )
