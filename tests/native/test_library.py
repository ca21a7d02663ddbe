"""libscrtune.so leaves every program without SCR as it is; and how it is installed."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from scrtune.client.libscr.library import LIBSCRTUNE, WHY_NOT, libscrtune_path

from ..support.native_build import A_DECISION, ROOT, build, build_library, compiler, run

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
    "SCR_Route_file",
    "SCR_Start_checkpoint",
    "SCR_Start_output",
    "SCR_Start_restart",
    "__syslog_chk",
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
    "syslog",
}


FOR_SCRTUNE = {"scrtune_step", *(f"scrtune_observe_{name}" for name in ("begin", "open", "close", "deliver"))}


def test_nothing_else_of_it_is_seen_by_other_libraries_whatever_the_flags(
    library: Path, tmp_path: Path
) -> None:
    visible = build_library(tmp_path / "libscrtune.so", "-O0", "-fvisibility=default")
    for built in (library, visible):
        lines = run("nm", "--dynamic", "--defined-only", str(built)).splitlines()
        found = {line.split()[-1] for line in lines}
        assert {name for name in found if not name.startswith("scrtune_scan_")} == INTERPOSED | FOR_SCRTUNE


def test_it_needs_nothing_but_the_c_library(library: Path) -> None:
    needed = [line for line in run("readelf", "--dynamic", str(library)).splitlines() if "(NEEDED)" in line]
    found = {line.split("[")[1].rstrip("]") for line in needed}
    assert found <= {"libc.so.6", "libdl.so.2", "libpthread.so.0"}


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
        if (ROOT / name).is_file() and Path(name).suffix in {
            "",
            ".py",
            ".c",
            ".h",
            ".cfg",
            ".toml",
            ".md",
            ".in",
            ".json",
        }:
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


LOGS = r"""
/* SCR's log, as scr_log.c keeps it: by a flag of its own, whatever its parameter says. */
#include <syslog.h>
int scr_my_rank_world, scr_log_syslog_enable;
int scr_log_event(const char *type)
{
    syslog(LOG_INFO, "event=%s", type);
    return 0;
}
int scr_err(const char *text)
{
    syslog(LOG_ERR, "%s", text);
    return 0;
}
"""


LISTENS = r"""
#include <stdio.h>
#include <syslog.h>
#undef vsyslog
void vsyslog(int priority, const char *format, __builtin_va_list arguments)
{
    printf("<%d> ", priority);
    vprintf(format, arguments);
    puts("");
}
void __vsyslog_chk(int priority, int flag, const char *format, __builtin_va_list arguments)
{
    vsyslog(priority, format, arguments);
}
"""


LOGS_SOMETHING = r"""
#include <errno.h>
#include <stdlib.h>
#include <syslog.h>
extern int scr_log_syslog_enable;
int scr_log_event(const char *), scr_err(const char *);
int main(int count, char **arguments)
{
    scr_log_syslog_enable = atoi(arguments[1]);
    scr_log_event("COMPUTE_START");
    scr_err("an error");
    errno = ENOSPC;
    syslog(LOG_WARNING, "%s number %d: %m", "the application's", count);
    return 0;
}
"""


@pytest.mark.parametrize("fortified", [(), ("-O2", "-D_FORTIFY_SOURCE=2")], ids=["plain", "fortified"])
def test_scr_logs_to_syslog_where_its_parameter_says_so_and_nowhere_else(
    library: Path, tmp_path: Path, fortified: tuple[str, ...]
) -> None:
    build(tmp_path / "libscr.so", LOGS, "-shared", "-fPIC", *fortified)
    listener = build(tmp_path / "listener.so", LISTENS, "-shared", "-fPIC")
    here = (f"-L{tmp_path}", f"-Wl,-rpath,{tmp_path}", "-lscr")
    program = str(build(tmp_path / "logs", LOGS_SOMETHING, *fortified, *here))
    others = "<3> an error\n<4> the application's number 2: No space left on device\n"
    for parameter, said in (("1", "<6> event=COMPUTE_START\n"), ("0", "")):
        ran = preloaded(library, program, parameter, LD_PRELOAD=f"{library}:{listener}")
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, said + others, "")
