"""A network that is split, and whole again: each daemon is in a network of its own, behind a router."""

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from scrtune.goodput.events import JobStarted, OutputCompleted
from scrtune.scr_config.decision import parse_decision
from scrtune.scr_config.ownership import written_on

from ...support.job_nodes import NodeDaemon, until
from .test_daemons import JOB, is_held, leaders, look

pytestmark = pytest.mark.timeout(300)

IP = shutil.which("ip", path=f"{os.environ.get('PATH', os.defpath)}:/usr/sbin:/sbin") or ""


def ip(*words: str) -> None:
    subprocess.run([IP, *words], check=True, capture_output=True)


class Networks:
    """A network for each of `count` nodes, and a router between them; nothing of it is the machine's."""

    def __init__(self, count: int) -> None:
        self._router = f"scrtune{os.getpid()}"
        self._nodes = [f"{self._router}n{number}" for number in range(1, count + 1)]

    def start(self) -> None:
        """Raises CalledProcessError where this user may not make networks."""
        for name in (self._router, *self._nodes):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        forward = "echo 1 >/proc/sys/net/ipv4/ip_forward"
        ip("netns", "exec", self._router, "sh", "-c", forward)
        for number, name in enumerate(self._nodes, 1):
            to_router, to_node = f"10.9.{number}.1", f"10.9.{number}.2"
            ip("-n", self._router, "link", "add", f"v{number}", "type", "veth", "peer", "eth", "netns", name)
            ip("-n", self._router, "addr", "add", f"{to_router}/24", "dev", f"v{number}")
            ip("-n", self._router, "link", "set", f"v{number}", "up")
            ip("-n", name, "addr", "add", f"{to_node}/24", "dev", "eth")
            ip("-n", name, "link", "set", "eth", "up")
            ip("-n", name, "route", "add", "default", "via", to_router)

    def node(self, base: Path, number: int) -> NodeDaemon:
        within = (IP, "netns", "exec", self._nodes[number - 1])
        return NodeDaemon(base, f"n{number}", number - 1, f"10.9.{number}.2", within)

    def plug(self, number: int, *, is_in: bool) -> None:
        ip("-n", self._router, "link", "set", f"v{number}", "up" if is_in else "down")

    def stop(self) -> None:
        for name in (self._router, *self._nodes):
            subprocess.run([IP, "netns", "delete", name], check=False, capture_output=True)


@pytest.fixture
def networks() -> Iterator[Networks]:
    found = Networks(3)
    try:
        found.start()
        yield found
    except (subprocess.CalledProcessError, OSError) as error:
        pytest.skip(f"no networks of our own here: {error}")
    finally:
        found.stop()


@pytest.fixture
def nodes(networks: Networks, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[NodeDaemon]]:
    base = tmp_path_factory.mktemp("c")
    started = [networks.node(base, number) for number in (1, 2, 3)]
    for node in started:
        node.spawn()
    yield [node.ready() for node in started]
    for node in started:
        node.close()
        shutil.rmtree(node.paths.trace_directory.parent, ignore_errors=True)


CHECKPOINT = OutputCompleted(dataset=1, name="ckpt.1", start_s=2.0, end_s=3.0, bytes=1 << 20)


def test_the_ranks_obey_the_half_that_rank_0_is_in_and_all_do_when_they_meet(
    networks: Networks, nodes: list[NodeDaemon]
) -> None:
    one, two, three = nodes
    one.tell(JobStarted(time_s=1.0, ranks=6, nodes=3), JOB)
    until(lambda: leaders(nodes) == {"n1"}, "one leader")
    until(lambda: is_held(one, two), "the leader's journal on the next")
    decided = parse_decision(one.paths.decision.read_bytes())

    networks.plug(1, is_in=False)
    until(lambda: leaders([two, three]) == {"n2"}, "a leader of the other half")
    until(lambda: one.cluster.problems.get("nodes that were lost") == 2, "two nodes lost")
    assert (one.cluster.leader, one.cluster.is_heard, two.cluster.is_heard) == ("n1", True, False)
    assert [each.is_lost for each in one.cluster.members] == [True, True]
    before = one.status.counters.events
    one.tell(CHECKPOINT, look("n1", 1.0))  # rank 0 goes on, and its daemon with it
    until(lambda: one.status.counters.events == before + 2, "rank 0 is heard")
    assert parse_decision(one.paths.decision.read_bytes()) == decided
    assert "is decided about on node n2" in three.error("off")

    networks.plug(1, is_in=True)
    until(lambda: leaders(nodes) == {"n1"}, "one leader again")
    assert one.status.leaders[-1].why == "rank 0 speaks to this node"
    assert [each.term for each in one.status.leaders] == [1, 3]
    assert [each.host for each in two.status.leaders] == ["n1", "n2", "n1"]
    until(lambda: not any(each.is_lost for each in one.cluster.members), "the lost are back")
    until(lambda: is_held(one, two), "the leader's journal, and nothing of what the other half decided")
    until(lambda: written_on(one.conf.read_text()) == "n1", "the config file of the one who leads")
    for node in (two, three):
        node.tell(look(node.host, 1.0))
    until(lambda: len(one.explain.nodes) == 3, "evidence of all three")
