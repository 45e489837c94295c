"""The batch and online jobs, run in this process."""

import pytest

from lab import jobs
from lab.baselines import find_baseline
from lab.datasets import Source
from memorytree.errors import DataMissing, InvalidOption
from tests.lab import small_datasets


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    folder = tmp_path_factory.mktemp("vw")
    return Source(small_datasets.write_vw(folder, small_datasets.sparse_classes()), quick=True)


def test_batch_has_scores_times_and_memory(source):
    found = jobs.batch(find_baseline("exact-1nn"), source, {"voters": 3})
    assert found["rows"] == 300
    assert found["error"] < 0.2
    assert 1.5 < found["entropy_reduction"] < 2.5  # five classes: at most about log2(5)
    assert found["query_us"] > 0
    assert found["call_us"] > 0
    assert found["fit_s"] >= 0
    assert 0 < found["bytes"] < found["peak_bytes"]


def test_online_has_a_curve(source):
    found = jobs.online(find_baseline("exact-1nn"), source, {})
    rows = [rows for rows, _, _ in found["curve"]]
    assert rows == sorted(set(rows))
    assert (rows[0], rows[-1]) == (1, 300)
    assert 15 <= len(rows) <= jobs.CURVE_POINTS
    assert found["curve"][0][1:] == [1.0, None]  # the first row counts as wrong
    assert found["curve"][-1][1:] == [found["error"], found["entropy_reduction"]]
    assert found["error"] < 0.2


def test_online_needs_an_incremental_baseline(source):
    with pytest.raises(InvalidOption, match="only incremental baselines run online"):
        jobs.online(find_baseline("kd-tree"), source, {})


@pytest.mark.parametrize(
    ("baseline", "name", "error", "why"),
    [
        ("exact-1nn", "clusters-x", InvalidOption, "no data set 'clusters-x'"),
        ("exact-1nn", "vw:nowhere/at/all", DataMissing, "was not found"),
        ("exact-1nn-counts", "clusters-100", jobs.UnsuitedData, "exact-1nn-counts takes sparse keys"),
    ],
)
def test_impossible_job_names_the_reason(baseline, name, error, why):
    with pytest.raises(error, match=why):
        jobs.batch(find_baseline(baseline), Source(name), {})
