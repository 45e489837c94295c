"""The README's examples do what they say."""

import re
from pathlib import Path

import pytest

TEXT = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf8")
EXAMPLES = re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_example(number, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(EXAMPLES[number], f"README example {number}", "exec"), {})
    printed = capsys.readouterr().out
    # A comment behind a print tells what it prints, as far as the first dots; "first ... last" tells both ends.
    for told in re.findall(r"print\(.*?\)  # (\d\.\d+) wrong at first, (\d\.\d+) in the end", EXAMPLES[number]):
        assert (printed.split()[0], printed.split()[-1]) == told
    for told in re.findall(r"print\(.*?\)  # (.*?)\.\.\.", EXAMPLES[number]):
        assert printed.startswith(told)
