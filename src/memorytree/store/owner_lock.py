"""One writing process at a time: a lock on a file, which the operating system releases when the process ends."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path

from memorytree.errors import StoreError, StoreLocked


class OwnerLock:
    """The right to write to a store, held until `release` or the end of the process.

    Args:
        path: the lock file. It names the process that holds the lock, for the error of another process.

    Raises:
        StoreLocked: another process holds the lock.
        StoreError: the file cannot be written.
    """

    def __init__(self, path: Path):
        try:
            self._file = open(path, "a+", encoding="utf8")  # noqa: SIM115  (stays open until release)
        except OSError as error:
            raise StoreError(f"{path.parent} cannot be written to: {error}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.seek(0)
            holder = self._file.read()
            self._file.close()
            raise StoreLocked(f"{path.parent} is being written to by {_description(holder)}; one writer at a time") from None
        owner = {"process": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        try:
            self._file.truncate(0)
            json.dump(owner, self._file)
            self._file.flush()
        except OSError:
            pass  # on a full disk the lock is held all the same: reading and removing must stay possible

    def release(self) -> None:
        """Let another process write."""
        self._file.close()


def _description(holder: str) -> str:
    """The holder of a lock for an error message, from the content of the lock file."""
    try:
        owner = json.loads(holder)
        return f"process {owner['process']} on {owner['host']}, since {owner['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
