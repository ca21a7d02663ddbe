"""libscrtune.so reads decisions as Python does, by the same table of parameters."""

import contextlib
import ctypes
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrtune.scr_config.catalogue import CATALOGUE, coerce
from scrtune.scr_config.decision import DecisionError, parse_decision

from ..support.native_build import (
    A_DECISION,
    ROOT,
    build,
    build_library,
    compiler,
    decision,
    library_sources,
    run,
)

GOOD, NOT_WHOLE, WRONG_CHECKSUM, NOT_SORTED, UNKNOWN_NAME, BAD_VALUE = range(6)
SOUND_FORM = {GOOD, UNKNOWN_NAME, BAD_VALUE}
LIMIT = 64 * 1024
SUPPORT = ROOT / "tests" / "support"


@pytest.fixture(scope="session")
def check(library: Path) -> ctypes.CDLL:
    """The library with a way to its reader of decisions, in this process; called by name only."""
    checked = build_library(library.with_name("check.so"), "-O0", str(SUPPORT / "check_decision.c"))
    loaded = ctypes.CDLL(str(checked))
    loaded.scrtune_check_decision.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    return loaded


def verdict(check: ctypes.CDLL, data: bytes) -> int:
    return int(check.scrtune_check_decision(data, len(data)))


def is_decision(data: bytes) -> bool:
    with contextlib.suppress(DecisionError):
        parse_decision(data)
        return True
    return False


def decision_of(name: str, value: object) -> bytes:
    return signed(f"{name}={value}\n".encode())


def signed(body: bytes, generation: bytes = b"1") -> bytes:
    """`body`, lines of a decision, in its frame and with the right checksum."""
    generation, rest = b"generation %s\n" % generation, body + b"end\n"
    return b"scrtune-decision 1\n%scrc32 %08x\n%s" % (generation, zlib.crc32(generation + rest), rest)


def test_its_table_of_levers_is_the_catalogue(check: ctypes.CDLL) -> None:
    samples = {"bool": 1, "float": 2.5, "cpus": "1,3-5", "text": "x", "path": "/x"}
    for name, entry in CATALOGUE.items():
        if entry.minimum is not None and entry.maximum is not None:
            bounds = [entry.minimum - 1, entry.minimum, entry.maximum, entry.maximum + 1]
            verdicts = [verdict(check, decision_of(name, bound)) for bound in bounds]
            assert verdicts == [BAD_VALUE, GOOD, GOOD, BAD_VALUE], name
        elif not entry.choices:
            assert verdict(check, decision_of(name, samples[entry.type])) == GOOD, name
            assert entry.type in ("text", "path") or verdict(check, decision_of(name, "x")) == BAD_VALUE, name


def test_a_parameter_with_means_changes_as_the_catalogue_says() -> None:
    for name, entry in CATALOGUE.items():
        assert bool(entry.means) == bool(entry.symbol)
        if entry.means:
            assert entry.mutability == ("re-init" if entry.means == "reinit" else "live"), name


def test_the_choices_are_the_catalogue_s(check: ctypes.CDLL) -> None:
    for name, entry in CATALOGUE.items():
        for choice in entry.choices or ():
            assert verdict(check, signed(f"{name}={choice}\n".encode())) == GOOD
            assert verdict(check, signed(f"{name}={choice}X\n".encode())) == BAD_VALUE


def test_a_decision_of_the_daemon_is_taken(check: ctypes.CDLL) -> None:
    assert verdict(check, A_DECISION.encode()) == GOOD
    assert verdict(check, decision(0).encode()) == GOOD


FAULTS = [
    (b"SCR_FLUSH=ten\n", BAD_VALUE),
    (b"SCR_FLUSH=\n", BAD_VALUE),
    (b"SCR_FLUSH= 1\n", BAD_VALUE),
    (b"SCR_FLUSH=2147483648\n", BAD_VALUE),
    (b"SCR_FLUSH=99999999999999999999999\n", BAD_VALUE),
    (b"SCR_FLUSH=-1\n", GOOD),
    (b"SCR_FILE_BUF_SIZE=0\n", BAD_VALUE),
    (b"SCR_FILE_BUF_SIZE=8MB\n", BAD_VALUE),
    (b"SCR_FLUSH_ASYNC=2\n", BAD_VALUE),
    (b"SCR_CHECKPOINT_OVERHEAD=nan\n", BAD_VALUE),
    (b"SCR_CHECKPOINT_OVERHEAD=1e999\n", BAD_VALUE),
    (b"SCR_CHECKPOINT_OVERHEAD=1e-05\n", GOOD),
    (b"SCR_COPY_TYPE=\n", BAD_VALUE),
    (b"SCR_COPY_TYPE=SINGLE PARTNER\n", BAD_VALUE),
    (b"SCR_COPY_TYPE= SINGLE\n", BAD_VALUE),
    (b"SCR_COPY_TYPE=FILE \n", BAD_VALUE),
    (b"SCR_COPY_TYPE= \n", BAD_VALUE),
    (b"SCRTUNE_FLUSH_CPUS=0-8191\n", GOOD),
    (b"SCRTUNE_FLUSH_CPUS=8192\n", BAD_VALUE),
    (b"SCRTUNE_FLUSH_CPUS=3-1\n", BAD_VALUE),
    (b"SCRTUNE_FLUSH_CPUS=1,\n", BAD_VALUE),
    (b"SCRTUNE_FLUSH_THREADS=17\n", BAD_VALUE),
    (b"SCR_NEW=1\n", UNKNOWN_NAME),
    (b"SCR_FLUSH=1\nSCR_FLUSH=2\n", NOT_SORTED),
    (b"SCR_GROUP=NODE\nSCR_FLUSH=1\n", NOT_SORTED),
    (b"scr_flush=1\n", NOT_WHOLE),
    (b"SCR_FLUSH 1\n", NOT_WHOLE),
    (b"end\n", NOT_WHOLE),
    (b"\n", NOT_WHOLE),
]


