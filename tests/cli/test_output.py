"""Encodings and broken pipes."""

import logging
import sys

import pytest
from typer.testing import CliRunner

from memorytree.cli import app, output
from memorytree.cli.errors import set_encodings


def test_characters_that_the_output_lacks(store):
    store("remember", "naïve café 東京", "--id", 9)
    ascii = CliRunner(charset="ascii")
    recall = ascii.invoke(app, ["recall", "cafe", "-k", "1", "--where", "n=9"])
    assert recall.exit_code == 1
    recall = ascii.invoke(app, ["recall", "na ve caf", "-k", "5"])
    assert b"na?ve caf?" in recall.stdout_bytes
    export = ascii.invoke(app, ["export"])
    assert "naïve café 東京".encode() in export.stdout_bytes
    assert b"caf\\u00e9" in ascii.invoke(app, ["recall", "na ve caf", "--json"]).stdout_bytes


class ClosedPipe:
    """A stream whose reader has gone."""

    encoding = "utf8"

    def write(self, text):
        raise BrokenPipeError

    def flush(self):
        pass


def test_a_table_reports_a_broken_pipe(monkeypatch):
    monkeypatch.setattr(sys, "stdout", ClosedPipe())
    with pytest.raises(BrokenPipeError):
        output.write_table(("a", "b"), [("1", "2")])


def test_a_broken_pipe_has_an_exit_code(store, monkeypatch):
    def closed(data):
        raise BrokenPipeError

    monkeypatch.setattr("memorytree.cli.recall.write_json", closed)
    store("recall", "chess", "--json", code=141)


def test_missing_streams_are_replaced(monkeypatch):
    for name in ("stdin", "stdout", "stderr"):
        monkeypatch.setattr(sys, name, None)
    set_encodings()
    with sys.stdin, sys.stdout, sys.stderr:
        assert sys.stdin.read() == ""
        print("not shown")


def test_what_the_library_logs_goes_to_standard_error(capsys):
    logger = logging.getLogger("memorytree")
    with output.messages_of_library():
        logger.info("compiling")
    logger.info("later")
    assert capsys.readouterr().err == "memorytree: compiling\n"
