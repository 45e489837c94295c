"""Ctrl-C is deferred while a write is under way, by the C functions of Python and by the public ones alike."""

import signal
import threading

import pytest

from memorytree.interrupts import InterruptDeferral, signal_functions


@pytest.fixture(params=["", "1"], ids=["C functions", "public functions"])
def deferral(request, monkeypatch):
    """A deferral by either kind of functions; Ctrl-C raises KeyboardInterrupt."""
    monkeypatch.setenv("MEMORYTREE_PUBLIC_SIGNALS", request.param)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield InterruptDeferral()
    signal.signal(signal.SIGINT, before)


def test_variable_chooses_the_functions(monkeypatch):
    monkeypatch.setenv("MEMORYTREE_PUBLIC_SIGNALS", "1")
    assert signal_functions() is signal
    for given in ("", "0"):
        monkeypatch.setenv("MEMORYTREE_PUBLIC_SIGNALS", given)
        assert signal_functions().__name__ == "_signal"


def test_interrupt_comes_at_the_end(deferral):
    deferral.begin()
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        deferral.end()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_end_without_interrupt_is_silent(deferral):
    for _ in range(2):
        deferral.begin()
        deferral.end()
    deferral.end()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_inner_deferral_hands_over_to_the_outer_one(deferral):
    inner = InterruptDeferral()
    deferral.begin()
    inner.begin()
    signal.raise_signal(signal.SIGINT)
    inner.end()
    with pytest.raises(KeyboardInterrupt):
        deferral.end()


def test_handler_of_the_user_is_called(deferral):
    received = []
    signal.signal(signal.SIGINT, lambda number, frame: received.append(number))
    deferral.begin()
    signal.raise_signal(signal.SIGINT)
    assert not received
    deferral.end()
    assert received == [signal.SIGINT]


def test_ignored_interrupt_stays_ignored(deferral):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    deferral.begin()
    signal.raise_signal(signal.SIGINT)
    deferral.end()
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN


def test_other_threads_defer_nothing(deferral):
    def write():
        deferral.begin()
        handlers.append(signal.getsignal(signal.SIGINT))
        deferral.end()

    handlers = []
    thread = threading.Thread(target=write)
    thread.start()
    thread.join()
    assert handlers == [signal.default_int_handler]
