"""The settings that the ranks run under: what was decided, from the next output on."""

from collections import deque
from statistics import fmean

from ...goodput.events import OutputCompleted
from ..events import SettingsObserved, Values
from ..observe.io.shared_files import SharedFiles
from ..settings import DEFAULTS, is_cached, number
from .active_settings import ActiveSettings

_REMEMBERED_REINITS, _REMEMBERED_DATASETS = 8, 64


class AppliedSettings:
    """The settings that the ranks run under, the cost of applying them, and what forbids the cache.

    They follow :class:`ActiveSettings` from one output to the next.
    """

    def __init__(self) -> None:
        self.values: Values = {}
        self.checkpoints = 0
        """Valid ones of the job so far."""
        self.cached = 0
        """Those of them that went through the cache, whether their flush has ended or not."""
        self.obeyed = 0
        """The last ones in a row that SCR_Need_checkpoint asked for."""
        self.start_s = 0.0
        """Beginning of this run, epoch seconds."""
        self.last_s = 0.0
        """End of the last output, epoch seconds."""
        self.shared_files = SharedFiles()
        self.applied_s = 0.0
        """Seconds of applying settings so far."""
        self._cached_bytes: deque[int] = deque(maxlen=_REMEMBERED_DATASETS)
        self._reinits: deque[float] = deque(maxlen=_REMEMBERED_REINITS)

    @property
    def reinit_s(self) -> float:
        """Mean seconds of the last re-inits of SCR that forced no flush; 0 before there was one."""
        return fmean(self._reinits) if self._reinits else 0.0

    @property
    def dataset_bytes(self) -> int:
        """Mean bytes, on all nodes, of the datasets that the cache holds; 0 before there was one."""
        places = max(1, number(self.values, "SCR_CACHE_SIZE"))
        held = [*self._cached_bytes][-places:]
        return round(fmean(held)) if held else 0

    def begin_run(self, job: SettingsObserved, now: float) -> Values:
        """Take in that a run of `job` begins; returns the settings that it begins with."""
        self.start_s = now
        self.values = {**DEFAULTS, **job.settings, **job.advised}
        self.shared_files.begin_run()
        return self.values

    def restore(self, values: Values) -> None:
        """Take in that the ranks went back to `values` by themselves."""
        if values:
            self.values = {**self.values, **values}
            self.shared_files.left_cache()

    def apply(self, output: OutputCompleted, active: ActiveSettings, *, was_flushed: bool) -> float:
        """Take in that `output` ran under its generation; returns the seconds of applying that.

        `was_flushed`: the checkpoint before it was in the prefix directory: a re-init forced no flush.
        """
        self.shared_files.add(output)
        self.last_s = output.end_s
        self.checkpoints += output.checkpoint and output.valid
        if output.checkpoint:
            self.obeyed = self.obeyed + 1 if output.due else 0
        apply_s = max(0.0, min(output.apply_s, output.end_s - output.start_s))
        self.applied_s += apply_s
        if (settings := active.settings_of(output.generation)) is not None:
            changed = {name for name, value in settings.items() if self.values.get(name) != value}
            if apply_s > 0 and was_flushed and any(map(active.mutability.needs_reinit, changed)):
                self._reinits.append(apply_s)
            self.values = settings
        if output.checkpoint and output.valid and is_cached(self.values):
            self.cached += 1
            self._cached_bytes.append(output.bytes)
        return apply_s
