"""A private Slurm on one machine: munged, slurmctld and one slurmd a node, all of them our own children.

Each node lives in a mount and a UTS namespace of its own, so that it has its own host name and /dev/shm. The
daemons run in the foreground on free ports with generated configuration, and end with :meth:`Cluster.stop`.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from ..conftest import until

PATIENCE_S = 30.0
_PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "scancel", "squeue", "sinfo", "unshare")
_PATH = f"/usr/sbin:/sbin:{os.environ.get('PATH', '/usr/bin:/bin')}"

_CONFIGURATION = """\
ClusterName=scrtune
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={base}/munge.socket
StateSaveLocation={base}/state
SlurmdSpoolDir={base}/spool-%n
SlurmctldPidFile={base}/slurmctld.pid
SlurmdPidFile={base}/slurmd-%n.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SlurmdParameters=config_overrides
ReturnToService=2
SchedulerParameters=batch_sched_delay=0,sched_interval=1
KillWait=5
InactiveLimit=0
PlugStackConfig={base}/plugstack.conf
{nodes}
PartitionName=test Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""
_NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} RealMemory=1000"


def why_not() -> str:
    """Why no cluster can be started here, or empty."""
    missing = [name for name in _PROGRAMS if shutil.which(name, path=_PATH) is None]
    if missing:
        return f"no {', '.join(missing)}: install slurmctld, slurmd, slurm-client and munge"
    if os.getuid() != 0:
        return "a private Slurm with namespaces of its own needs root"
    tried = subprocess.run(["unshare", "--mount", "--uts", "true"], capture_output=True, check=False)
    return f"unshare: {tried.stderr.decode().strip()}" if tried.returncode else ""


@contextlib.contextmanager
def running_cluster(nodes: int) -> Iterator["Cluster"]:
    """Yield a cluster that runs, in a directory of its own: the paths of sockets must be short."""
    with tempfile.TemporaryDirectory(prefix="slurm") as base:
        cluster = Cluster(Path(base), nodes=nodes)
        try:
            cluster.start()
            yield cluster
        finally:
            cluster.stop()


