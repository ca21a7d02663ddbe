"""Steps, outputs and flushes at given times."""

from scrtune.goodput.events import FlushCompleted, OutputCompleted, StepCompleted


def step(start: float, seconds: float, number: int = 0) -> StepCompleted:
    return StepCompleted(step=number, start_s=start, end_s=start + seconds)


def output(dataset: int, start: float, end: float, *, due: bool = False, **fields: float) -> OutputCompleted:
    return OutputCompleted(
        dataset=dataset, name="d", start_s=start, end_s=end, generation=3, flush_due=due, **fields
    )


def flush(
    dataset: int, start: float, end: float, *, asynchronous: bool = True, valid: bool = True
) -> FlushCompleted:
    return FlushCompleted(
        dataset=dataset, start_s=start, end_s=end, asynchronous=asynchronous, valid=valid, threads=4
    )
