"""One writer at a time: a lock on a file, which the system lets go of when the process ends, however it ends."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import time
from pathlib import Path

from memorytree.errors import StoreError, StoreLocked


class WriterLock:
    """The right to write to a store, held until it is released or the process ends."""

    def __init__(self, path: Path):
        try:
            self._file = open(path, "a+", encoding="utf8")  # noqa: SIM115  (held until release)
        except OSError as error:
            raise StoreError(f"{path.parent} cannot be written to: {error}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.seek(0)
            holder = self._file.read()
            self._file.close()
            raise StoreLocked(f"{path.parent} is being written to by {_named(holder)}; one writer at a time") from None
        who = {"process": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        try:
            self._file.truncate(0)
            json.dump(who, self._file)
            self._file.flush()
        except OSError:
            pass  # on a full disk nobody learns who writes, but whoever has the lock may read and remove

    def release(self) -> None:
        """Let others write."""
        self._file.close()


def _named(holder: str) -> str:
    try:
        who = json.loads(holder)
        return f"process {who['process']} on {who['host']}, since {who['since']}"
    except (ValueError, KeyError, TypeError):
        return "another process"
