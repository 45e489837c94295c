"""The command line as tests use it: in this process, in a folder of its own."""

import json

import pytest
from typer.testing import CliRunner

from memorytree.cli import app


class Ran:
    """How a command ended."""

    def __init__(self, result):
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception  # nothing leaves as a traceback

    @property
    def json(self):
        """The only object that was written."""
        (only,) = self.lines
        return only

    @property
    def lines(self):
        """All objects that were written."""
        return [json.loads(line) for line in self.out.split("\n") if line]


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Run `memorytree ARGUMENTS...`; fails unless it ends with the exit code given."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEMORYTREE_STORE", raising=False)
    monkeypatch.setenv("TERMINAL_WIDTH", "100")
    monkeypatch.setenv("NO_COLOR", "1")

    def run(*arguments, input=None, code=0):
        ran = Ran(CliRunner().invoke(app, [str(argument) for argument in arguments], input=input, prog_name="memorytree"))
        assert ran.code == code, f"{arguments} ended with {ran.code}: {ran.out}{ran.err}"
        return ran

    return run


@pytest.fixture
def store(run):
    """Run commands on a store with four texts, ids 0 to 3."""
    run("init", "--seed", 0)
    texts = ["Ada likes green tea", "Bob takes the train to work", "Cleo plays chess on Sundays", "Ada plays the cello"]
    lines = [
        json.dumps({"text": text, "metadata": {"who": text.split()[0].lower(), "n": n}}) for n, text in enumerate(texts)
    ]
    run("remember", "--jsonl", input="\n".join(lines))
    return run
