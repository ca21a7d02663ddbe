"""Every fault that `scrtune check` knows, in files that name what is expected of each line."""

import re
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrtune.scr_config.catalogue import CATALOGUE, SCRIPT_KEYS
from scrtune.scr_config.check.check import (
    ENVIRONMENT,
    Source,
    SourceKind,
    cache_paths,
    check_sources,
    configurations,
    environment_source,
    source_of,
)
from scrtune.scr_config.check.model import Capacity, CheckContext
from scrtune.scr_config.parse import DESCRIPTORS
from scrtune.scr_config.problems import Finding, Severity, worst_exit_code

ROOT = Path(__file__).parents[3]
DATA = ROOT / "tests" / "data" / "scr_conf"
PAGE = (ROOT / "docs" / "check.md").read_text(encoding="utf-8")
CODES = dict(re.findall(r"^\| `([a-z0-9-]+)` \| ((?:error|warning)[^|]*) \|", PAGE, re.MULTILINE))
"""The severities of each code, as the page has them."""
FAULTY = sorted((DATA / "faulty").iterdir())
CLEAN = sorted((DATA / "clean").iterdir())
SITUATION = CheckContext(environment={"USER": "ann", "PWD": "/home/ann"})


def text_of(path: Path) -> str:
    return path.read_text(encoding="utf-8")


def found(text: str, situation: CheckContext = SITUATION, file: str = "scr.conf") -> tuple[Finding, ...]:
    return check_sources([source_of(file, text)], situation)


def codes(findings: tuple[Finding, ...]) -> list[str]:
    return [finding.code for finding in findings]


def expected(text: str) -> dict[int, list[str]]:
    """The codes of each line: those of the comment above it."""
    lines = enumerate(text.splitlines(), start=2)
    return {
        number: sorted(match[1].split())
        for number, line in lines
        if (match := re.match("# expect: (.*)", line))
    }


def situation_of(text: str) -> CheckContext:
    nodes = 1 if "#SBATCH -N 1" in text else None
    return CheckContext(environment=SITUATION.environment, nodes=nodes)


@pytest.mark.parametrize("path", FAULTY, ids=lambda path: path.name)
def test_each_fault_is_found_on_its_line_and_no_other(path: Path) -> None:
    text = text_of(path)
    told: dict[int, list[str]] = {}
    for finding in found(text, situation_of(text)):
        told.setdefault(finding.line, []).append(finding.code)
    assert {line: sorted(names) for line, names in told.items()} == expected(text)


@pytest.mark.parametrize("path", CLEAN, ids=lambda path: path.name)
def test_what_scr_documents_is_clean(path: Path) -> None:
    assert found(text_of(path)) == ()


OTHER_FAULTS = {
    "carriage-return": ("SCR_CACHE_BYPASS=0\r\n", CheckContext()),
    "nul": ("SCR_CURRENT=a\0b\n", CheckContext()),
    "too-long": (f"SCR_CURRENT={'x' * 1024}\n", CheckContext()),
    "not-read": ("#!/usr/bin/env fish\nset -gx SCR_FLUSH ten\n", CheckContext()),
    "cache-too-small": (
        "SCR_CACHE_BYPASS=0\n",
        CheckContext(nodes=2, checkpoint_bytes=100, capacities={"/dev/shm": Capacity(50, 50)}),  # noqa: S108
    ),
}


@pytest.mark.parametrize("code", OTHER_FAULTS)
def test_faults_that_no_file_of_text_can_show(code: str) -> None:
    text, situation = OTHER_FAULTS[code]
    assert codes(found(text, situation)) == [code]


def test_every_code_there_is_has_a_fault_here() -> None:
    shown = {code for path in FAULTY for names in expected(text_of(path)).values() for code in names}
    assert shown | OTHER_FAULTS.keys() | {"no-config-file"} == CODES.keys()


def test_a_finding_says_what_happens_and_what_to_do() -> None:
    for path in FAULTY:
        for finding in found(text_of(path), situation_of(text_of(path))):
            assert finding.message
            assert finding.remedy
            assert finding.file == "scr.conf"
            assert finding.column >= 1
            assert finding.severity in CODES[finding.code]


