"""The tuner on simulated jobs, against the best settings that their users' rails allow.

python -m benchmarks.tuner                                    the tables of docs/tuning.md, few jobs
python -m benchmarks.tuner --scenario mixed --start poor      one row of them
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import msgspec

from scrtune.intents.pipeline import Pipeline

from . import calibration
from .baselines import GaussianProcess, Looks, RandomSearch
from .drive import STARTS, MakeTuner, Outcome, simulate
from .jobs import SCENARIOS
from .table import cells, heading, row

BEFORE = "d09f344"
"""The last commit with the tuner of rules that were tried one at a time."""
ROOT = Path(__file__).parents[2]

TUNERS: dict[str, MakeTuner] = {
    "scrtune": lambda _: Pipeline(),
    "GP-UCB": GaussianProcess,
    "random search": RandomSearch,
    "oracle after 2 looks": Looks,
}

Rows = Callable[[str, str], list[Outcome]]
"""The outcomes of the jobs of a scenario from a start."""


@dataclass(frozen=True)
class Asked:
    """The jobs of a row."""

    jobs: int
    checkpoints: int
    first: int = 0


def one(scenario: str, start: str, checkpoints: int, tuner: str, seed: int) -> Outcome:
    """Return the outcome of one job."""
    return simulate(scenario, start, seed, checkpoints, TUNERS[tuner])


def outcomes(pool: ProcessPoolExecutor, asked: Asked, tuner: str, scenario: str, start: str) -> list[Outcome]:
    """Return the outcomes of a row, in the order of their seeds."""
    seeds = range(asked.first, asked.first + asked.jobs)
    return list(pool.map(partial(one, scenario, start, asked.checkpoints, tuner), seeds, chunksize=2))


@contextmanager
def before() -> Iterator[Path | None]:
    """Give the directory of the package `scrtune` of `BEFORE`; None where git does not have it."""
    found = subprocess.run(["git", "archive", BEFORE], cwd=ROOT, capture_output=True, check=False)
    if found.returncode:
        yield None
        return
    with tempfile.TemporaryDirectory() as made:
        package = Path(made) / "scrtune"
        package.mkdir()
        subprocess.run(["tar", "-x"], cwd=package, input=found.stdout, check=True)
        yield Path(made)


def outcomes_before(where: Path, processes: int, asked: Asked, scenario: str, start: str) -> list[Outcome]:
    """Return the outcomes of a row under the tuner in `where`, from a process of its own."""
    command = [
        *(sys.executable, "-m", __package__, "--outcomes", f"--processes={processes}"),
        *(f"--jobs={asked.jobs}", f"--checkpoints={asked.checkpoints}", f"--first={asked.first}"),
        *(f"--scenario={scenario}", f"--start={start}"),
    ]
    environment = {**os.environ, "PYTHONPATH": str(where)}
    made = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(made.stdout, type=list[Outcome])


def table(title: str, asked: Asked, rows: Sequence[tuple[str, str, str, Rows]]) -> None:
    """Print one table: each row's scenario, start, tuner and outcomes."""
    titles = ["jobs", "from", "tuner", *heading(asked.checkpoints)]
    print(f"\n{title}: {asked.jobs} jobs of {asked.checkpoints} checkpoints a row\n")
    print(row(titles))
    print("|" + "---|" * len(titles))
    for scenario, start, tuner, made in rows:
        print(row([scenario, start, tuner, *cells(made(scenario, start))]), flush=True)


