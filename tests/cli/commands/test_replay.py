"""`scrtune replay`."""

import tarfile
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from scrtune.cli.views.replay import ReplayView

from ...replay.test_run import write_job

Scrtune = Callable[..., Result]
TRACES = Path(__file__).parents[2] / "data" / "traces"


def test_replay_prints_what_traces_recommend(scrtune: Scrtune) -> None:
    traces = TRACES / "gen4-broken-strings"
    shown = scrtune("replay", traces, "--cores", 4, "--format", "json")
    replayed = msgspec.json.decode(shown.stdout, type=ReplayView)
    assert (replayed.files, replayed.checkpoints, replayed.counters.dropped) == (1, 1, {"broken json": 2})
    table = " ".join(scrtune("replay", traces, "--cores", 4).stdout.split())
    assert "dropped 2 lines: 2 broken json" in table


def test_replay_takes_the_config_in_any_encoding(scrtune: Scrtune, tmp_path: Path) -> None:
    conf = tmp_path / "scr.conf"
    conf.write_bytes(b"SCR_GROUP=n\xe4\nSCR_COPY_TYPE=PARTNER\n")
    shown = scrtune("replay", TRACES / "gen4-preload", "--conf", conf)
    assert shown.exit_code == 0
    assert "PARTNER" in shown.stdout


def test_replay_says_what_is_wrong_in_both_config_files(scrtune: Scrtune, tmp_path: Path) -> None:
    user, system = tmp_path / "user.conf", tmp_path / "system.conf"
    user.write_text("SCR_FLUSH=ten\nSCR_CACHE_BASE=$SSD/cache\n")
    system.write_text("SCR_COPY_TYPE=PARTNER\nSCR_FLUHS=1\x1b[2J\n")
    shown = scrtune("replay", TRACES / "gen4-preload", "--conf", user, "--system-conf", system)
    assert shown.exit_code == 0
    assert "PARTNER" in shown.stdout
    told = shown.stderr.splitlines()
    assert [line.partition(" error: ")[0].partition(" warning: ")[0] for line in told] == [
        f"scrtune: {user}: line 2, column 16:",
        f"scrtune: {system}: line 2, column 1:",
        f"scrtune: {user}: line 1, column 11:",
    ]
    assert "the job's environment is not known here: this value is left out" in told[0]


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["/nowhere"], 1, "scrtune: /nowhere: not there; name .pfw or .pfw.gz files"),
        ([], 2, "Missing argument 'TRACE...'"),
        (["x", "--cores", "-1"], 2, "-1 is not in the range x>=0"),
        (["x", "--conf", "/nowhere"], 2, "File '/nowhere' does not exist"),
        (["x", "--system-conf", "/nowhere"], 2, "File '/nowhere' does not exist"),
        (["x", "--redundancy-floor", "leaning"], 2, "'leaning' is not one of"),
    ],
)
def test_what_replay_cannot_do_is_said(scrtune: Scrtune, arguments: list[str], code: int, text: str) -> None:
    ran = scrtune("replay", *arguments)
    assert (ran.exit_code, ran.stdout) == (code, "")
    assert text in ran.stderr


def test_replay_shows_what_is_merged_into_one_job(scrtune: Scrtune, tmp_path: Path) -> None:
    one, two = write_job(tmp_path / "one.pfw"), tmp_path / "two.pfw"
    two.write_text(one.read_text().replace('"ts": 17952', '"ts": 17953'))
    table = " ".join(scrtune("replay", one, two).stdout.split())
    assert "one.pfw: 1 file, from 0.00 to 4." in table
    assert "read as one job, though they do not overlap; scrtune study" in table
    alone = " ".join(scrtune("replay", one).stdout.split())
    assert "merged" not in alone


def test_replay_prints_the_environment_of_a_job_script(scrtune: Scrtune, tmp_path: Path) -> None:
    trace = write_job(tmp_path / "a.pfw", slower=10)
    shape = ("--prefix", "/prefix", "--cores", 8, "--redundancy-floor", "PROCESS")
    shown = scrtune("replay", trace, *shape, "--format", "sh")
    assert "export SCR_CACHE_BYPASS=0\n" in shown.stdout
    assert "SCR_CACHE_BYPASS=0" in scrtune("replay", trace, *shape, "--format", "conf").stdout
    nothing = scrtune("replay", write_job(tmp_path / "b.pfw"), "--format", "sh")
    assert (nothing.exit_code, nothing.stdout) == (0, "")
    assert "nothing to recommend" in nothing.stderr


@pytest.mark.parametrize("generation", sorted(path.name for path in TRACES.glob("gen*")))
def test_replay_says_of_an_archive_what_it_says_of_the_files_in_it(
    scrtune: Scrtune, tmp_path: Path, generation: str
) -> None:
    with tarfile.open(tmp_path / "a.tar.gz", "w:gz") as archive:
        archive.add(TRACES / generation, "logs")
    tiers = ("--prefix", "/scratch/study/data", "--cache", "/scratch/study/cache", "--format", "json")
    found, expected = (
        msgspec.json.decode(scrtune("replay", path, *tiers).stdout, type=ReplayView)
        for path in (tmp_path / "a.tar.gz", TRACES / generation)
    )
    # empty files are none in an archive, and no digest spans two of its traces
    counters = msgspec.structs.replace(found.counters, events=expected.counters.events)
    assert msgspec.structs.replace(found, files=expected.files, counters=counters) == expected


def test_replay_says_for_each_intent_what_follows_or_why_nothing(scrtune: Scrtune, tmp_path: Path) -> None:
    trace = write_job(tmp_path / "a.pfw", slower=10)
    shape = ("--prefix", "/prefix", "--redundancy-floor", "PROCESS")
    shown = scrtune("replay", trace, *shape, "--cores", 8, "--format", "json").stdout
    view = msgspec.json.decode(shown, type=ReplayView)
    assert {each.intent for each in view.answers} == {each.name for each in view.intents}
    assert all(bool(each.recommended) != bool(each.why) for each in view.answers)
    flush = next(each for each in view.answers if each.intent == "flush")
    assert flush.recommended["SCR_CACHE_BYPASS"] == 0
    table = " ".join(scrtune("replay", trace, *shape).stdout.split())
    assert "core affinity - a trace does not say how many cores a node has: --cores does" in table


def test_replay_says_why_there_is_nothing_for_a_job_script(scrtune: Scrtune, tmp_path: Path) -> None:
    shown = scrtune("replay", write_job(tmp_path / "b.pfw"), "--format", "slurm")
    assert shown.stdout == ""
    assert "nothing to recommend: " in shown.stderr
    assert "nothing to recommend: the table" not in shown.stderr
