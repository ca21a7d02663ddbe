"""Daemons of several nodes as one, each a process of its own: one decision, and what follows from losses."""

import os
import shutil
import time
from collections.abc import Callable, Iterator

import msgspec
import pytest

from scrtune.goodput.events import JobStarted
from scrtune.intents.events import Access, NodeObserved, ProcessUse, SettingsObserved, TraceDigest
from scrtune.scr_config.decision import parse_decision
from scrtune.scr_config.ownership import written_on

from ...support.job_nodes import NodeDaemon, until

# what its user declared demands another scheme: the first decision does not wait for checkpoints
JOB = SettingsObserved(
    settings={"SCR_COPY_TYPE": "SINGLE", "SCR_CACHE_BYPASS": 0, "SCR_FLUSH": 1},
    sources={"SCR_COPY_TYPE": "user config"},
    engine="embedded",
    ranks=6,
    nodes=3,
    floor="XOR",
)

AT_ONCE_S = 3.5
"""Well before the others take a silent node for lost."""

Start = Callable[..., list[NodeDaemon]]


@pytest.fixture
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Start]:
    """Start so many daemons of one job; they are ended with the test."""
    base = tmp_path_factory.mktemp("c")
    started: list[NodeDaemon] = []

    def start(count: int = 3, *options: str) -> list[NodeDaemon]:
        nodes = [NodeDaemon(base, f"n{number}", number - 1) for number in range(1, count + 1)]
        started.extend(nodes)
        for node in nodes:
            node.spawn(*options)
        return [node.ready() for node in nodes]

    yield start
    for node in started:
        node.close()
        shutil.rmtree(node.paths.trace_directory.parent, ignore_errors=True)


def look(host: str, used: float) -> NodeObserved:
    use = ProcessUse(pid=1, cpus=(0,), cores_used=used)
    return NodeObserved(
        host=host, cpus=tuple(range(8)), processes=(use,), memory_available_bytes=8, cache_free_bytes=2**30
    )


def digest(host: str, calls: int) -> TraceDigest:
    access = Access(
        tier="cache", op="write", count=calls, bytes=4096 * calls, duration_s=1.0, start_s=1.0, end_s=2.0,
        sizes={4096: calls},
    )  # fmt: skip
    return TraceDigest(events=calls, accesses=(access,), processes=((host, 1),))


def leaders(nodes: list[NodeDaemon]) -> set[str]:
    return {node.cluster.leader for node in nodes}


def is_held(leader: NodeDaemon, node: NodeDaemon) -> bool:
    """Whether a node has all of the leader's journal."""
    copy = node.paths.root / "journal.leader"
    return copy.exists() and copy.read_bytes() == leader.paths.journal.read_bytes()


def led(nodes: list[NodeDaemon]) -> list[NodeDaemon]:
    """The nodes of a job whose rank 0 has spoken to the first one, when all follow that."""
    nodes[0].tell(JobStarted(time_s=1.0, ranks=6, nodes=3), JOB)
    until(lambda: leaders(nodes) == {nodes[0].host}, "one leader")
    return nodes


class TestOneDecision:
    """What all nodes see makes one decision, on the node that rank 0 speaks to."""

    def test_it_is_made_from_the_evidence_of_all(self, start: Start) -> None:
        nodes = led(start())
        for node, used in zip(nodes, (1.0, 1.0, 6.0), strict=True):
            node.tell(look(node.host, used), digest(node.host, 100))
        until(lambda: nodes[0].status.counters.trace_events == 300, "three digests")
        until(lambda: len(nodes[0].explain.nodes) == 3, "three looks")
        told = nodes[0].explain
        assert told.stragglers == ("node n3 has 2.0 spare cores, the others 7.0",)
        (cores,) = [each for each in told.intents if each.name == "core affinity"]
        assert "2.00 spare on node n3, 7.00 on the others" in cores.sentence
        (sizes,) = [each for each in told.intents if each.name == "buffer sizes"]
        assert sizes.count == 300
        assert parse_decision(nodes[0].paths.decision.read_bytes()).settings()["SCR_COPY_TYPE"] == "XOR"
        assert not nodes[1].paths.decision.exists()
        assert not nodes[2].paths.decision.exists()

    def test_each_node_looks_at_its_own_ranks(self, start: Start) -> None:
        nodes = start(2)
        ranks = tuple((node.host, os.getpid()) for node in nodes)
        nodes[0].tell(JobStarted(time_s=1.0, ranks=2, nodes=2), msgspec.structs.replace(JOB, processes=ranks))
        until(lambda: len(nodes[0].explain.nodes) == 2, "a look at each")
        assert [(each.host, each.ranks) for each in nodes[0].explain.nodes] == [("n1", 1), ("n2", 1)]
        assert nodes[1].status.engine == "", "it knows the job by the leader's word alone"

    def test_each_says_who_leads_and_the_leader_who_is_there(self, start: Start) -> None:
        nodes = led(start())
        until(lambda: {each.host for each in nodes[0].cluster.members} == {"n2", "n3"}, "both others")
        view = nodes[0].cluster
        assert (view.leader, view.term, view.is_heard, view.next_in_line) == ("n1", 1, True, "n2")
        until(lambda: all(each.age_s < 5 for each in nodes[0].cluster.members), "a word of each")
        assert [node.cluster.since_s for node in nodes] == [view.since_s] * 3
        assert [node.status.leaders[-1].host for node in nodes] == ["n1"] * 3
        assert "is decided about on node n1" in nodes[2].error("off")

    def test_a_job_without_other_nodes_listens_nowhere(self, real_daemon: NodeDaemon) -> None:
        status = real_daemon.start().view("status")  # type: ignore[call-arg]
        assert (status.cluster, status.leaders) == (None, ())


