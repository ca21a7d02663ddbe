"""DFTracer traces the outputs of a program below libscrtune.so, within a limit, and nothing else.

DFTracer and the library are real, SCR is not there: the program says itself when an output begins and ends.
"""

import re
import signal
from pathlib import Path

import pytest

from scrtune.client.capture.environment import OBSERVE
from scrtune.intents.observe.io.buffers import EVENT_LIMIT

from ..support.native_build import build
from ..support.observed import OPEN_AND_CLOSE, Program

OFF = 'OFF = TRACE / "observe.off"\n'


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


@pytest.mark.parametrize(
    ("rank", "is_traced"),
    [
        ({}, True),
        ({"MPI_LOCALRANKID": "0"}, True),
        ({"MPI_LOCALRANKID": "1"}, False),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "3"}, False),
        ({"SLURM_LOCALID": "2"}, False),
        ({"OMPI_COMM_WORLD_LOCAL_RANK": "0", "SLURM_LOCALID": "1"}, True),
    ],
    ids=str,
)
def test_only_the_first_rank_of_a_node_is_traced_where_all_do_the_same(
    program: Program, rank: dict[str, str], is_traced: bool
) -> None:
    text = """
begin()
output(("by all", 10))
(TRACE / "observe.first").touch()
output(("by one", 10))
(TRACE / "observe.first").unlink()
output(("by all again", 10))
"""
    traced = program.run(text, **rank)
    counts = [traced.writes(program.data / name) for name in ("by all", "by one", "by all again")]
    assert counts == [10, 10 * is_traced, 10]


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
