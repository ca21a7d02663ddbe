"""What two or three nodes say to each other over loopback, turn by turn, and what they refuse."""

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest
import zmq

from scrtune.client.paths import JobPaths
from scrtune.client.transport import wire
from scrtune.daemon.cluster.cluster import Cluster, joined
from scrtune.daemon.cluster.keys import Keys, job_keys
from scrtune.daemon.cluster.lead import Changed
from scrtune.daemon.cluster.link import WRONG_KEY, Link
from scrtune.daemon.cluster.messages import (
    CLUSTER_VERSION,
    Address,
    Beat,
    MessageError,
    Reply,
    decode,
    encode,
)
from scrtune.daemon.options import ClusterOptions
from scrtune.intents.events import Event, NodeObserved, SettingsObserved, StorageProbed, TuningSwitched

from ...support.job_nodes import until

NOW = 1_700_000_000.0
JOB = SettingsObserved(
    settings={"SCR_FLUSH": 1},
    ranks=4,
    nodes=2,
    cache="/dev/shm",  # noqa: S108
    processes=(("n1", 10), ("n2", 20), ("n2", 21)),
)


class Node:
    """One node, its turns taken by hand."""

    def __init__(self, base: Path, host: str, peers: tuple[str, ...] = ()) -> None:
        self.paths = JobPaths.of("j", host, base / host).create()
        self.poller = zmq.Poller()
        self.now = NOW
        found = joined(ClusterOptions(base / "cluster", peers), self.paths, self.poller)
        assert found is not None
        self.cluster: Cluster = found
        self.happened: list[Changed | Event] = []

    def turn(self) -> None:
        self.poller.poll(1)
        self.happened += self.cluster.turn(time.monotonic(), self.now)

    def lead(self, job: SettingsObserved = JOB) -> None:
        spoken = self.cluster.heard(
            begins=True, has_state=False, led_last=False, time_s=time.monotonic(), now=self.now
        )
        assert self.cluster.is_leading, spoken
        self.cluster.describe(job)

    @property
    def events(self) -> list[Event]:
        return [each for each in self.happened if not isinstance(each, Changed)]

    @property
    def problems(self) -> dict[str, int]:
        return self.cluster.view(time.monotonic()).problems


class Nodes(list[Node]):
    """Nodes that take turns."""

    def until(self, happened: Callable[[], object]) -> None:
        def each_turn() -> object:
            for node in self:
                node.turn()
            return happened()

        until(each_turn, limit_s=20)


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Nodes]:
    """Two nodes, the first of which leads."""
    monkeypatch.setenv("SCRTUNE_ADDRESS", "127.0.0.1")
    found = Nodes()
    for number in (1, 2):
        monkeypatch.setenv("SLURM_NODEID", str(number - 1))
        found.append(Node(tmp_path, f"n{number}"))
    found[0].lead()
    found.until(lambda: found[1].cluster.job)
    yield found
    for node in found:
        node.cluster.close()


def look(host: str) -> NodeObserved:
    return NodeObserved(host=host, cpus=(0,))


def peer(nodes: Nodes, keys: Keys, server_key: bytes) -> "zmq.Socket[bytes]":
    """A socket of somebody else's, connected to the leader."""
    made = zmq.Context.instance().socket(zmq.DEALER)
    made.linger = 0
    made.curve_publickey, made.curve_secretkey, made.curve_serverkey = keys.public, keys.secret, server_key
    (leader,) = (shared(nodes) / "nodes").glob("*-n1")
    made.connect(leader.read_text())
    return made


def shared(nodes: Nodes) -> Path:
    return nodes[0].paths.base.parent / "cluster"


def members(nodes: Nodes) -> set[str]:
    """Whom the leader knows."""
    return {each.host for each in nodes[0].cluster.view(time.monotonic()).members}


