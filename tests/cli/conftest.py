"""Runs commands in this process, each test in its own directory."""

import json
import shutil

import pytest
from typer.testing import CliRunner

from memorytree.cli import app

TEXTS = ["Ada likes green tea", "Bob takes the train to work", "Cleo plays chess on Sundays", "Ada plays the cello"]


class Result:
    """What a command wrote, and its exit code."""

    def __init__(self, result):
        self.code, self.out, self.err = result.exit_code, result.stdout, result.stderr
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception

    @property
    def json(self):
        """The only JSON object of the output."""
        (data,) = self.lines
        return data

    @property
    def lines(self):
        """All JSON objects of the output."""
        return [json.loads(line) for line in self.out.split("\n") if line]


def invoke(*arguments, input=None, code=0):
    """Run `memorytree ARGUMENTS...` and check its exit code."""
    result = Result(CliRunner().invoke(app, [str(argument) for argument in arguments], input=input, prog_name="memorytree"))
    assert result.code == code, f"{arguments} ended with {result.code}: {result.out}{result.err}"
    return result


@pytest.fixture
def run(tmp_path, monkeypatch):
    """`invoke` in an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEMORYTREE_STORE", raising=False)
    monkeypatch.setenv("TERMINAL_WIDTH", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    return invoke


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """A store with four texts, ids 0 to 3."""
    path = tmp_path_factory.mktemp("template") / "memories"
    invoke("init", "--seed", 0, "--store", path)
    lines = [{"text": text, "metadata": {"who": text.split()[0].lower(), "n": n}} for n, text in enumerate(TEXTS)]
    invoke("remember", "--jsonl", "--store", path, input="\n".join(map(json.dumps, lines)))
    return path


@pytest.fixture
def store(run, template, tmp_path):
    """`invoke` beside a copy of the store with four texts."""
    shutil.copytree(template, tmp_path / "memories")
    return run
