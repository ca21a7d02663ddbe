"""The config file is the user's, too: what they write there while a job runs wins and is explained."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.daemon.settings.managed_config import ManagedConfig
from scrtune.goodput.events import JobStarted
from scrtune.intents.effects import Advice, RewriteConfig, Tell
from scrtune.intents.events import Event, SettingsObserved, UserEdited, Values, ValueSource
from scrtune.intents.pipeline import Pipeline
from scrtune.scr_config.parse import parse

from ...intents.test_pipeline import CACHED, Job, replayed, state

WaitUntil = Callable[[Callable[[], object]], None]
NOW = 1795262400.0
SETTINGS: Values = {"SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 4, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD"}
ADVICE = Advice(generation=3, settings=SETTINGS, reason="a test")
OWN = "SCR_GROUP=NODE\nSCR_LOG_DB_PASS=hunter2\nSCR_CLUSTER_NAME=$CLUSTER\nSCR_FUTURE=3\nSTORE=/ssd COUNT=2\n"


# --- what the pipeline makes of an edit


def forced(job: Job) -> Values:
    return {name: job.pipeline.advice.settings.get(name) for name in job.pipeline.advice.settings}


def tuned() -> Job:
    """A job for which the asynchronous flush has won."""
    job = Job(CACHED).checkpoints(8)
    assert job.pipeline.advice.settings["SCR_FLUSH_ASYNC"] == 1
    return job


def test_what_the_user_writes_is_never_changed_again_whatever_it_costs() -> None:
    job = tuned()
    job.tell(UserEdited(changes={"SCR_FLUSH_ASYNC": 0}))
    for _ in range(60):
        job.checkpoint()
        assert job.pipeline.advice.settings["SCR_FLUSH_ASYNC"] == 0
    lever = next(each for each in job.pipeline.levers() if each.name == "SCR_FLUSH_ASYNC")
    assert lever.why == "SCR_FLUSH_ASYNC: you gave it in the config file while the job ran, which wins"


def test_it_is_the_new_baseline_and_the_log_says_why() -> None:
    job = tuned()
    generation = job.pipeline.advice.generation
    job.tell(UserEdited(changes={"SCR_FLUSH": 7}))
    pipeline = job.pipeline
    assert pipeline.tuner is not None
    assert pipeline.job is not None
    assert pipeline.tuner.baseline["SCR_FLUSH"] == pipeline.settings["SCR_FLUSH"] == 7
    assert pipeline.job.sources["SCR_FLUSH"] == ValueSource.EDITED
    assert pipeline.advice.generation == generation + 1
    assert pipeline.advice.settings["SCR_FLUSH"] == 7
    edit = pipeline.decisions[-1]
    assert (edit.rule, edit.changes, edit.previous) == (
        "your edit of the config file",
        {"SCR_FLUSH": 7},
        {"SCR_FLUSH": 1},
    )
    assert [type(effect) for effect in job.effects[-2:]] == [RewriteConfig, Tell]


def test_what_had_won_wins_again_under_the_edited_settings() -> None:
    job = tuned()
    job.tell(UserEdited(changes={"SCR_SET_SIZE": 4}))
    assert job.pipeline.advice.settings["SCR_FLUSH_ASYNC"] == 0, "the baseline comes first"
    job.checkpoints(12)
    assert job.words == ["trial", "accepted", "required", "trial", "accepted"]
    assert job.pipeline.advice.settings["SCR_FLUSH_ASYNC"] == 1
    assert job.pipeline.advice.settings["SCR_SET_SIZE"] == 4


def test_an_edit_within_a_trial_ends_it() -> None:
    job = Job(CACHED).until("trial")
    assert job.words == ["trial"]
    job.tell(UserEdited(changes={"SCR_FLUSH": 2}))
    assert [verdict for _, verdict in job.verdicts] == ["trial", "reverted", "required"]
    assert job.pipeline.settings == {**Job(CACHED).pipeline.settings, "SCR_FLUSH": 2}


def test_a_line_that_the_user_deletes_means_scr_s_default_and_stays_so() -> None:
    job = tuned()
    job.tell(UserEdited(removed=("SCR_FLUSH_ASYNC", "SCR_FLUSH", "SCR_PREFIX")))
    job.checkpoints(30)
    assert job.pipeline.advice.settings["SCR_FLUSH_ASYNC"] == 0
    assert job.pipeline.advice.settings["SCR_FLUSH"] == 10


@pytest.mark.parametrize(("declared", "edited"), [("XOR", "SINGLE"), ("SINGLE", "PARTNER"), ("", "PARTNER")])
def test_a_scheme_that_the_user_writes_is_their_floor_too(declared: str, edited: str) -> None:
    job = Job(CACHED, nodes=4, floor=declared).checkpoints(6)
    job.tell(UserEdited(changes={"SCR_COPY_TYPE": edited}))
    job.checkpoints(30)
    assert job.pipeline.intents.redundancy.floor == edited
    assert job.pipeline.advice.settings["SCR_COPY_TYPE"] == edited
    job.start(forced(job))
    job.checkpoints(6)
    assert job.pipeline.advice.settings["SCR_COPY_TYPE"] == edited, "in the next run as well"


def test_a_floor_that_the_edit_does_not_touch_is_kept() -> None:
    job = Job(CACHED, nodes=4, floor="XOR")
    job.tell(UserEdited(changes={"SCR_FLUSH": 3}))
    assert job.pipeline.advice.settings["SCR_COPY_TYPE"] == "XOR"


@pytest.mark.parametrize("reads_our_file", [True, False])
def test_the_next_run_keeps_it(reads_our_file: bool) -> None:
    job = tuned()
    job.tell(UserEdited(changes={"SCR_FLUSH_ASYNC": 0, "SCR_FLUSH": 3}))
    job.checkpoints(3)
    job.start(forced(job) if reads_our_file else CACHED)
    job.checkpoints(30)
    assert job.pipeline.advice.settings["SCR_FLUSH_ASYNC"] == 0
    assert job.pipeline.advice.settings["SCR_FLUSH"] == 3


def test_what_the_environment_sets_or_what_is_no_value_is_refused_once_and_told() -> None:
    job = Job(CACHED)
    job.start(sources={"SCR_FLUSH": "environment"})
    advice, before = job.pipeline.advice, len(job.pipeline.decisions)
    for _ in range(2):
        job.tell(UserEdited(changes={"SCR_FLUSH": 9}, refused=("SCR_SET_SIZE: 'ten' is not a number",)))
    assert job.pipeline.advice.settings == advice.settings
    assert [each.because for each in job.pipeline.decisions][before:] == [
        "SCR_SET_SIZE: 'ten' is not a number",
        "SCR_FLUSH: your environment sets it, which wins (scrtune run --override allows it)",
    ]
    assert [effect for effect in job.effects if isinstance(effect, RewriteConfig)][-1].advice == advice


def test_with_override_the_edit_wins_over_the_environment_and_override_does_not_win_over_the_edit() -> None:
    job = Job(CACHED, override=True)
    job.start(sources={"SCR_FLUSH_ASYNC": "environment"})
    job.tell(UserEdited(changes={"SCR_FLUSH_ASYNC": 0}))
    job.checkpoints(20)
    assert job.pipeline.advice.settings["SCR_FLUSH_ASYNC"] == 0


def test_before_the_job_has_said_what_it_runs_under_there_is_nothing_to_do() -> None:
    assert Pipeline().handle(UserEdited(changes={"SCR_FLUSH": 1}), NOW) == []


@pytest.mark.parametrize("codec", [msgspec.msgpack, msgspec.json])
def test_edits_go_through_the_journal_and_are_replayed_with_the_same_decisions(codec: Any) -> None:
    job = Job(CACHED, noise=0.2).checkpoints(6)
    job.tell(UserEdited(changes={"SCR_FLUSH": 2}, removed=("SCR_SET_SIZE",)))
    job.checkpoints(10)
    job.tell(UserEdited(changes={"SCR_COPY_TYPE": "PARTNER"}, refused=("SCR_DEBUG: 'x' is not 0 or 1",)))
    job.checkpoints(10)
    again, effects = replayed([(now, codec.decode(codec.encode(e), type=Event)) for now, e in job.journal])
    assert effects == job.effects
    assert state(again, job.now) == state(job.pipeline, job.now)


# --- what is an edit


def kept(tmp_path: Path, own: str | None = OWN) -> ManagedConfig:
    """The file as scrtune has written it last."""
    user_conf = None
    if own is not None:
        user_conf = tmp_path / "own.conf"
        user_conf.write_text(own)
    file = ManagedConfig(tmp_path / "scr.conf", user_conf)
    assert file.write(ADVICE, NOW)
    return file


def edit(file: ManagedConfig, old: str, new: str) -> None:
    text = file.path.read_text()
    assert old in text
    file.path.write_text(text.replace(old, new))


def noticed(file: ManagedConfig) -> UserEdited | None:
    """At the second look: at the first one it may be half written."""
    assert file.edited() is None
    return file.edited()


def values(path: Path) -> dict[str, str]:
    return {name: pair.value for name, pair in parse(path.read_text(), {"CLUSTER": "c"}).values.items()}


def test_values_that_differ_and_lines_that_are_gone_are_what_the_user_said(tmp_path: Path) -> None:
    file = kept(tmp_path)
    edit(file, "SCR_FLUSH=4\n", "scr_flush = 9  # more rarely\n")
    edit(file, "SCR_FLUSH_ASYNC=1\n", "SCR_FILE_BUF_SIZE=4MB\n")
    edit(file, "SCR_GROUP=NODE", "SCR_GROUP=WORLD")
    assert noticed(file) == UserEdited(
        changes={"SCR_FILE_BUF_SIZE": 4 * 1024**2, "SCR_FLUSH": 9, "SCR_GROUP": "WORLD"},
        removed=("SCR_FLUSH_ASYNC",),
    )
    assert noticed(file) is None, "an edit is told once"


def test_an_edit_is_not_overwritten_before_it_is_told(tmp_path: Path) -> None:
    file = kept(tmp_path)
    edit(file, "SCR_FLUSH=4", "SCR_FLUSH=9")
    text = file.path.read_text()
    assert not file.write(Advice(generation=4, settings=SETTINGS), NOW)
    assert file.path.read_text() == text
    assert noticed(file) == UserEdited(changes={"SCR_FLUSH": 9})
    assert file.write(Advice(generation=5, settings={**SETTINGS, "SCR_FLUSH": 9}), NOW)
    assert values(file.path)["SCR_FLUSH"] == "9"
    assert noticed(file) is None


def test_a_file_that_is_being_written_is_looked_at_again(tmp_path: Path) -> None:
    file = kept(tmp_path)
    whole = file.path.read_text().replace("SCR_FLUSH=4", "SCR_FLUSH=9")
    for end in (len(whole) // 2, len(whole) - 30, len(whole)):
        file.path.write_text(whole[:end])
        assert file.edited() is None
    assert file.edited() == UserEdited(changes={"SCR_FLUSH": 9})


@pytest.mark.parametrize("gone", ["", " \n", None])
def test_a_file_that_is_empty_or_gone_is_written_anew(tmp_path: Path, gone: str | None) -> None:
    file = kept(tmp_path)
    text = file.path.read_text()
    file.path.unlink()
    if gone is not None:
        file.path.write_text(gone)
    assert file.edited() is file.edited() is None
    assert file.write(ADVICE, NOW)
    assert file.path.read_text() == text


def test_an_editor_that_was_open_for_a_while_changes_only_what_it_changed(tmp_path: Path) -> None:
    file = kept(tmp_path)
    opened = file.path.read_text()
    assert file.write(Advice(generation=4, settings={**SETTINGS, "SCR_FLUSH": 5, "SCR_SET_SIZE": 4}), NOW)
    file.path.write_text(opened.replace("SCR_FLUSH_ASYNC=1", "SCR_FLUSH_ASYNC=0"))
    assert noticed(file) == UserEdited(changes={"SCR_FLUSH_ASYNC": 0})


def test_a_second_line_for_a_parameter_is_what_the_user_means(tmp_path: Path) -> None:
    file = kept(tmp_path)
    with file.path.open("a") as text:
        text.write("SCR_FLUSH=9\n")
    assert noticed(file) == UserEdited(changes={"SCR_FLUSH": 9})


@pytest.mark.parametrize(
    "line", ["SCR_FLUSH=ten", "SCR_FLUSH=-5000000000", "SCR_FLUSH", "SCR_FLUSH=$NOT_SET"]
)
def test_what_is_no_value_is_refused_and_the_value_before_stands(tmp_path: Path, line: str) -> None:
    file = kept(tmp_path)
    edit(file, "SCR_FLUSH=4", line)
    told = noticed(file)
    assert told is not None
    assert (told.changes, told.removed) == ({}, ())
    assert len(told.refused) == 1
    assert told.refused[0].startswith("SCR_FLUSH: ")
    assert told.refused[0].endswith("; the value before stands")
    assert file.write(ADVICE, NOW)
    assert values(file.path)["SCR_FLUSH"] == "4"


def test_a_line_that_scr_cannot_read_is_told_and_mended_at_once_but_what_it_says_is_not(
    tmp_path: Path,
) -> None:
    file = kept(tmp_path)
    edit(file, "SCR_LOG_DB_PASS=hunter2", "SCR_LOG_DB_PASS=hunter two")
    told = noticed(file)
    number = file.path.read_text().splitlines().index("SCR_LOG_DB_PASS=hunter two") + 1
    assert told == UserEdited(
        refused=(f"line {number}: SCR cannot read it (no-equals); it becomes a comment",)
    )
    assert file.write(ADVICE, NOW)
    assert [one.code for one in parse(file.path.read_text(), {"CLUSTER": "c"}).problems] == ["unknown-name"]


def test_lines_that_are_not_tuned_are_kept_as_written_and_the_password_stays_where_it_is(
    tmp_path: Path,
) -> None:
    file = kept(tmp_path)
    edit(file, "SCR_FUTURE=3", "SCR_FUTURE=4")
    edit(file, "STORE=/ssd COUNT=2", "STORE=$SSD COUNT=3\nCKPT=0 INTERVAL=1 TYPE=XOR")
    edit(file, "hunter2", "hunter3")
    assert noticed(file) is None
    for generation in (4, 5):
        assert file.write(Advice(generation=generation, settings=SETTINGS), NOW)
        text = file.path.read_text()
        assert "STORE=$SSD COUNT=3\nCKPT=0 INTERVAL=1 TYPE=XOR\n" in text
        for line in ("SCR_FUTURE=4", "SCR_LOG_DB_PASS=hunter3", "SCR_CLUSTER_NAME=$CLUSTER"):
            assert f"{line}\n" in text
    later = ManagedConfig(file.path, tmp_path / "own.conf")
    later.recall(Advice(generation=5, settings=SETTINGS))
    assert later.write(Advice(generation=6, settings=SETTINGS), NOW)
    assert file.path.read_text().partition("sha256")[2] == text.partition("sha256")[2]


def below(file: ManagedConfig) -> str:
    """The text below the header."""
    return file.path.read_text().partition("sha256: ")[2].partition("\n")[2]


COMMENTED = """\
# The project's settings.

