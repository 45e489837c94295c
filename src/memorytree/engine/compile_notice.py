"""Say that kernels are being compiled, once it has taken a second: their first use on a machine may take ten.

The message goes to the logger "memorytree": as a warning, which Python shows by default, if standard error is a terminal;
otherwise, as in a server, at level INFO, which Python does not show.
"""

import logging
import sys
import threading

from numba.core import event

NOTICE_AFTER = 1.0
"""Seconds from the first compilation to the message."""
MESSAGE = "compiling for the first use on this machine; this may take ten seconds, and is kept on disk"

logger = logging.getLogger("memorytree")


class CompileNotice(event.Listener):
    """Logs the message once if kernels are being compiled `after` seconds after the first one was begun.

    `jit.py` registers it for the event "numba:compile".
    """

    def __init__(self, after: float = NOTICE_AFTER):
        self._after = after
        self._kernels: list[bool] = []  # for each function being compiled, one for another: whether the first is one of ours
        self._timer: threading.Timer | None = None

    def on_start(self, event: event.Event) -> None:
        """A function is being compiled; Numba compiles in one thread at a time."""
        module = event.data["dispatcher"].py_func.__module__
        self._kernels.append(self._kernels[0] if self._kernels else str(module).startswith("memorytree."))
        if self._timer is None and self._kernels[0]:
            self._timer = threading.Timer(self._after, self.log_if_compiling)
            self._timer.daemon = True
            self._timer.start()

    def on_end(self, event: event.Event) -> None:
        """A function has been compiled."""
        self._kernels.pop()

    def log_if_compiling(self) -> None:
        """Log the message, or wait for the next kernel."""
        if not any(self._kernels):
            self._timer = None
            return
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        logger.log(logging.WARNING if is_terminal else logging.INFO, MESSAGE)
