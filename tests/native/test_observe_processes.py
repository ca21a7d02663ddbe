"""What an observed program may be made of: streams, child processes, threads; and a full disk."""

import os
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ..support.native_build import build
from ..support.observed import Program

SMALL_BYTES = 256 * 1024


NUMPY = """
import numpy
array = numpy.arange(1 << 16, dtype="int64")
def save(name):
    with open(DATA / f"{name}.tofile", "wb") as file:
        array.tofile(file)
    numpy.save(DATA / f"{name}.npy", array)
save("before")
begin()
open_gate()
save("output")
array.tofile(OTHER / "elsewhere")
assert (numpy.fromfile(DATA / "output.tofile", dtype="int64") == array).all()
assert (numpy.load(DATA / "output.npy") == array).all()
close_gate()
save("after")
deliver()
"""


def test_what_numpy_writes_and_reads_through_a_stream_of_a_descriptor_is_traced(program: Program) -> None:
    traced = program.run(NUMPY)
    array_bytes = 8 << 16
    for name in ("output.tofile", "output.npy"):
        assert traced.stream_bytes(program.data / name) == {"fwrite": array_bytes, "fread": array_bytes}
        assert traced.calls(program.data / name).count("fclose") == 2
    assert traced.writes(program.data / "output.npy") == 1  # its header
    for name in ("before", "after"):
        assert traced.calls(program.data / f"{name}.tofile") == []
    assert traced.calls(program.other / "elsewhere") == []


STREAMS = r"""
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
void scrtune_observe_begin(const char *prefix);
void scrtune_observe_open(void);
size_t scrtune_observe_close(double *cost_s);
void scrtune_observe_deliver(void);
int main(int argc, char **argv)
{
    char path[4096], data[512] = "";
    double cost_s;
    int ends[2];
    (void)argc;
    scrtune_observe_begin(argv[1]);
    scrtune_observe_open();
    snprintf(path, sizeof path, "%s/named", argv[1]);
    FILE *named = fopen(path, "w");
    assert(fwrite(data, 1, sizeof data, named) == sizeof data && fclose(named) == 0);
    snprintf(path, sizeof path, "%s/missing/file", argv[1]);
    assert(fopen(path, "w") == NULL && errno == ENOENT);
    assert(fdopen(-1, "w") == NULL && errno == EBADF);
    assert(pipe(ends) == 0);
    FILE *pipe_end = fdopen(ends[1], "w");
    errno = 42;
    snprintf(path, sizeof path, "%s/adopted", argv[1]);
    int file = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
    assert(write(file, data, 100) == 100);
    errno = 42;
    FILE *adopted = fdopen(file, "a+");
    assert(errno == 42 && fileno(adopted) == file && pipe_end != NULL);
    assert(fwrite(data, sizeof data, 2, adopted) == 2 && ftell(adopted) == 100 + 2 * sizeof data);
    FILE *again = fopen(path, "r"); /* the same path while the other stream is open: a stream of its own */
    assert(again != NULL && again != adopted && fread(data, 1, 100, again) == 100);
    assert(fclose(again) == 0 && fclose(adopted) == 0);
    scrtune_observe_close(&cost_s);
    scrtune_observe_deliver();
    return 0;
}
"""


def test_streams_stay_the_streams_of_the_c_library(program: Program) -> None:
    streams = build(program.base / "streams", STREAMS, str(program.library))
    traced = program.execute(str(streams))
    assert traced.stream_bytes(program.data / "named") == {"fwrite": 512}
    assert traced.stream_bytes(program.data / "adopted") == {"fwrite": 1024, "fread": 100}
    assert (program.data / "adopted").stat().st_size == 100 + 1024


def test_without_dftracer_streams_are_the_c_librarys_too(program: Program) -> None:
    streams = build(program.base / "streams", STREAMS, str(program.library))
    traced = program.execute(str(streams), LD_PRELOAD=str(program.library))
    assert traced.lines == []
    assert (program.data / "adopted").stat().st_size == 100 + 1024


