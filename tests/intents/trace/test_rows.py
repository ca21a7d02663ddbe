"""Classes of files: names without what tells files of one kind apart."""

import string
import tempfile
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.intents.trace.rows import file_class


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("layer-0-1-600-0.pt", "layer.pt"),
        ("mp_rank_00_model_states.pt", "mp_rank__model_states.pt"),
        ("model_bf16.pt", "model_bf.pt"),
        ("facade.pt", "facade.pt"),
        ("600", "(no name)"),
        ("rank_0.pt.3F2A9B1C", "rank_.pt."),
    ],
)
def test_a_class_is_named_by_the_words_of_a_name(name: str, expected: str) -> None:
    assert file_class(f"/prefix/ckpt.1/{name}") == expected


@given(st.binary(min_size=4, max_size=32).map(bytes.hex).filter(lambda text: any(map(str.isdigit, text))))
def test_random_hexadecimal_parts_make_no_classes(part: str) -> None:
    assert (
        file_class(f"/prefix/model-{part}.pt") == file_class(f"/prefix/model-{part.upper()}.pt") == "model.pt"
    )


@given(st.uuids())
def test_uuids_make_no_classes(part: UUID) -> None:
    assert file_class(f"/prefix/model.{part}.pt") == "model..pt"


@given(st.text(string.ascii_lowercase + string.digits + "_", min_size=8, max_size=8))
def test_temporary_names_of_python_make_no_classes(part: str) -> None:
    assert file_class(f"/prefix/tmp{part}.pt") == "tmp.pt"


def test_a_temporary_file_of_this_python_is_one_of_its_class(tmp_path: Path) -> None:
    with tempfile.NamedTemporaryFile(dir=tmp_path, suffix=".pt") as file:
        assert file_class(file.name) == "tmp.pt"
