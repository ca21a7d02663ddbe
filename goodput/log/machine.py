"""What logs and monitors need of the machine besides files: the time, and a line of text for the user."""

import datetime as dt
import logging

_log = logging.getLogger("scrtune.goodput")


def utc_now() -> dt.datetime:
    """Return the time, with its zone."""
    return dt.datetime.now(dt.timezone.utc)


def tell(text: str) -> None:
    """Warn who runs the job."""
    _log.warning("%s", text)