STORE=/ssd COUNT=2 # fast
SCR_FLUSH = 1   # seldom

# the end
"""


def restarted(file: ManagedConfig, advice: Advice) -> ManagedConfig:
    later = ManagedConfig(file.path, file.path.with_name("own.conf"))
    later.recall(advice)
    return later


@pytest.mark.parametrize("restarts", [False, True])
def test_comments_and_order_stay_through_rewrites_edits_and_restarts(tmp_path: Path, restarts: bool) -> None:
    file = kept(tmp_path, COMMENTED)
    added = "\n# Added by scrtune:\nSCR_CACHE_BYPASS=0\nSCR_FLUSH_ASYNC=1\nSCR_FLUSH_TYPE=PTHREAD\n"
    assert below(file) == COMMENTED.replace("= 1", "= 4") + added
    if restarts:
        file = restarted(file, ADVICE)
    edit(file, "# the end\n", "# nearly the end\nSCR_FUTURE=3 # new\n")
    edit(file, "SCR_FLUSH_TYPE=PTHREAD\n", "SCR_FLUSH_TYPE=PTHREAD # good\n# a last word\n")
    edit(file, "# Written by", "# On top.\n# Written by")
    mine = below(file)
    assert noticed(file) is None, "no setting was changed"
    for generation in (4, 5):
        advice = Advice(generation=generation, settings={**SETTINGS, "SCR_FLUSH": 6})
        assert file.write(advice, NOW)
        assert below(file) == mine.replace("SCR_FLUSH = 4", "SCR_FLUSH = 6")
        assert file.path.read_text().startswith("# On top.\n# Written by scrtune at ")
        if restarts:
            file = restarted(file, advice)
    assert file.write(Advice(generation=6), NOW)
    assert below(file) == (
        COMMENTED.replace("# the end\n", "# nearly the end\nSCR_FUTURE=3 # new\n")
        + "\n# Added by scrtune:\n# good\n# a last word\n"
    )


def their_comments(file: ManagedConfig) -> list[str]:
    ours = ("# Written by scrtune", "# Edit what you like", "# scrtune-", "# Added by scrtune:")
    lines = file.path.read_text().splitlines()
    return [line for line in lines if line.startswith("#") and not line.startswith(ours)]


@given(
    steps=st.lists(
        st.tuples(
            st.sampled_from(["# a", "# b", "SCR_FUTURE=1", "STORE=/x COUNT=1", "SCR_FLUSH=2"]),
            st.integers(0, 30),
            st.booleans(),
            st.sets(st.sampled_from(["SCR_FLUSH", "SCR_FLUSH_ASYNC", "SCR_FETCH"])),
        ),
        max_size=8,
    )
)
def test_whoever_writes_whatever_wherever_no_comment_is_lost_or_moved(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, bool, set[str]]]
) -> None:
    file = kept(tmp_path_factory.getbasetemp(), COMMENTED)
    advice = ADVICE
    for generation, (line, where, restarts, advised) in enumerate(steps):
        if restarts:
            file = restarted(file, advice)
        lines = file.path.read_text().splitlines()
        lines[where:where] = ["# so:", line]
        file.path.write_text("\n".join(lines) + "\n")
        before = their_comments(file)
        noticed(file)
        advice = Advice(generation=generation, settings=dict.fromkeys(advised, 1))
        assert file.write(advice, NOW)
        left = iter(their_comments(file))
        assert all(comment in left for comment in before)
        assert values(file.path).items() >= dict.fromkeys(advised, "1").items()
    file.path.unlink()


def test_what_is_advised_no_longer_goes_after_a_restart_too(tmp_path: Path) -> None:
    file = restarted(kept(tmp_path, COMMENTED), ADVICE)
    assert file.write(Advice(generation=4), NOW)
    assert below(file) == COMMENTED


def test_what_the_user_wrote_stays_when_advice_has_no_word_on_it(tmp_path: Path) -> None:
    file = kept(tmp_path, COMMENTED)
    edit(file, "SCR_FLUSH = 4   # seldom", "SCR_FLUSH = 9   # at last")
    assert noticed(file) == UserEdited(changes={"SCR_FLUSH": 9})
    assert file.write(Advice(generation=4), NOW)
    assert below(file) == COMMENTED.replace("1   # seldom", "9   # at last")


def test_a_refused_value_of_a_line_of_the_users_is_theirs_from_before(tmp_path: Path) -> None:
    file = kept(tmp_path, "# mine\nSCR_DEBUG=1 # loud\n")
    edit(file, "SCR_DEBUG=1", "SCR_DEBUG=very")
    told = noticed(file)
    assert told is not None
    assert [why.partition(":")[0] for why in told.refused] == ["SCR_DEBUG"]
    assert file.write(Advice(generation=4), NOW)
    assert below(file) == "# mine\nSCR_DEBUG=1 # loud\n"


def test_a_new_line_that_is_no_value_becomes_a_comment_that_says_why(tmp_path: Path) -> None:
    file = kept(tmp_path, COMMENTED)
    edit(file, "# the end\n", "# the end\nSCR_DEBUG=ja # bitte\n")
    told = noticed(file)
    assert told is not None
    assert [why.partition(":")[0] for why in told.refused] == ["SCR_DEBUG"]
    assert file.write(Advice(generation=4), NOW)
    because = "'ja' is not a whole number from -2147483648 to 2147483647"
    why = f"# scrtune took this out ({because}): SCR_DEBUG=ja # bitte\n"
    assert below(file) == COMMENTED.replace("# the end\n", "# the end\n" + why)


def test_a_value_above_the_header_is_an_edit_like_any_other(tmp_path: Path) -> None:
    file = kept(tmp_path, COMMENTED)
    edit(file, "# Written by", "# On top.\nSCR_DEBUG=1\n# Written by")
    assert noticed(file) == UserEdited(changes={"SCR_DEBUG": 1})
    assert file.write(Advice(generation=4), NOW)
    assert below(file) == "# On top.\nSCR_DEBUG=1\n" + COMMENTED
    assert file.path.read_text().startswith("# Written by")


def test_a_file_that_scrtune_once_kept_can_be_where_the_user_begins(tmp_path: Path) -> None:
    before = kept(tmp_path, COMMENTED)
    edit(before, "# Written by", "# On top.\n# Written by")
    begun_with = before.path.read_text()
    (tmp_path / "next").mkdir()
    file = kept(tmp_path / "next", begun_with)
    assert below(file) == below(before)
    assert file.path.read_text().startswith("# On top.\n# Written by")
    assert file.path.read_text().count("Written by scrtune") == 1


def test_without_its_header_the_file_is_the_users_text_all_the_same(tmp_path: Path) -> None:
    file = kept(tmp_path, COMMENTED)
    mine = below(file)
    edit(file, "# scrtune-sha256: ", "# some digest: ")
    assert noticed(file) is None
    assert file.write(ADVICE, NOW)
    assert re.fullmatch("# some digest: [0-9a-f]+\n" + re.escape(mine), below(file))


def test_the_users_own_file_can_be_the_one_that_is_kept(tmp_path: Path) -> None:
    own = tmp_path / "own.conf"
    own.write_text(OWN)
    (tmp_path / "scr.conf").symlink_to(own)
    file = ManagedConfig(tmp_path / "scr.conf", own)
    assert file.write(ADVICE, NOW)
    assert (tmp_path / "own.conf.scrtune-backup").read_text() == OWN
    edit(file, "SCR_FLUSH=4", "SCR_FLUSH=9")
    assert noticed(file) == UserEdited(changes={"SCR_FLUSH": 9})


def test_a_run_that_lays_the_users_own_file_out_again_has_edited_nothing(tmp_path: Path) -> None:
    file = kept(tmp_path)
    file.path.write_text(OWN)
    assert noticed(file) is None
    assert file.write(ADVICE, NOW)


def test_an_edit_while_no_daemon_ran_is_noticed_by_the_next_one(tmp_path: Path) -> None:
    edit(kept(tmp_path), "SCR_FLUSH=4", "SCR_FLUSH=9")
    later = ManagedConfig(tmp_path / "scr.conf", tmp_path / "own.conf")
    later.recall(ADVICE)
    assert not later.write(ADVICE, NOW)
    assert noticed(later) == UserEdited(changes={"SCR_FLUSH": 9})


@given(
    changes=st.fixed_dictionaries(
        {},
        optional={
            "SCR_FLUSH": st.integers(0, 1000),
            "SCR_FLUSH_ASYNC": st.integers(0, 1),
            "SCR_COPY_TYPE": st.sampled_from(["SINGLE", "XOR", "PARTNER", "RS"]),
            "SCR_FILE_BUF_SIZE": st.integers(1, 2**31),
            "SCR_CACHE_BASE": st.from_regex(r"/[a-z/]{0,20}", fullmatch=True),
        },
    ),
    deleted=st.sets(st.sampled_from(sorted(SETTINGS))),
)
def test_whatever_is_edited_is_told_exactly(
    tmp_path_factory: pytest.TempPathFactory, changes: Values, deleted: set[str]
) -> None:
    file = kept(tmp_path_factory.getbasetemp(), own=None)
    wanted = {**SETTINGS, **changes}
    left = {name: value for name, value in wanted.items() if name not in deleted}
    comments = file.path.read_text().splitlines()[:3]
    lines = [*comments, *(f"{name}={value}" for name, value in sorted(left.items()))]
    file.path.write_text("\n".join(lines) + "\n")
    told = noticed(file) or UserEdited()
    assert told.changes == {name: value for name, value in left.items() if SETTINGS.get(name) != value}
    assert set(told.removed) == SETTINGS.keys() - left.keys()
    assert file.write(ADVICE, NOW), "what was told may be rewritten"
    file.path.unlink()


# --- the user's own file, over several jobs

THEIRS = "SCR_FLUSH = 10   # seldom\nSCR_SET_SIZE=4\n"
WON: Values = {"SCR_FLUSH": 2, "SCR_FLUSH_ASYNC": 1}


def theirs(tmp_path: Path, text: str = THEIRS) -> ManagedConfig:
    """Their own file, named as the one to keep."""
    (tmp_path / "scr.conf").write_text(text)
    return ManagedConfig(tmp_path / "scr.conf", tmp_path / "scr.conf")


def test_what_the_environment_says_and_what_is_only_tried_do_not_go_into_the_file(tmp_path: Path) -> None:
    file = theirs(tmp_path)
    around: Values = {"SCR_PREFIX": "/pfs/j", "SCR_CACHE_BASE": "/ssd", "SCR_JOB_ID": "7", "SCR_FLUSH": 10}
    tried = {"SCR_FLUSH_TYPE": "PTHREAD"}
    advice = Advice(generation=1, settings={**around, **WON, **tried}, at_launch={}, kept=WON)
    assert file.write(advice, NOW)
    assert below(file) == THEIRS.replace("10", "2") + "\n# Added by scrtune:\nSCR_FLUSH_ASYNC=1\n"
    assert file.write(Advice(generation=2, settings=around, kept={}), NOW)
    assert below(file) == THEIRS


def test_settings_on_which_scr_fails_are_not_tried_either(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="SCR_FLUSH_POSTSTAGE"):
        theirs(tmp_path).write(
            Advice(settings={"SCR_FLUSH_POSTSTAGE": 1, "SCR_FLUSH_ASYNC": 1}, kept={}), NOW
        )


@pytest.mark.parametrize("crashed", [False, True])
def test_their_own_value_comes_back_after_a_restart_too(tmp_path: Path, crashed: bool) -> None:
    file = theirs(tmp_path)
    advice = Advice(generation=1, settings=WON, kept=WON)
    assert file.write(advice, NOW)
    if crashed:
        file = ManagedConfig(file.path, file.path)
        file.recall(advice)
    assert file.write(Advice(generation=2, settings=WON, kept={}), NOW)
    assert below(file) == THEIRS


def observed(**found: int | str) -> SettingsObserved:
    return SettingsObserved(settings=dict(found), sources=dict.fromkeys(found, "user config"))


def test_the_next_job_takes_what_was_tuned_for_advice_and_what_the_user_wrote_since_for_theirs(
    tmp_path: Path,
) -> None:
    assert theirs(tmp_path).write(Advice(generation=1, settings=WON, kept={**WON, "SCR_FETCH": 0}), NOW)
    conf = tmp_path / "scr.conf"
    conf.write_text(conf.read_text().replace("SCR_FETCH=0", "SCR_FETCH=1") + "SCR_DEBUG=1\n")
    later = ManagedConfig(conf, conf)
    told = later.without_earlier_advice(observed(SCR_FLUSH=2, SCR_FLUSH_ASYNC=1, SCR_FETCH=1, SCR_SET_SIZE=4))
    assert told.advised == WON
    assert told.settings == {"SCR_FLUSH": 10, "SCR_FLUSH_ASYNC": 0, "SCR_FETCH": 1, "SCR_SET_SIZE": 4}
    assert {name: told.sources[name] for name in WON} == {
        "SCR_FLUSH": "user config",
        "SCR_FLUSH_ASYNC": "default",
    }
    assert later.write(Advice(generation=1, settings=told.settings, kept={}), NOW)
    assert below(later) == THEIRS + "\n# Added by scrtune:\nSCR_FETCH=1\nSCR_DEBUG=1\n"


def test_what_is_not_read_from_the_file_is_not_what_was_tuned(tmp_path: Path) -> None:
    assert theirs(tmp_path).write(Advice(generation=1, settings=WON, kept=WON), NOW)
    later = ManagedConfig(tmp_path / "scr.conf", tmp_path / "scr.conf")
    job = SettingsObserved(
        settings={"SCR_FLUSH": 2, "SCR_FLUSH_ASYNC": 1},
        sources={"SCR_FLUSH": "environment", "SCR_FLUSH_ASYNC": "SCR_Config"},
    )
    assert later.without_earlier_advice(job) == job
    assert later.without_earlier_advice(observed(SCR_FLUSH=3, SCR_SET_SIZE=4)).advised == {}


def test_without_the_header_all_of_it_is_the_users(tmp_path: Path) -> None:
    assert theirs(tmp_path).write(Advice(generation=1, settings=WON, kept=WON), NOW)
    conf = tmp_path / "scr.conf"
    conf.write_text(conf.read_text().partition("sha256: ")[2].partition("\n")[2])
    later = ManagedConfig(conf, conf)
    assert later.without_earlier_advice(observed(SCR_FLUSH=2)).advised == {}
    assert later.write(Advice(generation=1, kept={}), NOW)
    assert "SCR_FLUSH = 2" in below(later)


def test_a_private_copy_of_a_file_that_was_kept_once_is_without_earlier_advice_alike(tmp_path: Path) -> None:
    assert theirs(tmp_path).write(Advice(generation=1, settings=WON, kept=WON), NOW)
    copy = tmp_path / "job.conf"
    copy.write_text((tmp_path / "scr.conf").read_text())
    later = ManagedConfig(copy, tmp_path / "scr.conf")
    assert later.without_earlier_advice(observed(SCR_FLUSH=2)).settings == {"SCR_FLUSH": 10}
    assert later.write(Advice(generation=1, kept={}), NOW)
    assert below(later) == THEIRS


def test_a_file_that_is_there_is_begun_with_when_nobody_names_another(tmp_path: Path) -> None:
    (tmp_path / "scr.conf").write_text(THEIRS)
    file = ManagedConfig(tmp_path / "scr.conf", None)
    assert file.write(Advice(generation=1, kept={"SCR_FETCH": 0}), NOW)
    assert below(file) == THEIRS + "\n# Added by scrtune:\nSCR_FETCH=0\n"


# --- in a real daemon


JOBS_OWN = "SCR_COPY_TYPE=SINGLE\nSCR_CACHE_BYPASS=0\nSCR_FLUSH=4\n"


def job(**described: Any) -> tuple[Event, ...]:
    return (
        JobStarted(time_s=float(int(time.time())), ranks=4, nodes=4),
        SettingsObserved(
            settings={"SCR_COPY_TYPE": "SINGLE", "SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 4},
            sources=dict.fromkeys(("SCR_COPY_TYPE", "SCR_CACHE_BYPASS", "SCR_FLUSH"), "user config"),
            ranks=4,
            nodes=4,
            **described,
        ),
    )


def explained(daemon: Any) -> str:
    shown = subprocess.run(
        [sys.executable, "-m", "scrtune", "explain", "--job-id", "j"],
        env={**os.environ, "SCRTUNE_RUN_DIR": str(daemon.paths.base), "COLUMNS": "200"},
        capture_output=True,
        timeout=60,
        check=True,
        text=True,
    )
    return shown.stdout


def test_a_file_edited_while_the_job_runs_is_kept_explained_and_never_overwritten(
    real_daemon: Any, wait_until: WaitUntil, tmp_path: Path
) -> None:
    conf = real_daemon.paths.scr_conf
    (tmp_path / "own.conf").write_text(JOBS_OWN)
    real_daemon.start("--user-conf", str(tmp_path / "own.conf"))
    events = job(floor="XOR")
    real_daemon.tell(*events)
    real_daemon.until_events(len(events))
    wait_until(lambda: "SCR_COPY_TYPE=XOR\n" in conf.read_text())

    text = conf.read_text().replace("SCR_COPY_TYPE=XOR", "SCR_COPY_TYPE=PARTNER")
    conf.write_text(text.replace("SCR_FLUSH=4", "SCR_FLUSH=9"))
    wait_until(lambda: real_daemon.view("recommendation").settings.get("SCR_FLUSH") == 9)
    assert real_daemon.view("recommendation").settings["SCR_COPY_TYPE"] == "PARTNER"
    assert values(conf)["SCR_FLUSH"] == "9"
    assert values(conf)["SCR_COPY_TYPE"] == "PARTNER"
    view = real_daemon.view("explain")
    assert view.baseline["SCR_FLUSH"] == 9
    assert view.sources["SCR_FLUSH"] == view.sources["SCR_COPY_TYPE"] == ValueSource.EDITED
    assert "your edit of the config file" in explained(real_daemon)

    advice = real_daemon.view("recommendation")
    assert real_daemon.end(9) == -9
    assert "your edit of the config file" in explained(real_daemon), "also from the journal"
    real_daemon.start("--user-conf", str(tmp_path / "own.conf"))
    assert real_daemon.view("recommendation") == advice
    again = job(floor="XOR")
    real_daemon.tell(*again)
    wait_until(lambda: real_daemon.view("status").counters.events >= len(events) + 1 + len(again))
    assert values(conf)["SCR_FLUSH"] == "9"
    assert values(conf)["SCR_COPY_TYPE"] == "PARTNER"


def test_a_rewrite_that_meets_an_edit_waits_for_it(
    real_daemon: Any, wait_until: WaitUntil, tmp_path: Path
) -> None:
    conf = real_daemon.paths.scr_conf
    (tmp_path / "own.conf").write_text(JOBS_OWN)
    real_daemon.start("--user-conf", str(tmp_path / "own.conf"))
    real_daemon.tell(*job())
    real_daemon.until_events(2)
    wait_until(lambda: conf.exists() and "SCR_FLUSH=4\n" in conf.read_text())
    conf.write_text(conf.read_text().replace("SCR_FLUSH=4", "SCR_FLUSH=9"))
    real_daemon.tell(*job(floor="XOR"))  # the next run asks for a rewrite at once
    wait_until(lambda: real_daemon.view("recommendation").settings.get("SCR_COPY_TYPE") == "XOR")
    assert values(conf)["SCR_COPY_TYPE"] == "XOR"
    assert values(conf)["SCR_FLUSH"] == "9"


def test_a_new_job_begins_with_the_users_own_settings_whatever_their_file_was_tuned_to(
    real_daemon: Any, tmp_path: Path
) -> None:
    conf = tmp_path / "own.conf"
    assert ManagedConfig(conf, None).write(Advice(generation=1, kept={"SCR_FLUSH": 4}), NOW)
    real_daemon.start("--scr-conf", str(conf), "--user-conf", str(conf))
    real_daemon.tell(*job())
    real_daemon.until_events(2)
    view = real_daemon.view("explain")
    assert (view.baseline["SCR_FLUSH"], view.sources["SCR_FLUSH"]) == (10, "default")
    advice = real_daemon.view("recommendation")
    assert (advice.generation, advice.settings["SCR_FLUSH"], advice.kept) == (1, 10, {})
    assert "SCR_FLUSH" not in values(conf)
    real_daemon.end(9)
    real_daemon.start("--scr-conf", str(conf), "--user-conf", str(conf))
    assert real_daemon.view("recommendation") == advice, "from the journal, too"
