"""The examples and options in docs/lab.md."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from lab.command import parser
from lab.process import child_environment

PAGE = (Path(__file__).parents[2] / "docs" / "lab.md").read_text(encoding="utf8")


@pytest.mark.slow
def test_custom_baseline_example_runs(tmp_path):
    file, output = re.search(r"^```python\n(.*?)^```.*?^\$ .*python nearest_mean.py\n(.*?)^```", PAGE, re.M | re.S).groups()
    assert len(file.splitlines()) <= 30
    (tmp_path / "nearest_mean.py").write_text(file, encoding="utf8")
    command = [sys.executable, str(tmp_path / "nearest_mean.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=child_environment(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    for line, written in zip(done.stdout.splitlines(), output.splitlines(), strict=True):
        *words, error = line.split()
        *expected, about = written.split()
        assert words == expected
        assert abs(float(error) - float(about)) < 0.01  # sums differ between processors


def help_of(capsys, *command):
    """The help text of the lab or of one of its commands."""
    with pytest.raises(SystemExit):
        parser().parse_args([*command, "--help"])
    return capsys.readouterr().out


def test_named_commands_and_options_exist(capsys):
    commands = re.findall(r"^ {4}(\w+) ", help_of(capsys), re.M)
    assert set(re.findall(r"^\$ \./mt lab (\w+)", PAGE, re.M)) == set(commands)
    for name in ("run", "all"):
        known = set(re.findall(r"--[a-z][a-z-]+", help_of(capsys, name)))
        assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) <= known
