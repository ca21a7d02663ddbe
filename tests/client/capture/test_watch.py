"""Changes that wake a reader, with the kernel's own inotify."""

import resource
import select
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from scrtune.client.capture.watch import Watch

from .followed import append


@pytest.fixture
def watch() -> Iterator[Watch]:
    with closing(Watch()) as made:
        yield made


def is_awake(watch: Watch) -> bool:
    return bool(select.select(watch.fds, [], [], 0)[0])


def test_a_file_that_grows_wakes_once(watch: Watch, tmp_path: Path) -> None:
    append(tmp_path / "file", b"one\n")
    assert watch.add(tmp_path / "file")
    assert watch.changed(), "it may have grown before it was watched"
    assert not watch.changed()
    append(tmp_path / "file", b"two\n")
    append(tmp_path / "file", b"three\n")
    assert is_awake(watch)
    assert watch.changed()
    assert not is_awake(watch)
    assert not watch.changed()


def test_of_a_directory_only_the_names_that_are_wanted_count(watch: Watch, tmp_path: Path) -> None:
    watch.add(tmp_path, lambda name: name.endswith(".pfw"))
    watch.changed()
    append(tmp_path / "mark", b"ours\n")
    (tmp_path / "mark").rename(tmp_path / "other")
    assert not watch.changed()
    append(tmp_path / "app-1.pfw", b"")
    assert watch.changed()
    append(tmp_path / "app-1.pfw", b"one\n")
    assert watch.changed()
    (tmp_path / "other").rename(tmp_path / "app-2.pfw")
    assert watch.changed()


def test_what_is_not_there_yet_is_watched_later(watch: Watch, tmp_path: Path) -> None:
    assert not watch.add(tmp_path / "later")
    assert not watch.changed()
    append(tmp_path / "later", b"")
    assert watch.add(tmp_path / "later")
    assert watch.changed()


def test_what_was_replaced_is_watched_anew(watch: Watch, tmp_path: Path) -> None:
    append(tmp_path / "file", b"one\n")
    watch.add(tmp_path / "file")
    watch.changed()
    (tmp_path / "file").unlink()
    append(tmp_path / "file", b"two\n")
    assert watch.changed()
    assert watch.add(tmp_path / "file")
    watch.changed()
    append(tmp_path / "file", b"three\n")
    assert watch.changed()


def test_more_changes_than_the_kernel_keeps_are_a_change(watch: Watch, tmp_path: Path) -> None:
    watch.add(tmp_path, lambda _: False)
    watch.changed()
    most = int(Path("/proc/sys/fs/inotify/max_queued_events").read_text())
    with (tmp_path / "a").open("ab", buffering=0) as a, (tmp_path / "b").open("ab", buffering=0) as b:
        for _ in range(most // 2):
            a.write(b"x")
            b.write(b"x")
    assert watch.changed()


def test_where_the_system_refuses_nothing_is_watched(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limits[1]))
    try:
        watch = Watch()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    with closing(watch):
        assert watch.fds == ()
        assert not watch.add(tmp_path)
        assert not watch.changed()
