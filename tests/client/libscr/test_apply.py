"""A real libscr, where one is found: settings change in the running job, on all ranks or on none."""

import json
import os
import random
import shutil
import sys
import zlib
from pathlib import Path
from typing import Any

import pytest

from scrtune.client.libscr.native import WHY_NOT, libscrtune_path

from ...apps.mpi_libscr import content
from ...conftest import RealScr

pytestmark = pytest.mark.mpi

APPLICATION = Path(__file__).parents[2] / "apps" / "mpi_libscr.py"
IN_CACHE = {"SCR_CACHE_BYPASS": "0", "SCR_FLUSH": "0", "SCR_CACHE_SIZE": "2", "SCR_LOG_ENABLE": "1"}
MIB = 1 << 20

Plan = dict[str, Any]
Seen = list[dict[str, Any]]


def output(name: str, size: int = 1000, generation: int = 0, **values: Any) -> Plan:
    """One output of a plan, with a decision before it if there are values."""
    decision = {"generation": generation, "values": values} if values else {}
    return {"name": name, "bytes": size, **decision}


def run(
    scr: RealScr, base: Path, plan: Plan, ranks: int = 2, nodes: int = 0, **variables: str
) -> tuple[Seen, str]:
    """Run the application; returns what each rank saw, and standard error."""
    results = base / "results"
    results.mkdir(parents=True, exist_ok=True)
    (base / "plan").write_text(json.dumps(plan))
    command = (sys.executable, str(APPLICATION), str(base / "plan"), str(results))
    ran = scr.mpiexec(base, ranks, *command, nodes=nodes, **{**IN_CACHE, **variables})
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return [json.loads((results / str(rank)).read_text()) for rank in range(ranks)], ran.stderr


def flushed(base: Path) -> set[int]:
    """The datasets that SCR has completed in the prefix directory."""
    return {
        int(path.parent.name.rpartition(".")[2])
        for path in (base / "prefix" / ".scr").glob("scr.dataset.*/summary.scr")
    }


def assert_whole(base: Path, outputs: list[Plan], ranks: int) -> None:
    """Every file of `outputs` is in the prefix directory, bit for bit."""
    for each in outputs:
        for rank in range(ranks):
            data = (base / "prefix" / each["name"] / f"rank.{rank}").read_bytes()
            assert data == content(each["name"], rank, each["bytes"]), f"{each['name']} of rank {rank}"


def how(seen: Seen) -> list[list[str | None]]:
    """For each rank, how the decision before each output came into force."""
    return [
        [each["applied"]["how"] if each["applied"] else None for each in rank["outputs"]] for rank in seen
    ]


def test_each_rank_sees_the_same_library(libscr: RealScr, tmp_path: Path) -> None:
    seen, _ = run(libscr, tmp_path, {"outputs": []}, ranks=3)
    for rank in seen:
        assert (rank["nodes"], rank["peers"]) == (1, 1)
        assert rank["version"].startswith("v")
        assert rank["prefix"] == str(tmp_path / "prefix")
        assert rank["in_force"]["SCR_FLUSH"] == 0
        assert rank["in_force"]["SCR_COPY_TYPE"] == "XOR"
        assert rank["at_the_end"] == rank["in_force"], "verification has put everything back"
        classes = {name: each[0] for name, each in rank["capabilities"].items()}
        assert classes["SCR_FLUSH"] == classes["SCR_FILE_BUF_SIZE"] == classes["SCR_MPI_BUF_SIZE"] == "live"
        assert classes["SCR_CHECKPOINT_INTERVAL"] == "live on rank 0"
        assert classes["SCR_COPY_TYPE"] == "re-init"
        assert classes["SCR_PREFIX"] == "launch"
        assert classes["SCR_FLUSH_WIDTH"] == "inert"
        assert "libscrtune.so" in dict(rank["capabilities"])["SCRTUNE_FLUSH_THREADS"][1]


