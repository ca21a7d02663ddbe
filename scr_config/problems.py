"""Problems of a configuration of SCR; docs/check.md says of each code what happens and how to correct it."""

from collections.abc import Iterable

import msgspec

from ..intents.events import TextEnum


class Severity(TextEnum):
    """An error crashes, hangs, loses data or is not what was meant; a warning is worth knowing."""

    ERROR = "error"
    WARNING = "warning"


class Code(TextEnum):
    """The kind of a problem; its text stays the same between versions of scrtune."""

    # the grammar of a config file
    NO_EQUALS = "no-equals"
    NO_VALUE = "no-value"
    MISSING_KEY = "missing-key"
    NUL = "nul"
    TOO_LONG = "too-long"
    CARRIAGE_RETURN = "carriage-return"
    DUPLICATE = "duplicate"
    REPEATED = "repeated"
    IGNORED_CHILD = "ignored-child"
    QUOTES_KEPT = "quotes-kept"
    HASH_KEPT = "hash-kept"
    UNSET_VARIABLE = "unset-variable"
    VARIABLE_DIGITS = "variable-digits"
    # one parameter
    UNKNOWN_NAME = "unknown-name"
    BAD_VALUE = "bad-value"
    WRONG_LAYER = "wrong-layer"
    INERT = "inert"
    DESCRIPTOR_IN_ENVIRONMENT = "descriptor-in-environment"
    NOT_EXPORTED = "not-exported"
    NOT_READ = "not-read"
    NO_CONFIG_FILE = "no-config-file"
    # parameters together
    FAILURES_EXCEED_SET = "failures-exceed-set"
    POSTSTAGE_ASYNC = "poststage-async"
    BYPASS_MOOT = "bypass-moot"
    ASYNC_BYPASS = "async-bypass"
    ASYNC_SYNC = "async-sync"
    NEVER_FLUSHED = "never-flushed"
    SCR_OFF = "scr-off"
    DELETES_DATASETS = "deletes-datasets"
    SINGLE_NODE = "single-node"
    CACHE_TOO_SMALL = "cache-too-small"
    # STORE, CKPT and GROUPS lines
    NEEDS_CKPT = "needs-ckpt"
    NO_INTERVAL_1 = "no-interval-1"
    CKPT_IGNORED = "ckpt-ignored"
    CKPT_DISABLED = "ckpt-disabled"
    UNKNOWN_STORE = "unknown-store"
    UNKNOWN_GROUP = "unknown-group"
    SET_SIZE_IGNORED = "set-size-ignored"
    UNKNOWN_CHILD = "unknown-child"
    # only where settings are rendered or resolved, never in `scrtune check`
    NOT_FOR_A_FILE = "not-for-a-file"
    SYSTEM_CONFIG = "system-config"


class ConfigProblem(msgspec.Struct, frozen=True):
    """One thing that is wrong: what SCR makes of it, how to correct it, and where it is.

    `line` and `column` count from 1 and are 0 outside files. `source` is the layer, empty for none; `file` is
    as the caller named it.
    """

    severity: Severity
    code: Code
    parameter: str
    what: str
    remedy: str
    line: int = 0
    column: int = 0
    source: str = ""
    file: str = ""

    def __str__(self) -> str:
        """Return ``line 3, column 1: error: ...; do ...``."""
        place = f"line {self.line}, column {self.column}: " if self.line else ""
        return f"{place}{self.severity}: {self.parameter}: {self.what}; {self.remedy}"


class Finding(msgspec.Struct, frozen=True):
    """One problem as `scrtune check` reports it; `line` and `column` as in :class:`ConfigProblem`."""

    file: str
    line: int
    column: int
    severity: Severity
    code: Code
    message: str
    remedy: str

    @property
    def gcc(self) -> str:
        """Return ``file:line:column: severity: message; remedy [code]``, as editors and CI understand it."""
        place = f"{self.file}:{self.line}:{self.column}"
        return f"{place}: {self.severity}: {self.message}; {self.remedy} [{self.code}]"


def worst_exit_code(findings: Iterable[Finding]) -> int:
    """Return 0 for no findings, 1 for warnings only, 2 for errors."""
    return max((2 if finding.severity is Severity.ERROR else 1 for finding in findings), default=0)
