"""`examples/train_loop.py`, as a user starts it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
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


def test_both_policies_account_for_the_loop(tmp_path: Path) -> None:
    printed = run(tmp_path, "--run-name", "example")
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


def test_the_loop_writes_to_tensorboard_meanwhile(tmp_path: Path) -> None:
    pytest.importorskip("tensorboardX")
    run(tmp_path, "--tensorboard", str(tmp_path / "tensorboard"))
    written = list((tmp_path / "tensorboard" / "goodput").glob("*tfevents*"))
    assert len(written) == 1
    assert b"goodput/goodput" in written[0].read_bytes()
    assert b"badput/training_prep" in written[0].read_bytes()
