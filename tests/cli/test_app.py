"""Every command has help, valid examples, a section in the documentation, and --json."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from memorytree.cli import app
from memorytree.cli.errors import EXIT_CODES
from memorytree.cli.options import EXAMPLES

GROUP = typer.main.get_command(app)
COMMANDS = GROUP.commands
DOCS = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf8")
NAMES = [
    "init",
    "remember",
    "recall",
    "reward",
    "forget",
    "import",
    "export",
    "stats",
    "explain",
    "plot",
    "verify",
    "repair",
    "backup",
]


def examples(name):
    return EXAMPLES.get(name, EXAMPLES.get(f"{name}_", ()))


def test_all_commands_are_there():
    assert set(GROUP.commands) == set(NAMES)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_shows_summary_and_examples(run, name):
    shown = run(name, "--help").out
    flat = " ".join(shown.split())
    assert COMMANDS[name].help.splitlines()[0].split(".")[0].split("[")[0].strip() in flat
    assert examples(name), f"{name} has no examples"
    for example in examples(name):
        assert " ".join(example.split()) in flat


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_has_help(name):
    for parameter in COMMANDS[name].params:
        assert getattr(parameter, "help", None), f"{name}: {parameter.name} has no help"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_json(name):
    assert "--json" in {option for parameter in COMMANDS[name].params for option in parameter.opts}


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_valid_commands(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "memories.jsonl").touch()
    used = set()
    for example in examples(name):
        for part in re.split(r"\|+|&&", re.sub(r"'[^']*'", "x", example)):
            words = shlex.split(re.sub(r"[<>] \S+", "", part))
            if words[0] == "memorytree":
                COMMANDS[words[1]].make_context(words[1], words[2:])
                used.add(words[1])
    assert name in used


@pytest.mark.parametrize("name", NAMES)
def test_docs_have_a_section(name):
    assert f"### {name}\n" in DOCS


@pytest.mark.parametrize("name", COMMANDS)
def test_docs_name_every_option(name):
    section = DOCS.split(f"### {name}\n")[1].split("\n### ")[0].split("\n## ")[0]
    for parameter in COMMANDS[name].params:
        for option in parameter.opts:
            common = option in ("--json", "--store", "-s")
            assert common or not option.startswith("--") or f"`{option}" in section, f"{name}: {option} is not documented"


def test_exit_codes_are_documented(run):
    flat = " ".join(run("--help").out.split())
    for code, meaning in EXIT_CODES.items():
        assert f"{code}: {meaning}" in flat
        assert f"| {code} | {meaning} |" in DOCS


def test_version(run):
    from memorytree import __version__

    assert run("--version").out == f"memorytree {__version__}\n"


def test_a_misspelt_command(run):
    assert "recal" in run("recal", code=2).err


def test_completion(run):
    assert "--install-completion" in run("--help").out
