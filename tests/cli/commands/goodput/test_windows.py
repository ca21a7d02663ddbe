"""`scrtune goodput --window`: a part of a job's time."""

import pytest

from scrtune.cli.commands.goodput import time_window
from scrtune.cli.views.goodput import TimeWindow

from ....support.goodput_command import PRIMER, PRIMER_LAUNCHER, SAMPLE, only_job, run


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("900", TimeWindow(last_s=900.0)),
        ("1.5m", TimeWindow(last_s=90.0)),
        ("15min", TimeWindow(last_s=900.0)),
        ("2h", TimeWindow(last_s=7200.0)),
        ("1d", TimeWindow(last_s=86_400.0)),
        ("100..200.5", TimeWindow(start_s=100.0, end_s=200.5)),
        ("..1970-01-01T00:01:00", TimeWindow(end_s=60.0)),
        ("1970-01-01T01:00:00+01:00..", TimeWindow(start_s=0.0)),
        ("1970-01-02..1970-01-04", TimeWindow(start_s=86_400.0, end_s=3 * 86_400.0)),
        ("1970-01-01T00:01..1970-01-01 00:02", TimeWindow(start_s=60.0, end_s=120.0)),
        ("1970-01-02", TimeWindow(start_s=86_400.0, end_s=2 * 86_400.0)),
    ],
)
def test_windows(text: str, expected: TimeWindow) -> None:
    assert time_window(text) == expected


@pytest.mark.parametrize(
    "text",
    ["", "0", "-5", "5 minutes", "later", "9..soon", "200..100", "1..2..3", "2025-02-30", "2025-1-1.."],
)
def test_what_is_no_window_is_a_wrong_command_line(text: str) -> None:
    result = run(SAMPLE, "--window", text)
    assert result.exit_code == 2
    assert "window" in result.stderr


def test_a_windows_buckets_sum_to_its_length() -> None:
    whole = only_job(PRIMER)["conserving"]
    for text, minutes in (
        ("50m", 50),
        ("2025-01-01T00:30:00..2025-01-01T01:50:00", 80),
        ("..1735693200", 60),
    ):
        part = only_job(PRIMER, "--window", text)
        assert part["conserving"]["wall_s"] == minutes * 60
        assert sum(part["conserving"]["buckets"].values()) == pytest.approx(minutes * 60)
        assert all(
            spent_s <= whole["buckets"][name] for name, spent_s in part["conserving"]["buckets"].items()
        )
    last = only_job(PRIMER, "--window", "5m")["conserving"]["buckets"]
    assert {name: spent_s for name, spent_s in last.items() if spent_s} == {"checkpoint_other": 300.0}


def test_why_the_table_and_the_buckets_have_other_goodputs_is_said_where_they_have() -> None:
    text = "is steps saved x reference step time / total runtime"
    assert text not in run(PRIMER_LAUNCHER, "--reference-step-time", "120").stdout
    assert text not in run(PRIMER_LAUNCHER).stdout
    assert text not in run(PRIMER_LAUNCHER, "--reference-step-time", "150").stdout  # 62.50% and 62.5%
    window = run(PRIMER_LAUNCHER, "--reference-step-time", "120", "--window", "5m").stdout
    assert f"The table's 50.00% of the whole job {text}; 62.5% here" in " ".join(window.split())
    slower = run(PRIMER_LAUNCHER, "--reference-step-time", "240").stdout
    assert f"The table's 100.00% {text}; 67.5% here" in " ".join(slower.split())


def test_a_window_beyond_the_jobs_time_says_what_the_job_has_of_it() -> None:
    beyond = run(PRIMER, "--window", "1735701300..1735709999.5").stdout
    assert "From 2025-01-01 03:15:00 UTC to 2025-01-01 05:39:59.500 UTC; the job has that" in beyond
    assert "from 2025-01-01 03:15:00 UTC to 2025-01-01 03:20:00 UTC:" in " ".join(beyond.split())
    assert only_job(PRIMER, "--window", "1735701300..1735709999.5")["window"] == [1735701300.0, 1735709999.5]
    nothing = run(PRIMER, "--window", "2024-01-01").stdout
    assert "no part of the job's time lies in it" in nothing
    assert "where the time went" not in nothing
    assert "the job has" not in run(PRIMER, "--window", "5m").stdout
