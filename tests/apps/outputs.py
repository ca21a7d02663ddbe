"""Outputs of known bytes in phases, each begun by a word from the test.

python outputs.py WORDS COUNT...: before phase K of COUNT outputs it waits for WORDS/go.K, and leaves
WORDS/done.K: whether each output was valid on a line, and how often the main thread slept in all of them.
"""

import resource
import sys
import time
from pathlib import Path

from mpi4py import MPI

from scrtune.client.engine import OutputFlags
from scrtune.client.session import Session

FILES, FILE_BYTES = 2, 32 * 1024
PATIENCE_S = 60.0


def content(number: int, file: int) -> bytes:
    """The bytes of a file of output `number`: all of them say which it is."""
    return f"{number:07d}.{file:07d} ".encode() * (FILE_BYTES // 16)


def write(session: Session, number: int) -> bool:
    """Take output `number`; returns whether it is valid."""
    session.start_output(f"ckpt.{number}", OutputFlags.CHECKPOINT)
    is_valid = True
    for file in range(FILES):
        try:
            path = Path(session.route_file(f"ckpt.{number}/{file}"))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content(number, file))
        except OSError as error:
            sys.stderr.write(f"output {number}: {error}\n")
            is_valid = False
    return session.complete_output(is_valid)


def sleeps() -> int:
    """How often this thread has given up the processor to wait for something."""
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw


def main() -> None:
    """Run the phases of the command line."""
    words, counts = Path(sys.argv[1]), [int(text) for text in sys.argv[2:]]
    number = 0
    with Session(MPI.COMM_WORLD) as session:
        for phase, count in enumerate(counts):
            deadline_s = time.monotonic() + PATIENCE_S
            while not (words / f"go.{phase}").exists():
                if time.monotonic() > deadline_s:
                    sys.exit("nobody says go")
                time.sleep(0.01)
            before = sleeps()
            said = []
            for _ in range(count):
                number += 1
                with session.step(number):
                    pass
                said.append(f"{number} {'valid' if write(session, number) else 'invalid'}")
            said.append(f"slept {sleeps() - before}")
            (words / f"new.{phase}").write_text("\n".join(said))
            (words / f"new.{phase}").replace(words / f"done.{phase}")


if __name__ == "__main__":
    main()
