"""A user's baselines in the experiments: `--baseline package.module:Class`."""

import json
import sys

import pytest

from lab import baselines
from lab.cache import ResultCache
from lab.experiments import EXPERIMENTS, Plan
from lab.parts import Part
from lab.results import Results
from memorytree.errors import InvalidOption
from tests.lab import custom_baselines
from tests.lab.synthetic_results import results

MEAN, LAST = "tests.lab.custom_baselines:NearestMean", "tests.lab.custom_baselines:LastClass"
WITH_SYSTEMS = {"few-shot", "multi-label", "retrieval", "online", "desiderata"}
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

pytestmark = pytest.mark.usefixtures("no_plots")


@pytest.mark.parametrize("quick", [True, False], ids=["quick", "full"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_baseline_gets_parts_where_it_is_suited(name, quick):
    plan, without = Plan(quick=quick, seeds=2, baselines=(MEAN, LAST)), Plan(quick=quick, seeds=2)
    experiment = EXPERIMENTS[name]
    parts = experiment.parts(plan)
    assert [part for part in parts if ":" not in part.baseline] == experiment.parts(without)
    own = {part.baseline for part in parts if ":" in part.baseline}
    batch_only = {MEAN} if name in ("few-shot", "desiderata") else set()
    assert own == (batch_only | {LAST} if name in WITH_SYSTEMS else set())
    seeds = {part.seed for part in parts if part.baseline == LAST}
    assert name == "retrieval" or seeds <= {0}  # for retrieval a seed is a split


@pytest.mark.parametrize("name", sorted(WITH_SYSTEMS))
def test_baseline_is_in_tables_and_plots_only(name):
    plan, without = Plan(quick=True, baselines=(LAST,)), Plan(quick=True)
    experiment = EXPERIMENTS[name]
    found = Results(results(experiment, plan))
    findings, others = experiment.findings(plan, found), experiment.findings(without, found)
    assert findings.claims == others.claims
    for table, before in zip(findings.tables, others.tables, strict=True):
        assert len(table.rows) == len(before.rows) + 1
        assert {"Last class", LAST} & {str(cell) for cell in table.rows[-1][:2]}
    for picture, before in zip(findings.pictures, others.pictures, strict=True):
        assert count_marks(picture.figure) > count_marks(before.figure)


def count_marks(figure) -> int:
    return sum(len(axis.lines) + len(axis.patches) for axis in figure.axes)


def test_better_baseline_is_named_as_alternative():
    plan = Plan(quick=True, baselines=(MEAN,))
    found = results(EXPERIMENTS["few-shot"], plan, errors={MEAN: 0.01, "ours": 0.5})
    sentences = EXPERIMENTS["few-shot"].findings(plan, Results(found)).alternatives
    assert any(sentence.startswith("Nearest class mean has a better error") for sentence in sentences)


def test_results_are_written_and_cached(lab, tmp_path, synthetic, monkeypatch):
    arguments = ["run", "few-shot", "online", "--quick", "--out", tmp_path, "--baseline", MEAN]
    lab(*arguments, "--baseline", LAST)
    found = json.loads((tmp_path / "few-shot.json").read_text())
    assert {MEAN, LAST} < {one["peer"] for one in found["runs"] if one["status"] == "ok"}
    assert "| Nearest class mean |" in (tmp_path / "few-shot.md").read_text()
    assert MEAN not in (tmp_path / "online.json").read_text()

    first = len(synthetic)
    lab(*arguments, "--baseline", LAST)
    assert len(synthetic) == first

    with monkeypatch.context() as absent:  # the page is built from the documents alone
        absent.setattr(baselines, "find_baseline", None)
        lab("report", "--out", tmp_path)
    assert "Nearest class mean" in (tmp_path / "report.html").read_text()

    before = (tmp_path / "few-shot.json").read_bytes()
    shown = lab("run", "few-shot", "--quick", "--out", tmp_path).out
    assert f"(--baseline {LAST} --baseline {MEAN} among them)" in shown
    assert (tmp_path / "few-shot.json").read_bytes() == before
    (tmp_path / "few-shot.json").unlink()
    lab("run", "few-shot", "--quick", "--out", tmp_path)
    assert "custom_baselines" not in (tmp_path / "few-shot.json").read_text()
    assert len(synthetic) == first


def test_defaults_and_source_determine_the_cache_file(tmp_path, monkeypatch):
    cache = ResultCache(tmp_path, quick=True)
    part = Part(LAST, "made-classes")
    before = cache.path(part)
    assert before != cache.path(Part(MEAN, "made-classes"))
    with monkeypatch.context() as changed:
        changed.setattr(custom_baselines.LastClass, "defaults", {"setting": "another"})
        assert cache.path(part) != before
    assert cache.path(part) == before
    monkeypatch.setattr(baselines, "source_digest", lambda kind: "another file")
    assert cache.path(part) != before


def test_source_digest_changes_with_the_file(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "once_changed.py").write_text(FILE)
    kind = baselines.find_baseline("once_changed:Constant")
    before = baselines.source_digest(kind)
    (tmp_path / "once_changed.py").write_text(FILE + "# changed")
    assert baselines.source_digest(kind) != before


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("hnsw", "no baseline 'hnsw'; there are cmt-u"),
        ("no_such_module:Own", "no_such_module:Own cannot be imported: ModuleNotFoundError"),
        ("tests.lab.custom_baselines:NoSuchClass", "cannot be imported: AttributeError"),
        ("tests.lab.custom_baselines:", "cannot be imported"),
        ("tests.lab.custom_baselines:double", "is not a Baseline"),
        ("lab.baselines:Baseline", "has no name"),
        ("half_a_file:Constant", "half_a_file:Constant cannot be imported: SyntaxError"),
    ],
)
def test_invalid_baseline_is_refused(lab, tmp_path, synthetic, monkeypatch, wrong, why):
    (tmp_path / "half_a_file.py").write_text("class Constant(")
    monkeypatch.syspath_prepend(tmp_path)
    arguments = ["run", "few-shot", "--quick", "--out", tmp_path / "out", "--baseline", LAST, "--baseline", wrong]
    error = lab(*arguments, code=2).err
    assert error.startswith("mt lab: ")
    assert error.count("\n") == 1
    assert why in error
    assert synthetic == []
    assert not (tmp_path / "out").exists()


