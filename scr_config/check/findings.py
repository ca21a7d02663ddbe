"""What `scrtune check` has to tell: one finding per fault, with its place, and every code that there is."""

from collections.abc import Iterable
from typing import NamedTuple

import msgspec

from ..problems import Severity

ENVIRONMENT = "<environment>"
"""The file of a finding about an environment variable; its line and column are 0."""


class Place(NamedTuple):
    """Where a finding lies; line and column as in :class:`Finding`."""

    file: str
    line: int
    column: int


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One fault. `line` and `column` count from 1; both are 0 when it lies in no line of a file."""

    file: str
    line: int
    column: int
    severity: Severity
    code: str
    message: str
    remedy: str

    @property
    def gcc(self) -> str:
        """``file:line:column: severity: message; remedy [code]``, the form that editors and CI understand."""
        place = f"{self.file}:{self.line}:{self.column}"
        return f"{place}: {self.severity}: {self.message}; {self.remedy} [{self.code}]"


def finding(place: Place, severity: Severity, code: str, message: str, remedy: str) -> Finding:
    """The finding at `place`."""
    return Finding(
        file=place.file,
        line=place.line,
        column=place.column,
        severity=severity,
        code=code,
        message=message,
        remedy=remedy,
    )


class Code(NamedTuple):
    """A kind of finding: its usual severity, what SCR makes of the fault, and how to mend it."""

    severity: str
    happens: str
    mend: str


CODES: dict[str, Code] = {
    # how the file is written
    "no-equals": Code(
        "error",
        "rank 0 crashes, hangs or swallows the next line in `SCR_Init`",
        "`KEY=VALUE`; no spaces in values",
    ),
    "no-value": Code("error", "SCR takes whatever is in memory", "give a value or delete the line"),
    "missing-key": Code("error", "SCR reads memory it never wrote", "no `=` in values; one key to each `=`"),
    "nul": Code("error", "the key or value is cut off there", "delete the byte; is it a text file?"),
    "too-long": Code("error", "goes wrong as `no-equals`, or the value is dropped", "1023 bytes at most"),
    "carriage-return": Code("error", "the carriage return is part of the value", "Unix line ends"),
    "duplicate": Code("error", "ranks take different values, and the job hangs", "keep one of the lines"),
    "repeated": Code("warning", "nothing, as long as both lines say the same", "delete one of the lines"),
    "ignored-child": Code(
        "warning", "the second pair of a line belongs to the first and is ignored", "one parameter a line"
    ),
    "quotes-kept": Code("warning", "the quotes become part of the value", "leave them out"),
    "hash-kept": Code("warning", "the `#` becomes part of the value", "comments on lines of their own"),
    "unset-variable": Code(
        "error or warning",
        "the value is dropped (a warning when the variable could be set in the job)",
        "`$NAME` of a variable that the job exports; `${NAME}` does not work",
    ),
    "variable-digits": Code(
        "error", "`$VAR2` is `$VAR` and a `2`: names have letters and `_` only", "a name without digits"
    ),
    # what a parameter is
    "unknown-name": Code("warning", "the line is ignored", "the name that is meant; the nearest is told"),
    "bad-value": Code(
        "error",
        "0, the default or another value is taken unseen; `SCR_MPI_BUF_SIZE` of 2 GiB crashes,"
        " `SCR_FILE_BUF_SIZE=0` never ends a flush, a misspelt `SCR_COPY_TYPE` aborts, `SCR_FLUSH_TYPE` in"
        " small letters fails every flush",
        "as the message says",
    ),
    "wrong-layer": Code("warning", "SCR does not look for it in a file", "set it in the environment"),
    "inert": Code("warning", "SCR reads it and does nothing with it in this version", "take it out"),
    "descriptor-in-environment": Code(
        "error", "a variable `STORE`, `CKPT` or `GROUPS` is taken for a descriptor", "unset it"
    ),
    "not-exported": Code("warning", "the application never sees it", "`export` it in the job script"),
    "not-read": Code(
        "warning",
        "nothing is known: scripts of fish, Python and other languages are not read",
        "`scrtune check --env` where the script has set its variables",
    ),
    # what goes together
    "failures-exceed-set": Code(
        "error", "the descriptor is disabled, and `SCR_Init` aborts", "`SCR_SET_FAILURES` <= `SCR_SET_SIZE`"
    ),
    "poststage-async": Code(
        "error or warning",
        "the flush crashes (a warning with `BBAPI`, for which SCR's manual has it)",
        "one of `SCR_FLUSH_POSTSTAGE` and `SCR_FLUSH_ASYNC` at 0",
    ),
    "bypass-moot": Code(
        "warning",
        "with `SCR_CACHE_BYPASS=1`, SCR's default, files go straight to the prefix directory: cache and"
        " redundancy settings do nothing",
        "`SCR_CACHE_BYPASS=0`",
    ),
    "async-bypass": Code("warning", "there is nothing to flush from the cache", "`SCR_CACHE_BYPASS=0`"),
    "async-sync": Code(
        "warning", "a flush of type `SYNC` still blocks the application", "`SCR_FLUSH_TYPE=PTHREAD`"
    ),
    "never-flushed": Code(
        "warning",
        "`SCR_FLUSH` of 0 or less: checkpoints stay in the cache and go with it",
        "`SCR_FLUSH` of 1 or more",
    ),
    "scr-off": Code(
        "warning", "`SCR_ENABLE=0`: SCR does nothing, all other settings are moot", "`SCR_ENABLE=1`"
    ),
    "deletes-datasets": Code("warning", "each `SCR_Init` deletes datasets", "as the message says"),
    "single-node": Code(
        "warning", "on one node SCR falls back to `SINGLE` without a word", "more nodes, or `SINGLE`"
    ),
    "cache-too-small": Code(
        "error or warning",
        "writing a checkpoint fails for want of space (a warning when it would fit into an empty cache)",
        "fewer datasets, a larger cache, or another scheme",
    ),
    # STORE and CKPT lines
    "needs-ckpt": Code(
        "error or warning",
        "`SCR_COPY_TYPE=FILE` without `CKPT` lines: `SCR_Init` aborts (a warning when no config file was"
        " given)",
        "add `CKPT` lines, or name a scheme",
    ),
    "no-interval-1": Code(
        "error", "no enabled `CKPT` line has `INTERVAL=1`: `SCR_Init` aborts", "`INTERVAL=1` on one of them"
    ),
    "ckpt-ignored": Code(
        "warning", "without `SCR_COPY_TYPE=FILE` no `CKPT` line counts", "`SCR_COPY_TYPE=FILE`"
    ),
    "ckpt-disabled": Code("error", "the `CKPT` line is disabled", "as the message says"),
    "unknown-store": Code(
        "error or warning",
        "a `CKPT` line without its `STORE` line is disabled (a warning when the system's file may have it)",
        "add the `STORE` line",
    ),
    "unknown-group": Code(
        "error or warning",
        "a `CKPT` line of a group that is none crashes `SCR_Init`, a `STORE` line is disabled (a warning when"
        " the system's file may have it)",
        "`NODE`, `WORLD`, or add `GROUPS` lines",
    ),
    "set-size-ignored": Code("warning", "`SET_SIZE` of a `CKPT` line is ignored", "`SCR_SET_SIZE`"),
    "unknown-child": Code("warning", "the key is ignored", "check the spelling"),
}
"""Every code, in the order of docs/check.md, whose table has the same words."""


def exit_code(findings: Iterable[Finding]) -> int:
    """0 for none, 1 for warnings only, 2 for errors."""
    return max((2 if finding.severity == "error" else 1 for finding in findings), default=0)
