"""Console sessions in README.md and docs/command-line.md show the real output."""

import doctest
import json
import re
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner

from memorytree.cli import app

ROOT = Path(__file__).parents[2]
PAGES = ["README.md", "docs/command-line.md"]


def steps(page):
    """All commands on a page, each with the output shown."""
    shown = "".join(re.findall(r"^```console\n(.*?)^```", (ROOT / page).read_text(encoding="utf8"), re.M | re.S))
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", shown, re.M)


class Shell:
    """The part of a shell that the pages use: pipes, < and >, cat, and $?."""

    def __init__(self):
        self.code = 0

    def run(self, line, shown):
        """The output of a line; `cat` creates the file whose content is shown."""
        if line == "echo $?":
            return f"{self.code}\n"
        if line.startswith("cat "):
            Path(line.removeprefix("cat ")).write_text(shown)
            return shown
        written = ""
        for part in line.split(" | "):
            part, _, target = part.partition(" > ")
            part, _, source = part.partition(" < ")
            program, *arguments = shlex.split(part)
            assert program == "memorytree"
            given = Path(source).read_text() if source else written
            ran = CliRunner().invoke(app, arguments, input=given, prog_name="memorytree")
            self.code, written = ran.exit_code, ran.stdout + ran.stderr
        if target:
            Path(target).write_text(written)
            return ""
        return written


def comparable(text):
    """Text without trailing spaces and without the digits of scores."""
    return re.sub(r"\d\.\d{3}\b", "#.###", re.sub(r" +$", "", text, flags=re.M))


@pytest.mark.parametrize("page", PAGES)
def test_console_sessions(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MEMORYTREE_STORE", raising=False)
    shell, matches = Shell(), doctest.OutputChecker().check_output
    for line, shown in steps(page):
        written = shell.run(line, shown)
        assert matches(comparable(shown), comparable(written), doctest.ELLIPSIS), f"$ {line}\n{written}"
        if "answer.json" in line:  # stands for a call of jq
            answer = json.loads(Path("answer.json").read_text())
            rewards = {str(hit["id"]): float(place == 0) for place, hit in enumerate(answer["hits"])}
            Path("rewards.jsonl").write_text(json.dumps({"receipt": answer["receipt"], "rewards": rewards}))


def test_pages_have_sessions():
    assert [len(steps(page)) >= least for page, least in zip(PAGES, (3, 20), strict=True)] == [True, True]
