"""A batch job of a real Flux on two nodes: the daemons that `flux exec` starts are one.

Each broker has a host name of its own. flux-core 0.88 was built for this; without a `flux` it is not run.
"""

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.mpi, pytest.mark.timeout(300)]
if shutil.which("flux") is None or subprocess.run(["unshare", "--uts", "true"], check=False).returncode:
    pytestmark.append(pytest.mark.skip(reason="no Flux, or no host names of our own"))

TRAIN = Path(__file__).parents[3] / "examples" / "train.py"
SCRTUNE = f"{shlex.quote(sys.executable)} -m scrtune"
NODE = """#!/bin/sh
exec unshare --uts sh -c 'hostname "n$PMI_RANK"; exec "$@"' sh "$@"
"""
SCRIPT = f"""#!/bin/sh
flux exec -r all {SCRTUNE} daemon --job-id j --cluster $PWD/cluster --scr-conf $SCR_CONF_FILE --no-probe &
flux exec -r all sh -c 'until {SCRTUNE} status --job-id j >status 2>&1; do sleep 0.2; done'
flux run -N2 -n2 {shlex.quote(sys.executable)} {TRAIN} --steps 200 --every 20 --scale 0.0001
flux exec -r 0 {SCRTUNE} status --job-id j --format json >status0
flux exec -r 1 {SCRTUNE} status --job-id j --format json >status1
flux exec -r 0 {SCRTUNE} explain --job-id j --format json >explain
"""


@pytest.fixture(scope="module")
def job() -> Iterator[Path]:
    """The directory of a batch job that has ended."""
    with tempfile.TemporaryDirectory(prefix="flux") as base:
        directory = Path(base)
        (directory / "user.conf").write_text("SCR_CACHE_BYPASS=0\nSCR_COPY_TYPE=SINGLE\nSCR_FLUSH=1\n")
        for name, text in (("node", NODE), ("job", SCRIPT)):
            (directory / name).write_text(text)
            (directory / name).chmod(0o700)
        variables = {
            "SCRTUNE_JOB_ID": "j",
            "SCRTUNE_RUN_DIR": str(directory / "r"),
            "SCRTUNE_ADDRESS": "127.0.0.1",
            "SCRTUNE_ENGINE": "embedded",
            "SCR_CONF_FILE": str(directory / "scr.conf"),
            "SCR_CACHE_BASE": str(directory / "cache"),
        }
        batch = "flux job attach $(flux batch -N2 -t 5m --output=output ./job)"
        command = ["flux", "start", "--test-size=2", f"--wrap={directory / 'node'}", "sh", "-c", batch]
        subprocess.run(command, cwd=directory, env={**os.environ, **variables}, timeout=280, check=True)
        yield directory


def read(path: Path) -> dict[str, Any]:
    output = path.with_name("output")
    assert path.read_bytes(), output.read_text() if output.exists() else "no output"
    return dict(json.loads(path.read_bytes()))


def test_the_daemons_find_each_other_and_follow_the_one_that_rank_0_speaks_to(job: Path) -> None:
    statuses = [read(job / name) for name in ("status0", "status1")]
    assert [each["host"] for each in statuses] == ["n0", "n1"]
    assert {each["cluster"]["leader"] for each in statuses} == {"n0"}
    assert [each["host"] for each in statuses[0]["cluster"]["members"]] == ["n1"]
    assert (statuses[0]["ranks"], statuses[0]["nodes"]) == (2, 2)


def test_the_evidence_is_of_both_nodes(job: Path) -> None:
    found = read(job / "explain")
    assert [each["host"] for each in found["nodes"]] == ["n0", "n1"]


def test_the_allocation_is_the_instances(job: Path) -> None:
    (workflow,) = [each for each in read(job / "explain")["intents"] if each["name"] == "workflow"]
    assert workflow["source"] == "flux and the node"
    assert "1 step of flux" in workflow["sentence"]
    assert "the allocation ends in" in workflow["sentence"]
