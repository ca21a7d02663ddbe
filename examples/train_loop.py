"""MaxText's training loop in small, with its goodput recorded: users of the other library change an import.

A model is trained with numpy on the CPU: device initialisation, preparation with a restore, data loading,
steps, evaluations as custom badput, checkpoints. A failure of the node is simulated once, and the loop starts
again from its checkpoint. At the end two accounts of the log are printed: one by the rules of
ml-goodput-measurement, and ours, whose buckets sum to the wall time.

    python examples/train_loop.py
    scrtune goodput <the log it names> --policy compat

With `--recorder scrtune`, the same loop uses scrtune's own recorder, which also reports to a daemon:
``scrtune run -- python examples/train_loop.py --recorder scrtune``.
"""

import argparse
import os
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import numpy as np

from scrtune.client.recorder import Recorder

# before: from ml_goodput_measurement import goodput, monitoring
from scrtune.goodput.compat import goodput, monitoring
from scrtune.goodput.ledger.ledger import Ledger
from scrtune.goodput.log.line_log import log_path
from scrtune.goodput.readers.jsonl import Log

FEATURES, OUTPUTS, BATCH = 256, 64, 2048
LEARNING_RATE = 0.1


class NodeFailedError(Exception):
    """The failure that the example simulates."""


@dataclass(frozen=True)
class Checkpoints:
    """One file in `directory`, replaced atomically: there is always a good one."""

    directory: Path

    def save(self, step: int, weights: np.ndarray) -> None:
        """Write the state after `step`."""
        with (self.directory / "state.tmp").open("wb") as file:
            np.savez(file, step=step, weights=weights)
            file.flush()
            os.fsync(file.fileno())
        (self.directory / "state.tmp").replace(self.directory / "state.npz")

    def restore(self) -> tuple[int, np.ndarray]:
        """Return the step to begin with, and its state: 0 and zeros without a checkpoint."""
        try:
            with np.load(self.directory / "state.npz") as state:
                return int(state["step"]) + 1, state["weights"]
        except FileNotFoundError:
            return 0, np.zeros((FEATURES, OUTPUTS))


