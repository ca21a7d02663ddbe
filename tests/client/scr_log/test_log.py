"""SCR's own log, as recorded on real runs, and whatever else may stand in such files."""

import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.client.scr_log.log import LONGEST_LINE_BYTES, LogRecord, ScrLog, parse_line

DATA = Path(__file__).parents[2] / "data" / "scr_log"
AT = 1_795_271_885.0
"""2026-11-21T14:38:05 in UTC."""
STAMP = "2026-11-21T14:38:05"


def parsed(text: str) -> LogRecord:
    record = parse_line(text.encode())
    assert record is not None
    return record


def line(event: str, jobid: str = "j1", more: str = "") -> str:
    return f"{STAMP}: host=n1, jobid={jobid}, event={event}{more}\n"


def start(jobid: str = "j1", second: int = 5) -> str:
    return line("START", jobid, ", procs=4, nodes=2").replace(":05:", f":{second:02}:", 1)


class TestLines:
    """What one line says."""

    def test_every_line_of_real_runs_is_understood(self) -> None:
        records = [parse_line(text) for name in ("scripts", "job") for text in _lines(f"{name}.log")]
        assert all(record is not None and not record.truncated for record in records)

    def test_a_run_with_its_scripts_has_all_that_scr_logs(self) -> None:
        names = Counter(parsed(text.decode()).name for text in _lines("scripts.log"))
        for name in ("START", "HALT", "REBUILD_SUCCESS", "RESTART_SUCCESS", "RESTART_FAIL", "FETCH_SUCCESS"):
            assert names[name], name
        for name in ("RUN_START", "RUN_END", "NODE_FAIL", "SCAVENGE_START", "SCAVENGE_END", "OUTPUT_START"):
            assert names[name], name
        for name in ("WRITE", "ENCODE", "CHECKPOINT", "FLUSH_SYNC", "FLUSH_ASYNC", "FETCH", "OUTPUT"):
            assert names[name], name

    def test_a_start(self) -> None:
        assert parsed(start()) == LogRecord(name="START", time_s=AT, jobid="j1", procs=4, nodes=2)

    def test_a_transfer_has_its_start_its_seconds_and_what_was_moved(self) -> None:
        record = parsed(
            f"{STAMP}: host=n1, jobid=j1, xfer=FLUSH_ASYNC, from=/ssd/scr.dataset.2, to=/prefix, dset=2,"
            ' name="ckpt.2", secs=3.330420, bytes=16777250.000000, files=4'
        )
        assert (record.name, record.is_transfer, record.dataset, record.dataset_name) == (
            "FLUSH_ASYNC",
            True,
            2,
            "ckpt.2",
        )
        assert (record.seconds, record.bytes, record.files) == (3.33042, 16_777_250, 4)

    def test_a_node_that_failed(self) -> None:
        record = parsed(line("NODE_FAIL", more=', note="n7: Failed to ping", secs=60.000000'))
        assert (record.note, record.seconds) == ("n7: Failed to ping", 60.0)

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "\n",
            "hello",
            STAMP,
            "2026-13-45T99:99:99: host=n1, jobid=j1, event=START",
            line("START").replace("2026", "0000"),
            line("CHECKPOINT_END", more=", dset=x"),
            line("CHECKPOINT_END", more=', name="a'),
            line("CHECKPOINT_END", more=", secs=nan"),
            line("CHECKPOINT_END", more=", secs=" + "9" * 400 + ".000000"),
            line("HALT", more=', note="' + "x" * LONGEST_LINE_BYTES + '"'),
        ],
    )
    def test_what_is_no_line_of_scrs_is_none(self, text: str) -> None:
        assert parse_line(text.encode()) is None

    def test_of_a_line_that_scr_cut_the_head_is_read(self) -> None:
        whole = line("CHECKPOINT_START", more=f', note="/ssd", dset=3, name="{"x" * 2000}"')
        record = parse_line(whole.encode()[: LONGEST_LINE_BYTES - 1] + b"\n")
        assert record == LogRecord(name="CHECKPOINT_START", time_s=AT, jobid="j1", truncated=True)

    def test_in_the_hour_that_comes_twice_the_time_nearer_to_now_counts(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
        time.tzset()
        text = b"2026-10-25T02:30:00: host=n1, jobid=j1, event=COMPUTE_START"
        times = [record.time_s for near in (1792888000.0, 1792892000.0) if (record := parse_line(text, near))]
        assert times == [1792888200.0, 1792891800.0]


# SCR escapes nothing: only what looks like the next field of the line can be taken for it
words = st.text(st.characters(exclude_characters="\n", codec="utf-8"), max_size=60).filter(
    lambda text: '", ' not in text
)
paths = words.filter(lambda text: ", " not in text)
seconds = st.integers(0, 10**12).map(lambda micro: micro / 1e6)


@given(
    note=st.none() | words,
    dataset=st.none() | st.integers(-1, 2**31 - 1),
    name=st.none() | words,
    secs=st.none() | seconds,
)
def test_an_event_is_read_as_scr_prints_it(
    note: str | None, dataset: int | None, name: str | None, secs: float | None
) -> None:
    """scr_log_event of scr_log.c."""
    more = "" if note is None else f', note="{note}"'
    more += "" if dataset is None else f", dset={dataset}"
    more += "" if name is None else f', name="{name}"'
    more += "" if secs is None else f", secs={secs:f}"
    record = parsed(line("FETCH_SUCCESS", more=more))
    assert (record.note, record.dataset, record.dataset_name) == (note or "", dataset, name or "")
    assert record.seconds == (None if secs is None else pytest.approx(secs, abs=1e-6))


@given(source=paths, target=paths, dataset=st.integers(0, 2**31 - 1), name=st.none() | words, secs=seconds)
def test_a_transfer_is_read_as_scr_prints_it(
    source: str, target: str, dataset: int, name: str | None, secs: float
) -> None:
    """scr_log_transfer of scr_log.c."""
    label = "" if name is None else f', name="{name}"'
    record = parsed(
        f"{STAMP}: host=n1, jobid=j1, xfer=ENCODE, from={source}, to={target}, dset={dataset}{label},"
        f" secs={secs:f}, bytes={1e9:f}, files=12"
    )
    assert record.dataset == dataset
    assert (record.dataset_name, record.bytes, record.files) == (name or "", 10**9, 12)


@given(st.binary(max_size=1200))
def test_no_bytes_are_too_much_for_the_parsers(data: bytes) -> None:
    record = parse_line(data)
    assert record is None or record.name


@given(st.data())
def test_a_spoilt_line_is_a_record_or_none(data: st.DataObject) -> None:
    text = bytearray(data.draw(st.sampled_from(_lines("scripts.log"))))
    for _ in range(data.draw(st.integers(1, 5))):
        text[data.draw(st.integers(0, len(text) - 1))] = data.draw(st.integers(0, 255))
    record = parse_line(bytes(text))
    assert record is None or record.name


class TestFollowing:
    """What of a growing log is this run's."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "log"

    def test_of_a_log_that_is_there_only_what_follows_the_last_start_counts(self, path: Path) -> None:
        path.write_text(start() + line("HALT") + start() + line("COMPUTE_START"))
        log = ScrLog(path)
        assert _names(log.records()) == ["START", "COMPUTE_START"]
        _append(path, line("COMPUTE_END"), line("RUN_END"))
        assert _names(log.records()) == ["COMPUTE_END", "RUN_END"]
        assert log.records() == []

    def test_a_later_run_of_the_job_goes_on(self, path: Path) -> None:
        path.write_text(start())
        log = ScrLog(path)
        log.records()
        _append(path, start(), line("COMPUTE_START"))
        assert _names(log.records()) == ["START", "COMPUTE_START"]

    def test_who_looks_late_says_when_its_run_began(self, path: Path) -> None:
        path.write_text(start(second=5) + start(second=7) + start(second=9))
        assert len(ScrLog(path, since_s=AT + 2.5).records()) == 2

    def test_a_log_that_appears_later_is_read_from_its_beginning(self, path: Path) -> None:
        log = ScrLog(path)
        assert log.records() == []
        path.write_text(line("RUN_START") + start())
        assert _names(log.records()) == ["RUN_START", "START"]

    def test_without_any_start_nothing_that_is_there_counts(self, path: Path) -> None:
        path.write_text(line("RUN_START"))
        log = ScrLog(path)
        assert log.records() == []
        _append(path, start())
        assert _names(log.records()) == ["START"]

    def test_lines_of_other_jobs_in_the_same_prefix_directory_are_left_out(self, path: Path) -> None:
        path.write_text(start("j2") + start("j1"))
        log = ScrLog(path)
        assert _names(log.records()) == ["START"]
        _append(path, line("HALT", "j2"), line("COMPUTE_START", "j1"), start("j2"))
        assert _names(log.records()) == ["COMPUTE_START"]

    def test_a_line_that_is_not_whole_is_read_when_it_is(self, path: Path) -> None:
        path.write_text(start() + line("COMPUTE_START")[:30])
        log = ScrLog(path)
        assert _names(log.records()) == ["START"]
        _append(path, line("COMPUTE_START")[30:])
        assert _names(log.records()) == ["COMPUTE_START"]

    def test_a_log_that_is_truncated_or_made_anew_is_read_from_its_beginning(self, path: Path) -> None:
        path.write_text(start() + line("COMPUTE_START") * 3)
        log = ScrLog(path)
        log.records()
        path.write_text(line("HALT"))
        assert _names(log.records()) == ["HALT"]
        path.unlink()
        log.records()
        path.write_text(line("RUN_END"))
        assert _names(log.records()) == ["RUN_END"]

    def test_garbage_is_counted_and_skipped(self, path: Path) -> None:
        path.write_bytes(
            start().encode() + b"\xff\0junk\n\n" + line("COMPUTE_START").encode() + b"x" * 5000 + b"\n"
        )
        log = ScrLog(path)
        assert _names(log.records()) == ["START", "COMPUTE_START"]

    def test_what_cannot_be_read_is_no_log(self, tmp_path: Path) -> None:
        assert ScrLog(tmp_path).records() == []
        assert ScrLog(tmp_path / "x" / "y").records() == []

    def test_one_take_is_bounded(self, path: Path) -> None:
        path.write_text(start())
        log = ScrLog(path)
        log.records()
        many = 60_000
        _append(path, line("COMPUTE_START") * many)
        taken = []
        while part := log.records():
            assert len(part) < many / 2
            taken += part
        assert len(taken) == many

    def test_the_file_is_let_go(self, path: Path) -> None:
        path.write_text(start())
        before = len(list(Path("/proc/self/fd").iterdir()))
        log = ScrLog(path)
        log.records()
        log.close()
        assert len(list(Path("/proc/self/fd").iterdir())) == before


@given(before=st.integers(0, 40), after=st.integers(0, 40), block=st.integers(1, 400), cut=st.integers(0, 70))
def test_the_last_start_is_found_wherever_it_lies(
    tmp_path_factory: pytest.TempPathFactory, before: int, after: int, block: int, cut: int
) -> None:
    path = tmp_path_factory.mktemp("log") / "log"
    noise = line("COMPUTE_START", more=f', note="{"x" * cut}"')
    path.write_text(start() + noise * before + start(second=7) + line("COMPUTE_END") * after)
    assert _names(ScrLog(path, search_block_bytes=block).records()) == ["START", *["COMPUTE_END"] * after]


def _lines(name: str) -> list[bytes]:
    return (DATA / name).read_bytes().splitlines()


def _names(records: list[LogRecord]) -> list[str]:
    return [record.name for record in records]


def _append(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(lines)
