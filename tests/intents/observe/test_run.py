"""The intents about the run as a whole: its length, its checkpoints' rate, its workflow."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scrtune.goodput.checkpoint_cost import CheckpointCost
from scrtune.goodput.interval.failures import Failures
from scrtune.intents.declared import Declared
from scrtune.intents.events import AllocationObserved, NodeObserved, ProcessUse, TraceDigest
from scrtune.intents.intent import Confidence
from scrtune.intents.observe.checkpoint_rate import CheckpointRateObserver
from scrtune.intents.observe.checkpoints_required import CheckpointsRequired
from scrtune.intents.observe.checkpoints_required import observe as observe_required
from scrtune.intents.observe.workflow import WorkflowObserver

T0 = 1_700_000_000.0
UNTIL_1000 = AllocationObserved(scheduler="slurm", end_s=T0 + 1000, time_s=T0)


class TestCheckpointsRequired:
    """What was declared, and what is left."""

    @pytest.mark.parametrize(
        ("declared", "ran_s", "allocation", "left_s", "is_declared"),
        [
            (Declared(), 10.0, None, None, False),
            (Declared(run_s=100.0), 10.0, None, 90.0, True),
            (Declared(run_s=100.0), 100.0, None, None, False),
            (Declared(), 10.0, UNTIL_1000, 1000.0, False),
            (Declared(run_s=100.0), 10.0, UNTIL_1000, 90.0, True),
            (Declared(run_s=1e6), 10.0, UNTIL_1000, 1000.0, True),
            (Declared(), 10.0, AllocationObserved(scheduler="slurm"), None, False),
            (Declared(), 10.0, AllocationObserved(scheduler="slurm", end_s=T0 - 1), None, False),
        ],
    )
    def test_the_time_left(
        self,
        declared: Declared,
        ran_s: float,
        allocation: AllocationObserved | None,
        left_s: float | None,
        is_declared: bool,
    ) -> None:
        seen = observe_required(declared, 0, ran_s, allocation, T0)
        assert (seen.left_s, seen.is_length_declared) == (left_s, is_declared)
        assert bool(seen.evidence.count) == (left_s is not None or declared.run_s is not None)
        assert (seen.evidence.confidence is Confidence.DECLARED) == (declared.run_s is not None)

    @pytest.mark.parametrize(
        ("least", "most", "taken", "left"),
        [(None, None, 3, (0, None)), (5, None, 3, (2, None)), (5, 9, 3, (2, 6)), (5, 9, 10, (0, 0))],
    )
    def test_those_left(
        self, least: int | None, most: int | None, taken: int, left: tuple[int, int | None]
    ) -> None:
        seen = CheckpointsRequired(least=least, most=most, taken=taken)
        assert (seen.least_left, seen.most_left) == left

    @given(
        st.one_of(st.none(), st.floats(0, 1e12)),
        st.floats(0, 1e12),
        st.one_of(st.none(), st.integers(0, 100)),
    )
    def test_those_still_to_come_are_as_many_as_fit_and_may_be(
        self, left_s: float | None, interval_s: float, most: int | None
    ) -> None:
        coming = CheckpointsRequired(left_s=left_s, most=most).still_to_come(interval_s)
        assert (coming is None) == (left_s is None or interval_s <= 0)
        if coming is not None:
            assert coming >= 0
            assert coming * interval_s <= (left_s or 0) * (1 + 1e-9)
            assert most is None or coming <= most

    def test_in_words(self) -> None:
        seen = observe_required(Declared(checkpoints_least=3, checkpoints_most=9), 4, 0.0, UNTIL_1000, T0)
        assert seen.sentence() == "at least 3 and at most 9; 4 checkpoints taken, at most 16.7 min left"
        assert "no number declared" in CheckpointsRequired().sentence()


class TestCheckpointRate:
    """The distribution of the time between two."""

    def test_it_is_that_of_the_last_ones_whatever_the_settings(self) -> None:
        observer = CheckpointRateObserver()
        assert "no two checkpoints yet" in observer.observe(Failures()).sentence()
        for number in range(1000):
            interval_s = 0.0 if number == 0 else 100.0 + number % 11
            observer.add(
                CheckpointCost(
                    dataset=number, generation=number % 3, time_s=100.0 * number, blocking_s=2.0,
                    slowdown_s=0.5, interval_s=interval_s,
                )
            )  # fmt: skip
        seen = observer.observe(Failures(observed_s=7200.0, cache=1, prefix=1))
        assert seen.evidence.count == 256
        assert seen.p10_s < seen.median_s < seen.p90_s
        assert (seen.p10_s, seen.p90_s) == (101.0, 109.0)
        assert seen.cost_s == 2.5
        assert "2 failures in 2.0 h" in seen.sentence()


def node(*names: str) -> NodeObserved:
    uses = tuple(ProcessUse(pid=pid, cpus=(0,), name=name) for pid, name in enumerate(names))
    return NodeObserved(host="n", cpus=(0,), processes=uses)


class TestWorkflow:
    """One application, or several in one allocation."""

    @pytest.mark.parametrize(
        ("steps", "names", "traced", "is_one"),
        [
            ((), ("python", "python"), 2, False),
            (("0 sim",), ("sim", "sim"), 2, False),
            (("0 sim", "1 sim"), ("sim", "sim"), 2, True),
            (("0 python",), ("sim", "analyse"), 2, True),
            ((), ("python", "python"), 4, False),  # a shell and a helper
            ((), ("python", "python"), 400, True),  # many short processes, as in MuMMI
            ((), (), 400, False),  # whose ranks are not known
        ],
    )
    def test_it_is_one_where_there_are_several_applications(
        self, steps: tuple[str, ...], names: tuple[str, ...], traced: int, is_one: bool
    ) -> None:
        observer = WorkflowObserver()
        observer.add_node(node(*names), T0)
        observer.add_digest(TraceDigest(processes=tuple(("n", pid) for pid in range(traced))))
        allocation = AllocationObserved(scheduler="slurm", end_s=T0 + 60, steps=steps) if steps else None
        seen = observer.observe(allocation, T0)
        assert seen.is_one is is_one
        assert ("a workflow" in seen.sentence()) is is_one
        assert seen.left_s == (60.0 if steps else None)

    def test_its_evidence_is_of_the_time_that_was_looked(self) -> None:
        observer = WorkflowObserver()
        assert observer.observe(None, T0).evidence.count == 0
        for age_s in (2, 5, 9):
            observer.add_node(node("sim"), T0 + age_s)
        alone = observer.observe(None, T0 + 10).evidence
        assert (alone.count, alone.window_s, alone.end_s) == (3, 7.0, T0 + 9)
        asked = AllocationObserved(scheduler="slurm", time_s=T0 + 1)
        both = observer.observe(asked, T0 + 10).evidence
        assert (both.count, both.window_s, both.end_s) == (4, 8.0, T0 + 9)

    def test_what_it_remembers_is_bounded(self) -> None:
        observer = WorkflowObserver()
        for number in range(200):
            observer.add_node(node(f"p{number}"), T0)
            observer.add_digest(
                TraceDigest(processes=tuple(("n", 1000 * number + pid) for pid in range(500)))
            )
        seen = observer.observe(None, T0)
        assert len(seen.programs) == 64
        assert observer.observe(None, T0).processes <= 65_536

    def test_many_nodes_are_no_workflow(self) -> None:
        observer = WorkflowObserver()
        for number in range(100):
            host = f"n{number}"
            uses = tuple(ProcessUse(pid=pid, cpus=(0,), name="sim") for pid in range(4))
            observer.add_node(NodeObserved(host=host, cpus=(0,), processes=uses), T0)
            observer.add_digest(TraceDigest(processes=tuple((host, pid) for pid in range(5))))
        seen = observer.observe(None, T0)
        assert not seen.is_one
        assert (seen.processes, seen.ranks) == (5, 4)

    def test_the_longest_of_the_recent_steps_is_known(self) -> None:
        observer = WorkflowObserver()
        observer.add_step(50.0)
        for _ in range(98):
            observer.add_step(1.0)
        assert observer.observe(None, T0).longest_step_s == 50.0
        for _ in range(300):
            observer.add_step(2.0)
        assert observer.observe(None, T0).longest_step_s == 2.0
