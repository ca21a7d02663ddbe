"""The prefix directory: which datasets count as whole, and which make room."""

import os
from pathlib import Path

import msgspec

from scrtune.client.embedded.prefix.index import IndexEntry, Prefix, PrefixFile, RankSummary


def saved(prefix: Prefix, dataset: int, name: str, *, flags: int = 1, file: str = "") -> RankSummary:
    """A dataset of one rank and one file, flushed."""
    path = prefix.root / (file or f"{name}/file")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(f"{name} {dataset}".encode())
    os.utime(path, ns=(dataset, dataset))
    described = PrefixFile(
        name=str(path.relative_to(prefix.root)), size=path.stat().st_size, mtime_ns=dataset
    )
    summary = RankSummary(
        dataset=dataset, name=name, flags=flags, checkpoint=dataset, ranks=1, rank=0, files=(described,)
    )
    prefix.write_summary(summary)
    return summary


def names(prefix: Prefix) -> list[str]:
    """What another process finds."""
    other = Prefix(prefix.root)
    other.load()
    return [entry.name for entry in other.entries.values()]


def test_a_dataset_with_all_its_summaries_is_found_without_an_index(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path)
    whole = saved(prefix, 1, "a")
    partial = saved(prefix, 2, "b")
    prefix.write_summary(msgspec.structs.replace(partial, ranks=2))
    assert names(prefix) == ["a"]
    prefix.publish(IndexEntry.of(whole))
    prefix.index_file.write_bytes(b"{ torn")
    assert names(prefix) == ["a"]


def test_a_newer_dataset_of_the_same_name_replaces_the_older_one_and_keeps_its_files(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path)
    prefix.publish(IndexEntry.of(saved(prefix, 1, "a")))
    prefix.publish(IndexEntry.of(saved(prefix, 2, "a")))
    assert names(prefix) == ["a"]
    assert (tmp_path / "a/file").read_bytes() == b"a 2"
    assert prefix.summary(1, 0) is None


def test_the_window_deletes_no_file_that_a_newer_dataset_wrote(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path)
    for dataset, name in enumerate("abc", start=1):
        prefix.publish(IndexEntry.of(saved(prefix, dataset, name, file="same/file")))
    prefix.keep_newest(1, exempt=2)
    assert names(prefix) == ["c"]
    assert (tmp_path / "same/file").read_bytes() == b"c 3"


def test_the_window_counts_neither_exempt_nor_failed_datasets(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path)
    for dataset, (name, flags) in enumerate([("a", 1), ("b", 3), ("c", 1), ("d", 1)], start=1):
        prefix.publish(IndexEntry.of(saved(prefix, dataset, name, flags=flags)))
    prefix.mark_failed(4)
    prefix.keep_newest(0, exempt=2)
    assert names(prefix) == ["a", "b", "c", "d"]
    prefix.keep_newest(1, exempt=2)
    assert names(prefix) == ["b", "c", "d"]
    assert not (tmp_path / "a").exists()


def test_a_file_is_whole_only_byte_for_byte(tmp_path: Path) -> None:
    prefix = Prefix(tmp_path)
    (tmp_path / "f").write_bytes(b"123456789")
    right = PrefixFile(name="f", size=9, mtime_ns=0, crc32=0xCBF43926)

    def whole(file: PrefixFile) -> bool:
        return prefix.is_intact(
            RankSummary(dataset=1, name="a", flags=1, checkpoint=1, ranks=1, rank=0, files=(file,))
        )

    assert whole(right)
    assert not whole(PrefixFile(name="f", size=9, mtime_ns=0, crc32=1))
    assert not whole(PrefixFile(name="f", size=8, mtime_ns=0, crc32=0xCBF43926))
    assert not whole(PrefixFile(name="g", size=9, mtime_ns=0, crc32=0xCBF43926))
    assert not whole(PrefixFile(name="f", size=9, mtime_ns=0))


def _fields(summary: RankSummary) -> dict[str, object]:
    return {name: getattr(summary, name) for name in summary.__struct_fields__}