class TestEvidence:
    """What a node tells the leader."""

    def test_it_arrives_once_and_the_leader_knows_whose_it_is(self, nodes: Nodes) -> None:
        (before,) = nodes[0].cluster.view(time.monotonic()).members
        assert before.digest_age_s is None
        nodes[1].cluster.tell(look("n2"))
        nodes[1].cluster.tell(StorageProbed(host="n2", cache_write_bytes_per_s=5.0))
        nodes.until(lambda: len(nodes[0].events) == 2)
        assert nodes[0].events == [look("n2"), StorageProbed(host="n2", cache_write_bytes_per_s=5.0)]
        (member,) = nodes[0].cluster.view(time.monotonic()).members
        assert member.digest_age_s is not None

    def test_of_looks_only_the_last_one_is_sent(self, nodes: Nodes) -> None:
        for number in range(5):
            nodes[1].cluster.tell(NodeObserved(host="n2", cpus=(number,)))
        nodes.until(lambda: nodes[0].events)
        assert nodes[0].events == [NodeObserved(host="n2", cpus=(4,))]

    def test_each_node_knows_its_own_processes_and_no_settings(self, nodes: Nodes) -> None:
        told = nodes[1].cluster.job
        assert told is not None
        assert (told.processes, told.settings, told.cache) == ((("n2", 20), ("n2", 21)), {}, JOB.cache)

    def test_a_job_that_is_described_anew_is_told_anew(self, nodes: Nodes) -> None:
        nodes[0].cluster.describe(msgspec.structs.replace(JOB, ranks=8))
        nodes.until(lambda: nodes[1].cluster.job and nodes[1].cluster.job.ranks == 8)

    def test_what_waits_for_a_leader_is_bounded_and_counted(self, nodes: Nodes) -> None:
        for number in range(100):
            nodes[1].cluster.tell(StorageProbed(host="n2", bytes=number))
        nodes.until(lambda: nodes[0].events)
        *kept, lost = nodes[0].events
        assert [each.bytes for each in kept if isinstance(each, StorageProbed)] == list(range(64, 100))
        assert lost == msgspec.structs.replace(
            lost, source="node:n2: digests that waited for a leader", count=64
        )

    def test_nothing_is_sent_that_is_not_a_nodes_own_to_tell(self, nodes: Nodes) -> None:
        nodes[1].cluster.tell(TuningSwitched(on=False))
        nodes[1].cluster.tell(look("n3"))
        nodes.until(lambda: nodes[0].problems)
        assert nodes[0].events == []
        assert nodes[0].problems == {"events of a node that are not its own to tell": 1}


