import pytest

pytest.importorskip("memorytree.lab.command", reason="the lab is not there")


def test_its_commands_are_mounted(run):
    shown = run("lab", "--help").out
    for command in ("list", "run", "all", "report"):
        assert command in shown
        assert run("lab", command, "--help").out


def test_lists_the_experiments(run):
    assert "growth" in run("lab", "list").out


def test_an_unknown_experiment_is_wrong_usage(run):
    assert "nonsense" in run("lab", "run", "nonsense", code=2).err
