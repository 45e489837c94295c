"""Every command has help, examples that can be parsed, a section in the guide, and --json."""

import re
import shlex
from pathlib import Path

import pytest
import typer

from memorytree.cli import app
from memorytree.cli.door import EXIT_CODES
from memorytree.cli.options import EXAMPLES

GROUP = typer.main.get_command(app)
COMMANDS = GROUP.commands
GUIDE = (Path(__file__).parents[2] / "docs" / "command-line.md").read_text(encoding="utf8")
OF_THE_ISSUE = [
    "init",
    "remember",
    "recall",
    "reward",
    "forget",
    "import",
    "export",
    "stats",
    "explain",
    "draw",
    "verify",
    "repair",
    "backup",
]


def examples(name):
    return EXAMPLES.get(name, EXAMPLES.get(f"{name}_", ()))


def test_all_commands_are_there():
    assert set(GROUP.commands) == set(OF_THE_ISSUE)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_says_what_it_does_and_shows_examples(run, name):
    shown = run(name, "--help").out
    flat = " ".join(shown.split())
    assert COMMANDS[name].help.splitlines()[0].split(".")[0].split("[")[0].strip() in flat
    assert examples(name), f"{name} has no examples"
    for example in examples(name):
        assert " ".join(example.split()) in flat


@pytest.mark.parametrize("name", COMMANDS)
def test_every_option_is_explained(name):
    for parameter in COMMANDS[name].params:
        assert getattr(parameter, "help", None), f"{name}: {parameter.name} has no help"


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_takes_json(name):
    assert "--json" in {option for parameter in COMMANDS[name].params for option in parameter.opts}


@pytest.mark.parametrize("name", COMMANDS)
def test_examples_are_commands(name, tmp_path, monkeypatch):
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


@pytest.mark.parametrize("name", OF_THE_ISSUE)
def test_the_guide_has_a_section(name):
    assert f"### {name}\n" in GUIDE


@pytest.mark.parametrize("name", COMMANDS)
def test_the_guide_names_every_option(name):
    section = GUIDE.split(f"### {name}\n")[1].split("\n### ")[0].split("\n## ")[0]
    for parameter in COMMANDS[name].params:
        for option in parameter.opts:
            common = option in ("--json", "--store", "-s")
            assert common or not option.startswith("--") or f"`{option}" in section, f"{name}: {option} is not in the guide"


def test_exit_codes_are_in_help_and_guide(run):
    flat = " ".join(run("--help").out.split())
    for code, meaning in EXIT_CODES.items():
        assert f"{code}: {meaning}" in flat
        assert f"| {code} | {meaning} |" in GUIDE


def test_version(run):
    from memorytree import __version__

    assert run("--version").out == f"memorytree {__version__}\n"


def test_a_misspelt_command_is_wrong_usage(run):
    assert "recal" in run("recal", code=2).err


def test_completion_is_offered(run):
    assert "--install-completion" in run("--help").out
