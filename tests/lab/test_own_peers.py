"""Baselines of one's own in the experiments: `--baseline package.module:Class`."""

import json
import sys

import pytest
from typer.testing import CliRunner

from lab import baselines, documents
from lab.experiments import EXPERIMENTS, Plan
from lab.parts import Part, ResultCache
from lab.results import Results
from memorytree.cli import app
from memorytree.errors import InvalidOption
from tests.lab import own_baselines
from tests.lab.made_up import results

MEAN, PARROT = "tests.lab.own_baselines:NearestMean", "tests.lab.own_baselines:Parrot"
HAVE_SYSTEMS = {"few-shot", "multi-label", "retrieval", "online", "desiderata"}
FILE = """
from lab.baselines import Baseline

class Constant(Baseline):
    name, title = "constant", "Constant"
    keys = {"dense"}

    def fit(self, data):
        self.answer = data.truth[0]

    def predict(self, rows, k=1):
        return [self.answer] * len(rows)
"""
cli = CliRunner()


@pytest.fixture(autouse=True)
def nothing_is_drawn(monkeypatch):
    monkeypatch.setattr(documents, "save", lambda figure, path: None)


def run(*arguments, code=0):
    done = cli.invoke(app, ["lab", *map(str, arguments)])
    assert done.exit_code == code, done.output
    return done


@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_baseline_takes_part_where_it_can_and_changes_nothing_else(name, quick):
    plan, without = Plan(quick=quick, seeds=2, baselines=(MEAN, PARROT)), Plan(quick=quick, seeds=2)
    experiment = EXPERIMENTS[name]
    parts = experiment.parts(plan)
    assert [part for part in parts if ":" not in part.baseline] == experiment.parts(without)
    own = {part.baseline for part in parts if ":" in part.baseline}
    classes_in_a_batch = {MEAN} if name in ("few-shot", "desiderata") else set()
    assert own == (classes_in_a_batch | {PARROT} if name in HAVE_SYSTEMS else set())
    seeds = {part.seed for part in parts if part.baseline == PARROT}
    assert name == "retrieval" or seeds <= {0}  # there a seed is a split


@pytest.mark.parametrize("name", sorted(HAVE_SYSTEMS))
def test_it_is_in_every_table_and_plot_of_systems_and_in_no_claim(name):
    plan, without = Plan(quick=True, baselines=(PARROT,)), Plan(quick=True)
    experiment = EXPERIMENTS[name]
    found = Results(results(experiment, plan))
    findings, others = experiment.findings(plan, found), experiment.findings(without, found)
    assert findings.claims == others.claims
    for table, before in zip(findings.tables, others.tables, strict=True):
        assert len(table.rows) == len(before.rows) + 1
        assert {"Parrot", PARROT} & {str(cell) for cell in table.rows[-1][:2]}
    for picture, before in zip(findings.pictures, others.pictures, strict=True):
        assert marks(picture.figure) > marks(before.figure)


def marks(figure) -> int:
    return sum(len(axis.lines) + len(axis.patches) for axis in figure.axes)


def test_one_that_is_better_is_said_to_be():
    plan = Plan(quick=True, baselines=(MEAN,))
    found = results(EXPERIMENTS["few-shot"], plan, errors={MEAN: 0.01, "ours": 0.5})
    told = EXPERIMENTS["few-shot"].findings(plan, Results(found)).elsewhere
    assert any(sentence.startswith("Nearest class mean has a better error") for sentence in told)


def test_its_results_are_written_kept_and_shown_on_the_page(tmp_path, made_up, monkeypatch):
    arguments = ["run", "few-shot", "online", "--quick", "--out", tmp_path, "--baseline", MEAN]
    run(*arguments, "--baseline", PARROT)
    found = json.loads((tmp_path / "few-shot.json").read_text())
    assert {MEAN, PARROT} < {one["peer"] for one in found["runs"] if one["status"] == "ok"}
    assert "| Nearest class mean |" in (tmp_path / "few-shot.md").read_text()
    assert MEAN not in (tmp_path / "online.json").read_text()

    first = len(made_up)
    run(*arguments, "--baseline", PARROT)
    assert len(made_up) == first

    with monkeypatch.context() as absent:  # the page is made of what is written, and of nothing else
        absent.setattr(baselines, "find_baseline", None)
        run("report", "--out", tmp_path)
    assert "Nearest class mean" in (tmp_path / "report.html").read_text()

    standing = (tmp_path / "few-shot.json").read_bytes()
    said = run("run", "few-shot", "--quick", "--out", tmp_path).output
    assert f"(--baseline {MEAN} --baseline {PARROT} among them)" in said
    assert (tmp_path / "few-shot.json").read_bytes() == standing
    (tmp_path / "few-shot.json").unlink()
    run("run", "few-shot", "--quick", "--out", tmp_path)
    assert "own_baselines" not in (tmp_path / "few-shot.json").read_text()
    assert len(made_up) == first


