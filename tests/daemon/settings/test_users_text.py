"""The user's own text of the config file stays, through rewrites, edits, restarts and several jobs."""

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.daemon.settings.managed_config import ManagedConfig
from scrtune.intents.effects import Advice
from scrtune.intents.events import SettingsObserved, UserEdited, Values

from .kept import ADVICE, COMMENTED, NOW, OWN, SETTINGS, below, edit, kept, noticed, values


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
