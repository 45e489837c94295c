"""docs/lab.md does what it says."""

import re
import subprocess
import sys
from pathlib import Path

from typer.main import get_command

from lab.command import app
from lab.process import child_environment

PAGE = (Path(__file__).parents[2] / "docs" / "lab.md").read_text(encoding="utf8")


def test_the_baseline_of_ones_own_runs_as_written(tmp_path):
    file, told = re.search(r"^```python\n(.*?)^```.*?^\$ python nearest_mean.py\n(.*?)^```", PAGE, re.M | re.S).groups()
    assert len(file.splitlines()) <= 30
    (tmp_path / "nearest_mean.py").write_text(file, encoding="utf8")
    command = [sys.executable, str(tmp_path / "nearest_mean.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=child_environment(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-2000:]
    for line, written in zip(done.stdout.splitlines(), told.splitlines(), strict=True):
        *said, error = line.split()
        *expected, about = written.split()
        assert said == expected
        assert abs(float(error) - float(about)) < 0.01  # other processors add up in another order


def test_every_command_and_option_that_it_names_is_there():
    commands = get_command(app).commands
    assert set(re.findall(r"^\$ memorytree lab (\w+)", PAGE, re.M)) == set(commands)
    for name in ("run", "all"):
        known = {option for given in commands[name].params for option in (*given.opts, *given.secondary_opts)}
        assert set(re.findall(r"--[a-z][a-z-]+", PAGE)) <= known