def test_titles_must_differ(monkeypatch):
    assert baselines.resolve([LAST, MEAN, LAST]) == (LAST, MEAN)
    with pytest.raises(InvalidOption, match=r"SameTitle has the title of tests\.lab\.custom_baselines:Last"):
        baselines.resolve([LAST, "tests.lab.custom_baselines:SameTitle"])
    monkeypatch.setattr(custom_baselines.LastClass, "title", "Exact 1-NN")
    with pytest.raises(InvalidOption, match="has the title of exact-1nn"):
        baselines.resolve([LAST])


def test_defaults_must_be_plain_data(monkeypatch):
    monkeypatch.setattr(custom_baselines.LastClass, "defaults", {"setting": print})
    with pytest.raises(InvalidOption, match="defaults must be plain data"):
        baselines.resolve([LAST])


@pytest.mark.usefixtures("synthetic")
def test_unsuited_baseline_gives_a_warning(lab, tmp_path):
    shown = lab("run", "multi-label", "--quick", "--out", tmp_path, "--baseline", MEAN).out
    assert f"{MEAN} is suited to none of these experiments." in shown


@pytest.mark.slow
def test_module_in_the_working_directory_is_found(lab, tmp_path, monkeypatch):
    """Real child processes: a custom baseline on dense keys and on sparse keys, which it cannot take, and one of ours."""
    (tmp_path / "users_file.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    name = "users_file:Constant"
    parts = [Part(name, "made-classes"), Part(name, "made-text"), Part("exact-1nn", "made-classes")]
    monkeypatch.setattr(type(EXPERIMENTS["few-shot"]), "parts", lambda self, plan: parts)
    lab("run", "few-shot", "--quick", "--out", tmp_path / "out", "--baseline", name)
    dense, sparse, exact = json.loads((tmp_path / "out" / "few-shot.json").read_text())["runs"]
    assert dense["status"] == "ok", dense
    assert dense["error"] > 0.9
    assert (exact["status"], exact["error"] < 0.5) == ("ok", True)
    assert str(Results({parts[1]: sparse}).cell("error", baseline=name)) == "not suited"
    assert "takes dense keys for classes" in sparse["why"]
