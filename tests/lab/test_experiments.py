import pytest

from lab.baselines import BASELINES
from lab.experiments import EXPERIMENTS, Plan
from lab.experiments.claims import judged
from lab.results import Results, problems
from tests.lab.made_up import ERRORS, result, results

PLAN = Plan(quick=False, seeds=2)
PLANS = [PLAN, Plan(quick=True, seeds=5)]


@pytest.mark.parametrize("plan", PLANS, ids=["full", "quick"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_parts_name_baselines_that_exist_and_seeds_that_were_asked_for(name, plan):
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
def test_tables_plots_and_claims_come_of_results(name, plan):
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
def test_nothing_is_dropped_where_nothing_was_measured(name, status):
    experiment = EXPERIMENTS[name]
    parts = experiment.parts(PLAN)
    empty = {part: {"status": status, "cpu_s": 900, "needs": ["x"], "why": "bang"} for part in parts} if status else {}
    found = experiment.findings(PLAN, Results(empty))
    assert all(claim.holds is None for claim in found.claims)
    for picture in found.pictures:
        picture.figure.draw_without_rendering()
    told = problems(Results(empty))
    assert bool(told) is (status is not None)


def test_claims_that_fail_are_said_to_fail():
    experiment = EXPERIMENTS["few-shot"]
    upside_down = {baseline: 1 - error for baseline, error in ERRORS.items()}
    for errors, holds in ((ERRORS, True), (upside_down, False)):
        found = experiment.findings(PLAN, Results(results(experiment, PLAN, errors=errors)))
        claims = {claim.text: claim for claim in found.claims}
        helps = claims["Supervision helps: CMT is ahead of CMT(u)."]
        assert helps.holds is True if holds else helps.holds is False
        ahead = next(claim for claim in found.claims if claim.who == "ours")
        assert ahead.holds is holds
        assert holds or ahead.why.startswith("Not on ")


def test_one_bad_pair_is_enough_for_a_claim_to_fail():
    good, bad = ("here", 0.1, 0.2), ("there", 0.3, 0.2)
    assert judged("us", "ahead", [good, good]).holds is True
    assert judged("us", "ahead", [good, bad]).holds is False
    assert judged("us", "ahead", [good, ("nowhere", None, 0.2)]).holds is True
    assert judged("us", "ahead", [("nowhere", None, 0.2)]).holds is None
    assert judged("us", "ahead", [good], more=True).holds is False


def test_what_is_better_elsewhere_is_said():
    experiment = EXPERIMENTS["few-shot"]
    found = experiment.findings(PLAN, Results(results(experiment, PLAN)))
    assert any(sentence.startswith("Linear") and "better error" in sentence for sentence in found.elsewhere)
    assert not any("Exact 1-NN has a better error" in sentence for sentence in found.elsewhere)


def test_results_are_found_by_what_determines_them():
    parts = results(EXPERIMENTS["growth"], PLAN)
    found = Results(parts)
    assert len(found.of(n=1000, routing="paper")) == PLAN.seeds
    assert found.of(n=1) == []
    one = next(iter(parts))
    assert found.of(baseline=one.baseline, seed=0, n=1000, routing="paper") == [result(one)]
