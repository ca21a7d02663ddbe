"""What a re-enactment writes: each rank's files in their order, their writes, and the pauses."""

import msgspec


class ReenactError(ValueError):
    """The checkpoints of a run cannot be written again; the text says why and what to do."""


class PlannedFile(msgspec.Struct, frozen=True, array_like=True):
    """A file of a rank: after a pause, `writes` of (bytes, calls), and a sync if the recorded one had any.

    `idle_s` is how long something else is done between these.
    """

    name: str
    pause_s: float
    writes: tuple[tuple[int, int], ...]
    is_synced: bool = False
    idle_s: float = 0.0

    @property
    def bytes(self) -> int:
        """The size of the file."""
        return sum(size * calls for size, calls in self.writes)


class PlannedCheckpoint(msgspec.Struct, frozen=True, array_like=True):
    """The files of each rank, and the seconds before."""

    think_s: float
    ranks: tuple[tuple[PlannedFile, ...], ...]

    @property
    def bytes(self) -> int:
        """Bytes of all ranks."""
        return sum(file.bytes for files in self.ranks for file in files)


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """All that is written, by some ranks of the recorded ones, on the nodes of those."""

    checkpoints: tuple[PlannedCheckpoint, ...]
    ranks: int
    recorded_ranks: int
    nodes: int
    scale: float

    @property
    def bytes(self) -> int:
        """Bytes of all checkpoints."""
        return sum(checkpoint.bytes for checkpoint in self.checkpoints)

    @property
    def pause_s(self) -> float:
        """Seconds that it takes at least: pauses between checkpoints, and of the slowest rank within."""
        return sum(
            each.think_s + max(sum(file.pause_s + file.idle_s for file in files) for files in each.ranks)
            for each in self.checkpoints
        )
