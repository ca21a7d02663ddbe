"""One thing that is wrong with a configuration: what, where, what SCR makes of it, and how to mend it."""

from typing import Literal

import msgspec

Severity = Literal["error", "warning"]


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """An ``error`` crashes, hangs, loses data or is not what was meant; a ``warning`` is worth knowing.

    `code` names the kind of problem and stays the same between versions. `line` and `column` count from 1 and
    are 0 when the problem lies in no file. `source` is the layer it was found in, as in `Resolved.sources`.
    """

    severity: Severity
    code: str
    parameter: str
    what: str
    remedy: str
    line: int = 0
    column: int = 0
    source: str = ""

    def __str__(self) -> str:
        """``line 3, column 1: error: ...; do ...``."""
        place = f"line {self.line}, column {self.column}: " if self.line else ""
        return f"{place}{self.severity}: {self.parameter}: {self.what}; {self.remedy}"
