"""README, ARCHITECTURE and the pages in docs: examples run, links and names lead somewhere, pages stay short."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "memorytree"
GUIDES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
INTERNALS = [ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs" / "internals").glob("*.md"))]
LINKED = [*GUIDES, *INTERNALS, ROOT / "examples" / "README.md", ROOT / "docs" / "results" / "README.md"]
EXAMPLES = [
    pytest.param(example, id=f"{page.name}-{number}")
    for page in GUIDES
    for number, example in enumerate(re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf8"), re.M | re.S), 1)
]


def page_id(page):
    """The name of a page."""
    return str(page.relative_to(ROOT))


@pytest.mark.parametrize("example", EXAMPLES)
def test_example_prints_what_it_says(example, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    exec(compile(example, "example", "exec"), {})
    printed, end = capsys.readouterr().out, 0
    # A comment behind print is its output; "..." stands for any text, also for the lines in between of a loop.
    for comment in re.findall(r"^ *print\(.*\)  # (.*)$", example, re.M):
        pattern = r"\s+".join(".*?".join(map(re.escape, word.split("..."))) for word in comment.split())
        found = re.compile(f"^{pattern}$", re.M | re.S).search(printed, end)
        assert found, f"{comment} is not printed: {printed[end:]}"
        end = found.end()


@pytest.mark.parametrize("page", LINKED, ids=page_id)
def test_links_lead_to_files(page):
    targets = re.findall(r"\]\((?!https?:)([^)#]+)[^)]*\)", page.read_text(encoding="utf8"))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", INTERNALS, ids=page_id)
def test_code_names_exist(page):
    """A name in backticks is a file or directory, or a word of the source or of the tests."""
    words = set()
    for folder in (PACKAGE, ROOT / "tests", ROOT / "lab"):
        for file in folder.rglob("*.py"):
            words.update(re.findall(r"\w+", file.read_text(encoding="utf8")))
    unknown = []
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf8"), flags=re.M | re.S)
    for quoted in re.findall(r"`([^`\n]+)`", text):
        if re.fullmatch(r"[\w/.-]+(\.py|/|\.md|\.toml)", quoted):
            known = any((top / quoted).exists() for top in (PACKAGE, ROOT))
        else:
            known = all(word in words for word in re.findall(r"[A-Za-z_]\w+", quoted)) or quoted.startswith("./mt ")
        if not known:
            unknown.append(quoted)
    assert unknown == []


def test_every_file_of_the_package_is_in_the_architecture():
    words = set(re.findall(r"\w+", (ROOT / "ARCHITECTURE.md").read_text(encoding="utf8")))
    files = [file for pattern in ("*.py", "*/*.py") for file in PACKAGE.glob(pattern) if not file.stem.startswith("__")]
    folders = [file.parent for file in PACKAGE.rglob("__init__.py")]
    assert sorted({path.stem for path in (*files, *folders)} - words) == []


@pytest.mark.parametrize(("page", "most"), [("README.md", 110), ("ARCHITECTURE.md", 150)])
def test_page_is_short(page, most):
    assert len((ROOT / page).read_text(encoding="utf8").splitlines()) <= most
