"""What a second of a job can be spent on, and which of two claims to it wins (`docs/goodput.md`)."""

from .events import INTERVAL_KINDS

BUCKETS = (
    PRODUCTIVE := "productive",
    STEP_SLOWDOWN := "step_slowdown",
    FLUSH_SLOWDOWN := "flush_slowdown",
    WASTED_PROGRESS := "wasted_progress",
    DEVICE_INIT := "device_init",
    TRAINING_PREP := "training_prep",
    STARTUP := "startup",
    DATA_LOADING := "data_loading",
    CHECKPOINT_WRITE := "checkpoint_write",
    CHECKPOINT_ENCODE := "checkpoint_encode",
    CHECKPOINT_FLUSH := "checkpoint_flush",
    CHECKPOINT_WAIT := "checkpoint_wait",
    CHECKPOINT_OTHER := "checkpoint_other",
    TUNING := "tuning",
    OBSERVATION := "observation",
    RESTORE := "restore",
    FETCH := "fetch",
    REBUILD := "rebuild",
    SCAVENGE := "scavenge",
    RECOVERY := "recovery",
    ELASTIC_SCALE_UP := "elastic_scale_up",
    ELASTIC_SLICE_DOWN := "elastic_slice_down",
    ELASTIC_REINIT := "elastic_reinit",
    QUEUE_WAIT := "queue_wait",
    ALLOCATION_END := "allocation_end",
    OTHER := "other",
)
"""The buckets every account has; those of the user's own intervals come on top, as they are met."""

CUSTOM = "custom:"
"""Before the user's own name of an interval."""
ASYNC_LOADING = "data_loading_async"
"""Counted beside the buckets: it runs while steps do, and costs nothing by itself."""
STRONGER_THAN_CUSTOM = (
    TUNING,
    OBSERVATION,
    CHECKPOINT_WRITE,
    CHECKPOINT_ENCODE,
    CHECKPOINT_FLUSH,
    CHECKPOINT_WAIT,
    CHECKPOINT_OTHER,
    REBUILD,
    FETCH,
    RESTORE,
    SCAVENGE,
    ELASTIC_REINIT,
    ELASTIC_SCALE_UP,
    ELASTIC_SLICE_DOWN,
    DEVICE_INIT,
    TRAINING_PREP,
    DATA_LOADING,
)
"""Strongest first. Then the user's own intervals in the order of their names, and then:"""
WEAKER_THAN_CUSTOM = (STARTUP, PRODUCTIVE, WASTED_PROGRESS, QUEUE_WAIT, RECOVERY)

OF_INTERVAL = {kind: kind for kind in INTERVAL_KINDS if kind != "custom"} | {
    "checkpoint_save": CHECKPOINT_OTHER,
    "checkpoint_restore": RESTORE,
}
"""The bucket of each kind of interval; any other kind is the user's own."""

OF_OUTPUT = (
    ("apply_s", TUNING),
    ("wait_s", CHECKPOINT_WAIT),
    ("observe_s", OBSERVATION),
    ("write_s", CHECKPOINT_WRITE),
    ("encode_s", CHECKPOINT_ENCODE),
    ("flush_s", CHECKPOINT_FLUSH),
)
"""The parts of an output, by their fields, in the order in which SCR does them."""

NOT_THE_RUNS_OWN = frozenset({REBUILD, FETCH, SCAVENGE, QUEUE_WAIT, RECOVERY})
"""What is reported of the time between two runs as well: it says nothing of how long a run was alive."""

OTHER_CUSTOM = CUSTOM + "(more names)"
_NAMES = 256
_WRITERS = 32_768


def of_interval(kind: str, name: str) -> str:
    """The bucket of an interval, which is the user's own when its kind is none of ours."""
    return OF_INTERVAL.get(kind) or CUSTOM + (name or ("unnamed" if kind == "custom" else kind))


class Codes(dict[str, int]):
    """Buckets as small numbers: at most 256 names of the user's own (more share one), and 32,768 writers."""

    def __init__(self) -> None:
        super().__init__((name, code) for code, name in enumerate([*BUCKETS, ASYNC_LOADING]))
        self._most = len(self) + _NAMES
        self._writers: set[int] = set()

    @property
    def custom(self) -> list[str]:
        """The buckets of the user's own intervals, in the order of their names."""
        return sorted(name for name in self if name.startswith(CUSTOM))

    def of_interval(self, kind: str, name: str) -> int:
        """The code of :func:`of_interval`."""
        bucket = of_interval(kind, name)
        if bucket not in self and len(self) >= self._most:
            bucket = OTHER_CUSTOM
        return self.setdefault(bucket, len(self))

    def of_writer(self, number: int) -> int:
        """Return the number of a writer, or a stream; 0, of one without a name, if there are too many."""
        if number not in self._writers and len(self._writers) >= _WRITERS:
            return 0
        self._writers.add(number)
        return number

    def weakest_first(self) -> list[int]:
        """Every code that can be claimed, in the order in which one is painted over the other."""
        return [self[name] for name in (*STRONGER_THAN_CUSTOM, *self.custom, *WEAKER_THAN_CUSTOM)][::-1]