@pytest.mark.parametrize("state", ["open", "paused"])
@pytest.mark.parametrize("how", ["fork", "spawn", "system", "vfork"])
def test_child_processes_run_as_without_us(program: Program, state: str, how: str) -> None:
    child = f"""
begin()
open_gate()
write(DATA / "parent", 10)
{"close_gate()" if state == "paused" else ""}
def work():
    write(DATA / "child", 30)
    open_gate()
    close_gate()
shell = f"for i in 1 2 3 4 5 6 7 8 9; do echo x >> '{{DATA}}/child'; done"
if {how!r} == "fork":
    pid = os.fork()
    if not pid:
        work()
        os._exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
elif {how!r} == "spawn":
    pid = os.posix_spawn("/bin/sh", ["sh", "-c", shell + "; exit 7"], os.environ)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
elif {how!r} == "vfork":
    import subprocess
    print(subprocess.run(["sh", "-c", shell + "; exit 7"], close_fds=False).returncode)
else:
    print(os.waitstatus_to_exitcode(os.system(shell + "; exit 7")))
close_gate()
deliver()
output(("afterwards", 10))
"""
    traced = program.run(child)
    assert "7" in traced.printed
    assert traced.writes(program.data / "parent") == 10
    assert traced.writes(program.data / "afterwards") == 10
    assert traced.calls(program.data / "child") == []


BUSY = r"""
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
void scrtune_observe_begin(const char *prefix);
void scrtune_observe_open(void);
size_t scrtune_observe_close(double *cost_s);
void scrtune_observe_deliver(void);
static volatile int is_ended;
static const char *places[2];
static void *work(void *number)
{
    char path[4096], data[512] = "";
    snprintf(path, sizeof path, "%s/%ld", places[(long)number % 2], (long)number);
    while (!is_ended) {
        int file = open(path, O_CREAT | O_RDWR | O_TRUNC, 0600);
        for (int i = 0; i < 8; i++) {
            if (write(file, data, sizeof data) != sizeof data) {
                abort();
            }
        }
        FILE *stream = number == 0 ? fopen(path, "r") : NULL; /* DFTracer knows streams of one thread only */
        if (stream != NULL && (fread(data, 1, sizeof data, stream) != sizeof data || fclose(stream) != 0)) {
            abort();
        }
        close(file);
    }
    return NULL;
}
int main(int argc, char **argv)
{
    pthread_t threads[4];
    double cost_s;
    size_t lines = 0;
    (void)argc;
    places[0] = argv[1];
    places[1] = argv[2];
    scrtune_observe_begin(argv[1]);
    for (long i = 0; i < 4; i++) {
        pthread_create(&threads[i], NULL, work, (void *)i);
    }
    for (int i = 0; i < 200; i++) {
        scrtune_observe_open();
        usleep(300);
        lines += scrtune_observe_close(&cost_s);
        scrtune_observe_deliver();
        usleep(300);
    }
    is_ended = 1;
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
    }
    printf("%zu\n", lines);
    return 0;
}
"""


def test_threads_in_io_go_on_while_it_is_paused_and_resumed(program: Program) -> None:
    busy = build(program.base / "busy", BUSY, "-pthread", str(program.library))
    traced = program.execute(str(busy))
    names = Counter(str(line["name"]) for line in traced.lines)
    assert int(traced.printed[0]) > 0
    assert names["write"] > 0
    assert names["fread"] > 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 256 KiB; skips where none may be mounted."""
    place = tmp_path / "trace"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={SMALL_BYTES}", "scrtune-test", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_below_the_trace_leaves_the_program_and_its_files_as_they_are(
    program: Program, small_disk: Path
) -> None:
    text = """
begin()
for number in range(12):
    output((f"checkpoint.{number}", 500))
for number in range(12):
    assert (DATA / f"checkpoint.{number}").read_bytes() == b"x" * 8 * 500
print("sound")
"""
    ran = program.start(*program.python(text))
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.splitlines()[-1] == "sound"
    (trace,) = small_disk.glob("*.pfw")
    assert 0 < trace.stat().st_size <= SMALL_BYTES
