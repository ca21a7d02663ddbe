"""A rewritten config file is the user's own text still, and holds nothing that SCR fails on."""

from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrtune.scr_config.catalogue import CATALOGUE, SCRIPT_KEYS, coerce
from scrtune.scr_config.check.check import check_sources, source_of
from scrtune.scr_config.check.model import CheckContext
from scrtune.scr_config.parse import DESCRIPTORS, ConfigFile, assumed, parse
from scrtune.scr_config.render import RenderError
from scrtune.scr_config.rewrite import HEADING, file_values, raw_values, rewrite

from .test_resolution_libscr import NAMES, REAL, Case, in_a_file, what_scr_says, what_we_say

FILE = """\
# mine
  scr_flush = 1   # often
STORE=/ssd COUNT=2 # fast
SCR_DEBUG=$VERBOSE

# kept small
SCR_FILE_BUF_SIZE=4MB
SCR_PREFIX=/p SCR_JOB_ID=x

# the end
"""


def read(text: str) -> ConfigFile:
    return parse(text, assumed(text, {}))


def comments(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.strip(" \t").startswith("#")]


def test_values_change_where_they_stand_and_nothing_else_does() -> None:
    changes = {"SCR_FLUSH": "20", "SCR_DEBUG": None, "SCR_PREFIX": "$HOME/q#1", "SCR_GROUP": None}
    assert (
        rewrite(FILE, changes)
        == """\
# mine
  scr_flush = 20   # often
STORE=/ssd COUNT=2 # fast

# kept small
SCR_FILE_BUF_SIZE=4MB
SCR_PREFIX=$HOME/q#1 SCR_JOB_ID=x

# the end
"""
    )


@pytest.mark.parametrize("text", [FILE, "", "\n", "# a\n\n\n", "SCR_FLUSH=1 # b\n"])
def test_without_changes_a_file_that_scr_can_read_stays_as_it_is(text: str) -> None:
    assert rewrite(text, {}) == text


def test_what_was_not_there_is_added_below_a_heading_and_goes_again() -> None:
    one = rewrite(FILE, {"SCR_FETCH": "0", "SCR_FLUSH_ASYNC": "1"})
    assert one == f"{FILE}\n{HEADING}\nSCR_FETCH=0\nSCR_FLUSH_ASYNC=1\n"
    two = rewrite(one, {"SCR_FETCH": None, "SCR_CURRENT": "c"})
    assert two == f"{FILE}\n{HEADING}\nSCR_FLUSH_ASYNC=1\nSCR_CURRENT=c\n"
    assert rewrite(two, {"SCR_FLUSH_ASYNC": None, "SCR_CURRENT": None}) == FILE
    assert rewrite("", {"SCR_FLUSH": "1"}) == f"{HEADING}\nSCR_FLUSH=1\n"
    assert rewrite(f"{HEADING}\nSCR_FLUSH=1\n", {"SCR_FLUSH": None}) == ""
    assert rewrite(f"# a\n\n{HEADING}\n\n{HEADING}\n", {}) == "# a\n"


def test_what_a_user_writes_below_the_heading_stays_there() -> None:
    text = f"{HEADING}\nSCR_FLUSH=1 # tuned\n# mine\n\nSCR_DEBUG=1\n"
    assert rewrite(text, {"SCR_FLUSH": None, "SCR_FETCH": "0"}) == (
        f"{HEADING}\n# tuned\n# mine\nSCR_FETCH=0\n\nSCR_DEBUG=1\n"
    )


def test_of_several_lines_for_a_parameter_the_one_that_scr_s_rank_0_takes_stays() -> None:
    text = "SCR_FLUSH=1 # first\nSCR_DEBUG=1\nscr_flush=2\nSCR_FLUSH=1\n"
    why = (
        "# scrtune took this out (SCR_FLUSH stands in another line too: ranks take different ones of two"
        " values, and the job hangs)"
    )
    kept = f"{why}: SCR_FLUSH=1 # first\nSCR_DEBUG=1\nscr_flush=2\n{why}: SCR_FLUSH=1\n"
    assert rewrite(text, {}) == kept
    assert rewrite(text, {"SCR_FLUSH": "3"}) == kept.replace("scr_flush=2", "scr_flush=3")
    assert rewrite(text, {"SCR_FLUSH": None}) == kept.replace("scr_flush=2\n", "")
    assert rewrite("SCR_FLUSH=1\nSCR_FLUSH=1\n", {}) == (
        "SCR_FLUSH=1\n# scrtune took this out (SCR_FLUSH stands in another line too): SCR_FLUSH=1\n"
    )