def test_the_size_of_writes_follows_the_file_buffer(libscr: RealScr, tmp_path: Path) -> None:
    outputs = [
        output("a", 4 * MIB),
        output("b", 4 * MIB, 1, SCR_FILE_BUF_SIZE=16384),
        output("c", 4 * MIB, 2, SCR_FILE_BUF_SIZE=1 * MIB),
    ]
    seen, _ = run(libscr, tmp_path, {"outputs": outputs}, SCR_FLUSH="1")
    for rank in seen:
        calls = [each["write_calls"] for each in rank["outputs"]]
        assert calls[1] - calls[0] == pytest.approx(4 * MIB / 16384, rel=0.1)
        assert calls[2] - calls[0] == pytest.approx(4, abs=4)
    assert_whole(tmp_path, outputs, 2)


def test_the_flush_cadence_follows_flush(libscr: RealScr, tmp_path: Path) -> None:
    outputs = [output(f"o{number}") for number in range(1, 10)]
    outputs[3] = output("o4", generation=1, SCR_FLUSH=2)
    outputs[6] = output("o7", generation=2, SCR_FLUSH=0)
    run(libscr, tmp_path, {"outputs": outputs, "crash": True}, SCR_FLUSH="3")
    assert flushed(tmp_path) == {3, 4, 6}


def test_the_scheme_changes_between_outputs_and_a_lost_node_is_rebuilt(
    libscr: RealScr, tmp_path: Path
) -> None:
    outputs = [
        output("xor", 300_000),
        output("single", 300_000, 1, SCR_COPY_TYPE="SINGLE"),
        output("partner", 300_000, 2, SCR_COPY_TYPE="PARTNER", SCR_CACHE_SIZE=4),
        output("more", 300_000, 2, SCR_COPY_TYPE="PARTNER", SCR_CACHE_SIZE=4),
    ]
    config = ["SCR_CLUSTER_NAME=yours", "SCR_FLUSH_ASYNC_USLEEP=17", "SCR_CLUSTER_NAME=mine"]
    plan = {"config": config, "outputs": outputs, "ask": ["SCR_CLUSTER_NAME"], "crash": True}
    seen, _ = run(libscr, tmp_path, plan, ranks=4, nodes=2)
    assert how(seen) == [[None, "re-init", "re-init", "live"]] * 4
    for rank in seen:
        assert [each["dataset"] for each in rank["outputs"]] == [1, 2, 3, 4]
        assert [each["need_count"] for each in rank["outputs"]] == [1, 2, 3, 4]
        assert rank["asked"] == ["mine"], "what the application set is kept"
        assert rank["at_the_end"]["SCR_FLUSH_ASYNC_USLEEP"] == 17
        assert rank["environment_at_the_end"] == rank["environment"]
    schemes = {
        number: {
            path.name.split(".")[3] for path in tmp_path.glob(f"node?/*/*/scr.dataset.{number}/.scr/*.grp_*")
        }
        for number in (2, 3, 4)
    }
    assert schemes == {2: {"single"}, 3: {"partner"}, 4: {"partner"}}, "the cache has kept all since"
    halt = (tmp_path / "prefix" / ".scr" / "halt.scr").read_bytes()
    assert b"FINALIZE" not in halt, "scr_run would not restart the job"

    shutil.rmtree(tmp_path / "node1")
    again, _ = run(libscr, tmp_path, {"outputs": [], "restart": True}, ranks=4, nodes=2)
    assert [rank["restart"] for rank in again] == [
        {"name": "more", "same": True, "bytes": 300_000, "valid": True}
    ] * 4


def test_async_goes_on_and_off_while_flushes_are_under_way(libscr: RealScr, tmp_path: Path) -> None:
    size = 24 * MIB
    outputs = [
        output("a", size),
        output("b", size, 1, SCR_FLUSH_ASYNC=1),
        output("c", size, 2, SCR_FLUSH_ASYNC=0),
        output("d", size, 3, SCR_FLUSH_ASYNC=1, SCR_FILE_BUF_SIZE=4096),
        output("e", size, 4, SCR_FLUSH_ASYNC=1, SCR_FILE_BUF_SIZE=4096),
        output("f", size, 5, SCR_FLUSH_ASYNC=0, SCR_FILE_BUF_SIZE=MIB),
        output("g", size, 6, SCR_FLUSH_ASYNC=1),
    ]
    seen, _ = run(
        libscr, tmp_path, {"outputs": outputs}, SCR_FLUSH="1", SCR_FLUSH_TYPE="PTHREAD", SCR_CACHE_SIZE="3"
    )
    assert how(seen) == [[None, *["live"] * 6]] * 2
    under_way = [each["async"] for each in seen[0]["outputs"]]
    assert under_way[0] == under_way[2] == 0
    assert any(under_way), "or nothing was tried"
    assert flushed(tmp_path) == set(range(1, 8))
    assert_whole(tmp_path, outputs, 2)


