"""``SCR_Config`` for the embedded engine: what the application sets and asks before SCR_Init."""

import os
from collections.abc import Mapping

from ...scr_config.locations import user_conf_text
from ...scr_config.resolution import DEFAULT, resolve


class Configuration:
    """What was given to SCR_Config, over the layers below it. `environment` is rank 0's (default: ours)."""

    def __init__(self, environment: Mapping[str, str] | None = None) -> None:
        self._environment = os.environ if environment is None else environment
        self._lines: dict[str, str] = {}

    @property
    def text(self) -> str:
        """All that is set, a line each, in the grammar of SCR's config file."""
        return "\n".join(self._lines.values())

    def config(self, text: str) -> str | None:
        """``NAME`` asks, ``NAME=value`` sets, ``NAME=`` unsets. None for what nobody has set.

        As in SCR the compiled default does not count as set. Lines such as ``CKPT=0 TYPE=XOR`` are kept, and
        mean nothing to the embedded engine. Raises OSError when the user's config file cannot be read.
        """
        name, is_setting, value = (part.strip() for part in text.partition("="))
        if not is_setting:
            return self._ask(name)
        has_keys = " " in value
        key = f"{name}={value.split()[0]}" if has_keys else name
        self._lines.pop(key, None)
        if value:
            self._lines[key] = f"{name}={value}"
        return None

    def _ask(self, name: str) -> str | None:
        found = resolve(self._environment, user_conf_text(self._environment, self.text), self.text).found
        told = next(iter(found.get(name, ())), None)
        return None if told is None or told.layer == DEFAULT else told.text
