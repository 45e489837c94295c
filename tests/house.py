"""Counts of what makes code hard to read and to change, each with a ceiling. `./mt lint` runs it.

    python -m tests.house          # the counts, and where a ceiling is exceeded
    python -m tests.house --list   # all places that are counted

Other rules are checked by ruff, mypy and import-linter (pyproject.toml).
"""

import ast
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "memorytree"
CODE = ("src", "lab", "examples", "tests", "conftest.py")
TEXTS = (*CODE, "docs", "README.md", "ARCHITECTURE.md", "CHANGELOG.md", "mt", "pyproject.toml")
UNCHECKED = (Path(__file__), PACKAGE / "lab", PACKAGE / "demo")  # this file names the words; there must be no such folders

LONG_FILE, LONG_FUNCTION, MANY_PLACES = 400, 50, 20

CEILINGS = {
    "checks of an index class outside index/": 0,
    "checks of an option class outside index/ and config.py": 0,
    "arguments and results of type Any": 20,
    f"functions of more than {LONG_FUNCTION} lines": 6,
    f"files of more than {LONG_FILE} lines": 1,  # MemoryTree: one class, documented method by method
    "type: ignore": 8,
    "noqa": 8,
    "type: ignore or noqa without a reason on its line": 0,
    "words that the style guide rules out": 0,
    "former names": 0,
    "folders of the lab or the demo in the package": 0,
}

# Words that personify code or need a second reading; say what happens and why instead.
STYLE_WORDS = (
    "nobody|somebody|everybody|whoever|whom|in vain|in mind|to mind|given up|gives? up|lets? go|takes? up with|gives? way|"
    "know each other|knows nobody|speaks?|(?:is|are|was|were) told|have come and gone|as (?:it|he) likes|no say|"
    "beyond doubt|starves?|own affair|voice of|was good for|by heart|today's eyes|former eyes|comes? by itself"
)
# Names of earlier versions that have a successor and no other meaning.
FORMER_NAMES = (
    "AnyCore|Grove|LearnedCore|TermsCore|ValuedCore|ScoredCore|TermSpaceCore|LinearCore|CoreAround|Writable|MemoryForest|"
    "Remembering|ClassModel|SparseClassModel|LabelModel|SetsById|_Salvage|Repaired|"
    "receipt_id|text_keys|lore|badness|dissimilarity|regrow|keep_in_mind|look_around|take_up|uptake|write_down|"
    "in_the_way|lift_random|keys_apart|close_gaps|meet_neighbours|leave_neighbours|one_against_some\\.settle|"
    "update_many|import_memories|_core|PATIENCE|STRETCH|NOBODY"
)
STYLE = re.compile(rf"(?<![\w-])(?:{STYLE_WORDS})(?![\w-])", re.IGNORECASE)
FORMER = re.compile(rf"(?<!\w)(?:{FORMER_NAMES})(?!\w)")
# A suppression is followed by the rules it is for, and then by a reason.
SUPPRESSION = re.compile(r"#\s*(type: ignore|noqa)(?:\[[\w, -]+\]|: [A-Z]+\d+(?:, ?[A-Z]+\d+)*)?(.*)")

INDEX_CLASS = re.compile(r"(Index|Reranker)$")
OPTION_CLASS = re.compile(r"(Routing|Scorer)$|^(TermLists|Projection|ValueModel)$")
FAMILIES = ("CustomScorer", "Routing", "Scorer")  # types of arguments, not one variant


def files(*tops: str) -> Iterator[Path]:
    """All text files below folders, or the files themselves."""
    for top in tops:
        path = ROOT / top
        for file in [path] if path.is_file() else sorted(path.rglob("*")):
            if file.suffix in (".py", ".md", ".toml", ".c", "") and file.is_file() and file not in UNCHECKED:
                yield file


def names_in(node: ast.AST) -> set[str]:
    """The last parts of all names in an expression."""
    if isinstance(node, ast.Attribute):
        return {node.attr}
    if isinstance(node, ast.Name):
        return {node.id}
    return {name for child in ast.iter_child_nodes(node) for name in names_in(child)}


