"""A lock for many readers or one writer. A write is not torn by Ctrl-C."""

from __future__ import annotations

from threading import Lock, RLock, Thread, current_thread, local

from memorytree.interrupts import InterruptDeferral

PRECEDENCE_SECONDS = 0.01
"""How long a new reader lets a waiting writer go first."""


class ReadersWriterLock:
    """Many readers at a time, or one writer.

    Each reading thread has a lock of its own, and a writer acquires all of them. Readers therefore never contend with each
    other, may read while they read, and hold a plain lock in a `with` statement, which an interrupt cannot leave half done.

    A new reader lets a waiting writer go first, for at most `PRECEDENCE_SECONDS`: the reader may be nested in another read
    of its thread, which that writer waits for.

    Ctrl-C in the main thread is deferred from `acquire_write` to `release_write`.

    >>> lock = ReadersWriterLock()
    >>> with lock.writing():
    ...     pass
    >>> with lock.reading(), lock.reading():
    ...     pass
    """

    __slots__ = ("_gate", "_interrupts", "_own", "_readers", "_writer_waits")

    def __init__(self) -> None:
        self._gate = Lock()  # held by a writer from when it begins to wait until it has ended
        self._writer_waits = False  # or writes
        self._readers: list[tuple[Thread, RLock]] = []
        self._own = local()
        self._interrupts = InterruptDeferral()

    def reading(self) -> RLock:
        """The lock to hold while reading, with `with`."""
        try:
            lock: RLock = self._own.lock
        except AttributeError:
            lock = self._add_reader()
        if self._writer_waits and self._gate.acquire(timeout=PRECEDENCE_SECONDS):
            self._gate.release()
        return lock

    def _add_reader(self) -> RLock:
        """A lock for this thread. Locks of threads that have ended are removed."""
        lock = RLock()
        with self._gate:
            self._readers = [(thread, own) for thread, own in self._readers if thread.is_alive()]
            self._readers.append((current_thread(), lock))
            self._own.lock = lock
        return lock

    def acquire_write(self) -> None:
        """Wait for all readers and keep out new ones, until `release_write`."""
        self._interrupts.begin()
        self._gate.acquire()
        self._writer_waits = True
        for _, lock in self._readers:
            lock.acquire()

    def release_write(self) -> None:
        """Let readers in again. Ctrl-C that came meanwhile is delivered here."""
        for _, lock in self._readers:
            lock.release()
        self._writer_waits = False
        self._gate.release()
        self._interrupts.end()

    def writing(self) -> Writing:
        """What to hold while writing, with `with`."""
        return Writing(self)


class Writing:
    """Holds a lock as the writer, in a `with` statement. A generator as context manager would take a tenth of an insert."""

    __slots__ = ("_lock",)

    def __init__(self, lock: ReadersWriterLock):
        self._lock = lock

    def __enter__(self) -> None:
        self._lock.acquire_write()

    def __exit__(self, *exception: object) -> None:
        self._lock.release_write()