class TestLoss:
    """A node is lost: its daemon is killed, and nobody starts it again."""

    def test_the_next_leads_with_the_settings_that_were_decided(self, start: Start) -> None:
        nodes = led(start())
        nodes[0].tell(look("n1", 1.0))
        until(lambda: nodes[0].status.counters.events == 4, "a look")
        before = nodes[0].status
        until(lambda: is_held(nodes[0], nodes[1]), "all of the journal")
        nodes[0].kill()
        until(lambda: leaders(nodes[1:]) == {"n2"}, "another leader")
        after = nodes[1].status
        assert (after.generation, after.engine, after.ranks) == (before.generation, "embedded", 6)
        assert [(each.host, each.term) for each in after.leaders] == [("n1", 1), ("n2", 2)]
        assert after.leaders[-1].why == "node n1, which led, is lost"
        decided = parse_decision(nodes[1].paths.decision.read_bytes())
        assert (decided.generation, decided.settings()["SCR_COPY_TYPE"]) == (before.generation, "XOR")
        assert written_on(nodes[1].conf.read_text()) == "n2"

    def test_a_run_that_begins_on_a_remaining_node_goes_on_from_there(self, start: Start) -> None:
        nodes = led(start())
        nodes[0].tell(digest("n1", 100))
        until(lambda: nodes[0].status.counters.trace_events == 100, "a digest")
        until(lambda: is_held(nodes[0], nodes[1]), "the leader's journal")
        nodes[0].kill()
        nodes[2].tell(JOB)  # before the loss is known to anybody
        until(lambda: leaders(nodes[1:]) == {"n3"}, "rank 0's node leads")
        assert nodes[2].status.counters.trace_events == 100
        assert [each.host for each in nodes[2].status.leaders] == ["n1", "n2", "n3"]

    def test_rank_0_on_another_node_has_what_the_leader_knows(self, start: Start) -> None:
        nodes = led(start())
        nodes[0].tell(look("n1", 1.0), digest("n1", 100))
        until(lambda: nodes[0].status.counters.trace_events == 100, "a digest")
        nodes[2].tell(JobStarted(time_s=2.0, ranks=6, nodes=3), JOB)
        until(lambda: leaders(nodes) == {"n3"}, "rank 0's node leads")
        assert nodes[2].status.counters.trace_events == 100
        assert nodes[2].status.generation == nodes[0].status.generation

    def test_a_daemon_that_is_started_again_at_once_still_leads(self, start: Start) -> None:
        nodes = led(start())
        generation, killed_s = nodes[0].status.generation, time.monotonic()
        nodes[0].kill()
        nodes[0].spawn()
        nodes[0].ready()
        if time.monotonic() - killed_s > AT_ONCE_S:
            pytest.skip("the machine is too busy to start a daemon at once")
        until(lambda: {each.host for each in nodes[0].cluster.members} == {"n2", "n3"}, "the others")
        assert leaders(nodes) == {"n1"}
        assert nodes[0].status.generation == generation

    def test_a_node_that_is_lost_counts_no_longer(self, start: Start) -> None:
        nodes = led(start())
        for node, used in zip(nodes, (1.0, 1.0, 6.0), strict=True):
            node.tell(look(node.host, used))
        until(lambda: len(nodes[0].explain.nodes) == 3, "three looks")
        nodes[2].kill()
        until(lambda: [each.host for each in nodes[0].explain.nodes] == ["n1", "n2"], "two nodes")
        assert nodes[0].cluster.problems == {"nodes that were lost": 1}
        assert [each.is_lost for each in nodes[0].cluster.members] == [False, True]


class TestAlone:
    """What keeps a node from the others is said, and the job goes on."""

    def test_where_it_is_not_named(self, start: Start) -> None:
        (node,) = start(1, "--peers", "other:1,other2:2")
        assert "is not among --peers other:1,other2:2" in node.log()
        assert "goes on alone" in node.log()
        node.tell(JOB)
        until(node.paths.decision.exists, "a decision")
        assert node.status.cluster is None
