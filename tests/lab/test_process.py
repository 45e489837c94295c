"""Measurements in child processes: every outcome is reported as a status."""

import json
import os
import subprocess
import sys

import pytest

from lab import baselines, jobs
from lab.datasets import Source
from lab.process import ChildError, SharedArrays, call, child_environment, measure, read_arrays
from tests.lab import small_datasets
from tests.lab.custom_baselines import NearestMean

CUSTOM = "tests.lab.custom_baselines"


@pytest.fixture(scope="module")
def dataset(tmp_path_factory):
    return small_datasets.write_vw(tmp_path_factory.mktemp("vw"), small_datasets.sparse_classes())


def plain(found: dict) -> dict:
    """Check that the result is plain JSON data."""
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


@pytest.mark.slow
def test_batch_job(dataset):
    found = plain(measure("exact-1nn", Source(dataset, seed=1), options={"voters": 3}))
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


@pytest.mark.slow
def test_online_job(dataset):
    found = plain(measure("exact-1nn", dataset, job="online"))
    assert found["status"] == "ok"
    rows = [rows for rows, _, _ in found["curve"]]
    assert rows == sorted(set(rows))
    assert (rows[0], rows[-1]) == (1, 300)
    assert 15 <= len(rows) <= jobs.CURVE_POINTS
    assert found["curve"][0][1:] == [1.0, None]  # the first row counts as wrong
    assert found["curve"][-1][1:] == [found["error"], found["entropy_reduction"]]
    assert found["error"] < 0.2


def test_custom_baseline(monkeypatch):
    monkeypatch.setitem(baselines.BASELINES, NearestMean.name, NearestMean)
    for name in (f"{CUSTOM}:NearestMean", "nearest-mean"):
        found = plain(measure(name, "clusters-500"))
        assert (found["status"], found["peer"], found["rows"]) == ("ok", name, 500)


def test_local_class_is_refused(monkeypatch):
    class Local(NearestMean):
        name = "local"

    monkeypatch.setitem(baselines.BASELINES, "local", Local)
    found = plain(measure("local", "clusters-500"))
    assert found["status"] == "failed"
    assert "a baseline of your own must be a class of a module" in found["why"]


def test_custom_job(dataset):
    found = plain(measure("kd-tree", Source(dataset, seed=2), job=f"{CUSTOM}:count_rows", options={"voters": 1}))
    assert found["status"] == "ok"
    assert (found["rows_of"], found["name"], found["seed_was"]) == (300, "kd-tree", 2)
    assert found["options_were"] == {"voters": 1}
    assert "half" not in found  # partial results are replaced by the result


def test_missing_package_is_reported(dataset):
    found = plain(measure(f"{CUSTOM}:MissingPackage", dataset))
    assert (found["status"], found["needs"]) == ("missing", ["a_module_that_does_not_exist"])
    assert found["versions"]["a_module_that_does_not_exist"] == "not installed"


def test_cpu_limit_stops_the_child(dataset):
    found = plain(measure(f"{CUSTOM}:Endless", dataset, cpu_limit=4))
    assert (found["status"], found["cpu_s"]) == ("stopped", 4)


def test_error_is_reported_without_paths(dataset):
    found = plain(measure(f"{CUSTOM}:Raising", dataset))
    assert found["status"] == "failed"
    assert found["why"].endswith("RuntimeError: no weights")
    assert "custom_baselines.py:" in found["why"]
    assert os.sep not in found["why"]


def test_crash_is_reported(dataset):
    found = plain(measure(f"{CUSTOM}:Crashing", dataset))
    assert found["status"] == "failed"
    assert "SIGSEGV" in found["why"]


def test_partial_result_survives_a_failure(dataset):
    found = plain(measure("kd-tree", dataset, job=f"{CUSTOM}:fail_halfway"))
    assert (found["status"], found["first"], found["second"]) == ("failed", 1, 2)
    assert "no third" in found["why"]


@pytest.mark.parametrize(
    ("baseline", "name", "job", "why"),
    [
        ("hnsw", "clusters-100", "batch", "no baseline 'hnsw'"),
        ("no.such.module:Own", "clusters-100", "batch", "No module named 'no'"),
        ("exact-1nn", "clusters-x", "batch", "no data set 'clusters-x'"),
        ("exact-1nn", "vw:nowhere/at/all", "batch", "was not found"),
        ("exact-1nn-counts", "clusters-100", "batch", "exact-1nn-counts takes sparse keys"),
        ("kd-tree", "clusters-100", "online", "only incremental baselines run online"),
    ],
)
def test_impossible_measurement_is_reported(baseline, name, job, why):
    found = plain(measure(baseline, name, job=job))
    assert found["status"] == "failed"
    assert why in found["why"]


def test_call_returns_the_result_of_the_child():
    assert call(f"{CUSTOM}:double", {"number": 21}) == {"doubled": 42}
    with pytest.raises(ChildError, match="has no attribute 'triple'"):
        call(f"{CUSTOM}:triple", {})


def test_arrays_are_passed_unchanged():
    data = small_datasets.sparse_classes(20, 5)
    with SharedArrays(keys=data.train, truth=data.truth) as folder:
        keys, truth = read_arrays(folder, "keys", "truth")
    assert (keys != data.train).nnz == 0
    assert truth.tolist() == data.truth.tolist()


def test_child_ends_with_its_killed_parent(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    code = f"from lab.process import call; call('{CUSTOM}:wait_for_the_end', {{'pipe': {str(tmp_path / 'pipe')!r}}})"
    parent = subprocess.Popen([sys.executable, "-c", code], env=child_environment(TMPDIR=str(tmp_path)))
    with (tmp_path / "pipe").open() as pipe:
        assert pipe.readline() == "started\n"
        parent.kill()
        parent.wait()
        assert pipe.read() == ""  # the pipe ends when the child does
