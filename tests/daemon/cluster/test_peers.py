"""How the nodes of a job find each other, and the keys by which they know each other."""

import os
import stat
from pathlib import Path

import pytest

from scrtune.daemon.cluster.keys import KeyFileError, job_keys
from scrtune.daemon.cluster.messages import Address
from scrtune.daemon.cluster.peers import Peers, PeersError, own_address

LOOPBACK = {"SCRTUNE_ADDRESS": "127.0.0.1"}


def peers(directory: Path, host: str, node_id: int) -> Peers:
    return Peers(directory, (), host, {**LOOPBACK, "SLURM_NODEID": str(node_id)})


class TestDirectory:
    """A file for each node, in a directory that all see."""

    def test_each_finds_the_others_in_the_jobs_order(self, tmp_path: Path) -> None:
        for host, node_id in (("a", 10), ("b", 2), ("c", 0)):
            peers(tmp_path, host, node_id).announce(f"tcp://127.0.0.1:{node_id + 1}")
        assert peers(tmp_path, "d", 3).first() == [
            Address("c", "tcp://127.0.0.1:1", 0),
            Address("b", "tcp://127.0.0.1:3", 2),
            Address("a", "tcp://127.0.0.1:11", 10),
        ]

    def test_the_order_is_slurms_or_fluxs_or_that_of_the_names(self, tmp_path: Path) -> None:
        for place, order in (({"SLURM_NODEID": "3"}, 3), ({"FLUX_TASK_RANK": "2"}, 2), ({}, 0)):
            own = Peers(tmp_path, (), "a", {**LOOPBACK, **place}).announce("tcp://127.0.0.1:1")
            assert own.order == order

    def test_who_leaves_is_found_no_more(self, tmp_path: Path) -> None:
        one = peers(tmp_path, "a", 0)
        own = one.announce("tcp://127.0.0.1:1")
        one.leave(own)
        assert one.first() == []

    def test_who_was_killed_gets_its_port_again(self, tmp_path: Path) -> None:
        assert peers(tmp_path, "a", 0).listens_at == ("127.0.0.1", 0)
        peers(tmp_path, "a", 0).announce("tcp://127.0.0.1:4711")
        assert peers(tmp_path, "a", 0).listens_at == ("127.0.0.1", 4711)

    def test_what_is_no_nodes_file_is_passed_over(self, tmp_path: Path) -> None:
        peers(tmp_path, "a", 0).announce("tcp://127.0.0.1:1")
        (tmp_path / "nodes" / "000001-b").mkdir()
        (tmp_path / "nodes" / "notes").write_text("mine")
        assert [each.host for each in peers(tmp_path, "a", 0).first()] == ["a"]

    def test_only_the_first_are_read(self, tmp_path: Path) -> None:
        for number in range(100):
            peers(tmp_path, f"n{number}", number).announce("tcp://127.0.0.1:1")
        assert [each.order for each in peers(tmp_path, "x", 0).first()] == list(range(32))

    def test_nobody_else_may_look(self, tmp_path: Path) -> None:
        peers(tmp_path, "a", 0).announce("tcp://127.0.0.1:1")
        assert stat.S_IMODE((tmp_path / "nodes").stat().st_mode) == 0o700


class TestNamed:
    """--peers."""

    def test_their_order_is_that_of_the_list_and_this_one_listens_where_it_is_named(
        self, tmp_path: Path
    ) -> None:
        found = Peers(tmp_path, ("n1.site:7001", "n2.site:7002"), "n2", LOOPBACK)
        assert found.listens_at == ("n2.site", 7002)
        assert found.first() == [
            Address("n1", "tcp://n1.site:7001", 0),
            Address("n2", "tcp://n2.site:7002", 1),
        ]
        assert found.announce("tcp://10.0.0.2:7002").order == 1
        assert not (tmp_path / "nodes").exists()

    @pytest.mark.parametrize(
        ("named", "why"),
        [
            (("n1",), "write HOST:PORT"),
            (("n1:x",), "write HOST:PORT"),
            ((":1",), "write HOST:PORT"),
            (("n1:1",), "this node, n2, is not among"),
        ],
    )
    def test_what_is_wrong_is_said(self, tmp_path: Path, named: tuple[str, ...], why: str) -> None:
        with pytest.raises(PeersError, match=why):
            Peers(tmp_path, named, "n2", LOOPBACK)


def test_a_node_is_reached_at_the_address_that_its_user_gave_or_the_system_routes_by() -> None:
    assert own_address({"SCRTUNE_ADDRESS": "10.1.2.3"}) == "10.1.2.3"
    assert own_address({"SLURM_LAUNCH_NODE_IPADDR": "no address"})
    assert own_address({"SLURM_LAUNCH_NODE_IPADDR": "127.0.0.1"}) == own_address({})


class TestKeys:
    """One pair of keys for a job."""

    def test_all_nodes_have_the_same_whoever_made_them(self, tmp_path: Path) -> None:
        made = job_keys(tmp_path / "c")
        assert job_keys(tmp_path / "c") == made
        assert job_keys(tmp_path / "other") != made

    def test_they_are_their_users_alone(self, tmp_path: Path) -> None:
        job_keys(tmp_path / "c")
        (path,) = (tmp_path / "c").iterdir()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert stat.S_IMODE((tmp_path / "c").stat().st_mode) == 0o700

    def test_a_key_that_others_may_read_is_none(self, tmp_path: Path) -> None:
        job_keys(tmp_path / "c")
        (path,) = (tmp_path / "c").iterdir()
        path.chmod(0o640)
        with pytest.raises(KeyFileError, match="is no key of yours alone; remove it"):
            job_keys(tmp_path / "c")

    @pytest.mark.parametrize("text", [b"", b"\xff\xfe", b'curve\n    public-key = "x"\n'])
    def test_neither_is_a_file_with_something_else(self, tmp_path: Path, text: bytes) -> None:
        (tmp_path / "c").mkdir(mode=0o700)
        path = tmp_path / "c" / "job.key_secret"
        path.write_bytes(text)
        path.chmod(0o600)
        with pytest.raises(KeyFileError):
            job_keys(tmp_path / "c")

    def test_a_directory_that_cannot_be_made_is_said(self, tmp_path: Path) -> None:
        (tmp_path / "file").touch()
        with pytest.raises(KeyFileError, match=f"{os.fspath(tmp_path)}/file/c"):
            job_keys(tmp_path / "file" / "c")
