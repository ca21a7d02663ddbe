"""What DFTracer sees of a program below libscrtune.so: its outputs, within a limit, and nothing else.

DFTracer and the library are real, SCR is not there: the program says itself when an output begins and ends.
"""

import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from scrtune.client.capture.environment import OBSERVE
from scrtune.intents.observe.io.buffers import EVENT_LIMIT

from ..support.native_build import build, build_library
from ..support.observed import OPEN_AND_CLOSE, Program

SMALL_BYTES = 256 * 1024
OFF = 'OFF = TRACE / "observe.off"\n'


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_library(tmp_path_factory.mktemp("native") / "libscrtune.so")


@pytest.fixture
def program(library: Path, tmp_path: Path) -> Program:
    return Program(library, tmp_path)


# ---- what is traced


def test_the_daemon_knows_the_limit_of_the_library() -> None:
    source = Path(__file__).parents[2] / "native" / "observe.c"
    assert re.findall(r"EVENT_LIMIT = (\d+),", source.read_text()) == [str(EVENT_LIMIT)]


def test_outputs_are_traced_and_nothing_else(program: Program) -> None:
    traced = program.run("""
write(DATA / "before SCR_Init", 10)
begin()
write(DATA / "between", 10)
output(("first", 10))
write(DATA / "between", 10)
output(("second", 20))
write(DATA / "after", 10)
""")
    assert traced.calls(program.data / "first") == ["open64", *["write"] * 10, "close"]
    assert traced.writes(program.data / "second") == 20
    for name in ("before SCR_Init", "between", "after"):
        assert traced.calls(program.data / name) == []


def test_files_elsewhere_are_not_traced_in_an_output_either(program: Program) -> None:
    traced = program.run("""
begin()
open_gate()
write(OTHER / "log", 10)
close_gate()
""")
    assert traced.calls(program.other / "log") == []
    assert traced.printed[0].split()[0] == "0"


def test_what_is_counted_is_what_is_in_the_file_at_once(program: Program) -> None:
    traced = program.run("""
begin()
for times in (5, 500, 50):
    before = lines()
    output((f"of {times}", times))
    print(lines() - before)
""")
    said, in_file = traced.printed[::2], traced.printed[1::2]
    assert [int(line.split()[0]) for line in said] == [int(line) for line in in_file]
    # the line that explains the file's hash is one, too
    assert [int(line) for line in in_file] == [times + OPEN_AND_CLOSE + 1 for times in (5, 500, 50)]


def test_before_it_is_delivered_nothing_is_in_the_file_and_a_killed_program_loses_only_that(
    program: Program,
) -> None:
    text = """
begin()
output(("delivered", 40))
open_gate()
write(DATA / "not delivered", 40)
os.kill(os.getpid(), 9)
"""
    ran = program.start(*program.python(text))
    assert ran.returncode == -signal.SIGKILL
    traced = program.traced(ran)
    assert traced.writes(program.data / "delivered") == 40
    assert traced.writes(program.data / "not delivered") == 0


def test_the_cost_is_the_measured_cost_of_a_call_for_each(program: Program) -> None:
    traced = program.run("""
begin()
output(("one", 100))
output(("two", 300))
""")
    said = [line.split() for line in traced.printed]
    each_us = [1e6 * float(cost_s) / int(calls) for calls, cost_s in said]
    assert each_us[0] == pytest.approx(each_us[1])
    assert 0.5 < each_us[0] < 1000


def test_where_the_prefix_is_not_traced_a_call_costs_what_it_usually_does(program: Program) -> None:
    traced = program.run("""
_library.scrtune_observe_begin(os.fsencode(OTHER))
output(("one", 100))
""")
    calls, cost_s = traced.printed[0].split()
    assert float(cost_s) == pytest.approx(int(calls) * 6e-6)


def test_an_output_is_traced_up_to_a_limit_and_the_next_one_again(program: Program) -> None:
    traced = program.run("""
begin()
open_gate()
write(DATA / "long", 4000)
time.sleep(0.5)  # for the library's look at the buffer, which comes every 4 ms
write(DATA / "beyond", 1000)
close_gate()
deliver()
output(("next", 100))
""")
    assert EVENT_LIMIT / 2 < traced.writes(program.data / "long") <= 4000
    assert traced.calls(program.data / "beyond") == []
    assert traced.writes(program.data / "next") == 100


def test_an_output_within_the_limit_is_traced_to_its_end_however_long_it_takes(program: Program) -> None:
    traced = program.run("""
begin()
open_gate()
write(DATA / "early", 100)
time.sleep(0.2)
write(DATA / "late", 100)
close_gate()
""")
    assert traced.writes(program.data / "early") == traced.writes(program.data / "late") == 100


# ---- streams


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


