"""Many readers or one writer, and no Ctrl-C in the middle of a write."""

import _signal  # type: ignore[import-not-found]  # what `signal` is made of: its own functions take ten times as long
import os
from collections.abc import Callable
from signal import SIG_DFL, SIGINT
from threading import Lock, RLock, Thread, current_thread, get_ident, local, main_thread
from typing import Any

MAIN = main_thread().ident  # the only thread that is ever interrupted


class ReadersWriterLock:
    """Readers share, a writer is alone; a waiting writer goes before new readers.

    Each thread that reads has a lock of its own, and a writer takes all of them. So a reader shares nothing with others, may
    read while it reads, and leaves nothing behind when it is interrupted: `with` on one lock is what Ctrl-C cannot tear.

    A writer that is inside, or waits to be, is not interrupted: Ctrl-C is noted, and comes when it leaves. What it writes
    takes many steps, and none of them may be the last.
    """

    __slots__ = ("_awaited", "_gate", "_handler", "_own", "_readers", "_was_interrupted")

    def __init__(self) -> None:
        self._gate = Lock()  # held by a writer from when it starts to wait until it is done
        self._awaited = False  # whether one does
        self._readers: list[tuple[Thread, Any]] = []
        self._own = local()
        self._handler: Callable[..., Any] | int | None = None  # of Ctrl-C, while ours takes its place: the main thread's
        self._was_interrupted = False

    def reading(self) -> Any:
        """What to hold, by `with`, while reading."""
        try:
            lock = self._own.lock
        except AttributeError:
            lock = self._enrolled()
        if self._awaited and not lock._is_owned():
            with self._gate:
                pass
        return lock

    def _enrolled(self) -> Any:
        """A lock for this thread; those of threads that have ended go."""
        lock = RLock()
        with self._gate:
            self._readers = [(thread, own) for thread, own in self._readers if thread.is_alive()]
            self._readers.append((current_thread(), lock))
            self._own.lock = lock
        return lock

    def acquire_write(self) -> None:
        """Come in as the writer."""
        if get_ident() == MAIN:
            self._was_interrupted = False
            self._handler = _signal.getsignal(SIGINT)
            if self._handler is not None:  # not one of another language, which could not be put back
                _signal.signal(SIGINT, self._note)
        self._gate.acquire()
        self._awaited = True
        for _, lock in self._readers:
            lock.acquire()

    def _note(self, number: int, frame: Any) -> None:
        self._was_interrupted = True

    def release_write(self) -> None:
        """Leave as the writer."""
        for _, lock in self._readers:
            lock.release()
        self._awaited = False
        self._gate.release()
        if self._handler is not None and get_ident() == MAIN:
            handler, self._handler = self._handler, None
            _signal.signal(SIGINT, handler)
            if self._was_interrupted and callable(handler):
                handler(SIGINT, None)
            elif self._was_interrupted and handler == SIG_DFL:
                os.kill(os.getpid(), SIGINT)
