"""Fixtures that several tests of the lab use."""

from dataclasses import dataclass

import pytest

from lab import command, documents
from tests.lab.synthetic_results import result


@dataclass
class Outcome:
    """The exit code and the output of a command."""

    code: int
    out: str
    err: str


@pytest.fixture
def lab(capsys):
    """Run `./mt lab ARGUMENTS...` in this process; fails unless it ends with the exit code given."""

    def run(*arguments, code=0):
        try:
            ended = command.main(list(map(str, arguments)))
        except SystemExit as exit:
            ended = exit.code
        outcome = Outcome(ended, *capsys.readouterr())
        assert outcome.code == code, f"{arguments} ended with {outcome.code}: {outcome.out}{outcome.err}"
        return outcome

    return run


@pytest.fixture
def no_plots(monkeypatch):
    """Plots are not drawn to files."""
    monkeypatch.setattr(documents, "save", lambda figure, path: None)


@pytest.fixture
def synthetic(monkeypatch):
    """Parts return synthetic results instead of being measured; returns the list of parts that were run."""
    parts = []

    def measured(part, plan):
        parts.append(part)
        return result(part)

    monkeypatch.setattr(command, "measured", measured)
    return parts
