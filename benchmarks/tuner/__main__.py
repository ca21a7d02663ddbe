"""Jobs under the tuner against the best settings that their users' rails allow.

    python -m benchmarks.tuner --jobs 100 --scenario mixed --start defaults --checkpoints 40 --processes 2
"""

import argparse
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from scrtune.intents.pipeline import Pipeline

from .drive import STARTS, Case, Outcome, Tuner, simulate
from .jobs import SCENARIOS
from .table import cells, heading, row


def tuned(_made: Case) -> Tuner:
    """Return this tree's own tuner."""
    return Pipeline()


def one(scenario: str, start: str, checkpoints: int, seed: int) -> Outcome:
    """Return the outcome of one job."""
    return simulate(scenario, start, seed, checkpoints, tuned)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="benchmarks.tuner", description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=40, help="jobs for each row")
    parser.add_argument("--scenario", choices=(*SCENARIOS, "all"), default="mixed")
    parser.add_argument("--start", choices=(*STARTS, "all"), default="all")
    parser.add_argument("--checkpoints", type=int, default=40, help="of a job")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--first", type=int, default=0, help="seed of the first job")
    asked = parser.parse_args()
    print(row(["scenario", "start", *heading(asked.checkpoints)]))
    print("|" + "---|" * (len(heading(asked.checkpoints)) + 2))
    seeds = range(asked.first, asked.first + asked.jobs)
    with ProcessPoolExecutor(asked.processes) as pool:
        for scenario in SCENARIOS if asked.scenario == "all" else (asked.scenario,):
            for start in STARTS if asked.start == "all" else (asked.start,):
                job = partial(one, scenario, start, asked.checkpoints)
                made = list(pool.map(job, seeds, chunksize=4) if asked.processes > 1 else map(job, seeds))
                print(row([scenario, start, *cells(made)]), flush=True)


if __name__ == "__main__":
    main()
