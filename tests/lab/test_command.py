import json
import shutil
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from lab import command, documents, process
from lab.experiments import EXPERIMENTS, Plan
from lab.parts import Part
from lab.process import child_environment
from lab.results import Results
from memorytree.cli import app
from tests.lab import files
from tests.lab.made_up import result

cli = CliRunner()


def test_the_command_line_does_not_wait_for_the_lab():
    asked = "import sys, memorytree.cli; print(sorted({'sklearn', 'matplotlib', 'lab.baselines'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", asked], capture_output=True, text=True, env=child_environment(), check=True)
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


@pytest.mark.parametrize("way", ["--data", "MEMORYTREE_DATA"])
@pytest.mark.parametrize("what", [["run", "retrieval"], ["all"]])
def test_a_data_folder_that_is_not_there_is_an_error_and_nothing_is_written(tmp_path, made_up, monkeypatch, way, what):
    nowhere = str(tmp_path / "nowhere")
    if way == "MEMORYTREE_DATA":
        monkeypatch.setenv(way, nowhere)
    given = ["--data", nowhere] if way == "--data" else []
    done = cli.invoke(app, ["lab", *what, *given, "--out", str(tmp_path / "out")])
    assert done.exit_code == 2
    assert done.stderr.startswith(f"memorytree: {way} names {nowhere}, which is not a folder")
    assert made_up == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("what", [["run", "retrieval"], ["all"]])
def test_nothing_is_written_about_a_run_that_found_nothing(tmp_path, monkeypatch, what):
    monkeypatch.setattr(command, "measured", lambda part, plan: {"status": "failed", "why": "DataMissing: no"})
    done = cli.invoke(app, ["lab", *what, "--quick", "--out", str(tmp_path)])
    assert done.exit_code == 1
    assert "retrieval: no run went well, so nothing is written about it." in done.output
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]


def test_what_failed_whole_is_not_written_beside_what_went_well(tmp_path, made_up, monkeypatch):
    monkeypatch.setattr(documents, "save", lambda figure, path: None)
    doomed = set(EXPERIMENTS["online"].parts(Plan(quick=True)))
    failed = {"status": "failed", "why": "no"}
    monkeypatch.setattr(command, "measured", lambda part, plan: failed if part in doomed else result(part))
    done = cli.invoke(app, ["lab", "run", "online", "retrieval", "--quick", "--out", str(tmp_path)])
    assert done.exit_code == 0
    assert "online: no run went well" in done.output
    assert {path.stem for path in tmp_path.glob("*.json")} == {"retrieval"}


def test_what_tells_of_more_runs_is_not_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "save", lambda figure, path: None)
    monkeypatch.setattr(command, "measured", lambda part, plan: result(part))
    arguments = ["lab", "run", "retrieval", "--quick", "--out", str(tmp_path)]
    assert cli.invoke(app, arguments).exit_code == 0
    standing = (tmp_path / "retrieval.json").read_bytes()
    some = len(json.loads(standing)["runs"])

    shutil.rmtree(tmp_path / "parts")
    failing = {"status": "failed", "why": "no"}
    monkeypatch.setattr(command, "measured", lambda part, plan: failing if part.baseline == "ours" else result(part))
    done = cli.invoke(app, arguments)
    assert done.exit_code == 0
    assert f"retrieval.json tells of {some} good runs, this is about {some - 1}: it stays." in done.output
    assert "--no-resume" in done.output
    assert (tmp_path / "retrieval.json").read_bytes() == standing

    assert cli.invoke(app, [*arguments, "--no-resume"]).exit_code == 0
    assert (tmp_path / "retrieval.json").read_bytes() != standing


def test_it_is_said_when_the_data_are_others_than_those_of_kept_parts(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "save", lambda figure, path: None)
    monkeypatch.setattr(process, "measure", lambda baseline, dataset, **_: result(Part(baseline, dataset)))
    data, moved = tmp_path / "data", tmp_path / "moved"
    files.write(data / "flickr8k", "captions.csv", "a dog")

    def said(folder):
        where = ["--data", str(folder), "--out", str(tmp_path / "out")]
        done = cli.invoke(app, ["lab", "run", "retrieval", "--seeds", "1", *where])
        assert done.exit_code == 0, done.output
        return f"flickr8k: parts were measured on other files than are in {folder}" in done.output

    assert not said(data)
    shutil.copytree(data, moved)
    assert not said(moved)
    files.write(moved / "flickr8k", "captions.csv", "another dog")
    assert said(moved)
    for kept in (tmp_path / "out" / "parts").rglob("*.json"):  # as parts were written before
        kept.write_text(json.dumps({name: told for name, told in json.loads(kept.read_text()).items() if name != "files"}))
    assert not said(moved)


@pytest.mark.parametrize("standing", ["{half a fi", None])
def test_neither_a_damaged_document_nor_a_quick_one_stands_in_the_way(tmp_path, standing):
    part = Part("ours", "flickr8k")
    quick = {"name": "retrieval", "quick": True, "runs": 99 * [{"status": "ok"}]}
    (tmp_path / "retrieval.json").write_text(standing or json.dumps(quick))
    assert documents.reason_to_keep("retrieval", Plan(), Results({part: result(part)}), tmp_path) == ""


def test_results_of_a_checkout_are_safe_from_quick_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(command.default_out(quick=False)) == "memorytree-lab"
    (tmp_path / "src" / "memorytree").mkdir(parents=True)
    (tmp_path / "docs" / "results").mkdir(parents=True)
    assert command.default_out(quick=False).as_posix() == "docs/results/lab"
    assert str(command.default_out(quick=True)) == "memorytree-lab"


def test_one_experiment_end_to_end(tmp_path, monkeypatch):
    """Nothing made up: real baselines in processes of their own, on a few rows."""
    experiment = EXPERIMENTS["few-shot"]
    tiny = [Part(baseline, "made-classes") for baseline in ("exact-1nn", "linear")]
    monkeypatch.setattr(type(experiment), "parts", lambda self, plan: tiny)
    done = cli.invoke(app, ["lab", "run", "few-shot", "--quick", "--out", str(tmp_path)])
    assert done.exit_code == 0, done.output
    found = json.loads((tmp_path / "few-shot.json").read_text())
    assert [run["status"] for run in found["runs"]] == ["ok", "ok"], found["troubles"]
    assert all(0 <= run["error"] < 0.5 for run in found["runs"])
