"""Lines of SCR's log, outputs, and events of a kind, for the tests of how they come together."""

from collections.abc import Sequence

from scrtune.client.scr_log.join import Output

T0 = 1_795_270_000.0
SIZE = 16_777_250


def output(dataset: int, at: float, closing: float, closed: float, **fields: object) -> Output:
    """Entered at `at`, opened 0.1 s later, and so on: seconds behind T0."""
    times = {"opened_s": T0 + at + 0.1, "closing_s": T0 + closing, "closed_s": T0 + closed}
    return Output(dataset=dataset, name=f"c{dataset}", entered_s=T0 + at, **{**times, **fields})


def only(kind: type, events: Sequence[object]) -> list:
    return [each for each in events if isinstance(each, kind)]
