"""The nodes of a job as `scrtune status` and `scrtune explain` show them."""

import msgspec
import pytest

from scrtune.cli import terminal
from scrtune.cli.blocks import Document
from scrtune.cli.tables import job as job_tables
from scrtune.daemon import views
from scrtune.daemon.views import ClusterView, MemberView
from scrtune.intents.events import LeaderChanged, NodeObserved, ProcessUse, SettingsObserved
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.settings import DEFAULTS


def text(shown: Document) -> str:
    return " ".join(terminal.rendered(shown).split())


def look(host: str, used: float) -> NodeObserved:
    use = ProcessUse(pid=1, cpus=(0,), cores_used=used)
    return NodeObserved(
        host=host,
        cpus=tuple(range(8)),
        processes=(use,),
        memory_available_bytes=2**30,
        cache_free_bytes=2**31,
    )


@pytest.fixture
def pipeline() -> Pipeline:
    """A job on three nodes, the first leader of which was lost."""
    made = Pipeline()
    made.handle(LeaderChanged(host="n1", term=1, why="rank 0 speaks to this node"), 100.0)
    made.handle(SettingsObserved(settings=DEFAULTS.copy(), ranks=3, nodes=3), 100.0)
    for host, used in (("n1", 1.0), ("n2", 2.0), ("n3", 7.0)):
        made.handle(look(host, used), 101.0)
    made.handle(LeaderChanged(host="n2", term=2, why="node n1, which led, is lost"), 160.0)
    return made


def test_status_says_who_leads_since_when_and_who_is_there(pipeline: Pipeline) -> None:
    cluster = ClusterView(
        leader="n2",
        next_in_line="n3",
        members=(
            MemberView(host="n1", age_s=60.0, is_lost=True),
            MemberView(host="n3", age_s=0.25, digest_age_s=7.0),
        ),
        problems={"nodes that were lost": 1},
    )
    view = views.status_view(pipeline, 161.0, job_id="j", host="n2")
    shown = text(job_tables.status(msgspec.structs.replace(view, cluster=cluster)))
    leader = "leader node n2 since 00:02:40Z, because node n1, which led, is lost; 1 leader before it; next"
    assert leader in shown
    assert "nodes n3 0.2 s ago (digest 7 s); lost: n1 " in shown
    assert "between nodes 1 nodes that were lost" in shown


def test_of_many_nodes_those_are_shown_that_were_silent_longest(pipeline: Pipeline) -> None:
    members = tuple(MemberView(host=f"n{number}", age_s=number / 10) for number in range(100))
    view = views.status_view(pipeline, 161.0, job_id="j", host="n2")
    shown = text(
        job_tables.status(msgspec.structs.replace(view, cluster=ClusterView(leader="n2", members=members)))
    )
    assert "nodes n99 9.9 s ago, n98 9.8 s ago" in shown
    assert "n84 8.4 s ago, 84 more within 8.3 s" in shown


def test_until_rank_0_has_spoken_nobody_leads() -> None:
    view = views.status_view(Pipeline(), 1.0, job_id="j", host="n2")
    assert "leader" not in text(job_tables.status(view)), "a job on one node"
    shown = text(job_tables.status(msgspec.structs.replace(view, cluster=ClusterView())))
    assert "leader none yet: rank 0 has not spoken to any node's daemon" in shown


def test_explain_has_a_row_for_each_node_and_names_the_one_that_lags(pipeline: Pipeline) -> None:
    shown = text(job_tables.explain(views.explain_view(pipeline)))
    led = "Led by node n1 from 0.0 s (rank 0 speaks to this node), then n2 from 60.0 s (node n1, which led"
    assert led in shown
    assert "n3 1 1.00 of 8 1 GiB 2 GiB - - - 0" in shown
    assert "Straggler: node n3 has 1.0 spare cores, the others 6.5." in shown
    assert shown.index("n3 1 1.00") < shown.index("n2 1 6.00") < shown.index("n1 1 7.00")


def test_of_one_node_explain_has_no_table() -> None:
    alone = Pipeline()
    alone.handle(SettingsObserved(settings=DEFAULTS.copy()), 1.0)
    alone.handle(look("n1", 1.0), 2.0)
    shown = text(job_tables.explain(views.explain_view(alone)))
    assert "Nodes" not in shown
    assert "Led by" not in shown
