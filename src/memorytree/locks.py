"""Many readers or one writer."""

from threading import Lock


class ReadersWriterLock:
    """Readers share, a writer is alone; a waiting writer goes before new readers.

    Plain methods instead of context managers, and as few locks as will do: this is on the path of every query.
    """

    __slots__ = ("_awaited", "_came", "_drained", "_entrance", "_exit", "_left")

    def __init__(self) -> None:
        self._entrance = Lock()  # guards _came; a writer holds it from when it starts to wait until it is done
        self._exit = Lock()  # guards _left and _awaited
        self._came = 0
        self._left = 0
        self._awaited = False  # a writer waits for the readers inside to leave
        self._drained = Lock()  # released by the last of them
        self._drained.acquire()

    def acquire_read(self) -> None:
        """Come in as a reader."""
        self._entrance.acquire()
        self._came += 1
        self._entrance.release()

    def release_read(self) -> None:
        """Leave as a reader."""
        self._exit.acquire()
        self._left += 1
        if self._awaited and self._left == self._came:
            self._awaited = False
            self._drained.release()
        self._exit.release()

    def acquire_write(self) -> None:
        """Come in as the writer."""
        self._entrance.acquire()
        self._exit.acquire()
        self._awaited = wait = self._left != self._came
        self._exit.release()
        if wait:
            self._drained.acquire()

    def release_write(self) -> None:
        """Leave as the writer."""
        self._entrance.release()
