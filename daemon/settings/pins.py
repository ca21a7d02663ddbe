"""`scrtune pin`: the user's values for a job that runs, as if they had written them into its config file."""

from collections.abc import Iterable, Mapping

from ...intents.events import SettingsObserved, UserEdited, Value, Values, ValueSource
from ...intents.observe.faults.redundancy import EMBEDDED
from ...intents.rules.guards import overruled
from ...scr_config.catalogue import CATALOGUE, SECRETS, ParameterError, coerce, nearest_choice, suggestion
from ...scr_config.constraints import fatal, unfit_for_file
from ...scr_config.locations import PLACES


class PinError(ValueError):
    """What cannot be pinned or unpinned; the text says why and what to do."""


def pinnable(name: str, text: str) -> Value:
    """Return the value that `text` means for parameter `name`. Raises PinError."""
    check_name(name)
    try:
        value = coerce(name, text)
    except ParameterError as error:
        hint = nearest_choice(CATALOGUE[name], text)
        raise PinError(f"{error}{hint and f'; {hint.strip()}'}") from None
    if problems := unfit_for_file({name: value}):
        raise PinError(f"{name}: {problems[0].what}; {problems[0].remedy}")
    return value


def check_name(name: str) -> None:
    """Raise PinError unless `name` is a parameter that a config file may give."""
    parameter = CATALOGUE.get(name)
    if parameter is None:
        hint = suggestion(name) or "`scrtune params` shows all there are"
        raise PinError(f"SCR has no parameter {name}; {hint}")
    if name in SECRETS or ValueSource.USER_CONFIG not in parameter.layers:
        raise PinError(f"{name} is not read from SCR's config file; set it in the environment")
    if name in PLACES:
        raise PinError(f"{name} says which job this is, or where its files are; set it before the launch")


def pin(texts: Mapping[str, str], job: SettingsObserved | None) -> UserEdited:
    """Return the edit by which `texts`, all or none, are the user's values in `job`, but for those that are.

    Raises PinError.
    """
    job = _known(job)
    changes = {name: pinnable(name, text) for name, text in texts.items()}
    if reasons := [f"{name}: {why}" for name in sorted(changes) if (why := overruled(name, job))]:
        raise PinError("; ".join(reasons))
    if problems := fatal({**job.settings, **changes}):
        raise PinError("; ".join(map(str, problems)))
    if changes.get("SCR_COPY_TYPE") == "FILE":
        raise PinError("SCR_COPY_TYPE=FILE needs CKPT lines: write them into the config file with it")
    if job.engine == EMBEDDED:
        _check_engine(changes)
    return UserEdited(changes=_new(changes, job), is_pin=True)


def unpin(names: Iterable[str], job: SettingsObserved | None, pinned: Iterable[str]) -> UserEdited:
    """Return the edit by which `names` are tuned again, but for those that are. Raises PinError."""
    edited = {name for name, source in _known(job).sources.items() if source == ValueSource.EDITED}
    for name in names:
        check_name(name)
        if name in edited.difference(pinned):
            raise PinError(f"{name}: you gave it in the config file while the job ran; change it there")
    return UserEdited(released=tuple(sorted({*names}.intersection(pinned))), is_pin=True)


def _check_engine(changes: Values) -> None:
    # only a pin on that engine needs it, not each start of a daemon
    from ...client.embedded.settings import UnsupportedSettingError, check_supported  # noqa: PLC0415

    try:
        check_supported(changes)
    except UnsupportedSettingError as error:
        raise PinError(str(error)) from None


def _known(job: SettingsObserved | None) -> SettingsObserved:
    if job is None:
        raise PinError(
            "the application has not reported to this node's daemon yet; order it again once it has, on the"
            " node of its rank 0"
        )
    return job


def _new(changes: Values, job: SettingsObserved) -> Values:
    return {
        name: value
        for name, value in changes.items()
        if job.sources.get(name) != ValueSource.EDITED or job.settings.get(name) != value
    }
