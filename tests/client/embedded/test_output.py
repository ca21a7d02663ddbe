"""The costs of an output."""

import pytest
from mpi4py import MPI

from scrtune.client.embedded.cache import FileMap
from scrtune.client.embedded.output import OpenOutput
from scrtune.client.embedded.settings import Levers
from scrtune.client.engine import OutputFlags


@pytest.mark.parametrize(
    ("bypass", "flush_due", "flush_s"),
    [(False, True, 2.0), (False, False, 0.0), (True, False, 2.0)],
    ids=["flushed", "cached only", "written in place"],
)
def test_only_what_reached_the_prefix_directory_has_a_flush_time(
    bypass: bool, flush_due: bool, flush_s: float
) -> None:
    """Else every checkpoint would look flushed, and no flush cycle of SCR_FLUSH=10 would ever end."""
    draft = FileMap(
        dataset=1,
        name="a",
        flags=int(OutputFlags.CHECKPOINT),
        checkpoint=1,
        ranks=1,
        rank=0,
        generation=0,
        scheme="SINGLE",
        members=(0,),
        files=((),),
    )
    output = OpenOutput(
        draft=draft,
        bypass=bypass,
        levers=Levers.of({}),
        entered_s=0.0,
        opened_s=0.0,
        completed_s=1.0,
        agreed_s=1.0,
        encoded_s=1.0,
    )
    completed = output.completed(MPI.COMM_SELF, draft, 3.0, valid=True, flush_due=flush_due)
    assert completed.flush_s == flush_s
    assert completed.blocking_s == 3.0
