"""RankGroup on nodes, and the sets that protect each other."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from mpi4py import MPI

from scrtune.client.embedded.topology import RankGroup, nodes_by_count, nodes_by_host, redundancy_sets


def test_nodes_are_told_apart_by_host_name() -> None:
    node_of = nodes_by_host(["b", "a", "b", "a"])
    assert node_of == (0, 1, 0, 1)
    ranks = RankGroup(MPI.COMM_SELF, node_of)
    assert (ranks.nodes, ranks.node, ranks.is_leader) == (2, 0, True)


def test_an_error_of_any_rank_is_known_to_all(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    ranks = RankGroup(MPI.COMM_SELF, (0,))
    assert ranks.attempt((tmp_path / "a").touch, "not touched")
    assert capsys.readouterr().err == ""
    for on in (None, 0):
        assert not ranks.attempt((tmp_path / "none" / "a").touch, "not touched", on=on)
        assert "scrtune: not touched: [Errno 2] No such file" in capsys.readouterr().err
    ranks.warn("the text")
    assert capsys.readouterr().err == "scrtune: the text\n"


def test_simulated_nodes_are_contiguous_blocks() -> None:
    assert nodes_by_count(5, 2) == (0, 0, 0, 1, 1)
    with pytest.raises(ValueError, match="3 nodes for 2 ranks"):
        nodes_by_count(2, 3)


def test_a_set_has_one_rank_of_each_node_and_at_least_set_size_of_them() -> None:
    assert redundancy_sets((0, 0, 1, 1), None) == [(0, 2), (1, 3)]
    assert redundancy_sets(range(8), 4) == [(0, 1, 2, 3), (4, 5, 6, 7)]
    assert redundancy_sets(range(5), 2) == [(0, 1), (2, 3, 4)]


@given(st.lists(st.integers(0, 5), min_size=1, max_size=24), st.integers(2, 8))
def test_every_rank_is_in_one_set_and_no_set_has_a_node_twice(hosts: list[int], set_size: int) -> None:
    nodes = nodes_by_host([str(host) for host in hosts])
    sets = redundancy_sets(nodes, set_size)
    assert sorted(rank for members in sets for rank in members) == list(range(len(hosts)))
    assert all(len({nodes[rank] for rank in members}) == len(members) for members in sets)
    assert len(set(hosts)) < set_size or max(map(len, sets)) >= set_size