@pytest.mark.parametrize(("line", "fault"), FAULTS)
def test_every_fault_is_refused(check: ctypes.CDLL, line: bytes, fault: int) -> None:
    assert verdict(check, signed(line)) == fault


READS = r"""
/* Reads its arguments as decisions, each in memory that is exactly as long. */
#include <stdlib.h>
#include <string.h>
int scrtune_check_decision(const char *text, size_t length);
int main(int count, char **texts)
{
    for (int i = 1; i < count; i++) {
        const size_t length = strlen(texts[i]);
        char *copy = memcpy(malloc(length + !length), texts[i], length);
        scrtune_check_decision(copy, length);
        free(copy);
    }
    return 0;
}
"""


def test_nothing_is_read_beyond_its_end(tmp_path: Path) -> None:
    if "/" not in run(compiler(), "-print-file-name=libasan.so"):
        pytest.skip("needs gcc's address sanitizer")
    sources = library_sources(tmp_path)
    checks = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    program = build(tmp_path / "reads", READS, *checks, str(SUPPORT / "check_decision.c"), *sources, "-ldl")
    whole = [A_DECISION.encode(), *(signed(line) for line, _ in FAULTS)]
    run(
        str(program),
        *(text[:length].decode() for text in whole for length in (len(text), len(text) // 2, 20)),
    )


def test_a_decision_is_bounded(check: ctypes.CDLL) -> None:
    frame = len(signed(b"SCR_GROUP=\n"))
    assert verdict(check, signed(b"SCR_GROUP=%s\n" % (b"g" * (LIMIT - frame)))) == GOOD
    assert verdict(check, signed(b"SCR_GROUP=%s\n" % (b"g" * (LIMIT - frame + 1)))) == NOT_WHOLE


@given(data=st.data())
def test_a_changed_decision_is_refused_as_in_python(check: ctypes.CDLL, data: st.DataObject) -> None:
    text = bytearray(A_DECISION.encode())
    for _ in range(data.draw(st.integers(1, 3))):
        index = data.draw(st.integers(0, max(0, len(text) - 1)))
        match data.draw(st.sampled_from(["flip", "cut", "insert", "again"])):
            case "flip":
                text[index : index + 1] = bytes([data.draw(st.integers(0, 255))])
            case "cut":
                del text[index : index + data.draw(st.integers(1, max(1, len(text))))]
            case "insert":
                text.insert(index, data.draw(st.integers(0, 255)))
            case _:
                text += text[index:]
    assert (verdict(check, bytes(text)) in SOUND_FORM) == is_decision(bytes(text))
    assert verdict(check, bytes(text)) != GOOD or bytes(text) == A_DECISION.encode()


@given(st.binary(max_size=400))
@example(b"")
@example(b"scrtune-decision 1\n")
@example(b"scrtune-decision 1\ngeneration 1\ncrc32 00000000\n")
def test_other_bytes_are_no_decision(check: ctypes.CDLL, data: bytes) -> None:
    assert verdict(check, data) not in SOUND_FORM
    assert not is_decision(data)


LINES = st.lists(
    st.one_of(
        st.binary(max_size=12),
        st.builds(
            lambda name, value: name.encode() + b"=" + value,
            st.sampled_from([*sorted(CATALOGUE)[:20], "A", "Z_9", "_A", "9A"]),
            st.one_of(st.binary(max_size=6), st.integers(-5, 5000).map(lambda n: b"%d" % n)),
        ),
    ),
    max_size=6,
)


@given(lines=LINES, is_sorted=st.booleans(), generation=st.from_regex(rb"[0-9]{1,10}", fullmatch=True))
def test_what_has_the_right_checksum_is_judged_as_in_python(
    check: ctypes.CDLL, lines: list[bytes], *, is_sorted: bool, generation: bytes
) -> None:
    data = signed(b"".join(line + b"\n" for line in (sorted(set(lines)) if is_sorted else lines)), generation)
    assert (verdict(check, data) in SOUND_FORM) == is_decision(data)


@given(
    st.sampled_from(sorted(CATALOGUE)),
    st.one_of(st.integers(-(2**40), 2**60), st.floats(), st.text(max_size=8)),
)
def test_a_value_that_is_taken_is_one_of_the_catalogue_s(
    check: ctypes.CDLL, name: str, value: float | str
) -> None:
    text = str(value)
    if any(character in text for character in "\n\0") or not text.isprintable():
        return
    if verdict(check, signed(f"{name}={text}\n".encode())) == GOOD:
        assert CATALOGUE[name].accepts(coerce(name, text))
