"""A set of SCR's parameters with their values: one frozen value, valid by construction."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ..intents.events import Value, Values
from .catalogue import CATALOGUE, ParameterError, coerce, cpus_of, text_of


class Change(NamedTuple):
    """The value of one parameter before and after; None where it is not given."""

    old: Value | None
    new: Value | None


class Settings(Mapping[str, Value]):
    """Parameters that were given a value. Equal to any mapping of the same values, hashable, picklable.

    As a mapping it has what was given and nothing else. The typed accessors (`flag`, `integer`, `number`,
    `text`, `cpus`) fall back to the compiled default; they raise KeyError for a parameter that has neither,
    and TypeError for one of another type: that is a mistake in the program that asks.
    """

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Value] | None = None) -> None:
        """Raises :class:`ParameterError` for an unknown name and a value that its parameter does not take."""
        own: Values = dict(values or {})
        for name, value in own.items():
            if name not in CATALOGUE:
                raise ParameterError(name, str(value), "a parameter of SCR's: this name is not known")
            if not CATALOGUE[name].accepts(value):
                raise ParameterError(name, str(value), CATALOGUE[name].allowed)
        self._values = {name: own[name] for name in sorted(own)}

    @classmethod
    def of_texts(cls, texts: Mapping[str, str]) -> "Settings":
        """What an environment or a config file says of parameters. Raises :class:`ParameterError`."""
        return cls({name: coerce(name, text) for name, text in texts.items()})

    def flag(self, name: str) -> bool:
        """A parameter that is 0 or 1."""
        return bool(self._typed(name, "bool"))

    def integer(self, name: str) -> int:
        """A whole number, or a size in bytes."""
        return int(self._typed(name, "int", "bytes"))

    def number(self, name: str) -> float:
        """A decimal number."""
        return float(self._typed(name, "float"))

    def text(self, name: str) -> str:
        """A word, a path or one of an enumeration."""
        return str(self._typed(name, "enum", "text", "path"))

    def cpus(self, name: str) -> frozenset[int]:
        """The CPUs of a Linux cpu list."""
        return cpus_of(str(self._typed(name, "cpus")))

    def merged(self, over: Mapping[str, Value]) -> "Settings":
        """These, and those of `over` in their place. Raises :class:`ParameterError`."""
        return Settings({**self._values, **over})

    def only(self, names: frozenset[str]) -> "Settings":
        """Those of `names`."""
        return Settings({name: value for name, value in self._values.items() if name in names})

    def diff(self, new: Mapping[str, Value]) -> dict[str, Change]:
        """What makes `new` of these: every parameter that differs, in order of the names."""
        names = sorted({*self._values, *new})
        changes = {name: Change(self._values.get(name), new.get(name)) for name in names}
        return {name: change for name, change in changes.items() if change.old != change.new}

    def texts(self) -> dict[str, str]:
        """Every value as SCR reads it: the inverse of :meth:`of_texts`."""
        return {name: text_of(value) for name, value in self._values.items()}

    def _typed(self, name: str, *types: str) -> Value:
        parameter = CATALOGUE[name]
        if parameter.type not in types:
            raise TypeError(f"{name} is of type {parameter.type}, not {' or '.join(types)}")
        value = self._values.get(name, parameter.default)
        if value is None:
            raise KeyError(f"{name} is not given, and SCR has no default for it")
        return value

    def __getitem__(self, name: str) -> Value:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(tuple(self._values.items()))

    def __repr__(self) -> str:
        return f"Settings({self._values})"

    def __setattr__(self, name: str, value: object) -> None:
        if hasattr(self, "_values"):
            raise AttributeError(f"settings are frozen: make new ones with merged({{...}}) to change {name}")
        object.__setattr__(self, name, value)

    def __reduce__(self) -> tuple[type["Settings"], tuple[Values]]:
        return Settings, (self._values,)