@pytest.mark.parametrize(
    ("line", "out", "left"),
    [
        ("not a line", "not a line", ""),
        ("SCR_FLUSH=", "SCR_FLUSH=", ""),
        ("SCR_FLUSH= # often", "SCR_FLUSH= # often", ""),
        ("=1", "=1", ""),
        ("SCR_GROUP=a=b", "=b", "SCR_GROUP=a"),
        ("SCR_DEBUG=1 SCR_FETCH # x", "SCR_FETCH # x", "SCR_DEBUG=1"),
        ("CKPT=0 INTERVAL=1 TYPE", "TYPE", "CKPT=0 INTERVAL=1"),
        ("SCR_PREFIX=${HOME}/x", "SCR_PREFIX=${HOME}/x", ""),
        ("SCR_GROUP=a\0b", "SCR_GROUP=a b", ""),
        ("SCR_PREFIX=" + "x" * 1024, "SCR_PREFIX=" + "x" * 1024, ""),
        ("SCR_GROUP=a\\r", "SCR_GROUP=a\\r", ""),
        ("SCR_FLUSH=ten", "SCR_FLUSH=ten", ""),
        ("SCR_MPI_BUF_SIZE=3GB", "SCR_MPI_BUF_SIZE=3GB", ""),
        ("CKPT=0 INTERVAL=1 INTERVAL=2 TYPE=XOR", "INTERVAL=1", "CKPT=0 INTERVAL=2 TYPE=XOR"),
    ],
)
def test_what_scr_fails_on_becomes_a_comment_that_says_why(line: str, out: str, left: str) -> None:
    rewritten = rewrite(f"# a\n{line}\nSCR_CURRENT=c\n", {})
    first, why, *rest, last, end = rewritten.split("\n")
    assert (first, last, end) == ("# a", "SCR_CURRENT=c", "")
    assert why.startswith("# scrtune took this out (")
    assert why.endswith(f"): {out}")
    assert rest == ([left] if left else [])
    assert rewrite(rewritten, {}) == rewritten


def test_a_line_that_scr_fails_on_does_not_stand_in_for_a_change() -> None:
    assert raw_values(rewrite("SCR_FLUSH\nSCR_FLUSH=\n", {"SCR_FLUSH": "2"})) == {"SCR_FLUSH": "2"}


def test_dos_line_ends_go() -> None:
    text = "# mine\r\n\r\nSCR_COPY_TYPE=XOR\r\nSTORE=/ssd COUNT=2\r\n"
    assert rewrite(text, {"SCR_FLUSH": "1"}) == (
        f"# mine\n\nSCR_COPY_TYPE=XOR\nSTORE=/ssd COUNT=2\n\n{HEADING}\nSCR_FLUSH=1\n"
    )


def test_lines_for_scr_s_scripts_may_be_many() -> None:
    text = "CACHEDIR=/dev/shm BYTES=12GB\nCACHEDIR=/ssd BYTES=270GB\nCKPT=0 INTERVAL=1\nCKPT=1 INTERVAL=4\n"
    assert rewrite(text, {}) == text


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SCR_PREFIX", "/my dir"),
        ("SCR_PREFIX", "a=b"),
        ("SCR_PREFIX", ""),
        ("SCR_PREFIX", "${HOME}"),
        ("SCR_PREFIX", "a\nSCR_DEBUG=1"),
        ("SCR_PREFIX", "x" * 1024),
        ("SCR_FLUSH", "ten"),
        ("STORE", "/ssd"),
        ("SCR_NOTHING", "1"),
    ],
)
def test_what_a_file_cannot_say_is_refused(name: str, value: str) -> None:
    with pytest.raises(ValueError, match="nothing was changed"):
        rewrite(FILE, {name: value})


def test_a_file_says_of_settings_what_it_can() -> None:
    assert file_values(
        {
            "SCR_FLUSH": 4,
            "SCR_FILE_BUF_SIZE": 4 * 1024**2,
            "SCR_PREFIX": "/my dir",
            "SCR_CLUSTER_NAME": "",
            "SCR_CONF_FILE": "/etc/scr.conf",
            "SCRTUNE_FLUSH_THREADS": 2,
        }
    ) == {"SCR_FLUSH": "4", "SCR_FILE_BUF_SIZE": "4194304"}
    with pytest.raises(RenderError, match="SCR_FILE_BUF_SIZE"):
        file_values({"SCR_FILE_BUF_SIZE": 0})


