"""Deferring Ctrl-C while a write is under way: the interrupt is noted, and delivered when the write has ended.

A write of a tree has several steps between which the tree is inconsistent, and Python delivers Ctrl-C between any two of
them. Only the main thread is interrupted, so only the main thread defers.

The functions of the public `signal` module convert each handler to an enum and back; the C functions below them do not. The
pair `getsignal`, `signal` takes 0.2 µs with the C functions and 5 µs with the public ones, against 6 µs for an insert. With
the environment variable MEMORYTREE_PUBLIC_SIGNALS set, or where Python has no module `_signal`, the public ones are used.
"""

import importlib
import os
import signal
from collections.abc import Callable
from signal import SIG_DFL, SIGINT
from threading import get_ident, main_thread
from types import FrameType, ModuleType
from typing import TypeAlias

Handler: TypeAlias = Callable[[int, FrameType | None], object] | int | None


def signal_functions() -> ModuleType:
    """The module whose `signal` and `getsignal` are called."""
    if os.environ.get("MEMORYTREE_PUBLIC_SIGNALS", "") not in ("", "0"):
        return signal
    try:
        return importlib.import_module("_signal")
    except ImportError:
        return signal


class InterruptDeferral:
    """Notes Ctrl-C between `begin` and `end`; `end` then calls the handler that was there before.

    `begin` and `end` come in pairs. A deferral that begins inside another one only hands its interrupt to the outer one.
    """

    __slots__ = ("_functions", "_handler", "_interrupted", "_thread")

    def __init__(self) -> None:
        self._functions = signal_functions()
        self._handler: Handler = None  # of the main thread, while `_note` takes its place
        self._thread = 0  # the main thread, from the first time it defers
        self._interrupted = False

    def begin(self) -> None:
        """Defer Ctrl-C from now on; does nothing in other threads than the main thread."""
        thread = get_ident()
        if thread != main_thread().ident:
            return
        self._thread, self._interrupted = thread, False
        self._handler = self._functions.getsignal(SIGINT)
        if self._handler is not None:  # a handler that was not set by Python could not be restored
            self._functions.signal(SIGINT, self._note)

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._interrupted = True

    def end(self) -> None:
        """Restore the handler, and call it if Ctrl-C came meanwhile."""
        if self._handler is None or get_ident() != self._thread:
            return
        handler, self._handler = self._handler, None
        self._functions.signal(SIGINT, handler)
        if self._interrupted and callable(handler):
            handler(SIGINT, None)
        elif self._interrupted and handler == SIG_DFL:
            os.kill(os.getpid(), SIGINT)
