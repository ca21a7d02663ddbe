"""What is an edit of the config file, and what is refused."""

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.daemon.settings.managed_config import ManagedConfig
from scrtune.goodput.events import JobStarted
from scrtune.intents.effects import Advice
from scrtune.intents.events import Event, SettingsObserved, UserEdited, Values, ValueSource
from scrtune.scr_config.parse import parse

from .kept import ADVICE, COMMENTED, NOW, SETTINGS, below, edit, kept, noticed, values

WaitUntil = Callable[[Callable[[], object]], None]


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
