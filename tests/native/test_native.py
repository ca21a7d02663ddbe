"""libscrtune.so without SCR: it reads decisions as Python does, and leaves every program as it is."""

import contextlib
import ctypes
import json
import os
import subprocess
import sys
import zlib
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scrtune.client.libscr.library import LIBSCRTUNE, WHY_NOT, libscrtune_path
from scrtune.scr_config.catalogue import CATALOGUE, coerce
from scrtune.scr_config.decision import DecisionError, parse_decision

from ..support.native_build import ROOT, build, build_library, compiler, decision, library_sources, run

GOOD, NOT_WHOLE, WRONG_CHECKSUM, NOT_SORTED, UNKNOWN_NAME, BAD_VALUE = range(6)
SOUND_FORM = {GOOD, UNKNOWN_NAME, BAD_VALUE}
LIMIT = 64 * 1024
SUPPORT = ROOT / "tests" / "support"
A_DECISION = decision(
    12,
    SCR_COPY_TYPE="SINGLE",
    SCR_FILE_BUF_SIZE=8 << 20,
    SCRTUNE_FLUSH_CPUS="1,3-5",
    SCR_CHECKPOINT_OVERHEAD=2.5,
)
INTERPOSED = {
    "AXL_Add",
    "AXL_Dispatch",
    "DTCMP_Rankv_strings",
    "SCR_Complete_checkpoint",
    "SCR_Complete_output",
    "SCR_Complete_restart",
    "SCR_Config",
    "SCR_Finalize",
    "SCR_Init",
    "SCR_Need_checkpoint",
    "SCR_Start_checkpoint",
    "SCR_Start_output",
    "SCR_Start_restart",
    "axl_file_copy",
    "axl_get_nprocs",
    "fdopen",
    "fopen",
    "rankstr_mpi",
    "scr_flush_async_complete",
    "scr_flush_async_start",
    "scr_halt_sync_and_decrement",
    "scr_log_halt",
    "scr_reddesc_recover",
}
FOR_SCRTUNE = {"scrtune_step", *(f"scrtune_observe_{name}" for name in ("begin", "open", "close", "deliver"))}


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("native") / "libscrtune.so")


@pytest.fixture(scope="session")
def check(library: Path) -> ctypes.CDLL:
    """The library with a way to its reader of decisions, in this process; called by name only."""
    checked = build_library(library.with_name("check.so"), str(SUPPORT / "check_decision.c"))
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


# ---- what it is


@pytest.mark.parametrize("options", [(), ("-fvisibility=default",)], ids=["as built", "whatever the flags"])
def test_nothing_else_of_it_is_seen_by_other_libraries(tmp_path: Path, options: tuple[str, ...]) -> None:
    library = build_library(tmp_path / "libscrtune.so", *options)
    lines = run("nm", "--dynamic", "--defined-only", str(library)).splitlines()
    found = {line.split()[-1] for line in lines}
    assert {name for name in found if not name.startswith("scrtune_scan_")} == INTERPOSED | FOR_SCRTUNE


def test_it_needs_nothing_but_the_c_library(library: Path) -> None:
    needed = [line for line in run("readelf", "--dynamic", str(library)).splitlines() if "(NEEDED)" in line]
    assert {line.split("[")[1].rstrip("]") for line in needed} <= {"libc.so.6", "libdl.so.2"}


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


# ---- decisions


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


# ---- programs that have no SCR


ASKS = r"""
#include <stdio.h>
__attribute__((weak)) int SCR_Init(void);
__attribute__((weak)) int SCR_Start_output(const char *, int);
__attribute__((weak)) int SCR_Complete_output(int);
__attribute__((weak)) const char *SCR_Config(const char *);
__attribute__((weak)) int SCR_Finalize(void);
__attribute__((weak)) unsigned axl_get_nprocs(void);
int main(void)
{
    if (SCR_Init == NULL) {
        puts("no SCR");
        return 0;
    }
    printf("%d %d %d %d %d\n", SCR_Config("SCR_FLUSH=1") == NULL, SCR_Init(), SCR_Start_output("a", 1),
           SCR_Complete_output(1), SCR_Finalize());
    return axl_get_nprocs() > 0 ? 0 : 1;
}
"""


def preloaded(library: Path, *command: str, **variables: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "LD_PRELOAD": str(library), **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)