class TestBadPeers:
    """Who is no node of this job, or another version of it: counted, said once, and nothing else."""

    def say(self, nodes: Nodes, data: bytes) -> bytes:
        """What the leader answers to somebody who has the job's key."""
        keys = job_keys(shared(nodes))
        with peer(nodes, keys, keys.public) as other:
            other.send(data)
            nodes.until(lambda: other.poll(0))
            return other.recv()

    def beat(self, **changes: object) -> Beat:
        beat = Beat(CLUSTER_VERSION, "j", Address("n9", "tcp://127.0.0.1:1", 9), NOW)
        return msgspec.structs.replace(beat, **changes)

    def test_another_key_is_refused(self, nodes: Nodes) -> None:
        ours = job_keys(shared(nodes))
        with peer(nodes, Keys(*zmq.curve_keypair()), ours.public) as other:
            other.send(encode(self.beat()))
            nodes.until(lambda: nodes[0].problems.get(WRONG_KEY))
            assert not other.poll(100)
        assert members(nodes) == {"n2"}

    def test_so_is_somebody_who_knows_nothing_of_the_job(self, nodes: Nodes) -> None:
        with peer(nodes, Keys(*zmq.curve_keypair()), zmq.curve_keypair()[0]) as other:
            other.send(encode(self.beat()))
            nodes.until(lambda: nodes[0].problems.get(WRONG_KEY))

    def test_an_older_protocol_is_told_ours(self, nodes: Nodes) -> None:
        answer = self.say(nodes, msgspec.msgpack.encode([CLUSTER_VERSION - 1, "an older one"]))
        assert msgspec.msgpack.decode(answer)[0] == CLUSTER_VERSION
        assert nodes[0].problems == {"messages of protocol version 0, not 1": 1}

    @pytest.mark.parametrize(
        ("data", "why"),
        [
            (b"", "messages that are none of this protocol"),
            (b"\xff" * 100, "messages that are none of this protocol"),
            (b"\x91" * 100_000, "messages that are none of this protocol"),
            (msgspec.msgpack.encode([1, "j", 5]), "messages that are none of this protocol"),
        ],
    )
    def test_what_is_no_message_costs_only_itself(self, nodes: Nodes, data: bytes, why: str) -> None:
        decode(Reply, self.say(nodes, data), "j")
        assert nodes[0].problems == {why: 1}

    def test_another_jobs_daemon_is_none_of_ours(self, nodes: Nodes) -> None:
        self.say(nodes, encode(self.beat(job_id="another")))
        assert nodes[0].problems == {"messages of another job": 1}
        assert members(nodes) == {"n2"}

    def test_numbers_that_cannot_be_are_refused(self) -> None:
        with pytest.raises(MessageError, match="out of bounds"):
            decode(Beat, encode(self.beat(time_s=float("inf"))), "j")

    def test_events_that_are_none_are_counted(self, nodes: Nodes) -> None:
        self.say(nodes, encode(self.beat(number=1, events=b"\xff")))
        assert nodes[0].events == []
        assert "between nodes: neither DFTracer lines nor an envelope" in nodes[0].problems

    def test_a_clock_that_is_ahead_is_told_and_changes_nothing(self, nodes: Nodes) -> None:
        nodes[1].now = NOW + 3600
        nodes.until(lambda: nodes[0].problems)
        assert nodes[0].problems == {"nodes whose clock differs by more than 5 s": 1}
        (member,) = nodes[0].cluster.view(time.monotonic()).members
        assert (member.ahead_s, member.is_lost) == (pytest.approx(3600), False)

    def test_envelopes_may_be_sent_again(self, nodes: Nodes) -> None:
        events = wire.encode(sender="node:n9", sequence=0, events=(look("n9"),))
        for _ in range(3):
            self.say(nodes, encode(self.beat(number=1, events=events)))
        assert nodes[0].events == [look("n9")]


class TestAlone:
    """A node that cannot join goes on alone, and says why."""

    def test_a_port_that_is_somebody_elses(self, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            paths = JobPaths.of("j", "127", tmp_path / "r").create()
            options = ClusterOptions(tmp_path / "c", (f"127.0.0.1:{taken.getsockname()[1]}",))
            assert joined(options, paths, zmq.Poller()) is None
        assert "goes on alone" in caplog.text

    def test_a_directory_that_is_not_ours_alone(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        (tmp_path / "c").symlink_to(tmp_path)
        paths = JobPaths.of("j", "n1", tmp_path / "r").create()
        assert joined(ClusterOptions(tmp_path / "c"), paths, zmq.Poller()) is None
        assert "is a link or belongs to another user" in caplog.text

    def test_without_other_nodes_there_is_nothing(self, tmp_path: Path) -> None:
        assert joined(None, JobPaths.of("j", "n1", tmp_path / "r"), zmq.Poller()) is None


def test_nodes_that_share_no_directory_find_each_other_by_their_names(tmp_path: Path) -> None:
    with socket.socket() as one, socket.socket() as other:
        for each in (one, other):
            each.bind(("127.0.0.1", 0))
        peers = tuple(
            f"{host}:{each.getsockname()[1]}" for host, each in (("127.0.0.1", one), ("localhost", other))
        )
    nodes = Nodes(Node(tmp_path, host, peers) for host in ("127", "localhost"))
    nodes[0].lead()
    nodes.until(lambda: nodes[1].cluster.leader == "127")
    nodes[1].cluster.tell(look("localhost"))
    nodes.until(lambda: nodes[0].events)
    for node in nodes:
        node.cluster.close()


def test_a_link_closes_what_it_has_opened(tmp_path: Path) -> None:
    link = Link("127.0.0.1", 0, job_keys(tmp_path / "c"), poller := zmq.Poller())
    link.contact("tcp://127.0.0.1:1")
    link.contact("no endpoint at all")
    link.send(b"to nobody")
    link.close()
    assert poller.sockets == []
