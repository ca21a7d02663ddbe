"""An application in four lines of main loop, for test_session.py. Prints what each rank ran under.

Before output N the file $DECISIONS/N becomes the job's decision. With $COMPUTE_S it computes so long before
an output, and neither times its steps nor asks SCR_Need_checkpoint.
"""

import json
import os
import sys
import time
from pathlib import Path

from mpi4py import MPI

from scrtune.client.embedded.engine import EmbeddedEngine
from scrtune.client.paths import JobPaths
from scrtune.client.session import Session
from scrtune.intents.effects import Advice


class Watched(EmbeddedEngine):
    """The real engine; it remembers which advice was applied before which output."""

    def __init__(self, comm: MPI.Intracomm) -> None:
        super().__init__(comm)
        self.applied: list[tuple[int, dict[str, object]]] = []

    def apply(self, advice: Advice | None) -> int:
        before, own = self._generation, self._resolved.settings
        generation = super().apply(advice)
        if generation != before:
            changed = {name: value for name, value in self._settings.items() if own.get(name) != value}
            self.applied.append((generation, changed))
        return generation


def main() -> None:
    comm = MPI.COMM_WORLD
    engine = Watched(comm)
    with Session(comm, engine) as session:
        for number in range(int(sys.argv[1])):
            if compute_s := os.environ.get("COMPUTE_S"):
                time.sleep(float(compute_s))
            else:
                with session.step(number):
                    pass
                session.need_checkpoint()
            decision = Path(os.environ.get("DECISIONS", "none"), str(number + 1))
            if comm.rank == 0 and decision.exists():
                decision.rename(JobPaths.of().decision)
            session.start_output(f"step.{number}")
            Path(session.route_file(f"step.{number}/rank.{comm.rank}")).write_bytes(
                b"x" * 1000 * (comm.rank + 1)
            )
            assert session.complete_output(valid=True)
    for rank in range(comm.size):
        comm.Barrier()
        if rank == comm.rank:
            sys.stdout.write(json.dumps(engine.applied) + "\n")
            sys.stdout.flush()


main()
