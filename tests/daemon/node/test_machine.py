"""Hyperthreads, NUMA nodes, the network's link and the cgroup's limits, read from a made-up sysfs."""

from pathlib import Path

import pytest

from scrtune.daemon.node.machine import CgroupLimits, Machine

GIB = 1 << 30


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


@pytest.fixture
def proc(tmp_path: Path) -> Path:
    return tmp_path / "proc"


@pytest.fixture
def sys(tmp_path: Path) -> Path:
    return tmp_path / "sys"


def test_cpus_that_share_a_core_and_a_numa_node_are_told(sys: Path, proc: Path) -> None:
    for cpu in range(8):
        siblings = sys / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list"
        write(siblings, f"{cpu % 4},{cpu % 4 + 4}\n")
    write(sys / "devices/system/node/node0/cpulist", "0-1,4-5\n")
    write(sys / "devices/system/node/node1/cpulist", "2-3,6-7\n")
    write(sys / "devices/system/node/node2/cpulist", "\n")  # memory only
    machine = Machine(sys, proc)
    assert machine.siblings == ((0, 4), (1, 5), (2, 6), (3, 7))
    assert machine.numa == ((0, 1, 4, 5), (2, 3, 6, 7))


def test_without_hyperthreads_no_cpus_share_a_core(sys: Path, proc: Path) -> None:
    for cpu in range(2):
        write(sys / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", f"{cpu}\n")
    assert Machine(sys, proc).siblings == ()


@pytest.mark.parametrize(
    ("flags", "is_virtual"), [("fpu hypervisor lahf_lm", True), ("fpu hypervisors", False), ("", False)]
)
def test_a_hypervisor_is_told_by_the_processors_flags(
    sys: Path, proc: Path, flags: str, is_virtual: bool
) -> None:
    write(proc / "cpuinfo", f"model name\t: hypervisor\nflags\t\t: {flags}\nbugs\t: spectre\n")
    assert Machine(sys, proc).is_virtual is is_virtual


def test_a_hypervisor_is_told_by_sys(sys: Path, proc: Path) -> None:
    assert not Machine(sys, proc).is_virtual
    write(sys / "hypervisor/type", "xen\n")
    assert Machine(sys, proc).is_virtual


ETHERNET = {
    "net/eth0/operstate": "up\n",
    "net/eth0/speed": "25000\n",
    "net/eth0/device": "",
    "net/eth1/operstate": "down\n",  # the fastest, and not connected
    "net/eth1/speed": "400000\n",
    "net/eth1/device": "",
    "net/bond0/operstate": "up\n",  # no device of its own
    "net/bond0/speed": "50000\n",
}
FABRIC = {
    "infiniband/mlx5_0/ports/1/state": "4: ACTIVE\n",
    "infiniband/mlx5_0/ports/1/rate": "200 Gb/sec (4X HDR)\n",
    "infiniband/mlx5_1/ports/1/state": "1: DOWN\n",
    "infiniband/mlx5_1/ports/1/rate": "400 Gb/sec (4X NDR)\n",
}


@pytest.mark.parametrize(
    ("files", "gbit_per_s"),
    [
        ({}, 0.0),
        (ETHERNET, 25.0),
        (ETHERNET | FABRIC, 200.0),
        (ETHERNET | {"net/eth0/speed": "-1\n"}, 0.0),
        (FABRIC | {"infiniband/mlx5_0/ports/1/rate": "fast\n", "net/lo/device": ""}, 0.0),
    ],
)
def test_the_fastest_link_that_is_up_is_the_networks(
    sys: Path, proc: Path, files: dict[str, str], gbit_per_s: float
) -> None:
    for name, text in files.items():
        write(sys / "class" / name, text)
    assert Machine(sys, proc).link_bytes_per_s == gbit_per_s * 1e9 / 8


@pytest.mark.parametrize(
    ("thresholds", "limit_bytes"),
    [
        ({"dirty_ratio": 20, "dirty_background_ratio": 10}, 150),
        (
            {"dirty_ratio": 40, "dirty_background_ratio": 10, "dirty_bytes": 0, "dirty_background_bytes": 0},
            250,
        ),
        ({"dirty_ratio": 0, "dirty_bytes": 300, "dirty_background_ratio": 10}, 200),
        ({"dirty_ratio": 20, "dirty_background_bytes": 500}, 150),  # of one that is no less, half counts
        ({}, 0),
    ],
)
def test_writers_may_leave_in_memory_what_linux_lets_them(
    sys: Path, proc: Path, thresholds: dict[str, int], limit_bytes: int
) -> None:
    for name, value in thresholds.items():
        write(proc / "sys/vm" / name, f"{value}\n")
    assert Machine(sys, proc).dirty_limit_bytes(1000) == limit_bytes


def test_what_cannot_be_read_is_not_known(sys: Path, proc: Path) -> None:
    write(sys / "devices/system/cpu/cpu0/topology/thread_siblings_list", "zero\n")
    machine = Machine(sys, proc)
    assert (machine.siblings, machine.numa, machine.limits()) == ((), (), CgroupLimits())


def test_of_all_cgroups_above_us_the_tightest_limits_count(sys: Path, proc: Path) -> None:
    write(proc / "self/cgroup", "0::/slurm/job_7/step_0\n")
    top = sys / "fs/cgroup/slurm"
    write(top / "cpu.max", "1600000 100000\n")
    write(top / "job_7/cpu.max", "400000 100000\n")
    write(top / "job_7/memory.max", f"{8 * GIB}\n")
    write(top / "job_7/memory.current", f"{6 * GIB}\n")
    write(top / "job_7/memory.stat", f"anon 1\ninactive_file {GIB}\n")
    write(top / "job_7/step_0/cpu.max", "max 100000\n")
    write(top / "job_7/step_0/memory.max", "max\n")
    write(top / "job_7/step_0/memory.current", "1\n")
    assert Machine(sys, proc).limits() == CgroupLimits(4.0, 3 * GIB)


def test_version_1_has_a_directory_for_each_controller(sys: Path, proc: Path) -> None:
    write(proc / "self/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n0::/\n")
    write(sys / "fs/cgroup/cpu/job/cpu.cfs_quota_us", "250000\n")
    write(sys / "fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n")
    write(sys / "fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n")
    write(sys / "fs/cgroup/memory/job/memory.limit_in_bytes", f"{GIB}\n")
    write(sys / "fs/cgroup/memory/job/memory.usage_in_bytes", f"{2 * GIB}\n")
    assert Machine(sys, proc).limits() == CgroupLimits(2.5, 0)


def test_this_machine_can_be_read() -> None:
    machine = Machine()
    assert all(len(core) > 1 for core in machine.siblings)
    assert machine.limits().cores >= 0
