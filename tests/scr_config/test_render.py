"""Settings as a config file and as environment: what is written is what SCR and real shells read."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from scrtune.intents.events import Value, Values
from scrtune.scr_config.catalogue import CATALOGUE, Parameter, coerce, compiled_defaults, text_of
from scrtune.scr_config.check.check import check_sources, source_of
from scrtune.scr_config.check.model import CheckContext
from scrtune.scr_config.constraints import fatal, unfit_for_file
from scrtune.scr_config.parse import parse, value_oddities
from scrtune.scr_config.problems import worst_exit_code
from scrtune.scr_config.render import Form, RenderError, environment_text, prolog_lines, rendered_config
from scrtune.scr_config.resolution import resolve

QUICK = hypothesis.settings(max_examples=60)
# each example starts a shell, which only reads the file written for it
SHELL = hypothesis.settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
ANY_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\0"), max_size=30)
FILE_TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc",), exclude_characters=" =$\\"),
    min_size=1,
    max_size=30,
)
CPU_LISTS = st.sampled_from(["", "0", "1,3-5", "0-8191"])
ONE_LINE = st.text(st.characters(codec="utf-8", exclude_characters="\0\n"), max_size=30)
SHELLS: list[tuple[str, Form, str]] = [
    ("sh", "sh", ""),
    ("bash --norc", "sh", ""),
    ("bash --norc", "sh", "set -o history -H\n"),
    ("csh -f", "csh", ""),
    ("tcsh -f", "csh", ""),
    ("tcsh -f", "csh", "set backslash_quote\n"),
    ("fish --no-config", "fish", ""),
]


def values_of(parameter: Parameter, texts: st.SearchStrategy[str]) -> st.SearchStrategy[Value]:
    if parameter.type == "bool":
        return st.integers(0, 1)
    if parameter.type in ("int", "bytes"):
        return st.integers(parameter.minimum, parameter.maximum)
    if parameter.type == "float":
        return st.floats(allow_nan=False, allow_infinity=False)
    if parameter.type == "enum":
        return st.sampled_from([choice for choice in parameter.choices if choice != "FILE"])
    return CPU_LISTS if parameter.type == "cpus" else texts


def settings_with(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Values]:
    """Any settings that go together."""
    each = {name: values_of(parameter, texts) for name, parameter in CATALOGUE.items()}
    each["SCR_FLUSH_POSTSTAGE"] = st.just(0)
    each["SCR_SET_FAILURES"] = st.integers(1, 8)
    each["SCR_SET_SIZE"] = st.integers(8, 64)
    return st.fixed_dictionaries({}, optional=each)


def names_of_a_file(settings: Values) -> set[str]:
    return {name for name in settings if name.startswith("SCR_") and "user config" in CATALOGUE[name].layers}


@QUICK
@given(settings=settings_with(FILE_TEXT), comment=st.text(max_size=60))
def test_what_is_rendered_is_what_is_parsed(settings: Values, comment: str) -> None:
    file = parse(rendered_config(settings, comment), {})
    assert {name: coerce(name, pair.value) for name, pair in file.values.items()} == {
        name: settings[name] for name in names_of_a_file(settings)
    }
    assert [entry.parent.key for entry in file.entries] == sorted(names_of_a_file(settings))


@QUICK
@given(settings=settings_with(FILE_TEXT), comment=st.text(max_size=60))
def test_a_rendered_file_resolves_to_the_settings_and_has_no_problem(settings: Values, comment: str) -> None:
    resolved = resolve({}, rendered_config(settings, comment))
    told = {(problem.parameter, problem.code) for problem in resolved.problems}
    # quotes and # are kept as they are, here and there: the only thing that is worth a warning in both
    kept = {name: text_of(settings[name]) for name in names_of_a_file(settings)}
    expected = {(name, code) for name, text in kept.items() for code, _, _ in value_oddities(text)}
    assert told == expected
    for name in names_of_a_file(settings):
        assert resolved.settings[name] == settings[name]
        assert resolved.sources[name] == "user config"


@QUICK
@given(
    values=st.fixed_dictionaries(
        {}, optional={name: values_of(entry, ANY_TEXT) | ANY_TEXT for name, entry in CATALOGUE.items()}
    ),
    comment=st.text(max_size=60),
)
def test_whatever_is_asked_for_a_file_that_check_rejects_is_never_rendered(
    values: Values, comment: str
) -> None:
    """Values or not, that go together or not: what is rendered has no error, or nothing is."""
    try:
        text = rendered_config(values, comment)
    except RenderError:
        assert fatal(values) or unfit_for_file(values) or values["SCR_COPY_TYPE"] == "FILE"
        return
    assert worst_exit_code(check_sources([source_of("scr.conf", text)], CheckContext())) < 2, text


@QUICK
@given(settings=settings_with(FILE_TEXT))
def test_settings_that_go_together_are_always_rendered_and_check_has_nothing_against_them(
    settings: Values,
) -> None:
    findings = check_sources([source_of("scr.conf", rendered_config(settings, "by a test"))], CheckContext())
    assert [each.gcc for each in findings if each.severity == "error"] == []


def test_a_config_file_is_one_of_the_forms() -> None:
    settings: Values = {"SCR_FLUSH": 4, "SCR_COPY_TYPE": "SINGLE", "SCRTUNE_FLUSH_THREADS": 2}
    text = environment_text(settings, "conf", {"LD_PRELOAD": "/lib/libscrtune.so"})
    assert {name: pair.value for name, pair in parse(text, {}).values.items()} == {
        "SCR_COPY_TYPE": "SINGLE",
        "SCR_FLUSH": "4",
    }
    with pytest.raises(RenderError, match="cannot carry"):
        environment_text({"SCR_PREFIX": "/my dir"}, "conf")


def test_a_file_is_sorted_and_says_first_what_the_caller_says() -> None:
    text = rendered_config(
        {"SCR_FLUSH": 5, "SCR_CACHE_BASE": "/ssd", "SCR_CHECKPOINT_OVERHEAD": 2.5, "SCR_FLUSH_ASYNC": True},
        "written by scrtune\nfor decision 7",
    )
    assert text == (
        "# written by scrtune\n# for decision 7\n"
        "SCR_CACHE_BASE=/ssd\nSCR_CHECKPOINT_OVERHEAD=2.5\nSCR_FLUSH=5\nSCR_FLUSH_ASYNC=1\n"
    )


def test_names_that_scr_does_not_look_for_in_a_file_are_left_out() -> None:
    text = rendered_config(
        {"SCRTUNE_FLUSH_THREADS": 2, "SCRTUNE_FLUSH_CPUS": "1", "SCR_RUNS": 3, "SCR_FLUSH": 1}, ""
    )
    assert text == "SCR_FLUSH=1\n"


def test_a_comment_cannot_end_its_line_early() -> None:
    text = rendered_config({"SCR_FLUSH": 1}, "a\r\nSCR_FLUSH=2\vSCR_FLUSH=3\x00")
    assert parse(text, {}).values["SCR_FLUSH"].value == "1"
    assert len(parse(text, {}).entries) == 1


@pytest.mark.parametrize(
    "settings",
    [
        {"SCR_FILE_BUF_SIZE": 0},
        {"SCR_MPI_BUF_SIZE": 2**31},
        {"SCR_COPY_TYPE": "XORR"},
        {"SCR_FLUSH_POSTSTAGE": 1, "SCR_FLUSH_ASYNC": 1},
        {"SCR_PREFIX": "/my dir"},
        {"SCR_PREFIX": "/a\nSCR_FLUSH=0"},
        {"SCR_FLUHS": 1},
    ],
)
def test_what_scr_fails_on_is_refused_by_name(settings: Values) -> None:
    with pytest.raises(ValueError, match=next(iter(settings))):
        rendered_config(settings, "")


def test_a_file_without_the_ckpt_lines_that_its_copy_type_needs_is_refused() -> None:
    with pytest.raises(ValueError, match="CKPT"):
        rendered_config({"SCR_COPY_TYPE": "FILE"}, "")


@pytest.mark.parametrize(("command", "shell", "before"), SHELLS)
@SHELL
@given(settings=settings_with(ANY_TEXT))
@hypothesis.example(settings={"SCR_JOB_NAME": "it's! \"$HOME\" `id` \\!\\\n\\n'\n!!\n", "SCR_CURRENT": ""})
@hypothesis.example(settings={"SCR_JOB_NAME": "\\", "SCR_CURRENT": "\n", "SCR_GROUP": "!"})
@hypothesis.example(settings={"SCR_PREFIX": "~/*?[a]{b,c}"})
@hypothesis.example(settings={"SCR_PREFIX": "\ufdd0\uf600\x01\udc80"})  # fish's own characters; no UTF-8
def test_a_real_shell_exports_the_very_characters(
    tmp_path: Path, command: str, shell: Form, before: str, settings: Values
) -> None:
    name, *options = command.split()
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not installed")
    script = tmp_path / "environment"
    text = before + environment_text(settings, shell) + f"exec {shutil.which('env')} -0\n"
    script.write_bytes(os.fsencode(text))
    ran = subprocess.run(
        [found, *options, str(script)],
        env={"LC_ALL": "C.UTF-8", "HOME": str(tmp_path)},
        capture_output=True,
        check=True,
    )
    assert ran.stderr == b""
    exported = dict(line.split("=", 1) for line in os.fsdecode(ran.stdout).split("\0") if line)
    assert {name: exported.get(name) for name in settings} == {
        name: text_of(value) for name, value in settings.items()
    }


def texts_of(settings: Values) -> dict[str, str]:
    return {name: text_of(settings[name]) for name in sorted(settings)}


def as_slurm_reads(output: str) -> dict[str, str]:
    """slurm.conf(5), TaskProlog: everything after the equal sign to the end of the line is the value."""
    lines = output.split("\n")
    assert lines.pop() == ""
    assert all(line.startswith("export ") for line in lines)
    return dict(line.removeprefix("export ").split("=", 1) for line in lines)


@QUICK
@given(settings=settings_with(ONE_LINE))
@hypothesis.example(settings={"SCR_JOB_NAME": ' it\'s "$HOME" # \\ = \r\t ', "SCR_CURRENT": ""})
def test_a_slurm_task_prolog_carries_every_value_of_one_line_as_it_is(settings: Values) -> None:
    assert as_slurm_reads(environment_text(settings, "slurm")) == texts_of(settings)


def test_a_value_of_two_lines_is_refused_where_a_line_is_a_value() -> None:
    with pytest.raises(RenderError, match=r"SCR_JOB_NAME='a\\nexport B=1'.*cannot carry a line end; choose"):
        environment_text({"SCR_FLUSH": 1, "SCR_JOB_NAME": "a\nexport B=1"}, "slurm")


def test_a_prolog_keeps_the_order_of_its_variables() -> None:
    assert prolog_lines({"B": "2", "A": "'1'"}) == "export B=2\nexport A='1'\n"


@QUICK
@given(settings=settings_with(ANY_TEXT))
def test_json_holds_the_texts_of_the_environment(settings: Values) -> None:
    exported = json.loads(environment_text(settings, "json"))
    assert exported == {name: text_of(value) for name, value in settings.items()}
    assert list(exported) == sorted(settings)


def test_the_environment_carries_what_a_file_cannot_and_the_levers_too() -> None:
    text = environment_text({"SCR_PREFIX": "/my dir", "SCRTUNE_FLUSH_THREADS": 2}, "sh")
    assert text == "export SCRTUNE_FLUSH_THREADS=2\nexport SCR_PREFIX='/my dir'\n"


def test_what_scr_fails_on_is_not_exported_either() -> None:
    with pytest.raises(ValueError, match="SCR_FILE_BUF_SIZE"):
        environment_text({"SCR_FILE_BUF_SIZE": 0, "SCR_PREFIX": "/my dir"}, "json")
    with pytest.raises(ValueError, match="SCR_FLUSH_POSTSTAGE"):
        environment_text({"SCR_FLUSH_POSTSTAGE": 1, "SCR_FLUSH_ASYNC": 1, "SCR_PREFIX": "/my dir"}, "sh")


def test_scr_own_defaults_render() -> None:
    assert resolve({}, rendered_config(compiled_defaults(), "the defaults")).settings == compiled_defaults()