def test_a_flush_under_way_is_not_forgotten_when_async_goes_off_and_on(
    libscr: RealScr, tmp_path: Path
) -> None:
    idle = {"SCR_FLUSH": 0, "SCR_FILE_BUF_SIZE": MIB}
    outputs = [
        output("slow", 24 * MIB, 1, SCR_FLUSH=1, SCR_FLUSH_ASYNC=1, SCR_FILE_BUF_SIZE=128),
        output("off", 10, 2, **idle, SCR_FLUSH_ASYNC=0),
        output("on", 10, 3, **idle, SCR_FLUSH_ASYNC=1),
    ]
    seen, _ = run(libscr, tmp_path, {"outputs": outputs}, SCR_FLUSH_TYPE="PTHREAD", SCR_CACHE_SIZE="4")
    assert [each["async"] for each in seen[0]["outputs"]] == [1, 1, 1], "or nothing was tried"
    assert flushed(tmp_path) == {1}
    assert_whole(tmp_path, outputs[:1], 2)


def corrupted(text: bytes) -> list[bytes]:
    """A decision in which something is wrong."""
    return [
        text[:-5],
        text.replace(b"=8", b"=9"),
        text.replace(b"scrtune-decision 1", b"scrtune-decision 2"),
        b"",
        b"\xff\xfe nonsense",
    ]


def signed(generation: int, *lines: str) -> str:
    """A decision that is whole, whatever its lines say."""
    body = f"generation {generation}\n" + "".join(f"{line}\n" for line in lines) + "end\n"
    head, rest = body.split("\n", 1)
    return f"scrtune-decision 1\n{head}\ncrc32 {zlib.crc32(body.encode()):08x}\n{rest}"


def test_what_is_no_decision_changes_nothing_on_any_rank(libscr: RealScr, tmp_path: Path) -> None:
    good = signed(1, "SCR_FLUSH=8")
    bad = [each.decode("utf-8", "surrogateescape") for each in corrupted(good.encode())]
    wrong = [
        "\ud800",
        good.replace("=8", "=8\0"),
        good + "x" * 100_000,
        signed(2, "SCR_FLUSHES=8"),
        signed(3, "SCR_FILE_BUF_SIZE=0"),
        signed(4, "SCR_FLUSH=8", "SCR_MPI_BUF_SIZE=3GB"),
        signed(5, "SCR_SET_FAILURES=3", "SCR_SET_SIZE=2"),
        signed(6, "SCR_FLUSH_TYPE=BBAPI"),
        signed(7, "SCR_COPY_TYPE=FILE"),
        signed(8, "SCR_FLUSH=8", "SCR_FLUSH=8"),
        signed(9, "SCR_FLUSH_ASYNC=1", "SCR_FLUSH_POSTSTAGE=1"),
        good + "\n",
    ]
    outputs = [{"name": f"o{n}", "bytes": 10, "text": text} for n, text in enumerate([*bad, *wrong])]
    seen, told = run(libscr, tmp_path, {"outputs": outputs}, ranks=3)
    for rank in seen:
        assert rank["at_the_end"] == rank["in_force"]
        assert rank["refused"] == len(outputs) - 1, "the empty text is none"
    assert how(seen) == [[None if not each["text"] else "refused" for each in outputs]] * 3
    assert told.count("checksum") == 1, "each reason is told once"
    assert told.count("SCR_FILE_BUF_SIZE") == 1


