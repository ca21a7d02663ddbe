"""Which form a file of a job's time has."""

from pathlib import Path

import pytest

from scrtune.goodput.readers.detect import HEAD_BYTES, detect

DATA = Path(__file__).parents[2] / "data"


@pytest.mark.parametrize(
    ("path", "form"),
    [
        ("goodput/resiliency.jsonl", "json"),
        ("goodput/primer.jsonl", "json"),
        ("scr_log/job.log", "scr log"),
        ("scr_log/scripts.log", "scr log"),
        ("traces/gen2-dftracer-2.0.0/c0-d7c1d5ac973acb01-app.pfw", "dftracer"),
        ("traces/gen4-preload/pre-171c84479e2aa9a1-preload.pfw", "dftracer"),
    ],
)
def test_a_files_form_shows_in_its_content(path: str, form: str) -> None:
    assert detect((DATA / path).read_bytes()[:HEAD_BYTES]) == form


@pytest.mark.parametrize(
    ("head", "form"),
    [
        (b"scrtune journal 1\n", "journal"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"garbage\n\xff\xfe\n{}\n", "json"),
        (b'[{"job_start_time":1}', "json"),
        (b'{"job_name": "' + b"x" * HEAD_BYTES, "json"),
        (b"", None),
        (b"Dear diary,\n", None),
        (b"\x7fELF\x02\x01", None),
    ],
)
def test_forms(head: bytes, form: str | None) -> None:
    assert detect(head) == form
