"""A message is logged while kernels are compiled for long, at a level that a server does not show by default."""

import logging
import sys
from types import SimpleNamespace

import pytest
from numba.core import event

from memorytree.engine.compile_notice import MESSAGE, CompileNotice

NEVER = 10_000


def compiling(module):
    """The event that a function of a module is being compiled."""
    dispatcher = SimpleNamespace(py_func=SimpleNamespace(__module__=module))
    return event.Event("numba:compile", event.EventStatus.START, {"dispatcher": dispatcher})


@pytest.fixture
def notice(caplog):
    """A notice that its timer does not disturb, and that logs all."""
    caplog.set_level(logging.INFO, "memorytree")
    return CompileNotice(NEVER)


def test_kernel_that_is_being_compiled_is_reported_once(notice, caplog):
    notice.on_start(compiling("memorytree.engine.search"))
    notice.on_start(compiling(None))  # a function that Numba has generated
    notice.log_if_compiling()
    assert [(record.name, record.message) for record in caplog.records] == [("memorytree", MESSAGE)]


@pytest.mark.parametrize(("is_terminal", "level"), [(True, logging.WARNING), (False, logging.INFO)])
def test_level_depends_on_standard_error(notice, caplog, monkeypatch, is_terminal, level):
    monkeypatch.setattr(sys, "stderr", SimpleNamespace(isatty=lambda: is_terminal, write=len, flush=bool))
    notice.on_start(compiling("memorytree.engine.search"))
    notice.log_if_compiling()
    assert [record.levelno for record in caplog.records] == [level]


def test_compilation_that_has_ended_is_not_reported(notice, caplog):
    kernel = compiling("memorytree.engine.search")
    notice.on_start(kernel)
    notice.on_end(kernel)
    notice.log_if_compiling()
    assert not caplog.records
    notice.on_start(kernel)
    notice.log_if_compiling()
    assert len(caplog.records) == 1


def test_functions_of_other_packages_are_not_reported(notice, caplog):
    notice.on_start(compiling("somewhere.else"))
    notice.on_start(compiling("memorytree.engine.search"))
    notice.log_if_compiling()
    assert not caplog.records
