"""A log of entries in a list."""

from typing import Any


class ListStore:
    """A log in memory."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.entries = entries

    def append(self, entry: Any) -> None:
        self.entries.append(dict(entry))

    def read(self, position: int) -> tuple[list[dict[str, Any]], int]:
        return self.entries[position:], len(self.entries)

    def flush(self) -> None:
        pass