def annotations(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.expr]:
    """The annotations in a signature."""
    spec = function.args
    for argument in (*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg):
        if argument is not None and argument.annotation is not None:
            yield argument.annotation
    if function.returns is not None:
        yield function.returns


def is_any(annotation: ast.expr) -> bool:
    """Whether an annotation is Any itself, or a union with it."""
    if isinstance(annotation, ast.BinOp):
        return is_any(annotation.left) or is_any(annotation.right)
    return isinstance(annotation, ast.Name) and annotation.id == "Any"


def count_words(found: dict[str, list[str]]) -> None:
    """Count words and suppressions in every text."""
    code = set(files(*CODE))
    for file in files(*TEXTS):
        in_package = PACKAGE in file.parents
        for number, line in enumerate(file.read_text(encoding="utf8", errors="replace").splitlines(), 1):
            place = f"{file.relative_to(ROOT)}:{number}"
            for rule, pattern in (("words that the style guide rules out", STYLE), ("former names", FORMER)):
                if match := pattern.search(line):
                    found[rule].append(f"{place}: {match.group()}")
            if file in code and (match := SUPPRESSION.search(line)):
                if in_package:
                    found[match.group(1)].append(place)
                if not re.search(r"\w{2}", match.group(2)):
                    found["type: ignore or noqa without a reason on its line"].append(place)


def count_syntax(found: dict[str, list[str]]) -> None:
    """Count in the syntax trees of the package."""
    for file in files("src"):
        if file.suffix != ".py":
            continue
        room, text = file.relative_to(PACKAGE).parts[0], file.read_text(encoding="utf8")
        short = file.relative_to(ROOT)
        for node in ast.walk(ast.parse(text)):
            place = f"{short}:{getattr(node, 'lineno', 0)}"
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Name)
                and node.func.id in ("isinstance", "issubclass")
            ):
                asked = names_in(node.args[1])
                if room != "index" and any(map(INDEX_CLASS.search, asked)):
                    found["checks of an index class outside index/"].append(place)
                if room not in ("index", "config.py") and any(map(OPTION_CLASS.search, asked.difference(FAMILIES))):
                    found["checks of an option class outside index/ and config.py"].append(place)
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                if (node.end_lineno or node.lineno) - node.lineno >= LONG_FUNCTION:
                    found[f"functions of more than {LONG_FUNCTION} lines"].append(f"{place}: {node.name}")
                found["arguments and results of type Any"] += [place for each in annotations(node) if is_any(each)]


def count_sizes(found: dict[str, list[str]]) -> list[tuple[int, Path]]:
    """Count long files of the package; returns the lines of all code files, the longest first."""
    sizes = sorted(
        ((len(file.read_bytes().splitlines()), file) for file in files(*CODE) if file.suffix == ".py"), reverse=True
    )
    for size, file in sizes:
        if size > LONG_FILE and PACKAGE in file.parents and "reference" not in file.parts:
            found[f"files of more than {LONG_FILE} lines"].append(f"{file.relative_to(ROOT)}: {size}")
    for name in ("lab", "demo"):
        if (PACKAGE / name).exists():
            found["folders of the lab or the demo in the package"].append(name)
    return sizes


def main() -> int:
    """Print the counts; returns 1 if a ceiling is exceeded."""
    found: dict[str, list[str]] = defaultdict(list)
    count_words(found)
    count_syntax(found)
    sizes = count_sizes(found)
    longest = ", ".join(f"{file.relative_to(ROOT)} {size}" for size, file in sizes[:5])
    print(f"{len(sizes)} files, {sum(size for size, _ in sizes):,} lines; the longest: {longest}")
    exceeded = 0
    for rule, ceiling in CEILINGS.items():
        places = found[rule]
        is_over = len(places) > ceiling
        exceeded += is_over
        print(f"{'OVER' if is_over else 'ok':4} {len(places):4} of at most {ceiling:3}  {rule}")
        if is_over or "--list" in sys.argv:
            shown = places if "--list" in sys.argv else places[:MANY_PLACES]
            print("".join(f"          {place}\n" for place in shown), end="")
            print(f"          and {len(places) - len(shown)} more\n" if len(places) > len(shown) else "", end="")
    return int(exceeded > 0)


if __name__ == "__main__":
    sys.exit(main())
