"""An event file that TensorBoard reads."""

from pathlib import Path

from scrtune.goodput.log.tensorboard import TensorBoard

from ...support.monitored_job import events_in


def test_tensorboard_reads_what_is_written(tmp_path: Path) -> None:
    writer = TensorBoard(tmp_path)
    writer.add_scalar("a/b", 1.5, 7, 12.25)
    assert not list(tmp_path.iterdir())  # nothing is there before there is something to read
    writer.flush()
    writer.add_scalar("not a:tag", 2, 8)
    writer.flush()
    version, first, second = events_in(tmp_path)
    assert version.file_version == "brain.Event:2"
    assert (first.wall_time, first.step, first.summary.value[0].tag) == (12.25, 7, "a/b")
    assert first.summary.value[0].simple_value == 1.5
    assert second.summary.value[0].tag == "not_a_tag"
