"""Intent 3: which redundancy scheme, over which failure groups, and whether two schemes in turn pay.

**Scheme.** What must be survived chooses it: processes SINGLE, one node of a set XOR (PARTNER at two nodes,
which stores as much for less computation), k nodes RS. Beyond what is declared the scheme is a lever: trials
judge it.

**Groups.** Nodes below one switch fail together with it. Where Slurm tells the switches, sets across them
survive the loss of one: SCR_GROUP and a GROUPS line for each node. redset makes sets of the processes with
equal numbers in their groups, so that the groups must have equal sizes. SCR_Init dereferences a null pointer
where a node has no such line (scr_reddesc.c:369), so that SCR_GROUP never goes anywhere without its lines.

**Two schemes in turn.** A failure that ends processes alone, one in 1/l1 seconds, goes on from a SINGLE
checkpoint, which costs C1 each; one that takes a node, one in 1/l2, from the last that XOR encoded, which
costs C2 more. Young's interval at each level is sqrt(2 C / l) (Benoit et al., IEEE TC 66(7), 2017), so that
every n-th checkpoint is encoded,

    n = sqrt(C2 l1 / (C1 l2))

as in SCR's manual ("Example using SINGLE and XOR"), if that is 2 or more, and less than the n of SCR_FLUSH.
"""

from collections.abc import Iterator
from math import sqrt

from msgspec.structs import replace

from .....units import bytes_text, count_text, rounded_duration_text, seconds_text
from ....observe.faults.redundancy import keeps_floor, most_survived, storage_factor
from ....settings import flush_every
from ...guards import CACHE_SHARE
from ...parameter import DerivedParameter
from ...situation import Situation
from ..table import CKPT, COPY_TYPE, GROUP

_FEWEST = 2


def fault_model(now: Situation) -> Iterator[DerivedParameter]:
    """Derive SCR_COPY_TYPE, SCR_GROUP with its GROUPS lines, and a menu of CKPT and STORE lines."""
    yield _scheme(now)
    yield _group(now)
    yield _menu(now)


def _scheme(now: Situation) -> DerivedParameter:
    faults, scheme = now.intents.faults, now.intents.redundancy.scheme
    found = replace(
        COPY_TYPE,
        inputs=(
            f"{count_text(faults.losses, 'lost node')} to survive",
            f"a failure about every {rounded_duration_text(faults.rate.mtbf_s)}",
            f"{1 - faults.process_share:.0%} of failures take a node",
        ),
    )
    if not faults.declared:
        why_not = f"no floor was declared: a lever, judged by trials ({now.rails.because})"
        return replace(found, why_not=why_not)
    if not now.cached:
        return replace(found, why_not="the job goes past the cache: the prefix directory survives everything")
    wanted, clipped = now.intents.redundancy.floor, ""
    if now.job is not None and (now.job.declared.losses or 0) > faults.losses:
        clipped = f"{most_survived(now.job)}: {faults.losses}"
    if keeps_floor(scheme, wanted):
        return replace(found, value=scheme, clipped=clipped, is_users_word=True)
    why = f"{scheme} does not survive what the declared floor {wanted} survives"
    return replace(
        found, value=wanted, inputs=(why, *found.inputs), clipped=clipped, is_users_word=True,
        source="the user's declaration",
    )  # fmt: skip


def _group(now: Situation) -> DerivedParameter:
    switches = now.intents.faults.switches
    if why := _why_no_groups(now):
        return replace(GROUP, why_not=why)
    nodes = now.intents.faults.nodes
    scheme, size = now.intents.redundancy.effective, now.own_number("SCR_SET_SIZE")
    before, after = (storage_factor(scheme, min(size, each)) for each in (nodes, len(switches)))
    return replace(
        GROUP,
        value="SWITCH",
        inputs=(
            f"{count_text(nodes, 'node')}, equally many on each of {len(switches)} switches",
            f"sets of {min(size, len(switches))} or more store {after:.2f} x the data, not {before:.2f} x",
        ),
        lines=(
            "SCR_GROUP=SWITCH",
            *(f"GROUPS={host} SWITCH={switch}" for switch, hosts in switches.items() for host in hosts),
        ),
    )


def _why_no_groups(now: Situation) -> str:
    faults, switches = now.intents.faults, now.intents.faults.switches
    sizes = {len(hosts) for hosts in switches.values()}
    reasons = {
        "no switches are known: NODE, where each node fails by itself, is SCR's default": not switches,
        "the allocation has other nodes than the job: sets across switches need a line for every node": (
            sum(map(len, switches.values())) != faults.nodes
        ),
        "all nodes hang on one switch, whose loss no scheme survives": len(switches) < _FEWEST,
        "each node hangs on a switch of its own: NODE is the same": sizes == {1},
        "the switches have unequally many nodes: redset would leave some without a set": len(sizes) > 1,
        "nothing is encoded across nodes": not now.encodes(now.settings),
    }
    return next((why for why, holds in reasons.items() if holds), "")