def test_a_program_without_scr_is_as_it_was(library: Path, tmp_path: Path) -> None:
    (tmp_path / "decision").write_text(A_DECISION)
    variables = {
        "SCRTUNE_DECISION_FILE": str(tmp_path / "decision"),
        "SCRTUNE_EVENTS_FILE": str(tmp_path / "events"),
    }
    for command in (
        ("true",),
        (sys.executable, "-c", "import threading"),
        ("sh", "-c", "ls / | wc -l >&-; :"),
    ):
        ran = preloaded(library, *command, **variables)
        assert (ran.returncode, ran.stdout) == (0, "")
        assert "scrtune" not in ran.stderr
    assert not (tmp_path / "events").exists()


def test_a_program_that_asks_for_scr_is_told_that_it_fails(library: Path, tmp_path: Path) -> None:
    program = build(tmp_path / "asks", ASKS)
    assert run(str(program)) == "no SCR\n"
    ran = preloaded(library, str(program), SCRTUNE_EVENTS_FILE=str(tmp_path / "events"))
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "1 1 1 1 1\n", "")
    assert not (tmp_path / "events").exists()


# ---- installation


def install(source: Path, target: Path, **variables: str) -> str:
    command = (sys.executable, "setup.py", "build", "--build-lib", str(target))
    ran = subprocess.run(
        command,
        cwd=source,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout + ran.stderr


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """What setup.py needs to build, in a directory of its own."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True)
    for name in listed.stdout.split():
        if Path(name).suffix in {"", ".py", ".c", ".h", ".cfg", ".toml", ".md", ".in", ".json"}:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    return tmp_path


def test_it_is_built_into_the_client_package(source: Path) -> None:
    compiler()
    install(source, source / "built")
    assert (source / "built" / "scrtune" / "client" / "libscr" / LIBSCRTUNE).is_file()


def test_scrtune_is_installed_without_a_compiler_too_and_says_so(source: Path) -> None:
    said = install(source, source / "built", CC="/bin/false")
    assert "scrtune.client.libscr.libscrtune" in said
    assert "failed" in said
    assert (source / "built" / "scrtune" / "client" / "libscr" / "library.py").is_file()
    assert not (source / "built" / "scrtune" / "client" / "libscr" / LIBSCRTUNE).exists()


def test_the_library_is_found_or_not(tmp_path: Path) -> None:
    assert libscrtune_path(tmp_path) is None
    assert "C compiler" in WHY_NOT
    (tmp_path / LIBSCRTUNE).touch()
    assert libscrtune_path(tmp_path) == tmp_path / LIBSCRTUNE


# ---- what is told


INITIALIZES = r"""
/* SCR_Init waits 0.2 s for the last rank, takes 0.1 s, and 0.4 s more to recover what is cached. */
#include <unistd.h>
int scr_my_rank_world;
__attribute__((weak)) void rankstr_mpi(const char *text, long comm, int tag0, int tag1, int *groups, int *id)
{
}
__attribute__((weak)) int scr_reddesc_recover(void *index, int id, const char *directory)
{
    usleep(400000);
    return 0;
}
int SCR_Init(void)
{
    usleep(200000);
    rankstr_mpi("a group", 0, 0, 0, 0, 0);
    usleep(100000);
    rankstr_mpi("another", 0, 0, 0, 0, 0);
    return scr_reddesc_recover(0, 1, "cache");
}
"""
TIMES_INIT = r"""
#include <stdio.h>
#include <time.h>
int SCR_Init(void);
int main(void)
{
    struct timespec began, ended;
    clock_gettime(CLOCK_MONOTONIC, &began);
    SCR_Init();
    clock_gettime(CLOCK_MONOTONIC, &ended);
    printf("%.6f\n", (double)(ended.tv_sec - began.tv_sec) + (double)(ended.tv_nsec - began.tv_nsec) * 1e-9);
    return 0;
}
"""


def test_scr_init_is_timed_without_the_wait_for_ranks_and_without_recovery(
    library: Path, tmp_path: Path
) -> None:
    events = tmp_path / "events"
    build(tmp_path / "libscr.so", INITIALIZES, "-shared", "-fPIC")
    here = (f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path}", "-lscr")
    ran = preloaded(
        library, str(build(tmp_path / "times", TIMES_INIT, *here)), SCRTUNE_EVENTS_FILE=str(events)
    )
    assert ran.returncode == 0, ran.stderr
    started = json.loads(events.read_text().splitlines()[0])
    assert 0.1 <= started["init_s"] <= float(ran.stdout) - 0.2 - 0.4 + 1e-5
