import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from memorytree.cli import app
from memorytree.lab import command, documents
from memorytree.lab.experiments import EXPERIMENTS, Plan
from memorytree.lab.parts import Part
from memorytree.lab.process import environment
from tests.lab.made_up import result

cli = CliRunner()


@pytest.fixture
def made_up(monkeypatch):
    """Parts are not measured, but made up; returns those that were asked for."""
    seen = []

    def measured(part, plan):
        seen.append(part)
        return result(part)

    monkeypatch.setattr(command, "measured", measured)
    return seen


def test_the_command_line_does_not_wait_for_the_lab():
    asked = "import sys, memorytree.cli; print(sorted({'sklearn', 'matplotlib', 'memorytree.lab.peers'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, env=environment(), check=True)
    assert done.stdout.strip() == "[]"


def test_list_names_every_experiment():
    done = cli.invoke(app, ["lab", "list"])
    assert done.exit_code == 0
    assert [line.split()[0] for line in done.output.splitlines()] == list(EXPERIMENTS)


def test_an_unknown_name_is_refused_and_the_known_ones_are_said():
    done = cli.invoke(app, ["lab", "run", "few-shot", "fortune-telling"])
    assert done.exit_code == 2
    assert done.stderr.startswith("memorytree lab: no experiment fortune-telling; there are few-shot, ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("wrong", [["--seeds", "0"], ["--jobs", "0"], ["--sideways"]])
def test_wrong_options_are_refused(wrong):
    assert cli.invoke(app, ["lab", "run", "growth", *wrong]).exit_code == 2


def test_run_writes_everything_and_resumes(tmp_path, made_up):
    arguments = ["lab", "run", "online", "--quick", "--out", str(tmp_path)]
    done = cli.invoke(app, arguments)
    assert done.exit_code == 0, done.output
    assert {path.name for path in tmp_path.glob("online*")} == {
        "online.json", "online.md", "online-error.png", "online-error.svg", "online-bits.png", "online-bits.svg",
    }  # fmt: skip
    first = len(made_up)
    assert first == len(EXPERIMENTS["online"].parts(Plan(quick=True)))
    assert cli.invoke(app, arguments).exit_code == 0
    assert len(made_up) == first
    assert cli.invoke(app, [*arguments, "--no-resume"]).exit_code == 0
    assert len(made_up) == 2 * first


def test_all_runs_everything_and_builds_the_page(tmp_path, made_up, monkeypatch):
    monkeypatch.setattr(documents, "save", lambda figure, path: None)  # plots are drawn elsewhere
    done = cli.invoke(app, ["lab", "all", "--quick", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "report.html").exists()
    assert {path.stem for path in tmp_path.glob("*.json")} == set(EXPERIMENTS)


def test_a_stopped_run_writes_what_it_has(tmp_path, made_up, monkeypatch):
    monkeypatch.setattr(documents, "save", lambda figure, path: None)

    def interrupted(part, plan):
        if len(made_up) == 3:
            raise KeyboardInterrupt
        made_up.append(part)
        return result(part)

    monkeypatch.setattr(command, "measured", interrupted)
    done = cli.invoke(app, ["lab", "run", "few-shot", "--quick", "--jobs", "1", "--out", str(tmp_path)])
    assert done.exit_code == 130
    found = json.loads((tmp_path / "few-shot.json").read_text())
    assert len(found["runs"]) == 3
    assert "not run" in (tmp_path / "few-shot.md").read_text()


def test_results_of_a_checkout_are_safe_from_quick_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(command.default_out(quick=False)) == "memorytree-lab"
    (tmp_path / "src" / "memorytree").mkdir(parents=True)
    (tmp_path / "docs" / "results").mkdir(parents=True)
    assert command.default_out(quick=False).as_posix() == "docs/results/lab"
    assert str(command.default_out(quick=True)) == "memorytree-lab"


def test_one_experiment_end_to_end(tmp_path, monkeypatch):
    """Nothing made up: real peers in processes of their own, on a few rows."""
    experiment = EXPERIMENTS["few-shot"]
    tiny = [Part(peer, "made-classes") for peer in ("exact-1nn", "linear")]
    monkeypatch.setattr(type(experiment), "parts", lambda self, plan: tiny)
    done = cli.invoke(app, ["lab", "run", "few-shot", "--quick", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "few-shot.json").read_text())
    assert [run["status"] for run in found["runs"]] == ["ok", "ok"], found["troubles"]
    assert all(0 <= run["error"] < 0.5 for run in found["runs"])