def _menu(now: Situation) -> DerivedParameter:
    faults, flush, every = now.intents.faults, now.intents.flush, flush_every(now.settings)
    if why := _why_no_menu(now):
        return replace(CKPT, why_not=why)
    encode_s, source = _encode_s(now)
    if encode_s <= 0 or flush.write_s <= 0:
        return replace(CKPT, why_not="what an XOR encode costs here was neither measured nor probed")
    of_process, every_s = faults.process_share, faults.rate.mtbf_s
    nth = menu_interval(flush.write_s, encode_s, of_process)
    ratio = f"({encode_s:.3g} x {of_process:.2f}) / ({flush.write_s:.3g} x {1 - of_process:.2f})"
    found = replace(
        CKPT,
        inputs=(
            f"write {seconds_text(flush.write_s)}, XOR {seconds_text(encode_s)} ({source})",
            f"one failure every {rounded_duration_text(every_s)}; {of_process:.0%} end processes alone",
            f"n = sqrt({ratio}) = {nth}",
        ),
    )
    if nth < _FEWEST:
        return replace(found, why_not="XOR on every one loses least: one scheme is enough")
    if nth >= every:
        return replace(found, why_not=f"every {every}-th is flushed, which protects as often")
    gain_s, sd_s = _menu_gain(now, nth, encode_s)
    if gain_s <= 0:
        return replace(found, why_not=f"it would cost {seconds_text(-gain_s)} more than it saves")
    return replace(found, gain_s=gain_s, gain_sd_s=sd_s, lines=_menu_lines(now.cache_base, nth))


def menu_interval(write_s: float, encode_s: float, process_share: float) -> int:
    """Return every how many checkpoints one is encoded, where so large a share of failures ends processes."""
    return max(1, round(sqrt(encode_s * process_share / (write_s * (1 - process_share)))))


def _why_no_menu(now: Situation) -> str:
    if now.intents.faults.nodes < _FEWEST:
        return "on one node SCR falls back to SINGLE"
    if not now.cached:
        return "checkpoints bypass the cache"
    if flush_every(now.settings) <= 1:
        return "every checkpoint is flushed: XOR would protect it for as long as its flush takes"
    if not keeps_floor("SINGLE", now.rails.floor):
        return f"every checkpoint must survive what {now.rails.floor} survives ({now.rails.because})"
    if not now.intents.flush.evidence.count:
        return "no checkpoint was measured yet"
    return _why_no_room(now)


def _why_no_room(now: Situation) -> str:
    """Return why two datasets, one of them with its parity, have no room in the cache; empty if they have."""
    more_bytes = now.node_bytes() * storage_factor("XOR", now.intents.redundancy.members)
    free_bytes = now.cache_free_bytes
    if free_bytes <= 0:
        return "the free space of the cache is not known"
    if more_bytes <= CACHE_SHARE * free_bytes:
        return ""
    return f"{bytes_text(more_bytes)} more do not fit into {CACHE_SHARE:.0%} of {bytes_text(free_bytes)} free"


def _encode_s(now: Situation) -> tuple[float, str]:
    """Return the seconds of an XOR encode: as measured, else by the probe's rates (docs/tuning.md)."""
    flush, redundancy, probe = now.intents.flush, now.intents.redundancy, now.probe
    if redundancy.effective == "XOR" and flush.encode_s > 0:
        return flush.encode_s, "measured"
    if probe is None or not (probe.cache_read_bytes_per_s > 0 and probe.cache_write_bytes_per_s > 0):
        return 0.0, ""
    here, parity = now.node_bytes(), 1 / (max(_FEWEST, redundancy.members) - 1)
    seconds = here / probe.cache_read_bytes_per_s + here * parity / probe.cache_write_bytes_per_s
    return seconds, "by the probe's rates, without the network"


def _menu_gain(now: Situation, nth: int, encode_s: float) -> tuple[float, float]:
    """Return the rework saved less the encodes paid in the checkpoints to come, and its uncertainty.

    A lost node costs half of what lies between two flushes, or between two encoded checkpoints. The rate of
    failures is known within a factor.
    """
    faults, interval_s = now.intents.faults, now.intents.flush.interval_s
    losses = interval_s / faults.rate.mtbf_s * (1 - faults.process_share)
    saved_s = losses * (flush_every(now.settings) - nth) / 2 * interval_s
    count = now.remaining
    return count * (saved_s - encode_s / nth), count * saved_s * (faults.rate.half_within - 1)


def _menu_lines(base: str, nth: int) -> tuple[str, ...]:
    single, xor = f"{base}/single", f"{base}/xor"
    return (
        "SCR_COPY_TYPE=FILE",
        "SCR_CACHE_BYPASS=0",
        f"STORE={single} COUNT=1",
        f"STORE={xor} COUNT=1",
        f"CKPT=0 INTERVAL=1 STORE={single} TYPE=SINGLE",
        f"CKPT=1 INTERVAL={nth} STORE={xor} TYPE=XOR",
    )