def everything(asked: Asked, processes: int) -> None:
    """Print the tables of docs/tuning.md."""
    with ProcessPoolExecutor(processes) as pool, before() as old:
        tuners: dict[str, Rows] = {name: cache(partial(outcomes, pool, asked, name)) for name in TUNERS}
        if old:
            tuners["before"] = partial(outcomes_before, old, processes, asked)
        else:
            print(f"This clone does not have commit {BEFORE}: the tuner of before is left out.")
        own = tuners["scrtune"]
        table("Every kind of job", asked, [(s, f, "scrtune", own) for s in SCENARIOS for f in STARTS])
        table("Compared", asked, [("mixed", start, *each) for start in STARTS for each in tuners.items()])
        long = Asked(max(2, asked.jobs // 3), 400)
        rows = [("mixed", start, "scrtune", partial(outcomes, pool, long, "scrtune")) for start in STARTS]
        table("Long jobs", long, rows)


def calibrated(
    pool: ProcessPoolExecutor, asked: Asked, scenarios: Sequence[str], starts: Sequence[str]
) -> None:
    """Print, for each start, what is believed against the truth."""
    seeds = range(asked.first, asked.first + asked.jobs)
    for start in starts:
        print(f"\nFrom {start}\n\n{row(calibration.HEADING)}\n{'|---' * len(calibration.HEADING)}|")
        said = [
            each
            for scenario in scenarios
            for each in pool.map(partial(calibration.said, scenario, start), seeds, chunksize=2)
            if each
        ]
        print(*map(row, calibration.cells(said)), sep="\n")


def worst(made: list[Outcome], given: argparse.Namespace) -> Iterator[str]:
    """Return a line for each of the jobs that ended farthest from the best settings."""
    by_end = sorted(
        enumerate(made, given.first), key=lambda each: -each[1].steady_s[-1] / each[1].steady_best_s[-1]
    )
    for seed, job in by_end[: given.worst]:
        ratio, total = job.steady_s[-1] / job.steady_best_s[-1], job.tuned_s[-1] / job.oracle_s[-1]
        differs = {
            name: (job.final[name], value) for name, value in job.best.items() if job.final[name] != value
        }
        listed = ", ".join(f"{name}={has} not {best}" for name, (has, best) in differs.items())
        own = job.tuned_s[-1] / job.own_s[-1]
        alone = ", ".join(job.left) or "nothing"
        yield f"job {seed}: {ratio:.2f}, in all {total:.2f}, {own:.2f} x own; {alone} would pay; {listed}"


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(prog="benchmarks.tuner", description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=8, help="jobs for each row")
    parser.add_argument("--scenario", choices=(*SCENARIOS, "all"), help="only these jobs")
    parser.add_argument("--start", choices=(*STARTS, "all"), help="only from these settings")
    parser.add_argument("--tuner", choices=TUNERS, default="scrtune", help="of the rows asked for")
    parser.add_argument("--checkpoints", type=int, default=40, help="of a job")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--first", type=int, default=0, help="seed of the first job")
    parser.add_argument(
        "--worst", type=int, default=0, help="print so many of the jobs of each row asked for"
    )
    parser.add_argument(
        "--calibration", action="store_true", help="of the belief, instead of the tuner's worth"
    )
    parser.add_argument("--outcomes", action="store_true", help="print the outcomes, as JSON")
    given = parser.parse_args()
    asked = Asked(given.jobs, given.checkpoints, given.first)
    if not given.scenario and not given.start:
        everything(asked, given.processes)
        return
    scenarios = SCENARIOS if given.scenario == "all" else (given.scenario or "mixed",)
    starts = STARTS if given.start in {None, "all"} else (given.start,)
    with ProcessPoolExecutor(given.processes) as pool:
        if given.calibration:
            calibrated(pool, asked, scenarios, starts)
            return
        made = partial(outcomes, pool, asked, given.tuner)
        if given.outcomes:
            found = [each for scenario in scenarios for start in starts for each in made(scenario, start)]
            sys.stdout.buffer.write(msgspec.json.encode(found))
            return
        rows = [(scenario, start, given.tuner, made) for scenario in scenarios for start in starts]
        table("Asked for", asked, rows)
        for scenario, start, _, _ in rows if given.worst else ():
            print(f"\n{scenario} from {start}, by how far the end is from the best:")
            print(*worst(made(scenario, start), given), sep="\n")


if __name__ == "__main__":
    main()
