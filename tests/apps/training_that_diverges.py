"""A training on one rank that asks SCR when to checkpoint, and whose loss ends as no number."""

import math
import os
import sys
import time
from pathlib import Path

from mpi4py import MPI

from scrtune.client.recorder import Recorder
from scrtune.client.session import Session

GOOD_STEPS, BAD_STEPS = int(sys.argv[1]), int(sys.argv[2])

recorder = Recorder(log=os.devnull)
with Session(MPI.COMM_WORLD) as session:
    for step in range(GOOD_STEPS + BAD_STEPS):
        time.sleep(0.02)
        loss = 1 + math.exp(-step / 10) if step < GOOD_STEPS else math.nan
        recorder.record_metric("loss", loss, step)
        recorder.flush()
        if session.need_checkpoint():
            session.start_output(f"ckpt.{step}")
            Path(session.route_file(f"ckpt.{step}/rank_0")).write_bytes(bytes(64 * 1024))
            session.complete_output()
recorder.close()
