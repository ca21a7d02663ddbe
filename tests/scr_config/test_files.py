"""A config file is there whole or as it was: whoever reads it, whatever fails."""

import os
import stat
import threading
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.scr_config.files import ConfigWriteError, write_atomic, write_config
from scrtune.scr_config.ownership import back_up_foreign, is_as_written, signature, signed


def names_in(directory: Path) -> list[str]:
    return sorted(entry.name for entry in directory.iterdir())


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_a_new_file_is_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "scr.conf"
    write_config(path, "SCR_FLUSH=1\n")
    assert path.read_text() == "SCR_FLUSH=1\n"
    assert mode(path) == 0o600
    assert names_in(tmp_path) == ["scr.conf"]


def test_the_mode_of_a_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "scr.conf"
    path.write_text("old")
    path.chmod(0o644)
    write_config(path, "new")
    assert path.read_text() == "new"
    assert mode(path) == 0o644


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    path, link = tmp_path / "scr.conf", tmp_path / ".scrconf"
    path.write_text("old")
    link.symlink_to(path)
    write_config(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"


def test_bytes_that_are_no_utf_8_come_back(tmp_path: Path) -> None:
    path = tmp_path / "scr.conf"
    write_config(path, os.fsdecode(b"SCR_PREFIX=/caf\xe9\n"))
    assert path.read_bytes() == b"SCR_PREFIX=/caf\xe9\n"


@pytest.mark.parametrize(
    "place", ["missing/scr.conf", "file/scr.conf", "directory", "/proc/scr.conf", "loop/scr.conf"]
)
def test_where_nothing_can_be_written_the_error_says_where_why_and_what_to_do(
    tmp_path: Path, place: str
) -> None:
    (tmp_path / "file").write_text("kept")
    (tmp_path / "directory").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    path = tmp_path / place
    with pytest.raises(ConfigWriteError) as caught:
        write_config(path, "SCR_FLUSH=1\n")
    assert isinstance(caught.value, OSError)
    assert caught.value.errno
    assert str(path) in str(caught.value)
    assert "cannot be written (" in str(caught.value)
    assert "choose another path" in str(caught.value)
    assert (tmp_path / "file").read_text() == "kept"
    assert names_in(tmp_path) == ["directory", "file", "loop"]


def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    resource = pytest.importorskip("resource")
    path = tmp_path / "scr.conf"
    path.write_text("old")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    # a file size limit fails a write half way, as a full disk does (Python ignores SIGXFSZ)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1024, before[1]))
    try:
        with pytest.raises(ConfigWriteError, match="too large"):
            write_config(path, "x" * 4096)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["scr.conf"]


def test_an_interrupt_half_way_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "scr.conf"
    path.write_text("old")

    def interrupted(_descriptor: int) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomic(path, b"new", sync=interrupted)
    assert path.read_text() == "old"
    assert names_in(tmp_path) == ["scr.conf"]


def test_the_file_is_on_disk_before_it_has_its_name_and_the_name_after(tmp_path: Path) -> None:
    path, order = tmp_path / "scr.conf", list[tuple[str, bool]]()

    def noted(descriptor: int) -> None:
        kind = "directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        order.append((kind, path.exists()))
        os.fsync(descriptor)

    write_atomic(path, b"SCR_FLUSH=1\n", sync=noted)
    assert order == [("file", False), ("directory", True)]


def test_a_reader_never_sees_half_a_file(tmp_path: Path) -> None:
    path = tmp_path / "scr.conf"
    versions = [f"SCR_JOB_NAME={letter * 200_000}\n" for letter in "ab"]
    write_config(path, versions[0])
    done, seen = threading.Event(), set()

    def read() -> None:
        while not done.is_set():
            seen.add(path.read_text())

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for number in range(1, 200):
            write_config(path, versions[number % 2])
    finally:
        done.set()
        reader.join()
    assert seen <= set(versions)
    assert seen


def test_a_backup_is_the_file_byte_by_byte_and_the_first_one_stays(tmp_path: Path) -> None:
    path = tmp_path / "scr.conf"
    path.write_bytes(b"SCR_FLUSH=1\r\n\xe9")
    back_up_foreign(path)
    backup = tmp_path / "scr.conf.scrtune-backup"
    assert backup.read_bytes() == b"SCR_FLUSH=1\r\n\xe9"
    assert mode(backup) == 0o600
    path.write_text("ours")
    back_up_foreign(path)
    assert backup.read_bytes() == b"SCR_FLUSH=1\r\n\xe9"


def test_a_backup_of_a_link_lies_beside_what_it_points_to(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "scr.conf").write_text("theirs")
    link = tmp_path / ".scrconf"
    link.symlink_to(tmp_path / "project" / "scr.conf")
    back_up_foreign(link)
    assert (tmp_path / "project" / "scr.conf.scrtune-backup").read_text() == "theirs"
    assert link.is_symlink()


TEXTS = st.text(st.characters(codec="utf-8"), max_size=60)


@given(comment=TEXTS, body=TEXTS)
def test_what_is_signed_is_known_again_and_a_comment_above_changes_nothing(comment: str, body: str) -> None:
    text = signed(comment, body)
    assert is_as_written(text)
    assert is_as_written("# mine\n" + text)
    assert signature(text) == signature(signed("", body))


@given(body=TEXTS, position=st.integers(0, 59), new=TEXTS)
def test_any_change_below_the_header_is_noticed(body: str, position: int, new: str) -> None:
    edited = body[:position] + new + body[position + 1 :]
    text = signed("written by scrtune", body)
    changed = text.removesuffix(body) + edited
    assert is_as_written(changed) == (edited == body)
    assert signature(changed) == signature(text), "it still says which version was edited"


@given(text=TEXTS)
def test_what_scrtune_did_not_write_has_no_signature(text: str) -> None:
    assert not signature(text)
    assert not is_as_written(text)


@pytest.mark.parametrize(
    ("text", "known", "copied"),
    [
        ("SCR_FLUSH=1\n", "", True),
        ("SCR_FLUSH=1\n", "SCR_FLUSH=1\n", False),
        (" \n", "", False),
        (signed("ours", "SCR_FLUSH=1\n"), "", False),
        (signed("ours, edited", "SCR_FLUSH=1\n") + "SCR_FLUSH=2\n", "", False),
    ],
)
def test_only_what_is_nowhere_else_and_not_ours_is_backed_up(
    tmp_path: Path, text: str, known: str, copied: bool
) -> None:
    (tmp_path / "scr.conf").write_text(text)
    back_up_foreign(tmp_path / "scr.conf", known=known)
    assert (tmp_path / "scr.conf.scrtune-backup").exists() == copied


def test_where_there_is_no_file_there_is_nothing_to_back_up(tmp_path: Path) -> None:
    back_up_foreign(tmp_path / "scr.conf")
    assert names_in(tmp_path) == []
