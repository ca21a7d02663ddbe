"""What is told, and to whom; and by which of SCR's interfaces an application calls."""

import os
import shutil
from pathlib import Path

import pytest

from ...support.native_build import (
    build,
    build_application,
    compiler,
)
from .job import Job

pytestmark = pytest.mark.mpi


def test_a_restart_is_told(job: Job) -> None:
    first = job.run(2, SCR_FLUSH="1")
    first.assert_sound(2)
    assert first.of_type("restart") == []
    shutil.rmtree(job.base / "cache")
    told = job.run(1, SCR_FLUSH="1")
    told.assert_sound(1)
    (restart,) = told.of_type("restart")
    assert (restart["name"], restart["valid"]) == ("ckpt.2", True)


def test_how_long_rank_0_ran_between_outputs_is_told(job: Job) -> None:
    told = job.run(3)
    told.assert_sound(3)
    first, *others = told.of_type("output")
    assert "cpu_s" not in first, "there was no output before it"
    before = first
    for output in others:
        wanted_s = float(str(output["cpu_s"])) + float(str(output["run_delay_s"]))
        between_s = float(str(output["entered_s"])) - float(str(before["closed_s"]))
        assert 0 < wanted_s <= between_s + 0.01
        before = output


def limited(script: Path, application: tuple[str, ...], limit_bytes: int) -> str:
    """`application` whose files may not be larger: the kernel ends who writes more."""
    script.write_text(f'#!/bin/bash\nulimit -f {limit_bytes // 1024}\nexec {" ".join(application)} "$@"\n')
    script.chmod(0o755)
    return str(script)


def test_without_a_decision_file_nothing_is_done_but_telling(job: Job) -> None:
    told = job.run(2, SCRTUNE_DECISION_FILE="")
    told.assert_sound(2)
    assert "scrtune" not in told.standard_error
    assert [event["type"] for event in told.events] == [
        "started",
        "asked",
        "output",
        "asked",
        "output",
        "job_ended",
    ]


def test_a_limit_of_the_size_of_files_ends_the_telling_and_not_the_job(job: Job) -> None:
    limit_bytes = 4 << 30
    full = job.base / "full"
    full.touch()
    os.truncate(full, limit_bytes)
    job.application = (limited(job.base / "limited", job.application, limit_bytes),)
    told = job.run(2, SCRTUNE_EVENTS_FILE=str(full))
    told.assert_sound(2)
    assert told.standard_error == ""
    assert full.stat().st_size == limit_bytes


def test_it_is_silent_where_nobody_listens(job: Job) -> None:
    told = job.run(2, SCRTUNE_EVENTS_FILE="/dev/full")
    told.assert_sound(2)
    assert "scrtune" not in told.standard_error


def test_scr_that_is_switched_off_stays_off(job: Job) -> None:
    told = job.run(1, SCR_ENABLE="0")
    assert "SCR_Init failed" in told.standard_error
    assert told.events == []


def test_the_old_functions_are_counted_once(job: Job) -> None:
    told = job.run(-3, decisions={2: {"SCR_FLUSH": 1}})
    told.assert_sound(3)
    assert told.column("flush") == ["0", "1", "1"]
    assert [event["name"] for event in told.of_type("output")] == [f"scr.dataset.{n}" for n in (1, 2, 3)]


def test_a_plugin_brings_an_scr_of_its_own(job: Job, tmp_path: Path) -> None:
    """Loaded with RTLD_LOCAL: the application's functions are found first, and SCR's by no global name."""
    plugin = build_application(
        tmp_path / "plugin.so",
        job.scr.path,
        "-shared",
        "-fPIC",
        "-Dmain=plugin_main",
        "-Dpthread_create=other",
    )
    host = build(
        tmp_path / "host",
        r"""
        #include <dlfcn.h>
        int main(int count, char **arguments)
        {
            void *plugin = dlopen(PLUGIN, RTLD_NOW | RTLD_LOCAL);
            int (*run)(int, char **);
            *(void **)&run = dlsym(plugin, "plugin_main");
            return run(count, arguments);
        }
        """,
        f'-DPLUGIN="{plugin}"',
        "-ldl",
    )
    job.application = (str(host),)
    told = job.run(2, decisions={2: {"SCR_FLUSH": 1, "SCR_CACHE_SIZE": 1}})
    told.assert_sound(2)
    assert told.column("flush") == ["0", "1"]
    assert told.column("cache_size") == ["2", "1"]


FORTRAN = r"""
/* The application by what a Fortran compiler makes of SCR's interface for Fortran. */
#define _GNU_SOURCE
#include <string.h>
void scr_init_(int *), scr_finalize_(int *), scr_start_output_(char *, int *, int *, int);
void scr_complete_output_(int *, int *), scr_config_(char *, char *, int *, int, int);

int fortran_init(void) { int error; scr_init_(&error); return error; }
int fortran_finalize(void) { int error; scr_finalize_(&error); return error; }
int fortran_complete_output(int valid) { int error; scr_complete_output_(&valid, &error); return error; }
int fortran_start_output(const char *name, int flags)
{
    int error;
    scr_start_output_((char *)name, &flags, &error, (int)strlen(name));
    return error;
}
const char *fortran_config(const char *text)
{
    static char answer[64];
    int error;
    scr_config_((char *)text, answer, &error, (int)strlen(text), sizeof answer);
    return answer;
}
#define SCR_Init fortran_init
#define SCR_Finalize fortran_finalize
#define SCR_Config fortran_config
#define SCR_Start_output fortran_start_output
#define SCR_Complete_output fortran_complete_output
"""


def test_fortran_comes_through_the_same_functions(job: Job, tmp_path: Path) -> None:
    compiler()
    if not job.scr.path.with_name("libscrf.so").is_file():
        pytest.skip(f"this SCR was built without Fortran: no libscrf.so in {job.scr.path.parent}")
    (tmp_path / "fortran.h").write_text(FORTRAN)
    fortran = build_application(
        tmp_path / "fortran", job.scr.path, "-include", str(tmp_path / "fortran.h"), library="scrf"
    )
    job.application = (str(fortran),)
    told = job.run(
        3, 1, 1000, "SCR_CHECKPOINT_INTERVAL=9", decisions={2: {"SCR_FLUSH": 1}, 3: {"SCR_CACHE_SIZE": 1}}
    )
    told.assert_sound(3)
    assert told.column("flush")[:2] == ["0", "1"]
    assert told.column("cache_size") == ["2", "2", "1"]
    assert told.column("interval") == ["9", "9", "9"]
    assert len(told.of_type("output")) == 3
