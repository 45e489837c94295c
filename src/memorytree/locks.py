"""Many readers or one writer."""

from threading import Lock


class ReadersWriterLock:
    """Readers share, a writer is alone; a waiting writer goes before new readers.

    Plain methods instead of context managers: they are on the path of every query.
    """

    __slots__ = ("_entrance", "_mutex", "_occupied", "_readers")

    def __init__(self) -> None:
        self._entrance = Lock()  # a writer holds it from when it starts to wait
        self._mutex = Lock()  # guards the number of readers
        self._occupied = Lock()  # held by the writer, or by the readers together
        self._readers = 0

    def acquire_read(self) -> None:
        """Come in as a reader."""
        with self._entrance, self._mutex:
            self._readers += 1
            if self._readers == 1:
                self._occupied.acquire()

    def release_read(self) -> None:
        """Leave as a reader."""
        with self._mutex:
            self._readers -= 1
            if self._readers == 0:
                self._occupied.release()

    def acquire_write(self) -> None:
        """Come in as the writer."""
        self._entrance.acquire()
        self._occupied.acquire()

    def release_write(self) -> None:
        """Leave as the writer."""
        self._occupied.release()
        self._entrance.release()