@pytest.mark.parametrize(
    ("line", "message", "remedy"),
    [
        ("SCR_MPI_BUF_SIZE=2GB", "crashes SCR_Init", "2147483647"),
        ("SCR_FILE_BUF_SIZE=0", "never ends", "from 1"),
        ("SCR_COPY_TYPE=PARTNR", "aborts in SCR_Init", "did you mean PARTNER?"),
        ("SCR_FLUSH_TYPE=pthread", "case-sensitively", "did you mean PTHREAD?"),
        ("SCR_FLUSH=ten", "SCR reads it as 0", "a whole number"),
        ("SCR_FLUSH=10s", "SCR reads it as 10", "a whole number"),
        ("SCR_FLUSH_WIDHT=4", "ignores it", "did you mean SCR_FLUSH_WIDTH?"),
        ("SCR_DB_HOST=h", "ignores it", "did you mean SCR_LOG_DB_HOST?"),
        ("COLOUR=blue", "ignores it", "check the spelling"),
        ("SCR_FLUSH_WIDTH=4", "up to SCR 2.0", "take it out"),
        ("SCR_PREFIX=$USER2", "$USER and a 2", "without digits"),
        ("\ufeffSCR_FLUSH=1", "a byte order mark stands before SCR_FLUSH", "without a byte order mark"),
        ("\ufeff# mine", "rank 0 crashes", "without a byte order mark"),
        ("SCR_DEBUG=1\n\r", "carriage return", "Unix line ends"),
        ("SCR_DEBUG=1 \r", "carriage return", "Unix line ends"),
        ("STORE=/ssd COUNT=99999999999", "in an int", "2147483647"),
        ("STORE=/ssd COUNT=\u0663", "SCR reads it as 0", "a whole number"),
    ],
)
def test_the_words_help(line: str, message: str, remedy: str) -> None:
    finding = next(one for one in found(line) if one.code != "bypass-moot")
    assert message in finding.message
    assert remedy in finding.remedy


@pytest.mark.parametrize(
    "line", ["SCR_LOG_DB_PASS=top hush", "scr_log_db_pass=top hush=1", "SCR_LOG_DB_PASS=a=hush"]
)
def test_no_word_of_a_password_is_told(line: str) -> None:
    findings = found(line)
    assert findings
    assert all(one.message.startswith("SCR_LOG_DB_PASS: ") for one in findings)
    assert not [one for one in findings if "hush" in (one.message + one.remedy).lower()]


@pytest.mark.parametrize("flush", ["0", "-1"])
def test_what_never_leaves_the_cache_is_told_where_there_is_one(flush: str) -> None:
    assert codes(found(f"SCR_CACHE_BYPASS=0\nSCR_FLUSH={flush}\n")) == ["never-flushed"]
    assert codes(found(f"SCR_FLUSH={flush}\n")) == ["bypass-moot"]
    assert codes(found(f"SCR_FLUSH={flush}\n", CheckContext(version=(2, 0)))) == ["never-flushed"]
    assert codes(found("SCR_CACHE_BYPASS=0\nSCR_FLUSH=1\n")) == []


@pytest.mark.parametrize(
    ("scheme", "version", "told"),
    [
        ("local", (1, 1), []),
        ("LOCAL", (1, 1, 7), []),
        ("LOCAL", (1, 1, 8), ["bad-value", "needs-ckpt"]),
        ("LOCAL", (2, 0), ["bad-value", "needs-ckpt"]),
        ("RS", (2, 0), ["bad-value", "needs-ckpt"]),
        ("RS", (3,), []),
        ("SINGLE", (2, 0), []),
    ],
)
def test_a_scheme_is_called_as_in_that_release(
    scheme: str, version: tuple[int, ...], told: list[str]
) -> None:
    findings = found(f"SCR_COPY_TYPE={scheme}\nSCR_FLUSH=1\n", CheckContext(version=version))
    assert [code for code in codes(findings) if code != "bypass-moot"] == told
    if scheme == "LOCAL" and told:
        assert "LOCAL is called SINGLE since" in findings[0].remedy


def test_descriptor_lines_that_begin_alike_are_one_as_in_scr() -> None:
    head = "SCR_CACHE_BYPASS=0\nSCR_COPY_TYPE=FILE\nCKPT=0 INTERVAL=1\n"
    assert codes(found(head)) == ["ckpt-disabled", "no-interval-1"]
    assert codes(found(f"{head}CKPT=0 TYPE=XOR\n")) == []
    assert codes(found(f"{head}CKPT=1 TYPE=XOR\n")) == ["ckpt-disabled"]


def test_dos_line_ends_of_a_job_script_are_told_once() -> None:
    (finding,) = found("#!/bin/sh\nexport SCR_CACHE_BYPASS=0\r\nexport SCR_FLUSH=1\r\n", file="job.sh")
    assert (finding.code, finding.line, finding.severity) == ("carriage-return", 2, "error")


def test_what_is_inert_depends_on_the_version() -> None:
    line = "SCR_FLUSH_WIDTH=4\n"
    assert codes(found(line, CheckContext(version=(2, 0)))) == []
    assert codes(found(line, CheckContext(version=(3, 0, 1)))) == ["inert"]
    assert CATALOGUE["SCR_CACHE_BYPASS"].since == "3.0"
    assert codes(found("SCR_CACHE_SIZE=2\n", CheckContext(version=(2, 0)))) == []  # nor was its default 1
    (unknown,) = found("SCR_CACHE_BYPASS=0\n", CheckContext(version=(2, 0)))
    assert (unknown.code, "does not know it yet" in unknown.message) == ("inert", True)


