"""Measurements in child processes: every outcome is reported as a status."""

import json
import os
import subprocess
import sys

import pytest

from lab import baselines, process
from lab.datasets import Source
from lab.process import ChildError, SharedArrays, call, child_environment, measure, read_arrays
from tests.lab import small_datasets
from tests.lab.custom_baselines import NearestMean

CUSTOM, FUNCTIONS = "tests.lab.custom_baselines", "tests.lab.child_functions"


def plain(found: dict) -> dict:
    """Check that the result is plain JSON data."""
    assert json.loads(json.dumps(found, allow_nan=False)) == found
    return found


# ---- call


def test_call_returns_the_result_of_the_child():
    assert call(f"{FUNCTIONS}:double", {"number": 21}) == {"doubled": 42}


def test_error_has_partial_result_and_no_paths():
    with pytest.raises(ChildError, match="ValueError: no third") as raised:
        call(f"{FUNCTIONS}:fail_halfway", {})
    assert raised.value.partial == {"first": 1, "second": 2}
    assert not raised.value.stopped
    assert "child_functions.py:" in str(raised.value)
    assert os.sep not in str(raised.value)


def test_crash_names_the_signal():
    with pytest.raises(ChildError, match="SIGSEGV"):
        call(f"{FUNCTIONS}:crash", {})


def test_cpu_limit_stops_the_child():
    with pytest.raises(ChildError) as raised:
        call(f"{FUNCTIONS}:never_return", {}, cpu_limit=3)
    assert raised.value.stopped
    assert raised.value.partial == {"rounds": 0}


def test_child_ends_with_its_killed_parent(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    code = f"from lab.process import call; call('{FUNCTIONS}:wait_for_the_end', {{'pipe': {str(tmp_path / 'pipe')!r}}})"
    parent = subprocess.Popen([sys.executable, "-c", code], env=child_environment(TMPDIR=str(tmp_path)))
    with (tmp_path / "pipe").open() as pipe:
        assert pipe.readline() == "started\n"
        parent.kill()
        parent.wait()
        assert pipe.read() == ""  # the pipe ends when the child does


def test_arrays_are_passed_unchanged():
    data = small_datasets.sparse_classes(20, 5)
    with SharedArrays(keys=data.train, truth=data.truth) as folder:
        keys, truth = read_arrays(folder, "keys", "truth")
    assert (keys != data.train).nnz == 0
    assert truth.tolist() == data.truth.tolist()


# ---- measure


@pytest.mark.slow
def test_custom_baseline_runs_in_a_child(monkeypatch):
    monkeypatch.setitem(baselines.BASELINES, NearestMean.name, NearestMean)
    found = plain(measure("nearest-mean", Source("clusters-500", seed=1)))
    assert found["status"] == "ok"
    assert (found["peer"], found["dataset"], found["seed"], found["job"]) == ("nearest-mean", "clusters-500", 1, "batch")
    assert found["versions"]["memorytree"]
    assert found["rows"] == 500


@pytest.mark.slow
def test_custom_job_runs_in_a_child():
    found = plain(measure("kd-tree", Source("clusters-300", seed=2), job=f"{CUSTOM}:count_rows", options={"voters": 1}))
    assert found["status"] == "ok"
    assert (found["rows_of"], found["name"], found["seed_was"]) == (300, "kd-tree", 2)
    assert found["options_were"] == found["options"] == {"voters": 1}
    assert "half" not in found  # partial results are replaced by the result


@pytest.mark.parametrize(("stopped", "status"), [(True, "stopped"), (False, "failed")])
def test_child_error_becomes_a_status(monkeypatch, stopped, status):
    def failing_call(function, spec, cpu_limit):
        raise ChildError("no result", {"rows": 7}, stopped)

    monkeypatch.setattr(process, "call", failing_call)
    found = plain(measure("exact-1nn", "clusters-100", cpu_limit=5))
    assert (found["status"], found["rows"]) == (status, 7)
    assert found.get("cpu_s") == (5 if stopped else None)
    assert found.get("why") == (None if stopped else "no result")


def test_missing_package_is_reported():
    found = plain(measure(f"{CUSTOM}:MissingPackage", "clusters-100"))
    assert (found["status"], found["needs"]) == ("missing", ["a_module_that_does_not_exist"])
    assert found["versions"]["a_module_that_does_not_exist"] == "not installed"


def test_local_class_is_refused(monkeypatch):
    class Local(NearestMean):
        name = "local"

    monkeypatch.setitem(baselines.BASELINES, "local", Local)
    found = plain(measure("local", "clusters-500"))
    assert found["status"] == "failed"
    assert "a baseline of your own must be a class of a module" in found["why"]


@pytest.mark.parametrize(
    ("baseline", "why"), [("hnsw", "no baseline 'hnsw'"), ("no.such.module:Own", "No module named 'no'")]
)
def test_unknown_baseline_is_reported(baseline, why):
    found = plain(measure(baseline, "clusters-100"))
    assert found["status"] == "failed"
    assert why in found["why"]
