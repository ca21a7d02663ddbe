"""The CURVE keys of a job: made once, in a directory of mode 0700, and the same on all its nodes.

Who can read that directory is the job's user. A daemon with another key gets no answer from the others.
"""

import os
import stat
import tempfile
from pathlib import Path
from typing import NamedTuple

import zmq
import zmq.auth

from ...client.paths import private_directory

_NAME = "job"


class KeyFileError(OSError):
    """There is no usable key; the text says why and what to do."""


class Keys(NamedTuple):
    """One pair for all daemons of a job, as they are each other's servers and clients."""

    public: bytes
    secret: bytes


def job_keys(directory: Path) -> Keys:
    """Return the keys in `directory`; the first daemon that asks makes them. Raises :class:`KeyFileError`."""
    if not zmq.has("curve"):
        raise KeyFileError("this ZeroMQ has no CURVE: install pyzmq from its wheel")
    path = directory / f"{_NAME}.key_secret"
    try:
        private_directory(directory, "SCR_PREFIX")
        if not path.exists():
            _make(directory, path)
        status = path.lstat()
        public, secret = zmq.auth.load_certificate(path)
    except (OSError, ValueError) as error:
        raise KeyFileError(f"{path}: no key can be had there ({error})") from error
    is_ours = status.st_uid == os.getuid() and stat.S_ISREG(status.st_mode) and not status.st_mode & 0o77
    if secret is None or not is_ours:
        raise KeyFileError(f"{path}: is no key of yours alone; remove it, and start the job's daemons again")
    return Keys(public, secret)


def _make(directory: Path, path: Path) -> None:
    """Make a pair; of several daemons that do so at once the first one's counts."""
    with tempfile.TemporaryDirectory(dir=directory) as own:
        _, made = zmq.auth.create_certificates(own, _NAME)
        os.chmod(made, 0o600)  # noqa: PTH101
        try:
            os.link(made, path)
        except FileExistsError:
            return