def test_values_that_only_the_job_knows_are_not_judged() -> None:
    assert codes(found("SCR_FLUSH=$OFTEN\nSCR_CACHE_BYPASS=0\n")) == ["unset-variable"]
    assert codes(found("#!/bin/sh\nexport SCR_CACHE_BYPASS=0 SCR_FLUSH=$OFTEN SCR_DEBUG=`date`\n")) == []


@pytest.mark.parametrize(
    "text",
    [
        "SCR_CACHE_BYPASS=$USUAL\nSCR_CACHE_SIZE=2\nSCR_FLUSH_ASYNC=1\n",
        "SCR_CACHE_BYPASS=0\nSCR_COPY_TYPE=$USUAL\nCKPT=0 TYPE=XOR SET_SIZE=2\n",
        "SCR_CACHE_BYPASS=0\nSCR_FLUSH_TYPE=$USUAL\nSCR_FLUSH_ASYNC=1\n",
        "SCR_CACHE_BYPASS=0\nSCR_SET_SIZE=1\nSCR_SET_FAILURES=$USUAL\n",
    ],
)
def test_what_depends_on_such_a_value_is_not_judged_either(text: str) -> None:
    assert codes(found(text)) == ["unset-variable"]


def test_a_misspelt_scheme_is_file_as_in_scr_and_its_lines_count() -> None:
    findings = found("SCR_CACHE_BYPASS=0\nSCR_COPY_TYPE=FIEL\nCKPT=0 TYPE=XOR\n")
    assert codes(findings) == ["bad-value"]


def test_the_environment_is_checked_as_the_application_would_get_it() -> None:
    variables = {
        "SCR_FLUSH": "ten",
        "GROUPS": "1000",
        "SCR_ROOT": "/opt/scr",
        "SCR_CACHE_BYPAS": "0",
        "USER": "ann",
    }
    findings = check_sources([environment_source(variables)], CheckContext(environment=variables))
    assert [(one.file, one.line, one.column) for one in findings] == [(ENVIRONMENT, 0, 0)] * len(findings)
    assert sorted(codes(findings)) == [
        "bad-value",
        "bypass-moot",
        "descriptor-in-environment",
        "unknown-name",
    ]


def test_script_and_config_file_are_taken_together_and_the_environment_wins() -> None:
    file = source_of("scr.conf", "SCR_FLUSH_ASYNC=1\nSCR_FLUSH_TYPE=PTHREAD\nSCR_CACHE_BYPASS=1\n")
    script = source_of("job.sh", "#!/bin/sh\nexport SCR_CACHE_BYPASS=0\n")
    assert "async-bypass" in codes(check_sources([file], SITUATION))
    assert codes(check_sources([script, file], SITUATION)) == []
    (config,) = configurations([script, file], SITUATION)
    assert config.settings["SCR_CACHE_BYPASS"] == 0


def test_copy_type_file_in_a_script_alone_is_a_warning_for_the_lines_may_be_elsewhere() -> None:
    (finding,) = found("#!/bin/sh\nexport SCR_COPY_TYPE=FILE SCR_CACHE_BYPASS=0\n")
    assert (finding.code, finding.severity) == ("needs-ckpt", "warning")


def test_poststage_is_an_error_with_every_transfer_but_the_one_it_was_made_for() -> None:
    both = "SCR_FLUSH_ASYNC=1\nSCR_FLUSH_POSTSTAGE=1\nSCR_CACHE_BYPASS=0\nSCR_FLUSH_TYPE="
    assert [one.severity for one in found(both + "PTHREAD") if one.code == "poststage-async"] == ["error"]
    assert [one.severity for one in found(both + "BBAPI") if one.code == "poststage-async"] == ["warning"]


