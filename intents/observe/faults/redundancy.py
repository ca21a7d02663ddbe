"""Intent 3 of the LLNL study: the redundancy scheme, from the nodes and the failure to survive."""

import msgspec

from ....units import count_text
from ...events import SettingsObserved, Values
from ...intent import Evidence, Intent
from ...settings import number

SURVIVES = {"SINGLE": 0, "PARTNER": 1, "XOR": 1, "RS": 2}
"""Nodes of one set that may be lost at once (RS: SCR_SET_FAILURES of them; 2 is SCR's default)."""

FLOORS = {
    "PROCESS": "SINGLE",
    "NODE": "PARTNER",
    "SINGLE": "SINGLE",
    "PARTNER": "PARTNER",
    "XOR": "XOR",
    "RS": "RS",
}
"""Floor that a user may declare -> the weakest scheme that keeps it."""


EMBEDDED = "embedded"
_PARTNERS = 2


class Redundancy(msgspec.Struct, Intent, frozen=True, kw_only=True):
    """The nodes, the scheme in use and the weakest one allowed.

    The floor is `declared` by the user, or their own scheme. `effective` is the scheme that SCR uses: on one
    node it falls back to SINGLE.
    """

    title, number = "redundancy scheme", 3
    unseen = "the job has not described itself yet"

    evidence: Evidence = Evidence()
    nodes: int = 1
    ranks: int = 1
    scheme: str = "SINGLE"
    effective: str = "SINGLE"
    floor: str = "SINGLE"
    declared: bool = False
    set_size: int = 8

    @property
    def members(self) -> int:
        """Nodes of one redundancy set."""
        return min(self.set_size, self.nodes)

    def _text(self) -> str:
        floor = "declared by the user" if self.declared else "the user's own scheme"
        fallback = (
            "" if self.scheme == self.effective else f" (on one node SCR falls back to {self.effective})"
        )
        stores = storage_factor(self.effective, self.members)
        return (
            f"{count_text(self.ranks, 'rank')} on {count_text(self.nodes, 'node')}, {self.scheme}{fallback}"
            f" in use, stores {stores:.2f} x the checkpoint; floor {self.floor} ({floor})"
        )


def observe(job: SettingsObserved | None, settings: Values | None = None) -> Redundancy:
    """Return the intent for a job that runs under `settings` now (default: those that it began with)."""
    if job is None:
        return Redundancy()
    own = str(job.settings.get("SCR_COPY_TYPE", "XOR"))
    now = job.settings if settings is None else settings
    current = str(now.get("SCR_COPY_TYPE", "XOR"))
    return Redundancy(
        evidence=Evidence(count=1, source=f"settings and shape of the job ({job.engine})", declared=True),
        nodes=max(1, job.nodes),
        ranks=max(1, job.ranks),
        scheme=current,
        effective=effective(current, job.nodes),
        floor=declared_floor(job) or own,
        declared=bool(declared_floor(job)),
        set_size=max(1, number(now, "SCR_SET_SIZE")),
    )


def declared_losses(job: SettingsObserved) -> int:
    """Return the nodes that may be lost at once, as declared: no more than the job can survive."""
    most = 1 if job.engine == EMBEDDED else job.nodes - 1
    return max(0, min(job.declared.losses or 0, most, job.nodes - 1))


def most_survived(job: SettingsObserved) -> str:
    """Return why a checkpoint in the cache of `job` cannot survive more losses."""
    if job.engine == EMBEDDED and job.nodes > _PARTNERS:
        return "the embedded engine has no RS"
    return f"the most of {count_text(job.nodes, 'node')}"


def declared_floor(job: SettingsObserved) -> str:
    """Return the weakest scheme that keeps all that the user declared, or empty where they declared nothing.

    XOR stores less than PARTNER from sets of three on, and at two as much, for more computation.
    """
    named, losses = FLOORS.get(job.floor.upper(), ""), declared_losses(job)
    if named == "RS" and job.engine == EMBEDDED:  # it refuses to start with RS
        named = "XOR"
    if job.declared.losses is None:
        return named
    one = "XOR" if job.nodes > _PARTNERS else "PARTNER"
    by_losses = ("SINGLE", one)[losses] if losses <= 1 else "RS"
    return named if named and keeps_floor(named, by_losses) else by_losses


def effective(scheme: str, nodes: int) -> str:
    """Return the scheme that SCR uses on so many nodes: on one it falls back to SINGLE."""
    return scheme if nodes > 1 else "SINGLE"


def members(settings: Values, nodes: int) -> int:
    """Return how many of a job's `nodes` are in one set at least."""
    return min(number(settings, "SCR_SET_SIZE"), nodes)


def set_failures(settings: Values) -> int:
    """Return the losses that an RS set survives under `settings`; 2 is SCR's default."""
    value = settings.get("SCR_SET_FAILURES", 2)
    return value if isinstance(value, int) else 2


def storage_factor(scheme: str, set_size: int, failures: int = 2) -> float:
    """Return the bytes stored per byte of checkpoint, of N ranks in a set and k failures survived.

    SINGLE 1, PARTNER 2, XOR N/(N-1), RS N/(N-k) (SCR's documentation).
    """
    if scheme == "PARTNER":
        return 2.0
    if scheme == "XOR" and set_size > 1:
        return set_size / (set_size - 1)
    if scheme == "RS" and set_size > failures:
        return set_size / (set_size - failures)
    return 1.0


def keeps_floor(scheme: str, floor: str) -> bool:
    """Return whether `scheme` survives every failure that `floor` survives."""
    return SURVIVES.get(scheme, 0) >= SURVIVES.get(floor, 0)