def test_what_cannot_go_live_or_by_init_is_left_alone(libscr: RealScr, tmp_path: Path) -> None:
    ignored = signed(3, "SCR_FLUSH=8", "SCR_FLUSH_WIDTH=1", "SCR_PREFIX=/elsewhere")
    plan = {"outputs": [{"name": "a", "bytes": 10, "text": ignored}], "detach": True}
    seen, _ = run(libscr, tmp_path, plan)
    for rank in seen:
        assert rank["outputs"][0]["applied"]["generation"] == 3
        assert rank["outputs"][0]["in_force"] == {**rank["in_force"], "SCR_FLUSH": 8}
        assert rank["detached"]["how"] == "live"
        assert rank["at_the_end"] == rank["in_force"]


def test_schemes_that_would_abort_scr_are_refused(libscr: RealScr, tmp_path: Path) -> None:
    outputs = [
        output("a", 10),
        output("b", 10, 1, SCR_COPY_TYPE="RS", SCR_SET_FAILURES=2),
        output("c", 10, 2, SCR_SET_SIZE=1, SCR_SET_FAILURES=1),
        output("d", 10, 3, SCR_COPY_TYPE="RS", SCR_SET_FAILURES=1),
        output("e", 10, 4, SCR_GROUP="NOBODYS"),
        output("f", 10, 5, SCR_GROUP="WORLD"),
    ]
    seen, told = run(libscr, tmp_path, {"outputs": outputs}, ranks=4, nodes=2)
    assert how(seen) == [[None, "refused", "refused", "re-init", "refused", "refused"]] * 4
    assert "needs sets of 3 ranks" in told


def test_uneven_nodes_cannot_protect_every_rank(libscr: RealScr, tmp_path: Path) -> None:
    plan = {"outputs": [output("a"), output("b", generation=1, SCR_COPY_TYPE="XOR")]}
    seen, _ = run(libscr, tmp_path, plan, ranks=3, nodes=2, SCR_COPY_TYPE="SINGLE")
    assert sorted(rank["peers"] for rank in seen) == [1, 2, 2]
    assert how(seen) == [[None, "refused"]] * 3


def test_scrs_log_goes_on_over_a_re_init(libscr: RealScr, tmp_path: Path) -> None:
    outputs = [output("a"), output("b", generation=1, SCR_CACHE_SIZE=3), output("c")]
    seen, _ = run(libscr, tmp_path, {"outputs": outputs, "crash": True}, SCR_FLUSH="2")
    assert how(seen) == [[None, "re-init", None]] * 2
    log = (tmp_path / "prefix" / ".scr" / "log").read_text()
    assert log.count("event=START") == 1, "it is the same run"
    assert "event=HALT" not in log
    encoded = [line for line in log.splitlines() if "xfer=ENCODE" in line]
    assert [line.partition("dset=")[2][0] for line in encoded] == ["1", "2", "3"]
    flushes = [line for line in log.splitlines() if "xfer=FLUSH_SYNC" in line]
    assert [line.partition("dset=")[2][0] for line in flushes] == ["1", "2"], "the first was forced"


@pytest.mark.parametrize("config", [[], ["SCR_PREFIX=.."]])
def test_the_prefix_stays_where_the_job_began(libscr: RealScr, tmp_path: Path, config: list[str]) -> None:
    elsewhere = tmp_path / "prefix" / "sub"
    elsewhere.mkdir(parents=True)
    plan = {
        "config": config,
        "outputs": [
            output("a"),
            {**output("b", generation=1, SCR_CACHE_SIZE=3, SCR_FLUSH=1), "chdir": str(elsewhere)},
        ],
    }
    seen, _ = run(libscr, tmp_path, plan, SCR_PREFIX="", USER="")
    assert how(seen) == [[None, "re-init"]] * 2
    began = str(tmp_path) if config else str(tmp_path / "prefix")
    assert {(rank["prefix"], rank["prefix_at_the_end"]) for rank in seen} == {(began, began)}
    assert (elsewhere / "b" / "rank.1").read_bytes() == content("b", 1, 1000)