# ---- how it ends, and goes on


def test_a_file_beside_the_trace_ends_it_and_its_removal_resumes(program: Program) -> None:
    traced = program.run(
        OFF
        + """
begin()
output(("1", 10))
OFF.touch()
output(("2", 10))
output(("3", 10))
OFF.unlink()
output(("4", 10))
"""
    )
    assert [traced.writes(program.data / str(number)) for number in (1, 2, 3, 4)] == [10, 0, 0, 10]
    assert [line.split()[0] != "0" for line in traced.printed] == [True, False, False, True]


def test_a_descriptor_that_was_closed_in_a_pause_is_not_taken_for_the_file_it_was(program: Program) -> None:
    traced = program.run("""
begin()
open_gate()
held = os.open(DATA / "held", os.O_CREAT | os.O_WRONLY)
close_gate()
os.close(held)
open_gate()
reused = os.open(OTHER / "untraced", os.O_CREAT | os.O_WRONLY)
for _ in range(10):
    os.write(reused, b"x")
os.close(reused)
close_gate()
print(held == reused)
""")
    assert traced.printed[-1] == "True"
    assert traced.writes(program.data / "held") == 0
    assert not [line for line in traced.lines if line["name"] == "write"]


def test_errno_of_the_program_stays_as_it_is(program: Program) -> None:
    traced = program.run(
        OFF
        + """
libc = ctypes.CDLL(None, use_errno=True)
begin()
for step in ("open", "deliver", "off"):
    if step == "off":
        OFF.touch()
    ctypes.set_errno(0)
    call = libc.scrtune_observe_deliver if step == "deliver" else libc.scrtune_observe_open
    ctypes.set_errno(42)
    call()
    print(ctypes.get_errno())
"""
    )
    assert traced.printed == ["42"] * 3


# ---- whose trace it is


def test_a_trace_that_is_not_ours_goes_on_as_its_user_wants_it(program: Program) -> None:
    text = """
write(DATA / "before", 10)
begin()
output(("output", 10))
write(DATA / "after", 10)
"""
    traced = program.run(text, **{OBSERVE: ""})
    assert [traced.writes(program.data / name) for name in ("before", "output", "after")] == [10, 10, 10]
    assert traced.printed == ["0 0.0"]


def test_an_unknown_word_in_the_variable_touches_nothing(program: Program) -> None:
    traced = program.run('begin()\nwrite(DATA / "after", 10)', **{OBSERVE: "everything"})
    assert traced.writes(program.data / "after") == 10


def test_without_dftracer_nothing_happens(program: Program) -> None:
    traced = program.run('begin()\noutput(("x", 10))', LD_PRELOAD=str(program.library))
    assert traced.printed == ["0 0.0"]
    assert traced.lines == []


SYMBOLS = {
    "stop_posix": 'unsigned char {0} asm("_ZN6brahma13POSIXDFTracer10stop_traceE");',
    "stop_stdio": 'unsigned char {0} asm("_ZN6brahma13STDIODFTracer10stop_traceE");',
}


@pytest.mark.parametrize("has", [(), ("stop_posix",), ("stop_stdio",), ("stop_posix", "stop_stdio")])
def test_another_version_of_dftracer_is_left_alone(program: Program, has: tuple[str, ...]) -> None:
    """It has none of the flags, one of them, or both and nothing that says whether it has begun."""
    flags = "\n".join(SYMBOLS[name].format(name) for name in has)
    paused = " + ".join(["0", *has])
    text = f"{flags}\nint is_paused(void) {{ return {paused}; }}"
    core = build(program.base / "libdftracer_core.so", text, "-shared", "-fPIC")
    fake = Program(program.library, program.base, core=core)
    traced = fake.run('begin()\noutput(("x", 10))\nprint(_library.is_paused())')
    assert traced.printed == ["0 0.0", "0"]


def test_an_application_that_starts_dftracer_itself_after_scr_is_traced_from_then_on(
    program: Program,
) -> None:
    text = """
begin()
from dftracer.python import dftracer
log = dftracer.initialize_log(logfile=os.environ["DFTRACER_LOG_FILE"], data_dir=str(DATA), process_id=1)
write(DATA / "until the next output", 10)
output(("output", 20))
write(DATA / "after", 10)
log.finalize()
"""
    own = {"DFTRACER_INIT": "FUNCTION", "LD_PRELOAD": str(program.library)}
    traced = program.run(text, **own)
    assert traced.writes(program.data / "output") == 20
    assert traced.calls(program.data / "after") == []


# ---- processes and threads


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
        FILE *stream = fopen(path, "r");
        if (stream == NULL || fread(data, 1, sizeof data, stream) != sizeof data) {
            abort();
        }
        fclose(stream);
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


# ---- a trace that cannot be written


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
