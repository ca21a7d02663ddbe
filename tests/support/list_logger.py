"""A log of entries in a list, with the methods of the peer's logger."""

from typing import Any


class ListLogger:
    """A log in memory."""

    def __init__(self, entries: list[dict[str, Any]]) -> None:
        self.entries = entries

    def write_cloud_logging_entry(self, entry: dict[str, Any]) -> None:
        self.entries.append(entry)

    def read_cloud_logging_entries(self, *_: Any, **__: Any) -> tuple[list[dict[str, Any]], None]:
        return self.entries, None
