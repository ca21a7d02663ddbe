"""What cannot be read or goes with nothing else: standard error says it, with file and line."""

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ....support.goodput_command import PRIMER, SAMPLE, SCR_LOG, log_of, run


def test_files_that_cannot_be_used_are_named_with_the_line(tmp_path: Path) -> None:
    diary = tmp_path / "diary"
    diary.write_text("Dear diary,\n")
    empty = tmp_path / "empty"
    empty.touch()
    for path, text in (
        (tmp_path / "missing", "No such file"),
        (diary, "line 1: no goodput log"),
        (empty, "line 1: no goodput log"),
        (
            tmp_path,
            "name a directory with some; of other logs name each file",
        ),
    ):
        result = run(SAMPLE, path)
        assert (result.exit_code, result.stdout) == (1, "")
        assert str(path) in result.stderr
        assert text in result.stderr
        assert result.stderr.startswith("scrtune: ")
        assert result.stderr.count("\n") == 1


def test_lines_that_cannot_be_read_are_reported_and_harm_nothing(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_bytes(
        b'{"job_name":"a","job_start_time":1}\n'
        + b"\x1b[31mgarbage\n" * 15
        + b'{"job_name":"a","job_end_time":9}\n'
    )
    result = run(log)
    told = result.stderr.splitlines()
    assert told[0] == f"scrtune: {log}: line 2: no JSON object"
    assert told[-1] == f"scrtune: {log}: 5 more lines like these"
    assert len(told) == 11
    assert result.exit_code == 0
    assert "\x1b" not in result.stdout + result.stderr


def test_a_log_that_says_nothing_of_time_is_no_job(tmp_path: Path) -> None:
    result = run(log_of(tmp_path / "log", {"type": "settings_observed"}, {"no": "entry"}))
    assert (result.exit_code, result.stdout) == (3, "")
    assert "say nothing of a job's time" in result.stderr


def test_what_a_writer_lost_is_reported(tmp_path: Path) -> None:
    log = log_of(
        tmp_path / "log",
        {"type": "job_started", "time_s": 1.0},
        {"type": "events_lost", "source": "r", "count": 3},
    )
    assert "3 events were lost" in run(log).stderr


@pytest.mark.parametrize(
    "arguments",
    [
        (str(SAMPLE), "--job-id", "4711"),
        ("--job-name", "a"),
        *((str(SAMPLE), "--reference-step-time", seconds) for seconds in ("0", "-1", "nan", "inf", "1e300")),
        *(
            (str(SAMPLE), "--interval", "--mtbf-prior", f"24h:{failures}")
            for failures in ("nan", "inf", "1e300")
        ),
        (str(SAMPLE), "--policy", "kind"),
    ],
)
def test_options_that_do_not_go_together_are_a_wrong_command_line(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).exit_code == 2


def test_names_in_a_log_do_not_reach_the_terminal_as_commands(tmp_path: Path) -> None:
    log = log_of(tmp_path / "log", {"job_name": "\x1b]0;title\x07[bold]", "job_start_time": 1})
    result = run(log)
    assert "\x1b" not in result.stdout
    assert "[bold]" in result.stdout


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.one_of(
            st.binary(max_size=60),
            st.sampled_from([*SAMPLE.read_bytes().splitlines(), *PRIMER.read_bytes().splitlines()]),
            st.sampled_from(SCR_LOG.read_bytes().splitlines()),
        ),
        max_size=15,
    ),
    st.booleans(),
)
def test_whatever_a_file_holds_the_command_says_what_it_is(
    tmp_path: Path, lines: list[bytes], packed: bool
) -> None:
    log = tmp_path / "log"
    content = b"\n".join(lines)
    log.write_bytes(gzip.compress(content) if packed else content)
    assert run(log, "--policy", "both", "--reference-step-time", "1").exit_code in (0, 1, 3)