def test_what_determines_it_determines_its_file(tmp_path, monkeypatch):
    cache = ResultCache(tmp_path, quick=True)
    part = Part(PARROT, "made-classes")
    before = cache.path(part)
    assert before != cache.path(Part(MEAN, "made-classes"))
    monkeypatch.setattr(own_baselines.Parrot, "defaults", {"voice": "low"})
    assert cache.path(part) != before
    monkeypatch.undo()
    assert cache.path(part) == before
    monkeypatch.setattr(baselines, "source_digest", lambda kind: "another file")
    assert cache.path(part) != before


def test_its_code_is_that_of_its_file(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "once_changed.py").write_text(FILE)
    kind = baselines.find_baseline("once_changed:Constant")
    before = baselines.source_digest(kind)
    (tmp_path / "once_changed.py").write_text(FILE + "# better now")
    assert baselines.source_digest(kind) != before


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("hnsw", "no baseline 'hnsw'; there are cmt-u"),
        ("no_such_module:Baseline", "no_such_module:Baseline cannot be imported: ModuleNotFoundError"),
        ("tests.lab.own_baselines:Nobody", "cannot be imported: AttributeError"),
        ("tests.lab.own_baselines:", "cannot be imported"),
        ("tests.lab.own_baselines:double", "is not a Baseline"),
        ("lab.baselines:Baseline", "has no name"),
        ("half_a_file:Constant", "half_a_file:Constant cannot be imported: SyntaxError"),
    ],
)
@pytest.mark.parametrize("what", [["run", "few-shot"], ["all"]])
def test_what_is_no_baseline_is_refused_before_anything_is_run(tmp_path, made_up, monkeypatch, wrong, why, what):
    (tmp_path / "half_a_file.py").write_text("class Constant(")
    monkeypatch.syspath_prepend(tmp_path)
    done = run(*what, "--quick", "--out", tmp_path / "out", "--baseline", PARROT, "--baseline", wrong, code=2)
    assert done.stderr.startswith("memorytree: ")
    assert done.stderr.count("\n") == 1
    assert why in done.stderr
    assert made_up == []
    assert not (tmp_path / "out").exists()


def test_baselines_must_be_told_apart_and_be_plain(monkeypatch):
    assert baselines.resolve([PARROT, MEAN, PARROT]) == (PARROT, MEAN)
    with pytest.raises(
        InvalidOption, match=r"own_baselines:Twin has the title of tests\.lab\.own_baselines:Parrot, 'Parrot'"
    ):
        baselines.resolve([PARROT, "tests.lab.own_baselines:Twin"])
    monkeypatch.setattr(own_baselines.Parrot, "title", "Exact 1-NN")
    with pytest.raises(InvalidOption, match="has the title of exact-1nn"):
        baselines.resolve([PARROT])
    monkeypatch.undo()
    monkeypatch.setattr(own_baselines.Parrot, "defaults", {"voice": print})
    with pytest.raises(InvalidOption, match="defaults should be plain data"):
        baselines.resolve([PARROT])


def test_a_baseline_with_nothing_to_do_is_told_so(tmp_path, made_up):
    done = run("run", "multi-label", "--quick", "--out", tmp_path, "--baseline", MEAN)
    assert f"{MEAN} can take part in none of these experiments." in done.output


def test_a_file_where_the_user_stands_is_found_here_and_in_the_processes(tmp_path, monkeypatch):
    """Nothing made up: a baseline of one file, in processes of its own, on dense keys and on sparse ones, which it refuses."""
    (tmp_path / "somebodys.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    name = "somebodys:Constant"
    parts = [Part(name, "made-classes"), Part(name, "made-text")]
    monkeypatch.setattr(type(EXPERIMENTS["few-shot"]), "parts", lambda self, plan: parts)
    monkeypatch.setattr(documents, "save", lambda figure, path: None)
    run("run", "few-shot", "--quick", "--out", tmp_path / "out", "--baseline", name)
    dense, sparse = json.loads((tmp_path / "out" / "few-shot.json").read_text())["runs"]
    assert dense["status"] == "ok", dense
    assert dense["error"] > 0.9
    found = Results({parts[1]: sparse})
    assert str(found.cell("error", baseline=name)) == "not suited"
    assert "takes dense keys for classes" in sparse["why"]