def test_numbers_of_datasets_go_on_when_the_cache_is_empty(libscr: RealScr, tmp_path: Path) -> None:
    plan = {"outputs": [{**output("a"), "valid": False}, output("b", generation=1, SCR_CACHE_SIZE=3)]}
    seen, _ = run(libscr, tmp_path, plan)
    for rank in seen:
        assert [each["valid"] for each in rank["outputs"]] == [False, True]
        assert [each["dataset"] for each in rank["outputs"]] == [1, 2]
    assert how(seen) == [[None, "re-init"]] * 2


@pytest.mark.parametrize(
    "setting", ["SCR_CACHE_PURGE=1", "SCR_DISTRIBUTE=0", "SCR_GLOBAL_RESTART=1", "SCR_FLUSH_POSTSTAGE=1"]
)
def test_scr_is_not_initialized_again_where_that_loses_a_checkpoint(
    libscr: RealScr, tmp_path: Path, setting: str
) -> None:
    name, _, value = setting.partition("=")
    plan = {"outputs": [output("a"), output("b", generation=1, SCR_CACHE_SIZE=3, SCR_FLUSH=4)]}
    seen, _ = run(libscr, tmp_path, plan, **{name: value})
    for rank in seen:
        klass, why = rank["capabilities"]["SCR_CACHE_SIZE"]
        assert klass == "launch"
        assert setting in why
        assert rank["at_the_end"] == {**rank["in_force"], "SCR_FLUSH": 4}
    assert how(seen) == [[None, "live"]] * 2


def test_what_the_users_file_says_by_now_does_not_end_the_job_or_its_checkpoints(
    libscr: RealScr, tmp_path: Path
) -> None:
    began, other = tmp_path / "began", tmp_path / "other"
    bases = "SCR_CNTL_BASE={0}\nSCR_CACHE_BASE={0}\n"
    conf = f"SCR_ENABLE=0\nSCR_CACHE_PURGE=1\nSCR_DISTRIBUTE=0\nSCR_JOB_ID=7\n{bases.format(other)}"
    changed = {**output("b", generation=1, SCR_CACHE_SIZE=4), "conf": conf}
    plan = {"config": ["SCR_HALT_EXIT=1"], "outputs": [output("a"), changed, output("c")], "crash": True}
    (tmp_path / "prefix").mkdir()
    (tmp_path / "prefix" / ".scrconf").write_text(bases.format(began))
    for base in (began, other):
        base.mkdir()
    seen, _ = run(libscr, tmp_path, plan, SCR_CNTL_BASE="", SCR_CACHE_BASE="")
    assert how(seen) == [[None, "re-init", None]] * 2
    assert {each["halt_exit"] for rank in seen for each in rank["outputs"]} == {1}
    assert not list(other.iterdir())
    cached = {path.parent for path in began.glob("*/*/scr.dataset.*/rank.1")}
    assert {path.name for path in cached} == {"scr.dataset.1", "scr.dataset.2", "scr.dataset.3"}
    assert len({path.parent for path in cached}) == 1, "all of one job"


def test_below_the_library_a_re_init_leaves_what_is_cached_as_it_is(libscr: RealScr, tmp_path: Path) -> None:
    """SCR_Init takes apart what it rebuilds: who is killed meanwhile would lose it."""
    preload = libscrtune_path()
    if preload is None:
        pytest.skip(WHY_NOT)
    plan = {"outputs": [output("one"), output("two", 1000, 1, SCR_CACHE_SIZE=3)]}
    seen, _ = run(libscr, tmp_path, plan, nodes=2, LD_PRELOAD=str(preload))
    assert how(seen) == [[None, "re-init"]] * 2
    began_s = (tmp_path / "prefix" / ".scr" / "nodes.scr").stat().st_mtime  # SCR_Init writes it first
    files = [path for path in tmp_path.glob("node*/*/*/scr.dataset.1/**/*") if path.is_file()]
    assert len(files) > 4
    assert max(path.stat().st_mtime for path in files) < began_s


