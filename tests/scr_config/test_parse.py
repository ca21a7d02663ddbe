"""SCR's grammar. The expectations were compared with SCR's own reader, compiled from its sources."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrtune.scr_config.parse import ConfigFile, assumed, parse

ENVIRONMENT = {"MY": "mine", "DIR": "/ssd/a=b c", "EMPTY": ""}


def values(text: str) -> dict[str, str]:
    return {key: pair.value for key, pair in parse(text, ENVIRONMENT).values.items()}


def codes(text: str) -> list[str]:
    return [problem.code for problem in parse(text, ENVIRONMENT).problems]


def tree(file: ConfigFile) -> list[list[tuple[str, str]]]:
    return [[(p.key, p.value) for p in (entry.parent, *entry.children)] for entry in file.entries]


def test_keys_are_upper_cased_and_blanks_round_the_equals_sign_do_not_count() -> None:
    assert values("scr_flush=1\n  Scr_Debug \t=  2  \n\nSCR_FETCH=0") == {
        "SCR_FLUSH": "1",
        "SCR_DEBUG": "2",
        "SCR_FETCH": "0",
    }


def test_descriptors_have_children_and_may_be_many() -> None:
    file = parse("STORE=/ssd COUNT=2 # fast\nSTORE=/nvme\nCKPT=0 INTERVAL=1 type=XOR\nSCR_FLUSH=1\n", {})
    assert tree(file) == [
        [("STORE", "/ssd"), ("COUNT", "2")],
        [("STORE", "/nvme")],
        [("CKPT", "0"), ("INTERVAL", "1"), ("TYPE", "XOR")],
        [("SCR_FLUSH", "1")],
    ]
    assert [entry.parent.value for entry in file.descriptors] == ["/ssd", "/nvme", "0"]
    assert list(file.values) == ["SCR_FLUSH"]
    assert not file.problems


def test_a_comment_starts_only_where_a_key_could() -> None:
    assert values("# all\nSCR_GROUP=a#b # c=d\n") == {"SCR_GROUP": "a#b"}
    assert values("SCR_GROUP= #x\n") == {"SCR_GROUP": "#x"}
    assert codes("SCR_GROUP= # the group\n") == ["hash-kept", "no-equals"]


def test_there_is_no_quoting() -> None:
    assert values('SCR_GROUP="NODE"') == {"SCR_GROUP": '"NODE"'}
    assert codes('SCR_GROUP="NODE"') == ["quotes-kept"]
    assert codes('SCR_PREFIX="/my dir"') == ["quotes-kept", "no-equals"]


def test_a_variable_name_is_letters_and_underscores_only() -> None:
    assert values("SCR_PREFIX=$MY2/x") == {"SCR_PREFIX": "mine2/x"}
    assert values("SCR_PREFIX=$DIR") == {"SCR_PREFIX": "/ssd/a=b c"}
    assert values("SCR_PREFIX=$EMPTY") == {"SCR_PREFIX": ""}


def test_a_backslash_takes_the_next_character() -> None:
    assert values("SCR_PREFIX=\\$MY\\\\x\\ty\\") == {"SCR_PREFIX": "$MY\\x\ty"}


@pytest.mark.parametrize(
    ("line", "code", "column"),
    [
        ("SCR_FLUSH", "no-equals", 1),
        ("SCR_FLUSH 1", "no-equals", 1),
        ("SCR_FLUSH=1 SCR_DEBUG", "no-equals", 13),
        ("SCR_PREFIX=/my dir", "no-equals", 16),
        ("SCR_FLUSH=", "no-value", 10),
        ("SCR_FLUSH= \t", "no-value", 10),
        ("SCR_FLUSH==1", "no-value", 10),
        ("=1", "missing-key", 1),
        ("SCR_GROUP=a=b", "missing-key", 12),
        ("SCR_PREFIX=/x/${HOME}", "unset-variable", 15),
        ("SCR_PREFIX=$NOT_SET", "unset-variable", 12),
        ("SCR_PREFIX=/a\0b", "nul", 12),
        ("SCR_PREFIX=" + "x" * 1024, "too-long", 12),
        ("X" * 1024 + "=1", "too-long", 1),
        ("\r", "no-equals", 1),
    ],
)
def test_what_breaks_scr_is_an_error_with_its_place_and_costs_no_other_line(
    line: str, code: str, column: int
) -> None:
    file = parse(f"SCR_FETCH=1\n{line}\nSCR_CURRENT=c\n", ENVIRONMENT)
    errors = [problem for problem in file.problems if problem.severity == "error"]
    assert [(problem.code, problem.line, problem.column) for problem in errors] == [(code, 2, column)]
    assert errors[0].remedy
    assert {"SCR_FETCH", "SCR_CURRENT"} <= file.values.keys()


def test_a_value_may_have_1023_bytes() -> None:
    assert not codes("SCR_PREFIX=" + "x" * 1023)
    assert codes("SCR_PREFIX=" + "é" * 512) == ["too-long"]


def test_a_duplicate_hangs_the_job_and_both_places_are_told() -> None:
    file = parse("SCR_FLUSH=1\n# between\nscr_flush = 2\n", {})
    (problem,) = file.problems
    assert (problem.severity, problem.code, problem.line, problem.column) == ("error", "duplicate", 3, 1)
    assert "line 1" in problem.what
    assert file.values["SCR_FLUSH"].value == "2"


def test_saying_the_same_twice_is_harmless() -> None:
    assert codes("SCR_FLUSH=1\nSCR_FLUSH=1\n") == ["repeated"]
    assert codes("STORE=/a COUNT=1\nSTORE=/b COUNT=2\n") == []
    assert codes("STORE=/a COUNT=1\nSTORE=/a COUNT=2\n") == ["duplicate"]


def test_a_second_parameter_on_a_line_is_ignored_by_scr_and_told() -> None:
    file = parse("SCR_FLUSH=1 SCR_DEBUG=1\n", {})
    assert list(file.values) == ["SCR_FLUSH"]
    assert [(p.code, p.parameter, p.column) for p in file.problems] == [("ignored-child", "SCR_DEBUG", 13)]


def test_a_misspelt_name_is_told() -> None:
    assert codes("SCR_FLUSH_WIDHT=4") == ["unknown-name"]


def test_lines_for_scrs_scripts_may_be_many_and_nobody_complains() -> None:
    assert (
        codes("CACHEDIR=/dev/shm BYTES=12GB\nCACHEDIR=/ssd BYTES=270GB\nCNTLDIR=/dev/shm BYTES=1GB\n") == []
    )


def test_a_name_that_scr_never_reads_hangs_no_job_however_often_it_stands() -> None:
    assert codes("MINE=1\nMINE=2\n") == ["unknown-name", "unknown-name"]


def test_out_of_its_job_a_variable_stands_for_itself() -> None:
    text = "SCR_PREFIX=$MY/$JOB\nSCR_GROUP=${X}\n"
    file = parse(text, assumed(text, ENVIRONMENT))
    assert {key: pair.value for key, pair in file.values.items()} == {"SCR_PREFIX": "mine/$JOB"}
    assert [problem.code for problem in file.problems] == ["unset-variable"]


def test_dos_line_ends_are_told_on_every_line() -> None:
    assert codes("SCR_COPY_TYPE=XOR\r\nSCR_FLUSH=1\r\n") == ["carriage-return"] * 2


def test_a_problem_reads_as_a_sentence_with_its_place() -> None:
    (problem,) = parse("\nSCR_FLUSH 1", {}).problems
    assert str(problem).startswith("line 2, column 1: error: SCR_FLUSH: 'SCR_FLUSH' has no =")


@given(data=st.binary(max_size=300))
@example(data=b"A" * 20_000)
@example(data=b"= " * 10_000)
@example(data=b"A=" + b"$" * 20_000)
@example(data=b"a=b " * 5_000)
@example(data=b"A=" + b" " * 20_000)
@example(data=b"".join(b"A=%d\n" % number for number in range(5_000)))
def test_no_bytes_crash_it_or_hold_it_up(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    lines = text.split("\n")
    file = parse(text, ENVIRONMENT)
    for problem in file.problems:
        assert 1 <= problem.line <= len(lines)
        assert 1 <= problem.column <= len(lines[problem.line - 1]) + 1
    for entry in file.entries:
        for pair in (entry.parent, *entry.children):
            line = lines[pair.line - 1]
            written = line[pair.column - 1 : pair.column - 1 + len(pair.key)]
            assert written == pair.key or written.upper() == pair.key.upper()
            assert line.startswith(pair.raw, pair.value_column - 1)


@given(text=st.text(alphabet="aB= \t\n#$\\'\"\r\0é", max_size=60))
def test_a_file_without_errors_says_the_same_when_it_is_written_out_plainly(text: str) -> None:
    file = parse(text, {})
    if any(problem.severity == "error" for problem in file.problems):
        return
    plain = "\n".join(
        " ".join(f"{p.key}={p.raw}" for p in (entry.parent, *entry.children)) for entry in file.entries
    )
    assert tree(parse(plain, {})) == tree(file)


def test_the_remedy_of_a_variable_in_braces_is_to_leave_them_out() -> None:
    (problem,) = parse("SCR_PREFIX=${HOME}/x\n", {"HOME": "/h"}).problems
    assert (problem.code, problem.column) == ("unset-variable", 12)
    assert (problem.what, problem.remedy) == ("SCR does not know ${HOME}: it drops the value", "write $HOME")
    (other,) = parse("SCR_PREFIX=$1\n", {}).problems
    assert other.remedy == "write the value itself; ${NAME} and $1 do not work here"
