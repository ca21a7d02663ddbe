"""The nodes of a job as people read them: who leads, who is there, what each has said of itself."""

from collections.abc import Sequence
from datetime import datetime, timezone

from ...daemon.views import ClusterView, MemberView, StatusView
from ...intents.job_state import Leader
from ...intents.observe.nodes import NodeEvidence
from ...units import bytes_text, count_text
from ..blocks import Table, table

_SHOWN = 16


def leader(view: StatusView) -> str:
    """Return whose daemon decides in a job of several nodes, since when and why."""
    if not view.leaders:
        return "none yet: rank 0 has not spoken to any node's daemon" if view.cluster else ""
    last = view.leaders[-1]
    since = datetime.fromtimestamp(last.since_s, timezone.utc).strftime("%H:%M:%SZ")
    earlier = f"; {count_text(len(view.leaders) - 1, 'leader')} before it" if len(view.leaders) > 1 else ""
    following = view.cluster.next_in_line if view.cluster else ""
    following = following and f"; next in line {following}"
    return f"node {last.host} since {since}, because {last.why}{earlier}{following}"


def members(cluster: ClusterView) -> str:
    """Return how old each node's last word is, the oldest first; nothing unless the leader says it."""
    lost = [each.host for each in cluster.members if each.is_lost]
    heard = sorted((each for each in cluster.members if not each.is_lost), key=lambda each: -each.age_s)
    shown = [f"{each.host} {each.age_s:.1f} s ago{_digest(each)}" for each in heard[:_SHOWN]]
    if hidden := heard[_SHOWN:]:
        shown.append(f"{len(hidden)} more within {hidden[0].age_s:.1f} s")
    parts = [", ".join(shown), f"lost: {', '.join(lost[:_SHOWN])}" if lost else ""]
    return "; ".join(filter(None, parts))


def _digest(node: MemberView) -> str:
    return "" if node.digest_age_s is None else f" (digest {node.digest_age_s:.0f} s)"


def led(leaders: Sequence[Leader], start_s: float) -> str:
    """Return which node led when, in a job that began at `start_s`."""
    begin_s = start_s or leaders[0].since_s
    told = (f"{each.host} from {max(0.0, each.since_s - begin_s):.1f} s ({each.why})" for each in leaders)
    return f"Led by node {', then '.join(told)}."


def table_of(nodes: Sequence[NodeEvidence]) -> Table:
    """Return a row for each node, those first that have least."""
    least = sorted(nodes, key=lambda node: (node.spare_cores, node.host))[:_SHOWN]
    hidden = len(nodes) - _SHOWN
    title = f"Nodes{f' ({hidden} more have more spare cores)' if hidden > 0 else ''}"
    headings = (
        ">ranks",
        ">spare cores",
        ">memory",
        ">cache free",
        ">network",
        ">cache writes",
        ">prefix writes",
    )
    return table("node", *headings, ">trace events", rows=map(_row, least), title=title)


def _row(node: NodeEvidence) -> tuple[str, ...]:
    rates = node.link_bytes_per_s, node.cache_write_bytes_per_s, node.prefix_write_bytes_per_s
    return (
        node.host,
        str(node.ranks) if node.cores else "-",
        f"{node.spare_cores:.2f} of {node.cores}" if node.cores else "-",
        *(_size(each) for each in (node.memory_available_bytes, node.cache_free_bytes)),
        *(_size(each, "/s") for each in rates),
        f"{node.trace_events:,}",
    )


def _size(value: float, unit: str = "") -> str:
    return f"{bytes_text(value)}{unit}" if value else "-"
