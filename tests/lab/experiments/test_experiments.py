"""Every experiment: its parts, and its findings from synthetic results."""

import pytest

from lab.baselines import BASELINES
from lab.experiments import EXPERIMENTS, Plan
from lab.experiments.claims import judge
from lab.results import Results, problems
from tests.lab.synthetic_results import ERRORS, result, results

PLAN = Plan(quick=False, seeds=2)
PLANS = [PLAN, Plan(quick=True, seeds=5)]


@pytest.mark.parametrize("plan", PLANS, ids=["full", "quick"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_parts_have_known_baselines_and_seeds(name, plan):
    parts = EXPERIMENTS[name].parts(plan)
    assert len(set(parts)) == len(parts) > 0
    for part in parts:
        assert part.baseline in BASELINES
        assert part.seed in range(1 if plan.quick else plan.seeds)
    if not plan.quick:
        linear = {
            part.seed for part in parts if BASELINES[part.baseline].linear and part.job == "batch" and name != "retrieval"
        }
        assert linear <= {0}


@pytest.mark.parametrize("plan", PLANS, ids=["full", "quick"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_findings_have_tables_plots_and_claims(name, plan):
    experiment = EXPERIMENTS[name]
    found = experiment.findings(plan, Results(results(experiment, plan)))
    assert found.tables
    assert found.pictures
    assert found.claims
    for table in found.tables:
        assert table.rows, table.title
        assert all(len(row) == len(table.columns) for row in table.rows)
    for picture in found.pictures:
        assert picture.caption.endswith(".")
        labelled = [axis for axis in picture.figure.axes if axis.get_visible()]
        assert all(axis.get_ylabel() for axis in labelled)
        picture.figure.draw_without_rendering()
    assert all(claim.why for claim in found.claims)
    assert plan.quick or all(claim.holds is not None for claim in found.claims)


@pytest.mark.parametrize("name", EXPERIMENTS)
@pytest.mark.parametrize("status", ["missing", "failed", "stopped", None])
def test_missing_results_are_reported(name, status):
    experiment = EXPERIMENTS[name]
    parts = experiment.parts(PLAN)
    empty = {part: {"status": status, "cpu_s": 900, "needs": ["x"], "why": "bang"} for part in parts} if status else {}
    found = experiment.findings(PLAN, Results(empty))
    assert all(claim.holds is None for claim in found.claims)
    for picture in found.pictures:
        picture.figure.draw_without_rendering()
    sentences = problems(Results(empty))
    assert bool(sentences) is (status is not None)


def test_claims_follow_the_figures():
    experiment = EXPERIMENTS["few-shot"]
    upside_down = {baseline: 1 - error for baseline, error in ERRORS.items()}
    for errors, holds in ((ERRORS, True), (upside_down, False)):
        found = experiment.findings(PLAN, Results(results(experiment, PLAN, errors=errors)))
        claims = {claim.text: claim for claim in found.claims}
        supervision = claims["Supervision helps: CMT is ahead of CMT(u)."]
        assert supervision.holds is holds
        ahead = next(claim for claim in found.claims if claim.source == "ours")
        assert ahead.holds is holds
        assert holds or ahead.why.startswith("Not on ")


def test_claim_fails_on_one_bad_pair():
    good, bad = ("first", 0.1, 0.2), ("second", 0.3, 0.2)
    assert judge("ours", "ahead", [good, good]).holds is True
    assert judge("ours", "ahead", [good, bad]).holds is False
    assert judge("ours", "ahead", [good, ("third", None, 0.2)]).holds is True
    assert judge("ours", "ahead", [("third", None, 0.2)]).holds is None
    assert judge("ours", "ahead", [good], more=True).holds is False


def test_better_systems_are_alternatives():
    experiment = EXPERIMENTS["few-shot"]
    found = experiment.findings(PLAN, Results(results(experiment, PLAN)))
    assert any(sentence.startswith("Linear") and "better error" in sentence for sentence in found.alternatives)
    assert not any("Exact 1-NN has a better error" in sentence for sentence in found.alternatives)


def test_results_are_selected_by_options():
    parts = results(EXPERIMENTS["growth"], PLAN)
    found = Results(parts)
    assert len(found.select(n=1000, routing="paper")) == PLAN.seeds
    assert found.select(n=1) == []
    one = next(iter(parts))
    assert found.select(baseline=one.baseline, seed=0, n=1000, routing="paper") == [result(one)]
