"""One baseline, one data set, one process: whatever happens there, the lab gets an answer."""

import json
import os
import subprocess
import sys

import pytest

from lab import baselines, jobs
from lab.process import ChildError, SharedArrays, call, child_environment, measure
from tests.lab import tiny
from tests.lab.own_baselines import NearestMean

OWN = "tests.lab.own_baselines"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return tiny.write_vw(tmp_path_factory.mktemp("vw"), tiny.sparse_classes())


def plain(found: dict) -> dict:
    """What came back survives JSON as it is."""
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


def test_a_batch_is_measured(dataset):
    found = plain(measure("exact-1nn", dataset, seed=1, options={"voters": 3}))
    assert found["status"] == "ok"
    assert (found["peer"], found["dataset"], found["seed"], found["job"]) == ("exact-1nn", dataset, 1, "batch")
    assert found["options"] == {"voters": 3}
    assert found["versions"]["memorytree"]
    assert found["error"] < 0.2
    assert 1.5 < found["entropy_reduction"] < 2.5  # five classes: at most about log2(5)
    assert found["query_us"] > 0
    assert found["call_us"] > 0
    assert found["fit_s"] >= 0
    assert 0 < found["bytes"] < found["peak_bytes"]


def test_a_baseline_of_ones_own_is_measured():
    found = plain(measure(f"{OWN}:NearestMean", "clusters-500"))
    assert (found["status"], found["rows"]) == ("ok", 500)
    assert found["error"] < 0.05


def test_a_baseline_of_ones_own_may_be_given_a_name(monkeypatch):
    monkeypatch.setitem(baselines.BASELINES, NearestMean.name, NearestMean)
    found = plain(measure("nearest-mean", "clusters-500"))
    assert (found["status"], found["peer"]) == ("ok", "nearest-mean")
    assert found["error"] < 0.05


def test_a_baseline_that_no_other_process_could_import_is_refused(monkeypatch):
    class Local(NearestMean):
        name = "local"

    monkeypatch.setitem(baselines.BASELINES, "local", Local)
    found = plain(measure("local", "clusters-500"))
    assert found["status"] == "failed"
    assert "a baseline of your own is a class of a module" in found["why"]


def test_a_pass_is_followed_row_by_row(dataset):
    found = plain(measure("exact-1nn", dataset, job="online"))
    assert found["status"] == "ok"
    seen = [rows for rows, _, _ in found["curve"]]
    assert seen == sorted(set(seen))
    assert (seen[0], seen[-1]) == (1, 300)
    assert 15 <= len(seen) <= jobs.POINTS
    assert found["curve"][0][1:] == [1.0, None]  # before the first lesson nothing is right
    assert found["curve"][-1][1:] == [found["error"], found["entropy_reduction"]]
    assert found["error"] < 0.2


def test_only_those_that_learn_row_by_row_are_followed(dataset):
    found = plain(measure("kd-tree", dataset, job="online"))
    assert found["status"] == "failed"
    assert "only baselines that learn row by row" in found["why"]


def test_a_job_of_ones_own_is_run(dataset):
    found = plain(measure("kd-tree", dataset, job=f"{OWN}:count_rows", seed=2, options={"voters": 1}))
    assert found["status"] == "ok"
    assert (found["rows_of"], found["name"], found["seed_was"]) == (300, "kd-tree", 2)
    assert found["options_were"] == {"voters": 1}
    assert "half" not in found  # what was noted on the way is not the result


def test_a_baseline_that_is_not_installed_is_missing(dataset):
    found = plain(measure(f"{OWN}:Needy", dataset))
    assert (found["status"], found["needs"]) == ("missing", ["a_module_that_nobody_has"])
    assert found["versions"]["a_module_that_nobody_has"] == "not installed"


def test_a_baseline_that_never_ends_is_stopped(dataset):
    found = plain(measure(f"{OWN}:Hog", dataset, cpu_limit=4))
    assert (found["status"], found["cpu_s"]) == ("stopped", 4)


def test_a_baseline_that_raises_has_failed(dataset):
    found = plain(measure(f"{OWN}:Raiser", dataset))
    assert found["status"] == "failed"
    assert found["why"].endswith("RuntimeError: the dog ate my weights")
    assert "own_baselines.py:" in found["why"], "where it went wrong"
    assert os.sep not in found["why"], "results are published: they do not tell where files lie on this machine"


def test_a_baseline_that_crashes_has_failed(dataset):
    found = plain(measure(f"{OWN}:Crasher", dataset))
    assert found["status"] == "failed"
    assert "SIGSEGV" in found["why"]


def test_what_was_noted_before_a_failure_is_kept(dataset):
    found = plain(measure("kd-tree", dataset, job=f"{OWN}:give_up_halfway"))
    assert (found["status"], found["first"], found["second"]) == ("failed", 1, 2)
    assert "no third" in found["why"]


@pytest.mark.parametrize(
    ("peer", "dataset", "why"),
    [
        ("hnsw", "clusters-100", "no baseline 'hnsw'"),
        ("no.such.module:Baseline", "clusters-100", "No module named 'no'"),
        ("exact-1nn", "clusters-x", "no data set 'clusters-x'"),
        ("exact-1nn", "vw:nowhere/at/all", "was not found"),
        ("exact-1nn-counts", "clusters-100", "exact-1nn-counts takes sparse keys"),
    ],
)
def test_what_cannot_be_run_says_why(baseline, dataset, why):
    found = plain(measure(baseline, dataset))
    assert found["status"] == "failed"
    assert why in found["why"]


def test_a_function_is_called_in_a_process_of_its_own():
    assert call(f"{OWN}:double", {"number": 21}) == {"doubled": 42}
    with pytest.raises(ChildError, match="has no attribute 'triple'"):
        call(f"{OWN}:triple", {})


def test_arrays_travel(rng):
    data = tiny.sparse_classes(20, 5)
    with SharedArrays(keys=data.train, truth=data.truth) as folder:
        assert (read(folder, "keys") != data.train).nnz == 0
        assert read(folder, "truth").tolist() == data.truth.tolist()


def test_a_child_ends_with_its_parent_even_if_that_is_killed(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    code = f"from lab.process import call; call('{OWN}:linger', {{'pipe': {str(tmp_path / 'pipe')!r}}})"
    parent = subprocess.Popen([sys.executable, "-c", code], env=child_environment(TMPDIR=str(tmp_path)))
    with (tmp_path / "pipe").open() as said:
        assert said.readline() == "here\n"
        parent.kill()
        parent.wait()
        assert said.read() == ""  # the pipe ends when the child does