@pytest.mark.parametrize(
    ("text", "nodes", "room", "severity"),
    [
        ("SCR_COPY_TYPE=SINGLE", 4, 25, None),
        ("SCR_COPY_TYPE=SINGLE", 4, 24, "error"),
        ("SCR_COPY_TYPE=PARTNER", 4, 50, None),
        ("SCR_COPY_TYPE=PARTNER", 4, 49, "error"),
        ("SCR_COPY_TYPE=PARTNER", 1, 100, None),  # on one node it is SINGLE
        ("SCR_COPY_TYPE=XOR", 2, 100, None),  # a set of two: XOR is a copy
        ("SCR_COPY_TYPE=XOR", 2, 99, "error"),
        ("SCR_COPY_TYPE=SINGLE\nSCR_CACHE_SIZE=3", 4, 75, None),
        ("SCR_COPY_TYPE=SINGLE\nSCR_CACHE_SIZE=3", 4, 74, "error"),
        ("SCR_COPY_TYPE=SINGLE\nSTORE=/dev/shm COUNT=3", 4, 74, "error"),
        ("SCR_COPY_TYPE=FILE\nCKPT=0 TYPE=SINGLE\nCKPT=1 INTERVAL=2 TYPE=PARTNER", 4, 49, "error"),
        ("SCR_COPY_TYPE=FILE\nCKPT=0 TYPE=SINGLE\nCKPT=1 INTERVAL=2 TYPE=PARTNER BYPASS=1", 4, 25, None),
    ],
)
def test_the_cache_must_hold_datasets_times_size_times_what_the_scheme_adds(
    text: str, nodes: int, room: int, severity: str | None
) -> None:
    situation = CheckContext(
        nodes=nodes,
        checkpoint_bytes=100,
        capacities={"/dev/shm": Capacity(total_bytes=room, free_bytes=room)},  # noqa: S108
    )
    findings = found(f"SCR_CACHE_BYPASS=0\n{text}\n", situation)
    told = [one.severity for one in findings if one.code == "cache-too-small"]
    assert told == ([severity] if severity else [])


def test_a_cache_that_is_merely_full_is_a_warning() -> None:
    capacities = {"/ssd": Capacity(total_bytes=100, free_bytes=10)}
    situation = CheckContext(nodes=2, checkpoint_bytes=20, capacities=capacities)
    (finding,) = found("SCR_CACHE_BYPASS=0\nSCR_CACHE_BASE=/ssd\n", situation)
    assert (finding.code, finding.severity, finding.line) == ("cache-too-small", "warning", 2)


def test_the_caches_to_measure_are_those_that_datasets_go_to() -> None:
    lines = "CKPT=0 STORE=/a/ TYPE=XOR\nCKPT=1 STORE=/b TYPE=XOR BYPASS=1\n"
    text = f"SCR_COPY_TYPE=FILE\nSCR_CACHE_BYPASS=0\n{lines}"
    assert cache_paths([source_of("f", text)], SITUATION) == {"/a"}
    assert cache_paths([source_of("f", "")], SITUATION) == frozenset()


@pytest.mark.parametrize(
    ("findings", "code"), [([], 0), (["warning"], 1), (["error"], 2), (["warning", "error", "warning"], 2)]
)
def test_the_exit_code_is_that_of_the_worst(findings: list[str], code: int) -> None:
    one = found("SCR_NOTHING=1\n")[0]
    made = [
        Finding(**{**{f: getattr(one, f) for f in one.__struct_fields__}, "severity": Severity(s)})
        for s in findings
    ]
    assert worst_exit_code(made) == code


HOSTILE = st.binary(max_size=300) | st.text(alphabet="SCR_ab=\n\t #$'\"\\{}<>;0", max_size=200).map(
    str.encode
)


@given(data=HOSTILE)
@example(data=b"SCR_COPY_TYPE=FILE\n" + b"CKPT=1 STORE=/a\n" * 3_000)
@example(data=b"A1=1\n" + b"".join(b"SCR_A%d=1\n" % number for number in range(5_000)))
def test_no_bytes_crash_it_and_none_pass_as_a_clean_file_without_being_one(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    source = Source(file="f", kind=SourceKind.CONFIG_FILE, text=text)
    findings = check_sources([source], CheckContext(nodes=1, checkpoint_bytes=1))
    lines = text.split("\n")
    for finding in findings:
        assert finding.code in CODES
        assert 1 <= finding.line <= len(lines)
        assert 1 <= finding.column <= len(lines[finding.line - 1]) + 1
    if not findings:
        known = {*CATALOGUE, *DESCRIPTORS, *SCRIPT_KEYS}
        for line in (line.strip(" \t") for line in lines):
            assert not line or line[0] == "#" or re.split(r"[ \t=]", line)[0].upper() in known


@given(data=HOSTILE)
@example(data=b"'\"" * 5_000)
@example(data=b'"' + b'\\"' * 5_000)
@example(data=b"cat <<E\n" * 3_000)
@example(data=b"SCR_FLUSH=1\nunset SCR_FLUSH\n" * 2_000)
def test_no_bytes_crash_it_or_hold_it_up_as_a_job_script(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    findings = check_sources([Source(file="f", kind=SourceKind.JOB_SCRIPT, text=text)], CheckContext())
    assert ("\0" in text) == ("nul" in codes(findings))
    for finding in findings:
        assert finding.code in CODES
        assert 0 <= finding.line <= text.count("\n") + 1
