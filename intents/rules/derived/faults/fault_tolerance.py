"""Intent 5: the largest set, and the losses that it survives.

A larger set stores less (XOR N/(N-1), RS N/(N-k) times the data), and is the likelier to lose more of its
members than it survives, and takes longer to rebuild (SCR's manual, "Redundancy schemes"). So SCR_SET_SIZE is
the largest N with

    P(any set loses more than k during the exposure) <= 1 % of P(any node is lost during the exposure)

both as in :mod:`...observe.faults.fault_tolerance`. For k = 1 and rare losses that is about N - 1
<= 0.02 / q. Why 1 %: on LLNL's systems the cache recovered 85 % of failures (A. Moody et al., SC'10), so that
15 % went back to the prefix directory whatever the sets; a set size that adds 1 % leaves that as it is.

SCR_SET_FAILURES is what the user declares: in the worst case all losses are in one set. RS takes k < N
(redset aborts else) and N + k <= 256 (its arithmetic is that of GF(2^8)).
"""

from collections.abc import Iterator

from msgspec.structs import replace

from .....units import count_text, rounded_duration_text
from ....observe.faults.fault_tolerance import FaultTolerance, largest_set, p_loss, set_sizes
from ....observe.faults.redundancy import most_survived, storage_factor
from ...parameter import DerivedParameter
from ...situation import Situation
from ..table import SET_FAILURES, SET_SIZE

_LEAST = 2


def fault_tolerance(now: Situation) -> Iterator[DerivedParameter]:
    """Derive SCR_SET_SIZE and SCR_SET_FAILURES."""
    yield _failures(now)
    yield _size(now)


def _scheme(now: Situation) -> str:
    """Return the scheme that is in use, or that the declared floor will have in use."""
    faults = now.intents.faults
    return faults.floor if faults.declared and faults.losses > 1 else now.intents.redundancy.effective


def _failures(now: Situation) -> DerivedParameter:
    faults, losses = now.intents.faults, now.job.declared.losses if now.job else None
    if losses is None:
        return replace(SET_FAILURES, why_not="your own value stands; --tolerate-losses N says how many")
    most = most_survived(now.job) if now.job and losses > faults.losses else ""
    if faults.losses <= 1 or faults.floor != "RS":
        what = f"as much as can be here ({most})" if most else "what you declared"
        return replace(SET_FAILURES, why_not=f"{faults.floor} survives {what}; only RS reads it")
    clipped = f"{most}: {faults.losses}" if most else ""
    inputs = (f"--tolerate-losses {losses}",)
    return replace(SET_FAILURES, value=faults.losses, inputs=inputs, clipped=clipped, is_users_word=True)


def _size(now: Situation) -> DerivedParameter:
    seen, scheme = now.intents.tolerance, _scheme(now)
    own = now.own_number("SCR_SET_SIZE")
    tolerated = (
        now.intents.faults.losses if scheme == "RS" and now.intents.faults.declared else seen.tolerated
    )
    if scheme == "RS" and own <= tolerated:
        inputs = (f"RS survives {tolerated} of a set that has more members (SCR_SET_SIZE={own} has not)",)
        return replace(SET_SIZE, value=tolerated + 1, inputs=inputs, is_users_word=True)
    if why := _why_not(seen, scheme):
        return replace(SET_SIZE, why_not=why)
    size, clipped = largest_set(seen.nodes, tolerated, seen.p_node, scheme)
    risk = p_loss(seen.nodes, size, tolerated, seen.p_node)
    stores, stored = (storage_factor(scheme, min(each, seen.nodes), tolerated) for each in (size, own))
    found = replace(
        SET_SIZE,
        inputs=(
            f"{scheme} on {count_text(seen.nodes, 'node')}, each set survives {tolerated}",
            f"a node is lost every {rounded_duration_text(seen.faults.node_mtbf_s)} (each)",
            f"exposure {rounded_duration_text(seen.exposure_s)}",
            f"lost with {risk:.1e}, any node with {seen.p_any:.1e}",
            f"stores {stores:.2f} x the data, with {own} {stored:.2f} x",
        ),
        clipped=clipped,
    )
    if set_sizes(seen.nodes, size) == set_sizes(seen.nodes, own):
        return replace(found, why_not=f"SCR_SET_SIZE={own} makes the same sets")
    gain_s, sd_s = _gain(now, own, size)
    return replace(found, value=size, gain_s=gain_s, gain_sd_s=sd_s, is_safer=size < own)


def _why_not(seen: FaultTolerance, scheme: str) -> str:
    if scheme not in ("XOR", "RS"):
        return f"{scheme} has no parity whose size depends on it"
    if not seen.evidence.count:
        return "how long checkpoints are only in the cache is not known yet"
    return "" if seen.exposure_s > 0 else "checkpoints bypass the cache: only SCR's own records are encoded"


def _gain(now: Situation, own: int, size: int) -> tuple[float, float]:
    """Return the seconds saved in the encodes to come, and their uncertainty.

    An encode reads all and writes 1/(N - 1) of it: with reads as fast as writes it takes 1 + 1/(N - 1). The
    bounds are reads that take no time, and reads that take it all.
    """
    encode_s, count = now.intents.flush.encode_s, now.remaining
    before, after = (1 / (max(_LEAST, min(each, now.intents.tolerance.nodes)) - 1) for each in (own, size))
    saved = 1 - (1 + after) / (1 + before)
    most = 1 - after / before
    return count * encode_s * saved, count * encode_s * abs(most) / 2