LINES = st.sampled_from(
    [
        "# a comment",
        "  # another",
        "",
        " \t",
        "\r",
        "SCR_FLUSH=1",
        "scr_flush = 2 # why",
        "SCR_FLUSH=ten",
        "SCR_FLUSH=",
        "SCR_FLUSH 3",
        "SCR_FLUSH=$N SCR_DEBUG=1",
        "SCR_GROUP=NODE\r",
        "SCR_GROUP=a=b",
        "SCR_GROUP=WORLD x",
        "SCR_FETCH=0 SCR_FETCH",
        "SCR_PREFIX=/my dir",
        "SCR_FUTURE=1",
        "SCR_FUTURE=2",
        "STORE=/ssd COUNT=2 COUNT=3 COUNT=2 # fast",
        "STORE=/ssd COUNT=4",
        "CKPT=0 INTERVAL=1 TYPE",
        "=",
        HEADING,
    ]
)
TEXTS = st.text(alphabet="SCR_FLUSH=1 \t\n#$\\'\"\r\0é", max_size=80) | st.lists(LINES).map("\n".join)
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "SCR_FLUSH": st.none() | st.sampled_from(["1", "20"]),
        "SCR_GROUP": st.none() | st.sampled_from(["NODE", "a#b", "$G"]),
        "SCR_FETCH": st.none() | st.just("1"),
    },
)


@given(text=TEXTS, changes=CHANGES)
@example(text="SCR_FLUSH=1\nSCR_FLUSH=2 #\r\n\n", changes={"SCR_FLUSH": "1"})
def test_whatever_the_file_was_it_says_what_was_asked_keeps_its_comments_and_nothing_fails(
    text: str, changes: dict[str, str | None]
) -> None:
    rewritten = rewrite(text, changes)
    said = raw_values(rewritten)
    assert {name: said.get(name) for name in changes} == changes

    mine = [line.rstrip("\r") for line in comments(text) if line.rstrip("\r").strip() != HEADING]
    left = iter(comments(rewritten))
    assert all(line in left for line in mine), "every comment, in order"

    file = read(rewritten)
    assert [problem for problem in file.problems if problem.severity == "error"] == []
    keys = [each.parent.key for each in file.entries if each.parent.key not in (*DESCRIPTORS, *SCRIPT_KEYS)]
    assert len(keys) == len(set(keys))
    before = read(text.replace("\r\n", "\n"))
    assert len(file.descriptors) <= len(before.descriptors)
    assert rewrite(rewritten, changes) == rewritten, "once is enough"


@given(text=TEXTS, changes=CHANGES)
def test_what_is_not_changed_says_the_same_as_before(text: str, changes: dict[str, str | None]) -> None:
    text = text.replace("\r", "")
    before, after = raw_values(text), raw_values(rewrite(text, changes))
    assert {name: raw for name, raw in after.items() if name not in changes} == {
        name: raw for name, raw in before.items() if name not in changes
    }


@given(lines=st.lists(LINES))
def test_check_finds_no_error_in_a_parameter_of_a_rewritten_file(lines: list[str]) -> None:
    found = check_sources(
        [source_of("scr.conf", rewrite("\n".join(lines), {}))], CheckContext(environment={"N": "1"})
    )
    about_descriptors = {"unknown-store", "unknown-group", "ckpt-disabled", "no-interval-1", "needs-ckpt"}
    assert {one.code for one in found if one.severity == "error"} <= about_descriptors


@REAL
@given(lines=st.lists(LINES), changes=CHANGES)
def test_a_real_scr_reads_a_rewritten_file_and_finds_in_it_what_it_says(
    tmp_path: Path, lines: list[str], changes: dict[str, str | None]
) -> None:
    rewritten = rewrite("\n".join(lines), changes)
    variables = {"N": "1", "G": "NODE"}
    names = [name for name in NAMES if "user config" in CATALOGUE[name].layers]
    case = in_a_file(tmp_path, Case(variables, rewritten))
    said = what_scr_says(case, tmp_path, names)
    assert said == what_we_say(case, names)
    own = {name: pair.value for name, pair in parse(rewritten, variables).values.items() if name in names}
    assert {name: said[name] for name in own} == own


@given(data=st.binary(max_size=300))
@example(data=b"A=1\n" * 5_000)
@example(data=b"STORE=/ssd" + b" COUNT=1 COUNT=2" * 2_000)
@example(data=b"".join(b"A=%d\n" % number for number in range(5_000)))
def test_no_bytes_crash_it_or_hold_it_up(data: bytes) -> None:
    rewritten = rewrite(data.decode("utf-8", "surrogateescape"), {"SCR_FLUSH": "7"})
    assert raw_values(rewritten)["SCR_FLUSH"] == "7"
    for name, pair in read(rewritten).values.items():
        if name in CATALOGUE and "$" not in pair.value:
            coerce(name, pair.value)
