"""The Python twin of native_app.c, which has the same arguments and prints the same lines.

    python mpi_libscr.py OUTPUTS FILES BYTES [texts for scr.config ...]

It obeys $DECISIONS, $PURE_FROM, $SHARED_FROM, $SAME_NAMES_FROM and $INVALID_AT as native_app.c does. Besides,
rank 0 prints `writes` (calls of write within complete_output), `running` (whether a flush is), and, when the
checkpoint it restarts from is read back, a line "restart NAME same=0|1". Before output $CHDIR_AT it goes to
$CHDIR_TO.
"""

import ctypes
import os
import random
import sys
from pathlib import Path

from scrtune.client import scr

INTEGERS = {
    "flush": "scr_flush",
    "async": "scr_flush_async",
    "prefix_size": "scr_prefix_size",
    "interval": "scr_checkpoint_interval",
    "seconds": "scr_checkpoint_seconds",
    "cache_size": "scr_cache_size",
    "copy": "scr_copy_type",
    "bypass": "scr_cache_bypass",
    "dataset": "scr_dataset_id",
    "checkpoint": "scr_checkpoint_id",
    "needs": "scr_need_checkpoint_count",
    "halt_exit": "scr_halt_exit",
    "er": "er_mpi_buf_size",
}


def content(name: str, rank: int, size: int) -> bytes:
    """What a rank writes: other bytes in each file."""
    return random.Random(f"{name} {rank}").randbytes(size)


def is_from(variable: str, number: int) -> bool:
    first = int(os.environ.get(variable, "0"))
    return 0 < first <= number


def write_calls() -> int:
    """How often this process has called write."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["syscw"])


class Application:
    def __init__(self, files: int, size: int) -> None:
        from mpi4py import MPI  # noqa: PLC0415 - tests import this file and are no MPI program

        self.comm, self.rank = MPI.COMM_WORLD, MPI.COMM_WORLD.rank
        self.files, self.size = files, size
        self.process = ctypes.CDLL(None)

    def say(self, text: str) -> None:
        if self.rank == 0:
            sys.stdout.write(f"{text}\n")
            sys.stdout.flush()

    def next_decision(self, number: int) -> None:
        """As native_app.c: the decision for output `number` is put in place of the last one."""
        decision = Path(os.environ.get("DECISIONS", "none"), str(number))
        if self.rank == 0 and decision.exists():
            decision.rename(os.environ["SCRTUNE_DECISION_FILE"])
        if number == int(os.environ.get("CHDIR_AT", "0")):
            os.chdir(os.environ["CHDIR_TO"])
        self.comm.Barrier()

    def write_files(self, name: str, number: int) -> None:
        for file in range(self.files):
            rank = 0 if is_from("SHARED_FROM", number) else self.rank
            wanted = f"{name}/rank_{self.rank}.{file}"
            if is_from("SHARED_FROM", number):
                wanted = f"{name}/shared/data.{file}"
            elif is_from("SAME_NAMES_FROM", number):
                wanted = f"{name}/{self.rank}/data.{file}"
            path = Path(scr.route_file(wanted))
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content(name, rank, self.size))

    def values(self) -> dict[str, object]:
        """What SCR has in force on this rank."""
        found: dict[str, object] = {
            name: ctypes.c_int.in_dll(self.process, symbol).value for name, symbol in INTEGERS.items()
        }
        text = ctypes.c_char_p.in_dll(self.process, "scr_flush_type").value or b""
        return {
            **found,
            "overhead": f"{ctypes.c_double.in_dll(self.process, 'scr_checkpoint_overhead').value:g}",
            "type": text.decode(),
            "axl": ctypes.c_ulong.in_dll(self.process, "axl_file_buf_size").value,
            "env_size": os.environ.get("SCR_CACHE_SIZE", "-"),
            "env_purge": os.environ.get("SCR_CACHE_PURGE", "-"),
            "running": self.process.scr_flush_async_in_progress(),
        }

    def take(self, number: int) -> None:
        """One output."""
        name = f"ckpt.{number}"
        scr.need_checkpoint()
        self.next_decision(number)
        scr.start_output(name, scr.FLAG_OUTPUT if is_from("PURE_FROM", number) else scr.FLAG_CHECKPOINT)
        self.write_files(name, number)
        calls = write_calls()
        valid = scr.complete_output(number != int(os.environ.get("INVALID_AT", "0")))
        calls = write_calls() - calls
        values = self.values()
        same = all(each == values for each in self.comm.allgather(values))
        said = " ".join(f"{key}={value}" for key, value in values.items())
        self.say(
            f"out {number} same={same:d} valid={all(self.comm.allgather(valid)):d} writes={calls} {said}"
        )

    def restart(self) -> None:
        """Read back what SCR has."""
        if scr.have_restart():
            name = scr.start_restart()
            data = Path(scr.route_file(f"{name}/rank_{self.rank}.0")).read_bytes()
            same = data == content(name, self.rank, self.size)
            scr.complete_restart(same)
            self.say(f"restart {name} same={all(self.comm.allgather(same)):d}")


def main() -> None:
    outputs, files, size = (int(text) for text in sys.argv[1:4])
    application = Application(files, size)
    for text in sys.argv[4:]:
        scr.config(text)
    scr.init()
    application.restart()
    for number in range(1, outputs + 1):
        application.take(number)
    scr.finalize()


if __name__ == "__main__":
    main()
