"""`examples/train_loop.py`, as a user starts it."""

import argparse
import datetime as dt
import inspect
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from scrtune.client.recorder import Recorder
from scrtune.goodput.compat import goodput
from scrtune.goodput.compat.rules import compat_account
from scrtune.goodput.ledger.ledger import Ledger
from scrtune.goodput.readers.jsonl import Log

ROOT = Path(__file__).parents[3]
QUICK = ["--steps", "8", "--repeats", "1", "--fail-at", "6", "--eval-every", "3", "--checkpoint-every", "4"]


def run(tmp_path: Path, *arguments: str) -> str:
    ran = subprocess.run(
        [sys.executable, ROOT / "examples" / "train_loop.py", *QUICK, "--outage-s", "0.01", *arguments],
        env={**os.environ, "SCRTUNE_GOODPUT_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@pytest.mark.parametrize("recorder", ["compat", "scrtune"])
def test_both_policies_account_for_the_loop(tmp_path: Path, recorder: str) -> None:
    printed = run(tmp_path, "--run-name", "example", "--recorder", recorder)
    compat, conserving = printed.split("policy conserving")
    assert "the node fails in step 6" in compat
    for kind in ("tpu_initialization", "training_prep", "wasted_progress_from_disruption", "EVAL_STEP"):
        assert kind in compat
    assert "unproductive_checkpoint_save_time" in compat
    assert re.search(r"last step 7\n", compat)
    for bucket in ("productive", "wasted_progress", "data_loading", "restore"):
        assert bucket in conserving
    assert re.search(r"sum +100.00 %", conserving)
    assert str(tmp_path / "goodput_example.jsonl") in conserving


class Both:
    """Two recorders that are told the same, at the same time."""

    def __init__(self, *recorders: object) -> None:
        self.recorders = recorders

    def __getattr__(self, name: str) -> Callable[..., None]:
        def record(*arguments: Any, **named: Any) -> None:
            parameters = list(inspect.signature(getattr(self.recorders[0], name)).parameters)
            time = "end_time" if "end_time" in parameters else "start_time"
            for recorder in self.recorders:
                getattr(recorder, name)(*arguments, **named, **{time: now})

        now = dt.datetime.now(dt.timezone.utc)
        return record


def test_the_loop_comes_to_the_same_account_with_either_recorder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SCRTUNE_GOODPUT_DIR", str(tmp_path))
    loop = runpy.run_path(str(ROOT / "examples" / "train_loop.py"))
    options = argparse.Namespace(steps=8, repeats=1, eval_every=3, checkpoint_every=4)
    ours = Recorder("job", writer="", log=tmp_path / "scrtune.jsonl")
    theirs = goodput.GoodputRecorder("job", "compat", logging_enabled=True)
    both = Both(theirs, ours)
    checkpoints = loop["Checkpoints"](tmp_path)
    both.record_job_start_time()
    with pytest.raises(loop["NodeFailedError"]):
        loop["train_loop"](both, options, checkpoints, fail_at=6)
    both.record_job_start_time()
    loop["train_loop"](both, options, checkpoints, fail_at=-1)
    both.record_job_end_time()
    theirs.flush()
    assert ours.flush(60)
    accounts = []
    for name in ("compat", "scrtune"):
        log, ledger = Log(), Ledger()
        log.lines((tmp_path / f"{name}.jsonl").read_bytes())
        events = log.jobs["job"].timeline()
        for event in events:
            ledger.handle(event)
        assert ledger.account(0.0).buckets["custom:EVAL_STEP"] > 0
        accounts.append((ledger.account(0.0), compat_account(events, 0.0)))
    assert accounts[0] == accounts[1]


def test_the_loop_writes_to_tensorboard_meanwhile(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    run(tmp_path, "--tensorboard", str(tmp_path / "tensorboard"))
    written = list((tmp_path / "tensorboard" / "goodput").glob("*tfevents*"))
    assert len(written) == 1
    assert b"goodput/goodput" in written[0].read_bytes()
    assert b"badput/training_prep" in written[0].read_bytes()
