"""Intents 7 and 9: stripes and widths from the file system's targets and the outputs' files."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.events import FileSystem, SettingsObserved, StorageTargetsObserved
from scrtune.intents.observe.faults.redundancy import Redundancy
from scrtune.intents.observe.intents import Intents
from scrtune.intents.observe.io.output_sizes import CHECKPOINTS, PURE_OUTPUTS, KindSizes, OutputSizes
from scrtune.intents.observe.io.sizes import Sizes
from scrtune.intents.observe.io.storage import observe
from scrtune.intents.rules.derived.storage import next_output, storage_targets, stripe_size, stripes
from scrtune.intents.rules.parameter import DerivedParameter, Phase, Scope
from scrtune.intents.rules.situation import Situation

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30


@pytest.mark.parametrize(
    ("file_bytes", "files", "clients", "targets", "number"),
    [
        (MIB - 1, 1, 1, 100, 1),  # below 1 MiB
        (4 * MIB, 1, 1, 100, 1),  # a file of one stripe
        (16 * MIB, 1, 1, 100, 4),
        (GIB, 1, 1, 100, 4),  # up to 1 GiB
        (GIB + 1, 1, 1, 100, 8),  # above: one client
        (GIB + 1, 1, 4, 100, 8),  # few clients
        (GIB + 1, 1, 64, 100, 64),  # a stripe for each
        (GIB + 1, 1, 640, 100, 100),  # but no more than targets
        (5 * GIB, 16, 1, 24, 1),  # a file for each process: as NERSC says
        (5 * GIB, 4, 1, 24, 6),  # few files leave targets
        (5 * GIB, 1000, 1, 24, 1),
        (5 * GIB, 1, 1, 0, 8),  # how many targets is not known
        (0, 0, 1, 24, 1),
    ],
)
def test_stripes(file_bytes: int, files: int, clients: int, targets: int, number: int) -> None:
    assert stripes(file_bytes, files, clients, targets).number == number


@pytest.mark.parametrize(
    ("write_bytes", "size"),
    [
        (0, 4 * MIB),
        (1, MIB),
        (MIB, MIB),
        (MIB + 1, MIB + 64 * KIB),
        (32 * MIB, 32 * MIB),
        (33 * MIB, 32 * MIB),
    ],
)
def test_a_stripe_has_the_size_of_a_write_in_steps_of_64_kib(write_bytes: int, size: int) -> None:
    assert stripe_size(write_bytes) == size


SIZE, COUNT = st.integers(0, 1 << 45), st.integers(1, 10_000)


@given(SIZE, COUNT, COUNT, st.integers(0, 1000), st.integers(0, 1 << 30))
def test_files_never_share_targets_and_no_stripe_is_empty(
    file_bytes: int, files: int, clients: int, targets: int, write_bytes: int
) -> None:
    found = stripes(file_bytes, files, clients, targets, write_bytes)
    assert found.number >= 1
    assert found.number == 1 or found.number * found.size_bytes <= file_bytes
    if targets and found.number > 1:
        assert found.number * files <= targets
    assert found.size_bytes % (64 * KIB) == 0
    assert MIB <= found.size_bytes <= 32 * MIB


@given(SIZE, SIZE, COUNT, COUNT, COUNT, st.integers(1, 1000), st.integers(1, 1000))
def test_more_targets_fewer_files_or_larger_ones_never_mean_fewer_stripes(  # noqa: PLR0913, PLR0917
    one: int, other: int, files: int, more_files: int, clients: int, targets: int, more_targets: int
) -> None:
    small, large = sorted((one, other))
    at_most = stripes(small, files + more_files, clients, targets).number
    assert at_most <= stripes(large, files, clients, targets + more_targets).number


def situation(found: dict[str, Any], ranks: int = 16, nodes: int = 4, **kinds: KindSizes) -> Situation:
    targets = StorageTargetsObserved(
        **{"host": "n", "file_system": FileSystem.LUSTRE, "targets": 24, **found}
    )
    named = {
        {"checkpoints": CHECKPOINTS, "outputs": PURE_OUTPUTS}[name]: kind for name, kind in kinds.items()
    }
    return Situation(
        intents=Intents(
            storage=observe(targets),
            outputs=OutputSizes(kinds=named),
            redundancy=Redundancy(ranks=ranks, nodes=nodes),
        ),
        job=SettingsObserved(settings={}, prefix="/p/lustre1/my run"),
    )


def kind(total_bytes: int, files: int, write_bytes: int = 0, **fields: Any) -> KindSizes:
    return KindSizes(
        outputs=1, bytes=total_bytes, files=files, writes=Sizes(count=1, p90_bytes=write_bytes), **fields
    )


def of_directory(now: Situation) -> DerivedParameter:
    return next(each for each in storage_targets(now) if each.name == "stripes of the prefix directory")


def width(now: Situation) -> DerivedParameter:
    return next(each for each in storage_targets(now) if each.name == "SCR_FLUSH_WIDTH")


@pytest.mark.parametrize(
    ("found", "checkpoint", "why"),
    [
        ({}, None, "no checkpoint was seen yet: its file system's default stays"),
        (
            {"stripe_count": 1, "stripe_bytes": MIB},
            kind(256 * GIB, 1, 8 * MIB, is_shared=True),
            "lfs setstripe -c 8 -S 8M '/p/lustre1/my run'",
        ),
        (
            {"stripe_count": 1, "stripe_bytes": MIB, "pool": "flash"},
            kind(20 * GIB, 4, MIB + 1),
            "lfs setstripe -c 6 -S 1088K -p flash '/p/lustre1/my run'",
        ),
        ({"stripe_count": 1, "stripe_bytes": MIB}, kind(80 * GIB, 16), "it has these stripes already"),
        (
            {"stripe_count": 8, "stripe_bytes": MIB},
            kind(256 * GIB, 1, 8 * MIB, is_shared=True),
            "lfs setstripe -c 8 -S 8M '/p/lustre1/my run'",
        ),
        (
            {"stripe_count": -1, "stripe_bytes": 8 * MIB, "targets": 8},
            kind(256 * GIB, 1, 8 * MIB, is_shared=True),
            "it has these stripes already",
        ),
        (
            {"stripe_count": 1, "is_composite": True},
            kind(256 * GIB, 1, is_shared=True),
            "its layout is composite (progressive, mirrored or compressed): stripes alone would undo that",
        ),
        (
            {"file_system": "beegfs", "stripe_count": 4, "stripe_bytes": 512 * KIB},
            kind(20 * GIB, 4, MIB + 1),
            "beegfs-ctl --setpattern --numtargets=6 --chunksize=2M '/p/lustre1/my run'",
        ),
        (
            {"file_system": "beegfs", "stripe_count": 4, "stripe_bytes": 512 * KIB, "tool": "beegfs"},
            kind(20 * GIB, 4, MIB + 1),
            "beegfs entry set --num-targets=6 --chunk-size=2MiB '/p/lustre1/my run'",
        ),
        ({"file_system": "gpfs"}, kind(GIB, 1), "GPFS spreads every file over all disks of its pool"),
        ({"file_system": "nfs", "mount_type": "nfs4"}, kind(GIB, 1), "there are no stripes on nfs4"),
        ({"file_system": ""}, kind(GIB, 1), "there are no stripes on what it is on"),
    ],
)
def test_the_command_for_the_prefix_directory_or_why_it_stays(
    found: dict[str, Any], checkpoint: KindSizes | None, why: str
) -> None:
    kinds = {"checkpoints": checkpoint} if checkpoint else {}
    parameter = of_directory(situation(found, **kinds))
    assert (parameter.value, parameter.command or parameter.why_not) == (None, why)
    assert (parameter.phase, parameter.intent) == (Phase.INIT, "storage targets")


@pytest.mark.parametrize(
    ("found", "ranks", "value", "clipped"),
    [
        ({"targets": 24}, 1000, 96, ""),
        ({"targets": 24}, 16, 16, "16: the job has no more ranks"),
        ({"targets": 1, "file_system": "nfs"}, 1000, 4, ""),
        ({"targets": 0}, 1000, None, ""),
        ({"targets": 1, "file_system": "local", "mount_type": "ext4"}, 1000, None, ""),
    ],
)
def test_the_width_is_a_few_files_for_each_target_and_scr_3_ignores_it(
    found: dict[str, Any], ranks: int, value: int | None, clipped: str
) -> None:
    parameter = width(situation(found, ranks))
    assert (parameter.value, parameter.clipped) == (value, clipped)
    assert "SCR 3 reads it and never uses it" in parameter.rule
    assert "SCRTUNE_FLUSH_THREADS" in parameter.rule


def test_a_file_on_several_targets_leaves_room_for_fewer_at_once() -> None:
    shared = kind(256 * GIB, 1, 8 * MIB, is_shared=True)
    assert width(situation({}, 1000, checkpoints=shared)).value == 4 * 24 // 8


def test_each_kind_of_output_has_its_own_stripes_for_the_next_one() -> None:
    grown = kind(20 * GIB, 4, 4 * MIB, before_bytes=2 * GIB, drift=9.0)
    small = kind(MIB, 16, 4 * KIB)
    found = {each.name: each for each in next_output(situation({}, checkpoints=grown, outputs=small))}
    checkpoints = found["stripes of the next checkpoints"]
    assert "lfs setstripe -c 6 -S 4M" in checkpoints.command
    assert "+900% against the one before" in checkpoints.inputs
    assert (checkpoints.phase, checkpoints.scope) == (Phase.START_OUTPUT, Scope.OUTPUT_KIND)
    assert "lfs setstripe -c 1 -S 1M" in found["stripes of the next pure outputs"].command


def test_a_flush_writes_buffer_by_buffer() -> None:
    now = situation({}, checkpoints=kind(20 * GIB, 4, 4 * KIB))
    cached = {**now.settings, "SCR_CACHE_BYPASS": 0, "SCR_FILE_BUF_SIZE": 16 * MIB}
    parameter = of_directory(Situation(intents=now.intents, job=now.job, settings=cached))
    assert "-c 6 -S 16M" in parameter.command
    small = Situation(intents=situation({}, checkpoints=kind(8 * MIB, 1)).intents, settings=cached)
    assert "writes of 8 MiB" in of_directory(small).inputs


def test_where_nobody_looked_nothing_is_derived() -> None:
    assert [*storage_targets(Situation(intents=Intents())), *next_output(Situation(intents=Intents()))] == []
