"""A set of SCR's parameters with their values, valid by construction."""

from collections.abc import Iterator, Mapping

from ..intents.events import Value, Values
from .catalogue import CATALOGUE, ParameterError, coerce, cpus_of, text_of


class Settings(Mapping[str, Value]):
    """Parameters that were given a value. Equal to any mapping of the same values.

    As a mapping it has what was given and nothing else. The typed accessors (`flag`, `integer`, `number`,
    `text`, `cpus`) fall back to the compiled default; they raise KeyError for a parameter that has neither,
    and TypeError for one of another type: that is a mistake in the program that asks.
    """

    def __init__(self, values: Mapping[str, Value] | None = None) -> None:
        """Raise :class:`ParameterError` for an unknown name and a value that its parameter does not take."""
        own: Values = dict(values or {})
        for name, value in own.items():
            if name not in CATALOGUE:
                raise ParameterError(name, str(value), "a parameter of SCR's: this name is not known")
            if not CATALOGUE[name].accepts(value):
                raise ParameterError(name, str(value), CATALOGUE[name].allowed)
        self._values = {name: own[name] for name in sorted(own)}

    @classmethod
    def of_texts(cls, texts: Mapping[str, str]) -> "Settings":
        """Return what an environment or a config file says of parameters. Raises :class:`ParameterError`."""
        return cls({name: coerce(name, text) for name, text in texts.items()})

    def flag(self, name: str) -> bool:
        """Return a parameter that is 0 or 1."""
        return bool(self._typed(name, "bool"))

    def integer(self, name: str) -> int:
        """Return a whole number, or a size in bytes."""
        return int(self._typed(name, "int", "bytes"))

    def number(self, name: str) -> float:
        """Return a decimal number."""
        return float(self._typed(name, "float"))

    def text(self, name: str) -> str:
        """Return a word, a path or one of an enumeration."""
        return str(self._typed(name, "enum", "text", "path"))

    def cpus(self, name: str) -> frozenset[int]:
        """Return the CPUs of a Linux cpu list."""
        return cpus_of(str(self._typed(name, "cpus")))

    def texts(self) -> dict[str, str]:
        """Return every value as SCR reads it: the inverse of :meth:`of_texts`."""
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

    def __repr__(self) -> str:
        return f"Settings({self._values})"