class Cluster:
    """`nodes` nodes n1, n2, ... of `cpus` CPUs each (more than the machine has, if need be), under `base`."""

    def __init__(self, base: Path, nodes: int = 2, cpus: int = 4) -> None:
        self.base = base
        self._nodes = [f"n{number}" for number in range(1, nodes + 1)]
        self._processes: list[subprocess.Popen[bytes]] = []
        self._slurmds: dict[str, subprocess.Popen[bytes]] = {}
        self._write_configuration(cpus)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("SLURM")},
            "PATH": _PATH,
            "SLURM_CONF": str(base / "slurm.conf"),
        }

    def start(self) -> None:
        """Start everything and wait until every node is idle."""
        base = self.base
        self._spawn("munged", "--foreground", "--force", f"--key-file={base}/munge.key",
                    f"--socket={base}/munge.socket", f"--pid-file={base}/munged.pid",
                    f"--log-file={base}/munged.log", f"--seed-file={base}/munge.seed")  # fmt: skip
        until((base / "munge.socket").exists, f"munged's socket (see {base}/munged.log)")
        self._spawn("slurmctld", "-D", "-c")
        for name in self._nodes:
            inside = (
                f"hostname {name} && mount -t tmpfs -o mode=1777 tmpfs /dev/shm && exec slurmd -D -N {name}"
            )
            self._spawn("unshare", "--mount", "--uts", "--propagation", "private", "sh", "-c", inside)
            self._slurmds[name] = self._processes[-1]
        until(self._idle, f"idle nodes (see {base}/*.out)")

    def cancel_jobs(self) -> None:
        """Cancel what runs, and wait until it has left the nodes."""
        with contextlib.suppress(AssertionError, subprocess.SubprocessError):
            if jobs := self.run(["squeue", "-h", "-o", "%A"]).split():
                self.run(["scancel", "--signal=KILL", "--full", *jobs])
                self.run(["scancel", *jobs])
                until(lambda: not self.run(["squeue", "-h"]), "an empty queue")

    def stop(self) -> None:
        """Cancel what runs, then end the daemons that we started: the last one first."""
        self.cancel_jobs()
        for process in reversed(self._processes):
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(PATIENCE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def lose(self, name: str) -> None:
        """Lose a node: all that runs there ends at once, and Slurm is told of it."""
        slurmd = self._slurmds[name]
        own = Path(f"/proc/{slurmd.pid}/ns/uts").readlink()
        for directory in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if (directory / "ns" / "uts").readlink() == own:
                    os.kill(int(directory.name), signal.SIGKILL)
        slurmd.wait(PATIENCE_S)
        self.run(["scontrol", "update", f"nodename={name}", "state=down", "reason=test"])

    def run(self, command: Sequence[str], environment: Mapping[str, str] = MappingProxyType({})) -> str:
        """The output of one of Slurm's commands, which must succeed."""
        done = subprocess.run(
            command,
            env={**self.environment, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE_S,
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def submit(self, script: str, directory: Path, environment: Mapping[str, str] | None = None) -> "Job":
        """Submit a batch job over all nodes, two tasks each, that runs `script` in `directory`."""
        options = ["--parsable", "--no-requeue", f"--nodes={len(self._nodes)}", "--ntasks-per-node=2"]
        options += [f"--chdir={directory}", f"--output={directory}/output"]
        ended = "trap 'echo $? > exit_code.new; mv exit_code.new exit_code' EXIT"
        path = directory / "job.sh"
        path.write_text(f"#!/bin/bash\n{ended}\n{textwrap.dedent(script)}\n")
        sbatch = ["sbatch", *options, str(path)]
        done = subprocess.run(
            sbatch,
            env={**self.environment, **(environment or {})},
            capture_output=True,
            text=True,
            check=True,
        )
        return Job(self, done.stdout.strip(), directory)

    def _idle(self) -> bool:
        seen = subprocess.run(
            ["sinfo", "-h", "-N", "-o", "%t"],
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        return seen.stdout.split() == ["idle"] * len(self._nodes)

    def _spawn(self, *command: str) -> None:
        with (self.base / f"{len(self._processes)}-{command[0]}.out").open("wb") as output:
            self._processes.append(
                subprocess.Popen(
                    command,
                    env=self.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    start_new_session=True,
                )
            )

    def _write_configuration(self, cpus: int) -> None:
        base, host = self.base, socket.gethostname().split(".")[0]
        with _free_ports(1 + len(self._nodes)) as (controller, *ports):
            nodes = [
                _NODE.format(name=name, host=host, port=port, cpus=cpus)
                for name, port in zip(self._nodes, ports, strict=True)
            ]
        text = _CONFIGURATION.format(base=base, host=host, port=controller, nodes="\n".join(nodes))
        (base / "slurm.conf").write_text(text)
        (base / "plugstack.conf").touch()
        (base / "state").mkdir()
        (base / "munge.key").write_bytes(os.urandom(1024))
        (base / "munge.key").chmod(0o400)


class Job:
    """A batch job that was submitted."""

    def __init__(self, cluster: Cluster, job_id: str, directory: Path) -> None:
        self._cluster = cluster
        self.id = job_id
        self.directory = directory

    @property
    def output(self) -> str:
        """What its script has printed so far."""
        path = self.directory / "output"
        return path.read_text(errors="replace") if path.exists() else ""

    def cancel(self) -> None:
        """Cancel it and wait until it has left the nodes."""
        self._cluster.run(["scancel", self.id])
        self._wait_until_gone()

    def wait(self, limit_s: float = 60.0) -> int:
        """The exit code of its script, once that has ended and the job has left the nodes."""
        path = self.directory / "exit_code"
        try:
            until(path.exists, f"an end of job {self.id}", limit_s)
        except AssertionError as error:
            raise AssertionError(f"{error}; its output:\n{self.output}") from error
        self._wait_until_gone()
        return int(path.read_text())

    def _wait_until_gone(self) -> None:
        until(lambda: not self._cluster.run(["squeue", "-h", "-j", self.id]), f"nodes without job {self.id}")


@contextlib.contextmanager
def _free_ports(count: int) -> Iterator[list[int]]:
    """Ports that nobody listens on now; they are ours until the block ends."""
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        yield [each.getsockname()[1] for each in sockets]
