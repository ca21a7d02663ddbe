"""Sections 8, 10, 11 and 12 of `docs/intents.md` on a live job: what its commands say, what it ran under."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest

from scrtune.client.paths import JobPaths
from scrtune.daemon.journal.journal import replay_journal
from scrtune.daemon.views import ExplainView, StatusView
from scrtune.intents.declared import VARIABLE, Declared, to_text
from scrtune.intents.pipeline import Pipeline
from scrtune.intents.rules.parameter import DerivedParameter

pytestmark = pytest.mark.mpi

TRAINING = Path(__file__).parents[2] / "apps" / "training_that_diverges.py"
GOOD_STEPS, BAD_STEPS = 60, 20
END_S = 4_000_000_000
FLUX = f"""#!/bin/sh
[ "$*" = "job info f1 R" ] && echo '{{"execution": {{"expiration": {END_S}.0, "nodelist": ["n1"]}}}}'
"""


@dataclass(frozen=True)
class Ended:
    """A job that has ended, and what `scrtune` said of it."""

    errors: str
    explained: ExplainView
    status: StatusView
    status_text: str
    pipeline: Pipeline

    def intent(self, name: str) -> str:
        (found,) = (each.sentence for each in self.explained.intents if each.name == name)
        return found

    def parameter(self, name: str) -> DerivedParameter:
        (found,) = (each for each in self.explained.parameters if each.name == name)
        return found


@pytest.fixture(scope="module")
def ended() -> Iterator[Ended]:
    """A job that takes a checkpoint at every step, and more of its time than its user declared."""
    with tempfile.TemporaryDirectory(prefix="sr") as text:
        base = Path(text)
        (base / "flux").write_text(FLUX)
        (base / "flux").chmod(0o755)
        declared = Declared(overhead=0.001, checkpoints_least=1, metric="loss")
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("SCR", "SLURM"))},
            "PATH": f"{base}:{os.environ['PATH']}",
            "FLUX_JOB_ID": "f1",
            VARIABLE: to_text(declared),
            "SCRTUNE_RUN_DIR": str(base / "r"),
            "SCRTUNE_ENGINE": "embedded",
            "SCR_PREFIX": str(base),
            "SCR_CACHE_BASE": str(base / "cache"),
            "SCR_CACHE_BYPASS": "1",
            "SCR_PREFIX_SIZE": "0",
        }

        def scrtune(*command: str) -> "subprocess.CompletedProcess[str]":
            done = subprocess.run(
                [sys.executable, "-m", "scrtune", *command],
                cwd=base,
                env=environment,
                capture_output=True,
                text=True,
                timeout=100,
                check=False,
            )
            assert done.returncode == 0, done.stderr
            return done

        steps = (str(GOOD_STEPS), str(BAD_STEPS))
        ran = scrtune("run", "--job-id", "j", "--trace", "off", "--", sys.executable, str(TRAINING), *steps)
        of_it = ("--job-id", "j")
        explained, status = (
            scrtune(name, *of_it, "--format", "json").stdout for name in ("explain", "status")
        )
        yield Ended(
            errors=ran.stderr + JobPaths.of("j", base=base / "r").log.read_text(),
            explained=msgspec.json.decode(explained, type=ExplainView, strict=False),
            status=msgspec.convert(json.loads(status), StatusView, strict=False),
            status_text=scrtune("status", *of_it).stdout,
            pipeline=replay_journal(JobPaths.of("j", base=base / "r").journal)[0],
        )


def test_8_the_checkpoints_required(ended: Ended) -> None:
    said = ended.intent("checkpoints required")
    assert said.startswith("at least 1; ")
    assert f"{ended.status.checkpoints} checkpoints taken" in said
    assert "left" in said
    assert ended.parameter("SCR_CACHE_SIZE").intent == "checkpoints required"


def test_10_the_rate_and_the_overhead_that_was_declared(ended: Ended) -> None:
    assert "one every " in ended.intent("checkpoint rate")
    (first, *_) = ended.pipeline.decisions
    assert first.rule == "checkpoint within what you declared"
    # How much depends on SCR's mean, with each spike of a loaded machine in it: a simulated job tests that.
    assert float(str(first.changes["SCR_CHECKPOINT_OVERHEAD"])) > 0
    assert ended.status.checkpoints < GOOD_STEPS, "it came after three, and the job obeyed"
    for name in ("SCR_CHECKPOINT_SECONDS", "SCR_CHECKPOINT_OVERHEAD", "SCR_CHECKPOINT_INTERVAL", "SCR_FLUSH"):
        found = ended.parameter(name)
        assert found.value is not None or found.why_not


def test_11_the_end_of_the_allocation(ended: Ended) -> None:
    assert ended.pipeline.observers.allocation is not None
    assert ended.pipeline.observers.allocation.end_s == END_S
    assert "the allocation ends in" in ended.intent("workflow")
    halt, poststage = (ended.parameter(name) for name in ("SCR_HALT_SECONDS", "SCR_FLUSH_POSTSTAGE"))
    assert any("the application asks SCR after" in each for each in halt.inputs) or halt.why_not
    assert poststage.why_not.startswith("one application")


def test_12_the_divergence_and_the_checkpoint_to_go_back_to(ended: Ended) -> None:
    current = ended.parameter("SCR_CURRENT")
    assert "loss is no finite number" in ended.intent("divergence")
    assert f"up to step {GOOD_STEPS - 1}" in ended.intent("divergence")
    name, step = str(current.value).split(".")
    assert name == "ckpt"
    assert int(step) < GOOD_STEPS
    assert "only the user may change this" in current.veto
    assert ended.status.divergence == ended.intent("divergence")
    assert "diverges" in ended.status_text
    assert f"SCR_CURRENT={current.value} goes back to it" in ended.errors
    assert "SCR_CURRENT" not in ended.pipeline.advice.settings