def test_the_number_of_axls_threads_follows_the_decision(libscr: RealScr, tmp_path: Path) -> None:
    preload = libscrtune_path()
    if preload is None:
        pytest.skip(WHY_NOT)
    slow = {"SCR_FILE_BUF_SIZE": 64, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH": 1}
    outputs = [
        {**output("one", 1 * MIB, 1, **slow, SCRTUNE_FLUSH_THREADS=1), "files": 8},
        {**output("five", 1 * MIB, 2, **slow, SCRTUNE_FLUSH_THREADS=5), "files": 8},
    ]
    seen, _ = run(libscr, tmp_path, {"outputs": outputs}, SCR_FLUSH_TYPE="PTHREAD", LD_PRELOAD=str(preload))
    for rank in seen:
        assert rank["capabilities"]["SCRTUNE_FLUSH_THREADS"][0] == "live"
        assert [len(each["thread_cpus"]) for each in rank["outputs"]] == [1, 5]


def test_flush_threads_are_started_where_the_decision_says(libscr: RealScr, tmp_path: Path) -> None:
    own = sorted(os.sched_getaffinity(0))
    if len(own) == 1:
        pytest.skip("on one CPU there is no choice")
    outputs = [
        output("a", 10, 1, SCRTUNE_FLUSH_CPUS=str(own[-1])),
        output("b", 10, 2, SCRTUNE_FLUSH_CPUS="8000"),
        output("c", 10, 3, SCRTUNE_FLUSH_CPUS=""),
    ]
    seen, _ = run(libscr, tmp_path, {"outputs": outputs}, ranks=2)
    for rank in seen:
        around = [each["cpus"] for each in rank["outputs"]]
        assert around == [[own, own[-1:], own], [own, own, own], [own, own, own]]


@pytest.mark.parametrize("preload", [None, libscrtune_path()], ids=["alone", "preloaded"])
def test_axls_threads_run_where_the_decision_says(
    libscr: RealScr, tmp_path: Path, preload: Path | None
) -> None:
    own = sorted(os.sched_getaffinity(0))
    if len(own) == 1:
        pytest.skip("on one CPU there is no choice")
    below = {"LD_PRELOAD": str(preload)} if preload else {}
    slow = {"SCR_FILE_BUF_SIZE": 4096, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH": 1}
    outputs = [output(f"o{n}", 8 * MIB, n, **slow, SCRTUNE_FLUSH_CPUS=str(own[n % 2])) for n in range(1, 4)]
    seen, _ = run(libscr, tmp_path, {"outputs": outputs}, SCR_FLUSH_TYPE="PTHREAD", **below)
    started = [[each["thread_cpus"] for each in rank["outputs"]] for rank in seen]
    assert any(cpus for rank in started for cpus in rank), "or none was seen"
    for rank in started:
        for n, threads in enumerate(rank, start=1):
            assert all(cpus == [own[n % 2]] for cpus in threads)
    if preload:  # nothing but AXL's threads runs there
        assert {tuple(each["cpus"][1]) for rank in seen for each in rank["outputs"]} == {tuple(own)}
    assert_whole(tmp_path, outputs, 2)


def test_random_changes_lose_nothing(libscr: RealScr, tmp_path: Path) -> None:
    draw = random.Random(1)
    choices = {
        "SCR_FLUSH": [1],
        "SCR_FLUSH_ASYNC": [0, 1],
        "SCR_FILE_BUF_SIZE": [4096, 65536, MIB],
        "SCR_MPI_BUF_SIZE": [4096, MIB],
        "SCR_CHECKPOINT_INTERVAL": [0, 5],
        "SCR_FLUSH_TYPE": ["SYNC", "PTHREAD"],
        "SCR_CACHE_SIZE": [1, 2, 3],
        "SCR_CACHE_BYPASS": [0, 0, 0, 1],
    }
    outputs = [
        output(
            f"o{n}", draw.randrange(1, MIB), n, **{name: draw.choice(some) for name, some in choices.items()}
        )
        for n in range(1, 31)
    ]
    seen, _ = run(libscr, tmp_path, {"outputs": outputs}, ranks=3)
    assert {word for rank in how(seen) for word in rank} <= {"live", "re-init"}
    assert all(each["valid"] for rank in seen for each in rank["outputs"])
    assert flushed(tmp_path) == set(range(1, 31))
    assert_whole(tmp_path, outputs, 3)
