"""A config file that scrtune has written, and edits of it."""

from pathlib import Path

from scrtune.daemon.settings.managed_config import ManagedConfig
from scrtune.intents.effects import Advice
from scrtune.intents.events import UserEdited, Values
from scrtune.scr_config.parse import parse

NOW = 1795262400.0
SETTINGS: Values = {"SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 4, "SCR_FLUSH_ASYNC": 1, "SCR_FLUSH_TYPE": "PTHREAD"}
ADVICE = Advice(generation=3, settings=SETTINGS, reason="a test")
OWN = "SCR_GROUP=NODE\nSCR_LOG_DB_PASS=hunter2\nSCR_CLUSTER_NAME=$CLUSTER\nSCR_FUTURE=3\nSTORE=/ssd COUNT=2\n"


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


def below(file: ManagedConfig) -> str:
    """The text below the header."""
    return file.path.read_text().partition("sha256: ")[2].partition("\n")[2]


COMMENTED = """\
# The project's settings.

STORE=/ssd COUNT=2 # fast
SCR_FLUSH = 1   # seldom

# the end
"""