def batches(first: int, truth: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the batch of each step, the same after a restart."""
    step = first
    while True:
        rng = np.random.default_rng(step)
        inputs = rng.standard_normal((BATCH, FEATURES))
        yield inputs, inputs @ truth + rng.standard_normal((BATCH, OUTPUTS))
        step += 1


def train_step(weights: np.ndarray, inputs: np.ndarray, targets: np.ndarray, repeats: int) -> np.ndarray:
    """Return the weights after gradient descent on one batch."""
    for _ in range(repeats):
        weights -= LEARNING_RATE * (inputs.T @ (inputs @ weights - targets)) / len(inputs)
    return weights


def evaluate(weights: np.ndarray, truth: np.ndarray) -> float:
    """Return the loss on data that was not trained on."""
    inputs, targets = next(batches(1_000_000, truth))
    return float(np.mean((inputs @ weights - targets) ** 2))


def train_loop(
    recorder: goodput.GoodputRecorder | Recorder,
    options: argparse.Namespace,
    checkpoints: Checkpoints,
    *,
    fail_at: int,
) -> None:
    """Run from the newest checkpoint to the last step, or to the step in which the node fails."""
    recorder.record_tpu_init_start_time()
    np.ones((1024, 1024)) @ np.ones((1024, 1024))  # the first product starts the threads of the BLAS
    recorder.record_tpu_init_end_time()

    recorder.record_training_preparation_start_time()
    truth = np.random.default_rng(0).standard_normal((FEATURES, OUTPUTS))
    restore_start = datetime.now(timezone.utc)
    first, weights = checkpoints.restore()
    if first:
        recorder.record_checkpoint_restore(first - 1, restore_start, directory=str(checkpoints.directory))
    data = batches(first, truth)
    recorder.record_training_preparation_end_time()

    for step in range(first, options.steps):
        recorder.record_data_loading_start_time()
        inputs, targets = next(data)
        recorder.record_data_loading_end_time()

        recorder.record_step_start_time(step)
        weights = train_step(weights, inputs, targets, options.repeats)
        if step == fail_at:
            raise NodeFailedError(f"the node fails in step {step}")

        if (step + 1) % options.eval_every == 0:
            recorder.record_custom_badput_event_start_time(custom_badput_event_type="eval_step")
            print(f"step {step}: loss {evaluate(weights, truth):.3f}")
            recorder.record_custom_badput_event_end_time(custom_badput_event_type="eval_step")

        if (step + 1) % options.checkpoint_every == 0:
            save_start = datetime.now(timezone.utc)
            checkpoints.save(step, weights)
            recorder.record_checkpoint_save(step, save_start, directory=str(checkpoints.directory))


def new_recorder(options: argparse.Namespace, logger_name: str) -> goodput.GoodputRecorder | Recorder:
    """Return the recorder that is asked for; both write the log `logger_name`."""
    if options.recorder == "compat":
        return goodput.GoodputRecorder(options.run_name, logger_name, logging_enabled=True)
    log = log_path(logger_name)
    log.parent.mkdir(parents=True, exist_ok=True)
    return Recorder(options.run_name, log=log)


def run(options: argparse.Namespace, directory: Path) -> None:
    """Run the job: the loop, and once more after a failure, as a launcher does."""
    logger_name = f"goodput_{options.run_name}"
    recorder = new_recorder(options, logger_name)
    monitor = monitoring.GoodputMonitor(
        job_name=options.run_name,
        logger_name=logger_name,
        tensorboard_dir=options.tensorboard or "",
        upload_interval=2,
        monitoring_enabled=bool(options.tensorboard),
        include_badput_breakdown=True,
        gcp_options=monitoring.GCPOptions(
            enable_gcp_goodput_metrics=False, enable_gcp_step_deviation_metrics=False
        ),
    )
    monitor.start_goodput_uploader()
    checkpoints = Checkpoints(directory)
    try:
        recorder.record_job_start_time()
        train_loop(recorder, options, checkpoints, fail_at=options.fail_at)
    except NodeFailedError as error:
        print(f"{error}; the launcher needs a moment")
        time.sleep(options.outage_s)
        recorder.record_job_start_time()
        train_loop(recorder, options, checkpoints, fail_at=-1)
    recorder.record_job_end_time()
    recorder.flush()
    monitor.stop_goodput_uploader()


def report(run_name: str) -> None:
    """Print the accounts of the log by both policies."""
    logger_name = f"goodput_{run_name}"
    calculator = goodput.GoodputCalculator(run_name, logger_name)
    percent, badput, last_step = calculator.get_job_goodput(include_badput_breakdown=True)
    total_s = calculator.get_job_goodput_details()["total_elapsed_time"]
    print(f"\npolicy compat: goodput {percent:.2f} % of {total_s:.2f} s, last step {last_step}")
    for kind, part in badput.items():
        parts = part.items() if isinstance(part, dict) else [("", part)]
        for name, value in parts:
            if value:
                print(f"  {kind.name.lower():<40} {name:<10} {value:6.2f} %")

    log, ledger = Log(), Ledger()
    with log_path(logger_name).open("rb") as lines:
        log.lines(lines.read())
    for event in log.jobs[run_name].timeline():
        ledger.handle(event)
    account = ledger.account(time.time())
    print(f"\npolicy conserving: goodput {100 * account.goodput:.2f} % of {account.wall_s:.2f} s")
    for bucket, spent_s in account.buckets.items():
        if spent_s:
            print(f"  {bucket:<51} {100 * spent_s / account.wall_s:6.2f} %")
    print(f"  {'sum':<51} {100 * sum(account.buckets.values()) / account.wall_s:6.2f} %")
    print(f"\nlog: {log_path(logger_name)}")


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--run-name", default=f"train-loop-{os.getpid()}", help="name of the job")
    parser.add_argument("--recorder", choices=("compat", "scrtune"), default="compat", help="who records")
    parser.add_argument("--steps", type=int, default=24, help="steps to train")
    parser.add_argument("--repeats", type=int, default=6, help="gradients computed in a step: how long it is")
    parser.add_argument("--eval-every", type=int, default=6, help="steps between evaluations")
    parser.add_argument("--checkpoint-every", type=int, default=5, help="steps between checkpoints")
    parser.add_argument("--fail-at", type=int, default=13, help="step in which the node fails; -1: never")
    parser.add_argument("--outage-s", type=float, default=0.5, help="seconds until the launcher starts anew")
    parser.add_argument("--tensorboard", help="directory for TensorBoard, where tensorboardX is installed")
    return parser.parse_args()


def main() -> None:
    """Train, and print where the time went."""
    options = arguments()
    with tempfile.TemporaryDirectory() as directory:
        run(options, Path(directory))
    report(options.run_name)


if __name__ == "__main__":
    main()
