"""The command line of the lab."""

import json
import re
import shutil

import pytest

from lab import command, documents
from lab.experiments import EXPERIMENTS, Plan
from lab.parts import Part
from lab.results import Results
from tests.lab import files
from tests.lab.synthetic_results import result

QUICK_ONLINE = ["run", "online", "--quick"]


def test_list_shows_every_experiment(lab):
    assert [line.split()[0] for line in lab("list").out.splitlines()] == list(EXPERIMENTS)
    assert [json.loads(line)["name"] for line in lab("list", "--json").out.splitlines()] == list(EXPERIMENTS)


def test_unknown_experiment_is_refused(lab):
    error = lab("run", "few-shot", "fortune-telling", code=2).err
    assert error.startswith("mt lab: no experiment fortune-telling; there are few-shot, ")
    assert error.count("\n") == 1


@pytest.mark.parametrize("wrong", [["--seeds", "0"], ["--jobs", "0"], ["--sideways"]])
def test_wrong_options_are_refused(lab, wrong):
    lab("run", "growth", *wrong, code=2)


@pytest.mark.parametrize("name", ["list", "run", "all", "report"])
def test_commands_have_help(lab, name):
    assert "usage: mt lab" in lab(name, "--help").out


def test_run_writes_documents_and_resumes(lab, tmp_path, synthetic):
    arguments = [*QUICK_ONLINE, "--out", tmp_path]
    lab(*arguments)
    assert {path.name for path in tmp_path.glob("online*")} == {
        "online.json", "online.md", "online-error.png", "online-error.svg", "online-bits.png", "online-bits.svg",
    }  # fmt: skip
    first = len(synthetic)
    assert first == len(EXPERIMENTS["online"].parts(Plan(quick=True)))
    lab(*arguments)
    assert len(synthetic) == first
    lab(*arguments, "--no-resume")
    assert len(synthetic) == 2 * first


@pytest.mark.usefixtures("synthetic", "no_plots")
def test_json_output_is_one_document_a_line(lab, tmp_path):
    shown = lab(*QUICK_ONLINE, "--out", tmp_path, "--json")
    assert json.loads(shown.out)["name"] == "online"
    assert "Results are in" in shown.err


@pytest.mark.usefixtures("synthetic", "no_plots")
def test_all_runs_everything_and_builds_the_page(lab, tmp_path):
    lab("all", "--quick", "--out", tmp_path)
    assert (tmp_path / "report.html").exists()
    assert {path.stem for path in tmp_path.glob("*.json")} == set(EXPERIMENTS)


@pytest.mark.usefixtures("no_plots")
def test_interrupted_run_writes_finished_parts(lab, tmp_path, monkeypatch):
    finished = []

    def interrupted(part, plan):
        if len(finished) == 3:
            raise KeyboardInterrupt
        finished.append(part)
        return result(part)

    monkeypatch.setattr(command, "measured", interrupted)
    lab("run", "few-shot", "--quick", "--jobs", "1", "--out", tmp_path, code=130)
    assert len(json.loads((tmp_path / "few-shot.json").read_text())["runs"]) == 3
    assert "not run" in (tmp_path / "few-shot.md").read_text()


@pytest.mark.parametrize("way", ["--data", "MEMORYTREE_DATA"])
@pytest.mark.parametrize("what", [["run", "retrieval"], ["all"]])
def test_missing_data_folder_is_an_error(lab, tmp_path, synthetic, monkeypatch, way, what):
    nowhere = tmp_path / "nowhere"
    if way == "MEMORYTREE_DATA":
        monkeypatch.setenv(way, str(nowhere))
    given = ["--data", nowhere] if way == "--data" else []
    error = lab(*what, *given, "--out", tmp_path / "out", code=2).err
    assert error.startswith(f"mt lab: {way} is {nowhere}, which is not a folder")
    assert synthetic == []
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("what", [["run", "retrieval"], ["all"]])
def test_nothing_is_written_without_a_success(lab, tmp_path, monkeypatch, what):
    monkeypatch.setattr(command, "measured", lambda part, plan: {"status": "failed", "why": "DataMissing: no"})
    shown = lab(*what, "--quick", "--out", tmp_path, code=1).out
    assert "retrieval: no run succeeded, so nothing is written." in shown
    assert [path.name for path in tmp_path.iterdir()] == ["parts"]


@pytest.mark.usefixtures("no_plots")
def test_failed_experiment_is_not_written(lab, tmp_path, monkeypatch):
    failing = set(EXPERIMENTS["online"].parts(Plan(quick=True)))
    failed = {"status": "failed", "why": "no"}
    monkeypatch.setattr(command, "measured", lambda part, plan: failed if part in failing else result(part))
    assert "online: no run succeeded" in lab("run", "online", "retrieval", "--quick", "--out", tmp_path).out
    assert {path.stem for path in tmp_path.glob("*.json")} == {"retrieval"}


@pytest.mark.usefixtures("no_plots")
def test_document_with_more_successes_is_kept(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "measured", lambda part, plan: result(part))
    arguments = ["run", "retrieval", "--quick", "--out", tmp_path]
    lab(*arguments)
    before = (tmp_path / "retrieval.json").read_bytes()
    runs = len(json.loads(before)["runs"])

    shutil.rmtree(tmp_path / "parts")
    failed = {"status": "failed", "why": "no"}
    monkeypatch.setattr(command, "measured", lambda part, plan: failed if part.baseline == "ours" else result(part))
    shown = lab(*arguments).out
    assert f"retrieval.json has {runs} successful runs, this run has {runs - 1}: the file is kept." in shown
    assert "--no-resume" in shown
    assert (tmp_path / "retrieval.json").read_bytes() == before

    lab(*arguments, "--no-resume")
    assert (tmp_path / "retrieval.json").read_bytes() != before


@pytest.mark.usefixtures("no_plots")
def test_changed_data_files_give_a_warning(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(command, "measure", lambda baseline, source, **_: result(Part(baseline, source.name)))
    data, moved = tmp_path / "data", tmp_path / "moved"
    files.write(data / "flickr8k", "captions.csv", "a dog")

    def warns(folder):
        shown = lab("run", "retrieval", "--seeds", "1", "--data", folder, "--out", tmp_path / "out").out
        return f"flickr8k: parts were measured on other files than those in {folder}" in re.sub(r"\s+", " ", shown)

    assert not warns(data)
    shutil.copytree(data, moved)
    assert not warns(moved)
    files.write(moved / "flickr8k", "captions.csv", "another dog")
    assert warns(moved)


@pytest.mark.parametrize("content", ["{half a fi", None])
def test_damaged_or_quick_document_is_replaced(tmp_path, content):
    part = Part("ours", "flickr8k")
    quick = {"name": "retrieval", "quick": True, "runs": 99 * [{"status": "ok"}]}
    (tmp_path / "retrieval.json").write_text(content or json.dumps(quick))
    assert documents.reason_to_keep("retrieval", Plan(), Results({part: result(part)}), tmp_path) == ""


def test_quick_runs_do_not_write_into_a_checkout(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert str(command.default_out(quick=False)) == "memorytree-lab"
    (tmp_path / "src" / "memorytree").mkdir(parents=True)
    (tmp_path / "docs" / "results").mkdir(parents=True)
    assert str(command.default_out(quick=False)) == "docs/results/lab"
    assert str(command.default_out(quick=True)) == "memorytree-lab"
