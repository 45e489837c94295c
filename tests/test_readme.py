"""The Python examples in README and docs run, and print what their comments say."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [
    pytest.param(example, id=f"{page.name}-{number}")
    for page in PAGES
    for number, example in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf8"), re.M | re.S), 1)
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_runs_and_prints_what_it_says(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "example", "exec"), {})
    printed = capsys.readouterr().out
    # A comment behind a print shows the output up to the first dots; "first ... last" shows both ends.
    for shown in re.findall(r"print\(.*?\)  # (\d\.\d+) wrong at first, (\d\.\d+) in the end", example):
        assert (printed.split()[0], printed.split()[-1]) == shown
    for shown in re.findall(r"print\(.*?\)  # (.*?)\.\.\.", example):
        assert printed.startswith(shown)
