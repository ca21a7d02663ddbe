"""What happens to simulated jobs."""

from hypothesis import strategies as st

from scrtune.intents.events import (
    ApplyRefused,
    TuningSwitched,
    UserEdited,
    Values,
)
from scrtune.intents.settings import DEFAULTS

from ..support.simulated_job import CACHED, REAL, Job

AT_LAUNCH = {**REAL, "SCR_FLUSH_ASYNC": "launch"}
OWN: Values = {**DEFAULTS, **CACHED}


def asks_for(job: Job) -> Values:
    """What the next launch makes active, levers aside."""
    return job.pipeline.advice.at_launch


mutabilities = st.fixed_dictionaries(
    {name: st.sampled_from(["live", "live on rank 0", "re-init", "launch", "inert"]) for name in REAL}
)


happenings = st.sampled_from(
    ["checkpoint"] * 12 + ["relaunch", "start", "off", "on", "edit", "refuse", "fail"]
)


def live_through(job: Job, happening: str, slowed_s: float) -> None:
    match happening:
        case "checkpoint":
            job.checkpoints(2, slowed_s=slowed_s)  # its ranks are never asked for what they cannot do
        case "relaunch":
            job.relaunch()
        case "start":
            job.start(CACHED)
        case "off" | "on":
            job.tell(TuningSwitched(on=happening == "on"))
        case "edit":
            job.tell(UserEdited(changes={"SCR_FLUSH_TYPE": "PTHREAD", "SCR_SET_SIZE": 4}))
        case "refuse":
            job.tell(ApplyRefused(generation=job.pipeline.advice.generation, why="no"))
        case "fail":
            job.flush_fails_async = not job.flush_fails_async
