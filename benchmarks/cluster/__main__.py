"""What the daemons of a job's nodes cost the one that leads, and how long one decision from all takes.

    python -m benchmarks.cluster [--slurm 1,2,4,8,16] [--nodes 1024,10000] [--seconds 20] [--json]

With ``--slurm`` each number of nodes is a private Slurm on this machine, whose daemons `scrtune run` starts:
one process a node says that it is a rank, rank 0 describes the job. Nodes are simulated, cores are not: past
a few nodes their processes wait for each other, and times are upper bounds. One node is the baseline.

With ``--nodes`` a real daemon leads, and another process speaks for all other nodes over 32 real connections:
first for each the first time, as fast as the leader answers; then at the pace of a job that goes on, measured
when that has settled. A decision's time is that of a question about it meanwhile.
"""

import argparse
import json

from benchmarks.cluster.leader import simulated
from benchmarks.cluster.slurm import under_slurm


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--slurm", default="", help="numbers of nodes, such as 1,2,4,8,16")
    parser.add_argument("--nodes", default="1024,10000", help="numbers of nodes that a process speaks for")
    parser.add_argument("--seconds", type=float, default=20.0, help="how long each is measured")
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    rows = [under_slurm(int(each), options.seconds) for each in options.slurm.split(",") if each]
    rows += [simulated(int(each), options.seconds) for each in options.nodes.split(",") if each]
    for row in rows:
        print(
            json.dumps(row)
            if options.json
            else "  ".join(f"{name} {value:,.2f}" for name, value in row.items())
        )


if __name__ == "__main__":
    main()
