"""Asks a goodput library's public API about logs; knows nothing of which one it asks.

Each question gets a calculator of its own, and an answer is JSON:
numbers, or ``{"raises": type}``.
"""

import datetime as dt
import inspect
from collections.abc import Callable
from typing import Any

UTC = dt.timezone.utc
TIMES = ("start_time", "end_time", "timestamp")


def replay(recorder: Any, store_entry: Callable[[dict[str, Any]], None], calls: list[Any]) -> None:
    """Make the recorder's calls; the checkpointer's lines go straight to the log."""
    for method, arguments in calls:
        if method == "entry":
            store_entry(dict(arguments))
        else:
            given = {
                name: dt.datetime.fromtimestamp(value, UTC) if name in TIMES else value
                for name, value in arguments.items()
            }
            getattr(recorder, method)(**given)


def ask(
    log: dict[str, Any],
    recorder: Any,
    store_entry: Callable[[dict[str, Any]], None],
    new_calculator: Callable[[], Any],
) -> dict[str, Any]:
    """All questions about a log, which is recorded meanwhile: one calculator asks already at half of it."""
    half = len(log["calls"]) // 2
    follower = new_calculator()
    replay(recorder, store_entry, log["calls"][:half])
    halfway = answer(lambda: plain(follower.get_job_goodput(include_badput_breakdown=True)))
    replay(recorder, store_entry, log["calls"][half:])
    calculator = new_calculator()
    answers = {
        "halfway": halfway,
        "followed": answer(lambda: plain(follower.get_job_goodput(include_badput_breakdown=True))),
        "followed_details": answer(lambda: plain(follower.get_job_goodput_details())),
        "goodput": answer(lambda: plain(calculator.get_job_goodput(include_badput_breakdown=True))),
        "details": answer(lambda: plain(calculator.get_job_goodput_details())),
        "deviation": answer(lambda: plain(new_calculator().get_step_deviation())),
        "deviation_of_2s": answer(lambda: plain(new_calculator().get_step_deviation(2.0))),
        "without": {},
        "windows": [],
        "window_details": [],
    }
    spans = [tuple(dt.datetime.fromtimestamp(time_s, UTC) for time_s in window) for window in log["windows"]]
    for name, excluded in {"all": spans, "first": spans[:1], "none": []}.items():
        asked = new_calculator()
        answers["without"][name] = [
            answer(lambda: plain(asked.get_job_goodput_with_exclusions(excluded, True))),  # noqa: B023
            answer(lambda: plain(asked.get_job_goodput_details())),  # noqa: B023
        ]
    for window in log["windows"]:
        start, end = (dt.datetime.fromtimestamp(time_s, UTC) for time_s in window)
        answers["windows"].append(
            answer(lambda: plain(new_calculator().get_job_goodput_interval(start, end)))  # noqa: B023
        )
        answers["window_details"].append(
            answer(lambda: plain(new_calculator().get_interval_metric_details(start, end)))  # noqa: B023
        )
    return answers


def answer(question: Callable[[], Any]) -> Any:
    """The answer, or what kind of exception it is."""
    try:
        return question()
    except ValueError:  # what the API documents, with whatever text, of whatever subclass
        return {"raises": "ValueError"}
    except Exception as error:  # noqa: BLE001  a fault of who is asked is an answer
        return {"raises": type(error).__name__}


def plain(value: Any) -> Any:
    """Names for enumerations, lists for tuples: JSON."""
    if isinstance(value, dict):
        return {str(getattr(key, "name", key)): plain(item) for key, item in value.items()}
    if isinstance(value, tuple | list):
        return [plain(item) for item in value]
    return float(value) if isinstance(value, float) else value


def signatures(classes: list[type]) -> dict[str, dict[str, list[str]]]:
    """The parameters of the public methods of each class: ``name``, ``*, name`` and what they are left at."""
    found: dict[str, dict[str, list[str]]] = {}
    for described in classes:
        methods = inspect.getmembers(described, inspect.isfunction)
        found[described.__name__] = {
            name: list(map(_parameter, inspect.signature(method).parameters.values()))
            for name, method in methods
            if name == "__init__" or not name.startswith("_")
        }
    return found


def _parameter(parameter: inspect.Parameter) -> str:
    star = "*, " if parameter.kind is inspect.Parameter.KEYWORD_ONLY else ""
    default = "" if parameter.default is inspect.Parameter.empty else f"={parameter.default!r}"
    return f"{star}{parameter.name}{default}"
