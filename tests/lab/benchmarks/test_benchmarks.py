"""The command line of the benchmarks, and their reports."""

import importlib
import json

import numpy as np
import pytest
from rich.console import Console

from lab.benchmarks.__main__ import BENCHMARKS, main
from lab.benchmarks.report import Job, Report, print_report, write_report
from lab.tables import Table
from lab.tree_driver import class_error, filled_tree, nearest_ids, own_key_error_of


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmark_has_run_and_documentation(name):
    module = importlib.import_module(f"lab.benchmarks.{name}")
    assert callable(module.run)
    assert module.__doc__


def test_help_lists_every_benchmark(capsys):
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = capsys.readouterr().out
    assert all(name in shown for name in BENCHMARKS)


def test_unknown_benchmark_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["speed"])
    assert "no benchmark speed; there are vw, " in capsys.readouterr().err


def test_missing_data_skips_a_benchmark(tmp_path, capsys):
    assert main(["rewards", "--quick", "--data", str(tmp_path)]) == 1
    assert "rewards: skipped. " in capsys.readouterr().out


def test_report_is_written(tmp_path):
    report = Report("A title", "About it.")
    report.at_least("speed", 2, 3.0, "x")
    report.at_most("error", 0.5, 0.75)
    report.at_most("time", 1, None, "s")
    table = Table("Systems", ["system", "error"])
    table.add("ours", 0.75)
    report.tables.append(table)
    job = Job(quick=True, data=None, seed=0, step=lambda what, steps=None: None)
    write_report(report, "trial", tmp_path, job)
    document = json.loads((tmp_path / "trial.json").read_text())
    assert [target["verdict"] for target in document["targets"]] == ["reached", "not reached", "not measured"]
    assert document["targets"][0]["wanted"] == "at least 2x"
    assert Table.from_json(document["tables"][0]).rows == table.rows
    assert "| speed | at least 2x | 3x | reached |" in (tmp_path / "trial.md").read_text()
    print_report(report, Console(file=(tmp_path / "log").open("w")))


def test_tree_driver_finds_its_own_keys(rng):
    keys = rng.normal(size=(50, 4)).astype(np.float32)
    tree = filled_tree(keys, seed=0)
    found = nearest_ids(tree, keys)[:, 0]
    assert found.tolist() == list(range(50))
    assert own_key_error_of(tree, keys) == 0
    assert class_error(found, np.zeros(50), np.r_[np.ones(10), np.zeros(40)]) == 0.2
