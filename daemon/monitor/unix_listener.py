"""A listening unix socket for this user alone."""

import socket
import stat
from pathlib import Path

_PATIENCE_S = 0.2
_WAITING = 8


def listen_at(path: Path) -> socket.socket:
    """Listen at `path`, mode 0600; the place of a socket that nobody answers at is taken.

    Raises OSError when somebody answers there, or when what lies there is no socket.
    """
    _remove_dead(path)
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(str(path))
        path.chmod(0o600)  # nobody can ask before
        listener.listen(_WAITING)
    except OSError:
        listener.close()
        raise
    return listener


def _remove_dead(path: Path) -> None:
    """Remove the socket of a daemon that was killed. Raises OSError when nobody can tell."""
    try:
        if not stat.S_ISSOCK(path.lstat().st_mode):
            return  # not ours to remove: bind will say that it is there
    except FileNotFoundError:
        return
    with socket.socket(socket.AF_UNIX) as asker:
        asker.settimeout(_PATIENCE_S)
        try:
            asker.connect(str(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
