import sys

import pytest


def test_its_figures_are_json_and_its_show_goes_elsewhere(run):
    pytest.importorskip("threadpoolctl")
    told = run("demo", "--quick", "--rows", 200, "--no-picture", "--json")
    systems = told.json["systems"]
    assert set(systems) == {"memorytree", "exact nearest neighbour", "constant"}
    assert 0 <= systems["memorytree"]["error"] < systems["constant"]["error"] <= 1
    assert systems["constant"]["entropy_reduction"] == 0
    assert told.json["rows"] == 200
    assert "learning" in told.err


def test_a_picture_that_cannot_be_saved_is_said_before_the_work(run):
    pytest.importorskip("matplotlib")
    assert "no folder" in run("demo", "--out", "no/folder/demo.png", code=2).err


def test_what_is_not_installed_is_named_with_its_extra(run, monkeypatch):
    for module in [name for name in sys.modules if name.startswith("examples.demo")]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    assert run("demo", code=2).err == 'memorytree: threadpoolctl is not installed: pip install "memorytree[demo]"\n'
