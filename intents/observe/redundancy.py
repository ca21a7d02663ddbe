"""Intent 3 of the study: which redundancy scheme, from the nodes and the failure to survive."""

import msgspec

from ...units import count_text
from ..events import SettingsObserved
from ..intent import Evidence

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
"""What a user may declare as their floor -> the weakest scheme that keeps it."""


class Redundancy(msgspec.Struct, frozen=True, kw_only=True):
    """The shape that redundancy has to fit: nodes, the scheme in use and the weakest one allowed.

    `declared` says whether the user declared the floor; otherwise their own scheme is the floor.
    `effective` is what SCR really does: on one node it falls back to SINGLE whatever is asked for.
    """

    evidence: Evidence = Evidence()
    nodes: int = 1
    ranks: int = 1
    scheme: str = "SINGLE"
    effective: str = "SINGLE"
    floor: str = "SINGLE"
    declared: bool = False
    set_size: int = 8

    @property
    def storage_factor(self) -> float:
        """Bytes in all caches per byte of checkpoint under the scheme in use."""
        return storage_factor(self.effective, min(self.set_size, self.nodes))

    def sentence(self) -> str:
        """See :class:`scrtune.intents.intent.Intent`."""
        if not self.evidence.count:
            return "the job has not said what it runs under yet"
        floor = "declared by the user" if self.declared else "the user's own scheme"
        fallback = (
            "" if self.scheme == self.effective else f" (on one node SCR falls back to {self.effective})"
        )
        return (
            f"{count_text(self.ranks, 'rank')} on {count_text(self.nodes, 'node')}, {self.scheme}{fallback}"
            f" in use, stores {self.storage_factor:.2f} x the checkpoint; floor {self.floor} ({floor})"
        )


def observe(job: SettingsObserved | None, scheme: str | None = None) -> Redundancy:
    """The intent for a job that runs under `scheme` now (default: what it was started with)."""
    if job is None:
        return Redundancy()
    own = str(job.settings.get("SCR_COPY_TYPE", "XOR"))
    current = scheme or own
    set_size = job.settings.get("SCR_SET_SIZE")
    return Redundancy(
        evidence=Evidence(count=1, source=f"settings and shape of the job ({job.engine})", declared=True),
        nodes=max(1, job.nodes),
        ranks=max(1, job.ranks),
        scheme=current,
        effective=effective(current, job.nodes),
        floor=FLOORS.get(job.floor.upper(), own),
        declared=job.floor.upper() in FLOORS,
        set_size=max(1, set_size) if isinstance(set_size, int) else 8,
    )


def unknown_floor(job: SettingsObserved) -> str:
    """Return the warning about a floor that the user declared in a word of no meaning, or an empty text."""
    if not job.floor or job.floor.upper() in FLOORS:
        return ""
    known = ", ".join(sorted(FLOORS))
    return f"redundancy floor {job.floor!r} is not one of {known}; the user's scheme is the floor"


def effective(scheme: str, nodes: int) -> str:
    """What SCR really does on so many nodes: on one it falls back to SINGLE, whatever is asked for."""
    return scheme if nodes > 1 else "SINGLE"


def storage_factor(scheme: str, set_size: int, failures: int = 2) -> float:
    """Bytes stored per byte of checkpoint (SCR's documentation): N is the set size, k the failures survived.

    SINGLE 1, PARTNER 2, XOR N/(N-1), RS N/(N-k).
    """
    if scheme == "PARTNER":
        return 2.0
    if scheme == "XOR" and set_size > 1:
        return set_size / (set_size - 1)
    if scheme == "RS" and set_size > failures:
        return set_size / (set_size - failures)
    return 1.0


def keeps_floor(scheme: str, floor: str) -> bool:
    """Whether `scheme` survives whatever `floor` survives."""
    return SURVIVES.get(scheme, 0) >= SURVIVES.get(floor, 0)
