"""DLIO's checkpoints through scrtune, as in the LLNL study: each of them is an output of SCR's.

    NAME=scrtune.examples.dlio.checkpointing.SessionCheckpointing
    OF=++workload.checkpoint
    scrtune run -- mpiexec -n 2 dlio_benchmark workload=llama_7b $OF.checkpoint_mechanism_classname=$NAME

DLIO must be installed (from its repository, with PyTorch); nothing else of scrtune needs it. SCR says where a
checkpoint lies: DLIO's `checkpoint_folder` is not used. A load reads the newest checkpoint of an earlier run,
which SCR finds when the job begins: of those that this run writes none is read back, so ask for none
(``$OF.num_checkpoints_read=0``).

DLIO opens DFTracer's log by itself, in its output folder, for the files below its `checkpoint_folder`: name a
directory that has SCR's cache and prefix directory below it, and `scrtune replay` and `scrtune study` see
what is written to both.
"""

from dlio_benchmark.checkpointing.pytorch_checkpointing import PyTorchCheckpointing
from dlio_benchmark.common.constants import MODULE_CHECKPOINT
from dlio_benchmark.utils.utility import Profile

from scrtune.client.engine import OutputFlags  # absolute: an example shows what a user writes
from scrtune.client.session import Session

profile = Profile(MODULE_CHECKPOINT)


class SessionCheckpointing(PyTorchCheckpointing):  # type: ignore[misc]
    """DLIO's own PyTorch checkpoints, with SCR's calls around them."""

    _only: "SessionCheckpointing | None" = None

    @staticmethod
    def get_instance() -> "SessionCheckpointing":
        """Return the one that there is, as DLIO asks for it."""
        if SessionCheckpointing._only is None:
            SessionCheckpointing._only = SessionCheckpointing()
        return SessionCheckpointing._only

    def __init__(self) -> None:
        super().__init__()
        self._session = Session(self.comm)

    def get_name(self, suffix: str) -> str:
        """Return where SCR wants a file of this checkpoint, to write or to read it."""
        return self._session.route_file(f"{suffix}.{self.ext}")

    @profile.log  # type: ignore[untyped-decorator] # with SCR's part in it: encoding, and a flush that blocks
    def save_checkpoint(self, epoch: int, step_number: int) -> None:
        """Write one checkpoint: all ranks take part, also those without a file in it."""
        self._session.start_output(_name(epoch, step_number), OutputFlags.CHECKPOINT)
        valid = False
        try:
            super().save_checkpoint(epoch, step_number)
            valid = True
        except OSError as error:
            self.logger.error("rank %d: %s", self.args.my_rank, error)
        finally:
            self._session.complete_output(valid)

    @profile.log  # type: ignore[untyped-decorator]
    def load_checkpoint(self, epoch: int, step_number: int) -> None:
        """Read the newest checkpoint of an earlier run that every rank can read, if there is one."""
        while (name := self._session.have_restart()) is not None:
            self._session.start_restart()
            valid = False
            try:
                super().load_checkpoint(*_numbers(name))
                valid = True
            except (OSError, ValueError) as error:
                self.logger.error("rank %d: %s: %s", self.args.my_rank, name, error)
            if self._session.complete_restart(valid):
                return
        self.logger.output(f"there is no checkpoint to load before step {step_number} of epoch {epoch}")

    def finalize(self) -> None:
        """Let SCR flush what it still has, and end."""
        self._session.finalize()
        super().finalize()


def _name(epoch: int, step: int) -> str:
    return f"epoch.{epoch}.step.{step}"


def _numbers(name: str) -> tuple[int, int]:
    """Return epoch and step of :func:`_name`. Raises ValueError."""
    _, epoch, _, step = name.split(".")
    return int(epoch), int(step)
