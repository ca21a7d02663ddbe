"""The leader's journal and snapshot at the node that is next: parts of them, until all of it is there."""

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from scrtune.client.paths import JobPaths
from scrtune.daemon.cluster import mirror
from scrtune.daemon.cluster.messages import Part
from scrtune.daemon.cluster.mirror import Mirror, next_part
from scrtune.daemon.journal.journal import Journal, replay_journal
from scrtune.goodput.events import StepCompleted


class Two:
    """A leader's directory, and that of the node that is next."""

    def __init__(self, base: Path) -> None:
        self.leader = JobPaths.of("j", "n1", base)
        self.next = JobPaths.of("j", "n2", base)
        for paths in (self.leader, self.next):
            paths.root.mkdir(parents=True)
        self.journal = Journal(self.leader.journal)
        self.mirror = Mirror(self.next)
        self._step = 0

    def steps(self, count: int) -> None:
        for _ in range(count):
            self._step += 1
            step = StepCompleted(step=self._step, start_s=float(self._step), end_s=self._step + 1.0)
            self.journal.append(step.end_s, step)
        self.journal.flush(0.0)

    def bring(self, most: int = 1000) -> int:
        """Bring over what is missing; returns in how many parts."""
        for count in range(most):
            part = next_part(self.leader, self.journal.version, self.mirror.holding)
            if part is None:
                return count
            self.mirror.write(part)
        return most

    @property
    def copy(self) -> bytes:
        return (self.next.root / "journal.leader").read_bytes()


@pytest.fixture
def two(tmp_path: Path) -> Two:
    return Two(tmp_path)


def test_all_of_it_comes_and_then_only_what_is_new(two: Two) -> None:
    two.steps(100)
    assert two.bring() == 1
    assert two.copy == two.leader.journal.read_bytes()
    assert two.bring() == 0
    before = len(two.copy)
    two.steps(1)
    part = next_part(two.leader, two.journal.version, two.mirror.holding)
    assert part is not None
    assert (part.offset, len(part.data)) == (before, two.journal.end - before)


def test_a_journal_that_is_packed_comes_anew_and_the_copy_stays_until_it_is_whole(
    two: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    two.steps(3000)
    two.bring()
    before = two.copy
    two.journal.seal()
    monkeypatch.setattr(mirror, "_PART_BYTES", 100)
    two.bring(2)
    assert two.copy == before
    two.bring()
    assert two.copy == two.leader.journal.read_bytes() != before


def test_the_snapshot_comes_behind_the_journal(two: Two) -> None:
    two.steps(10)
    two.leader.snapshot.write_bytes(b"one")
    assert two.bring() == 2
    assert (two.next.root / "snapshot.leader").read_bytes() == b"one"
    two.leader.snapshot.unlink()
    two.leader.snapshot.write_bytes(b"another")
    two.bring()
    assert (two.next.root / "snapshot.leader").read_bytes() == b"another"


def test_what_is_there_becomes_the_nodes_own_and_its_own_goes_aside(two: Two) -> None:
    two.next.journal.write_bytes(b"its own")
    two.next.snapshot.write_bytes(b"its own, too")
    two.steps(10)
    two.bring()
    assert two.mirror.install()
    assert replay_journal(two.next.journal)[0].counters.events == 10
    assert two.next.journal.with_suffix(".follower").read_bytes() == b"its own"
    assert not two.next.snapshot.exists(), "it is of another journal"
    assert not two.mirror.is_there
    assert not two.mirror.install(), "there is no other"


def test_a_daemon_that_is_started_again_still_has_it(two: Two) -> None:
    two.steps(10)
    two.bring()
    again = Mirror(two.next)
    assert again.is_there
    assert all(each.size == 0 for each in again.holding), "it asks for all: the leader may be another"


@pytest.mark.parametrize(
    "part",
    [
        Part("passwd", "1", 0, 3, b"bad"),
        Part("../../journal", "1", 0, 3, b"bad"),
        Part("journal", "1", 100, 200, b"of the middle"),
        Part("journal", "another", 10, 200, b"of another"),
    ],
)
def test_a_part_that_was_not_asked_for_changes_nothing(two: Two, part: Part) -> None:
    two.steps(3)
    two.bring()
    before = {path: path.read_bytes() for path in two.next.root.iterdir()}
    two.mirror.write(part)
    assert {path: path.read_bytes() for path in two.next.root.iterdir()} == before


def test_a_directory_that_is_full_is_said_and_asked_again(two: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> int:
        raise OSError(28, "No space left on device")

    two.steps(3)
    with monkeypatch.context() as patched:
        patched.setattr("os.pwrite", full)
        two.bring(3)
    assert two.mirror.error == "No space left on device"
    two.bring()
    assert (two.mirror.error, two.copy) == ("", two.leader.journal.read_bytes())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30)
@given(st.lists(st.sampled_from(["steps", "seal", "part", "all"]), max_size=12))
def test_whatever_happens_in_between_in_the_end_it_is_the_same(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, done: list[str]
) -> None:
    two = Two(tmp_path_factory.mktemp("m"))
    monkeypatch.setattr(mirror, "_PART_BYTES", 200)
    two.steps(1)
    for what in done:
        match what:
            case "steps":
                two.steps(20)
            case "seal":
                two.journal.seal()
            case "part":
                two.bring(1)
            case _:
                two.bring()
    two.steps(1)
    two.bring()
    assert two.copy == two.leader.journal.read_bytes()
