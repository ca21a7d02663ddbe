"""Who leads: nodes that are started, lost, cut off and heard of again, on a played network and clock."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.daemon.cluster.lead import LINE, LOST_S, Changed, Lost, Membership
from scrtune.daemon.cluster.messages import CLUSTER_VERSION, Address, Beat, Reply

STEP_S = 0.25
TAKE_OVER_S = 10.0


def address(number: int) -> Address:
    return Address(f"n{number}", f"tcp://10.0.0.{number}:1", number)


class Nodes:
    """Nodes 1 to `count`; a message between two of them arrives at once, or never."""

    def __init__(self, count: int) -> None:
        self.first = [address(number) for number in range(1, count + 1)]
        self.alive = {each.host: Membership(each, self.first) for each in self.first}
        self.cut: set[frozenset[str]] = set()
        self.time_s = 1000.0
        self.happened: list[tuple[str, Changed | Lost]] = []

    def __getitem__(self, host: str) -> Membership:
        return self.alive[host]

    def rank_0_speaks_to(self, host: str, *, begins: bool = True) -> None:
        self._note(host, self[host].spoke(self.time_s, begins=begins, has_state=True))

    def lose(self, *hosts: str) -> None:
        for host in hosts:
            del self.alive[host]

    def cut_off(self, *hosts: str) -> None:
        self.cut = {
            frozenset((one, other.host)) for one in hosts for other in self.first if other.host not in hosts
        }

    def run(self, seconds: float) -> None:
        end_s = self.time_s + seconds
        while self.time_s < end_s:
            self.time_s += STEP_S
            for host, node in list(self.alive.items()):
                self._note(host, node.tick(self.time_s, self.time_s))
                if (target := node.due(self.time_s)) is not None:
                    self._beat(node, target.host)

    def _beat(self, node: Membership, target: str) -> None:
        if target not in self.alive or frozenset((node.me.host, target)) in self.cut:
            return
        other = self.alive[target]
        beat = Beat(CLUSTER_VERSION, "j", node.me, self.time_s, node.leader)
        self._note(target, other.beat(beat, self.time_s, self.time_s))
        reply = Reply(CLUSTER_VERSION, "j", other.me, other.leader)
        if other.is_leading:
            reply = Reply(CLUSTER_VERSION, "j", other.me, other.leader, 0, other.next, len(other.members) + 1)
        self._note(node.me.host, node.reply(reply, self.time_s))

    def _note(self, host: str, changes: list[Changed] | list[Changed | Lost]) -> None:
        self.happened += [(host, each) for each in changes]

    @property
    def leaders(self) -> dict[str, str]:
        """Whom each node follows."""
        return {host: node.leader.host if node.leader else "" for host, node in self.alive.items()}

    def lost(self, host: str) -> list[str]:
        return [each.host for at, each in self.happened if at == host and isinstance(each, Lost)]


def started(count: int = 4, rank_0: str = "n1") -> Nodes:
    nodes = Nodes(count)
    nodes.run(3)
    nodes.rank_0_speaks_to(rank_0)
    nodes.run(6)
    return nodes


def test_until_rank_0_has_spoken_nobody_leads() -> None:
    nodes = Nodes(4)
    nodes.run(60)
    assert set(nodes.leaders.values()) == {""}
    assert not nodes.happened


@pytest.mark.parametrize("rank_0", ["n1", "n2", "n4"])
def test_the_node_that_rank_0_speaks_to_leads(rank_0: str) -> None:
    nodes = started(4, rank_0)
    assert set(nodes.leaders.values()) == {rank_0}
    others = [each for each in ("n1", "n2", "n3", "n4") if each != rank_0]
    assert [each.host for each in nodes[rank_0].next] == others[:LINE]
    assert nodes[others[0]].is_next
    nodes.run(60)
    assert sum(isinstance(each, Changed) for _, each in nodes.happened) == 4, "once for each node"


def test_nodes_that_start_in_any_order_find_each_other() -> None:
    nodes = Nodes(4)
    late = nodes.alive.pop("n1")
    for node in nodes.alive.values():
        node.know(nodes.first[1:])
    nodes.run(20)
    nodes.alive["n1"] = late
    for node in nodes.alive.values():
        node.know(nodes.first)
    nodes.run(3)
    nodes.rank_0_speaks_to("n3")
    nodes.run(6)
    assert set(nodes.leaders.values()) == {"n3"}


class TestLoss:
    """A node that does not answer any more."""

    def test_the_next_in_line_takes_over_within_ten_seconds(self) -> None:
        nodes = started()
        nodes.lose("n1")
        nodes.run(TAKE_OVER_S)
        assert set(nodes.leaders.values()) == {"n2"}
        (taken,) = [each for _, each in nodes.happened if isinstance(each, Changed) and each.is_taken_over]
        assert (taken.leader.host, taken.leader.term, taken.leader.is_heard) == ("n2", 2, False)
        assert taken.leader.why == "node n1, which led, is lost"

    def test_it_does_not_before_the_leader_was_silent_for_long(self) -> None:
        nodes = started()
        nodes.lose("n1")
        nodes.run(LOST_S - 1)
        assert set(nodes.leaders.values()) == {"n1"}

    def test_when_the_next_is_lost_too_the_one_behind_it_leads(self) -> None:
        nodes = started()
        nodes.lose("n1", "n2")
        nodes.run(2 * TAKE_OVER_S)
        assert set(nodes.leaders.values()) == {"n3"}

    def test_of_two_nodes_the_last_one_leads_alone(self) -> None:
        nodes = started(2)
        nodes.lose("n1")
        nodes.run(TAKE_OVER_S)
        assert nodes.leaders == {"n2": "n2"}

    def test_the_leader_says_which_node_is_lost_once_and_it_is_not_next_any_more(self) -> None:
        nodes = started()
        nodes.lose("n2")
        nodes.run(40)
        assert nodes.lost("n1") == ["n2"]
        assert [each.host for each in nodes["n1"].next] == ["n3", "n4"]
        assert nodes["n3"].is_next

    def test_rank_0_on_a_remaining_node_makes_that_node_lead(self) -> None:
        nodes = started()
        nodes.lose("n1")
        nodes.run(TAKE_OVER_S)
        nodes.rank_0_speaks_to("n3")
        nodes.run(6)
        assert set(nodes.leaders.values()) == {"n3"}
        leader = nodes["n3"].leader
        assert leader is not None
        assert (leader.term, leader.is_heard) == (3, True)

    def test_a_leader_that_is_started_again_in_time_still_leads(self) -> None:
        nodes = started()
        again = nodes.alive["n1"] = Membership(address(1), nodes.first)
        again.lead(nodes.time_s, "again", term=1)
        nodes.run(20)
        assert set(nodes.leaders.values()) == {"n1"}
        assert not nodes.lost("n2")


class TestSplit:
    """Nodes that cannot reach each other, and then can."""

    def test_the_leader_that_rank_0_speaks_to_leads_all_when_the_network_is_whole_again(self) -> None:
        nodes = started()
        nodes.cut_off("n1")
        nodes.run(20)
        assert nodes.leaders == {"n1": "n1", "n2": "n2", "n3": "n2", "n4": "n2"}
        assert sorted(nodes.lost("n1")) == ["n2", "n3", "n4"]
        nodes.cut.clear()
        nodes.run(40)
        assert set(nodes.leaders.values()) == {"n1"}
        leader = nodes["n1"].leader
        assert leader is not None
        assert (leader.term, leader.why) == (3, "rank 0 speaks to this node")

    def test_but_not_when_a_run_began_on_the_other_side(self) -> None:
        nodes = started()
        nodes.cut_off("n1")
        nodes.run(20)
        nodes.rank_0_speaks_to("n2")
        nodes.run(2)
        nodes.cut.clear()
        nodes.run(40)
        assert set(nodes.leaders.values()) == {"n2"}

    def test_rank_0_of_the_run_before_does_not_take_that_back(self) -> None:
        nodes = started()
        nodes.rank_0_speaks_to("n2")
        nodes.run(6)
        nodes.rank_0_speaks_to("n1", begins=False)
        nodes.run(6)
        assert set(nodes.leaders.values()) == {"n2"}

    def test_one_broken_connection_takes_no_other_node_away(self) -> None:
        nodes = started()
        nodes.cut = {frozenset(("n1", "n2"))}
        nodes.run(60)
        assert nodes.leaders["n3"] == nodes.leaders["n4"] == nodes.leaders["n1"] == "n1"
        nodes.cut.clear()
        nodes.run(60)
        assert set(nodes.leaders.values()) == {"n1"}

    @given(
        st.lists(
            st.tuples(
                st.sets(st.sampled_from(["n1", "n2", "n3", "n4", "n5"]), max_size=3), st.integers(1, 80)
            ),
            max_size=6,
        )
    )
    def test_whatever_was_cut_off_in_the_end_all_follow_the_one_that_rank_0_speaks_to(
        self, cuts: list[tuple[set[int], int]]
    ) -> None:
        nodes = started(5)
        for numbers, steps in cuts:
            nodes.cut_off(*(f"n{number}" for number in numbers))
            nodes.run(steps * STEP_S)
        nodes.cut.clear()
        nodes.run(80)
        assert set(nodes.leaders.values()) == {"n1"}


def test_terms_only_grow() -> None:
    nodes = started()
    for hosts in (("n1",), ("n2", "n3"), ()):
        nodes.cut_off(*hosts)
        nodes.run(30)
    for host in nodes.alive:
        terms = [each.leader.term for at, each in nodes.happened if at == host and isinstance(each, Changed)]
        assert terms == sorted(terms)


def test_beats_are_rarer_in_a_large_job_but_for_those_next_in_line() -> None:
    assert [Membership.beat_s(nodes) for nodes in (2, 200, 1000, 10_000)] == [1, 1, 5, 50]
