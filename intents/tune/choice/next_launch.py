"""The choice for the next launch: what it alone can change, or what it changes for nothing."""

import numpy as np

from ...events import SettingsObserved, Values
from ...mutability import RunMutability
from ...observe.io.shared_files import starts_past_the_cache
from ...settings import difference
from .chooser import View


def for_nothing(view: View) -> View:
    """Return `view` as a launch has it: no re-init is paid for, and no trial budget is asked."""
    nothing = np.zeros(len(view.belief.candidates))
    return view._replace(there_s=nothing, back_s=nothing, left_s=float("inf"))


def without_launch(
    view: View, incumbent: Values, mutability: RunMutability, job: SettingsObserved
) -> set[int]:
    """Return the candidates for which no launch is needed, or that would start past the cache."""
    changes = [difference(each, incumbent) for each in view.belief.candidates]
    return {
        index
        for index, each in enumerate(changes)
        if not mutability.prefers_launch(each) or starts_past_the_cache(each, job)
    }


def why_at_launch(changes: Values, mutability: RunMutability) -> str:
    """Return why `changes` wait for the next launch."""
    fixed = sorted(filter(mutability.is_fixed, changes))
    why = f"{', '.join(fixed)}: only a launch can change it" if fixed else "a re-init does not pay now"
    return f"{why}; the next launch begins with it"
