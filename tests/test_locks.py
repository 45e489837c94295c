"""The lock for many readers or one writer."""

import signal
import threading

from memorytree.locks import ReadersWriterLock

TIMEOUT = 60  # seconds after which a thread is reported as stuck


def test_nested_reading_does_not_wait_for_a_waiting_writer():
    lock, before = ReadersWriterLock(), signal.getsignal(signal.SIGINT)
    inside, ended = threading.Event(), threading.Event()

    def read():
        with lock.reading():
            inside.set()
            while signal.getsignal(signal.SIGINT) is before:  # until the writer waits, which defers Ctrl-C
                pass
            with lock.reading():
                ended.set()

    reader = threading.Thread(target=read, daemon=True)
    reader.start()
    assert inside.wait(TIMEOUT)
    with lock.writing():
        assert ended.is_set()
    reader.join(TIMEOUT)
    assert not reader.is_alive()
    assert signal.getsignal(signal.SIGINT) is before


def test_a_writer_excludes_readers_and_other_writers():
    lock, order = ReadersWriterLock(), []

    def read():
        with lock.reading():
            order.append("read")

    def write():
        with lock.writing():
            order.append("write")

    threads = [threading.Thread(target=job, daemon=True) for job in (read, write)]
    with lock.writing():
        for thread in threads:
            thread.start()
        order.append("first")
    for thread in threads:
        thread.join(TIMEOUT)
        assert not thread.is_alive()
    assert order[0] == "first"
    assert sorted(order[1:]) == ["read", "write"]
