"""SCR's system config file as the layer beneath what `scrtune check` is given."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.scr_config.check.check import (
    Source,
    SourceKind,
    cache_paths,
    check_sources,
    configurations,
    environment_source,
    source_of,
)
from scrtune.scr_config.check.model import Capacity, CheckContext
from scrtune.scr_config.parse import parse
from scrtune.scr_config.problems import Code, Finding
from scrtune.scr_config.resolution import resolve

HERE = CheckContext()
LINES = "CKPT=0 INTERVAL=1 STORE=/ssd TYPE=XOR\n"


def beneath(text: str) -> Source:
    return Source(file="system", kind=SourceKind.SYSTEM_FILE, text=text)


def found(user: str, system: str, situation: CheckContext = HERE) -> tuple[Finding, ...]:
    return check_sources([source_of("user", user), beneath(system)], situation)


def places(findings: tuple[Finding, ...]) -> list[tuple[str, int, str, str]]:
    return [(one.file, one.line, one.severity, one.code) for one in findings]


def test_its_values_count_where_no_higher_layer_says_otherwise() -> None:
    user = "SCR_FLUSH_ASYNC=1\nSCR_FLUSH_TYPE=PTHREAD\n"
    assert places(found(user, "")) == [
        ("user", 1, "warning", "async-bypass"),
        ("user", 2, "warning", "bypass-moot"),
    ]
    assert found(user, "SCR_CACHE_BYPASS=0\n") == ()
    assert "async-bypass" in [
        one.code for one in found(user + "SCR_CACHE_BYPASS=1\n", "SCR_CACHE_BYPASS=0\n")
    ]
    script = source_of("job.sh", "#!/bin/sh\nexport SCR_CACHE_BYPASS=0\n")
    (config,) = configurations([script, beneath("SCR_CACHE_BYPASS=1\nSCR_FLUSH=3\n")], HERE)
    assert (config.settings["SCR_CACHE_BYPASS"], config.settings["SCR_FLUSH"]) == (0, 3)


def test_it_lies_beneath_every_file() -> None:
    sources = [source_of("a", "SCR_FLUSH=2\n"), source_of("b", ""), beneath("SCR_FLUSH=3\n")]
    assert [config.settings["SCR_FLUSH"] for config in configurations(sources, HERE)] == [2, 3]


def test_faults_in_it_have_its_name_and_their_place() -> None:
    system = (
        "SCR_FLUSH=ten\nSCR_DEBUG\nCKPT=0 INTERVAL=1 TYP=XOR\nSCR_FLUSH_WIDTH=4\nSCRTUNE_FLUSH_THREADS=2\n"
    )
    assert places(found("SCR_CACHE_BYPASS=0\nSCR_COPY_TYPE=FILE\n", system)) == [
        ("system", 1, "error", "bad-value"),
        ("system", 2, "error", "no-equals"),
        ("system", 3, "error", "ckpt-disabled"),
        ("system", 3, "error", "no-interval-1"),
        ("system", 3, "warning", "unknown-child"),
        ("system", 4, "warning", "inert"),
        ("system", 5, "warning", "wrong-layer"),
    ]


def test_what_two_layers_do_together_is_told_where_the_user_can_mend_it() -> None:
    user, system = "SCR_FLUSH=1\nSCR_SET_SIZE=2\n", "SCR_CACHE_BYPASS=0\nSCR_SET_FAILURES=3\n"
    assert places(found(user, system)) == [("user", 2, "error", "failures-exceed-set")]
    assert places(found("", system + "SCR_SET_SIZE=2\n")) == [("system", 2, "error", "failures-exceed-set")]


# ---- lines


def test_its_lines_count_when_the_users_file_has_none_of_that_kind() -> None:
    system = f"SCR_CACHE_BYPASS=0\nSTORE=/ssd\n{LINES}"
    assert found("SCR_COPY_TYPE=FILE\n", system) == ()
    own = "SCR_COPY_TYPE=FILE\nCKPT=0 INTERVAL=1 STORE=/ssd TYPE=RS\n"
    (config,) = configurations([source_of("user", own), beneath(system)], HERE)
    assert [line.scheme for line in config.checkpoints] == ["RS"], "the user's CKPT lines, the system's STORE"
    assert "/ssd" in config.stores
    assert found(own, system) == ()
    assert places(found(own + "STORE=/nvme\n", system)) == [("user", 2, "error", "unknown-store")]


def test_no_file_has_ckpt_lines() -> None:
    user = "SCR_CACHE_BYPASS=0\nSCR_COPY_TYPE=FILE\n"
    (unsure,) = check_sources([source_of("user", user)], HERE)
    assert "unless the system's file has them" in unsure.message
    (sure,) = found(user, "SCR_FLUSH=1\n")
    assert (sure.code, sure.severity) == ("needs-ckpt", "error")
    assert (
        sure.message
        == "SCR_COPY_TYPE: neither the config file nor the system's has a CKPT line: SCR_Init aborts"
    )


@pytest.mark.parametrize(
    ("user", "code"),
    [
        (f"SCR_CACHE_BYPASS=0\nSCR_COPY_TYPE=FILE\n{LINES}", "unknown-store"),
        ("SCR_CACHE_BYPASS=0\nSCR_GROUP=RACK\n", "unknown-group"),
    ],
)
def test_what_its_lines_could_have_mended_is_certain_once_it_was_read(user: str, code: str) -> None:
    (unsure,) = check_sources([source_of("user", user)], HERE)
    assert (unsure.code, unsure.severity) == (code, "warning")
    assert "unless SCR's system file has" in unsure.message
    (sure,) = found(user, "")
    assert (sure.code, sure.severity) == (code, "error")
    assert "unless" not in sure.message
    assert found(user, "STORE=/ssd\nGROUPS=host1 RACK=r1\n") == ()


def test_without_the_users_file_it_is_that_which_may_have_the_lines() -> None:
    script = source_of("job.sh", "#!/bin/sh\nexport SCR_COPY_TYPE=FILE SCR_CACHE_BYPASS=0\n")
    (finding,) = check_sources([script, beneath(LINES)], HERE)
    assert (finding.file, finding.code, finding.severity) == ("system", "unknown-store", "warning")
    assert "unless the user's file has the STORE line" in finding.message
    assert check_sources([script, beneath(f"STORE=/ssd\n{LINES}")], HERE) == ()
    (missing,) = check_sources([script, beneath("")], HERE)
    assert (missing.code, missing.severity) == ("needs-ckpt", "warning")


# ---- what the site has ready for others


def test_what_the_user_overrules_is_no_fault_of_the_systems_file() -> None:
    cache = "SCR_CACHE_BASE=/ssd\nSCR_CACHE_SIZE=2\n"
    assert found("SCR_CACHE_BYPASS=1\n", cache) == ()
    assert places(found("", cache)) == [("system", 1, "warning", "bypass-moot")]
    assert found("SCR_CACHE_BYPASS=1\n", "SCR_FLUSH_ASYNC=1\n") == ()
    assert places(found("", "SCR_FLUSH_ASYNC=1\n")) == [("system", 1, "warning", "async-bypass")]
    menu = f"SCR_CACHE_BYPASS=0\nSTORE=/ssd\n{LINES}"
    assert found("SCR_COPY_TYPE=XOR\n", menu) == ()
    assert places(found("", menu)) == [("system", 3, "warning", "ckpt-ignored")]
    variables = {"SCR_COPY_TYPE": "XOR"}
    assert (
        check_sources([environment_source(variables), beneath(menu)], CheckContext(environment=variables))
        == ()
    )


def test_the_caches_that_it_names_are_measured() -> None:
    sources = [source_of("user", ""), beneath("SCR_CACHE_BYPASS=0\nSCR_CACHE_BASE=/ssd\n")]
    assert cache_paths(sources, HERE) == {"/ssd"}
    capacities = {"/ssd": Capacity(total_bytes=10, free_bytes=10)}
    small = CheckContext(nodes=2, checkpoint_bytes=100, capacities=capacities)
    assert places(check_sources(sources, small)) == [("system", 2, "error", "cache-too-small")]


# ---- properties

TEXTS = st.lists(
    st.sampled_from(
        [
            "SCR_FLUSH=1",
            "SCR_FLUSH=2",
            "SCR_COPY_TYPE=FILE",
            "SCR_COPY_TYPE=XOR",
            "SCR_CACHE_BYPASS=0",
            "SCR_SET_SIZE=4",
            "STORE=/a",
            "STORE=/b COUNT=2",
            "CKPT=0 STORE=/a TYPE=XOR",
            "CKPT=1 STORE=/b TYPE=RS",
            "GROUPS=h1 RACK=r",
        ]
    ),
    max_size=6,
    unique_by=lambda line: line.partition("=")[0],
).map(lambda lines: "".join(f"{line}\n" for line in lines))


@given(user=TEXTS, system=TEXTS)
def test_the_layers_are_those_of_env_resolved(user: str, system: str) -> None:
    (config,) = configurations([source_of("user", user), beneath(system)], HERE)
    resolved = resolve({}, user, None, system)
    assert {name: config.settings[name] for name in resolved.settings} == resolved.settings
    for kind in ("STORE", "CKPT", "GROUPS"):
        in_force = [entry.parent.value for entry in config.lines(kind)]
        expected = resolved.lines[kind][0].entries if kind in resolved.lines else ()
        assert in_force == [entry.parent.value for entry in expected]


@given(
    data=st.binary(max_size=200) | st.text(alphabet="SCR_ab=\n\t #$'\"\\{}<>;0", max_size=200).map(str.encode)
)
def test_no_bytes_in_it_crash_the_check_and_findings_lie_in_it(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    for finding in check_sources([source_of("user", "SCR_COPY_TYPE=FILE\n"), beneath(text)], HERE):
        assert finding.code in Code
        assert finding.file in ("user", "system")
        if finding.file == "system":
            assert 1 <= finding.line <= text.count("\n") + 1
    problems = {problem.line for problem in parse(text, {}).problems if problem.severity == "error"}
    told = {one.line for one in check_sources([beneath(text)], HERE) if one.file == "system"}
    assert problems <= told
