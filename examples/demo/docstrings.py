"""Texts that are present on every machine: docstrings of NumPy, SciPy, scikit-learn and the standard library.

Sources are parsed, not imported, which is fast and has no side effects. Documentation of compiled functions (built-ins,
NumPy's ufuncs) is read from modules that are loaded anyway.
"""

from __future__ import annotations

import ast
import builtins
import gc
import importlib.util
import inspect
import itertools
import math
import os
import re
import sysconfig
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import numpy as np

STANDARD = "the standard library"
PACKAGES = ("numpy", "scipy", "sklearn", STANDARD)

BLANK = "___"
"""Replaces the name of the function that a paragraph documents."""

FEWEST_WORDS = 8
OPENING = 6
"""Paragraphs of different functions that begin with the same words, this many, are copies and are omitted."""

_SKIPPED_FOLDERS = {
    "__pycache__", "_lib", "_vendor", "dist-packages", "distutils", "encodings", "ensurepip", "externals", "idlelib",
    "lib2to3", "pydoc_data", "site-packages", "test", "tests", "tkinter", "turtledemo",
}  # fmt: skip
_SKIPPED_SECTIONS = {"see also", "references", "methods"}
_NUMPY = frozenset(dir(np))
_UNDERLINE = re.compile(r"[-=~^]{3,}")
_WORD = re.compile(r"[a-z]{2,}")


class Paragraph(NamedTuple):
    """A text and the function or class that it documents; a class includes its methods."""

    owner: str
    text: str


def words(text: str) -> list[str]:
    """Return the words of a text in lower case, without digits and punctuation."""
    return _WORD.findall(text.lower())


def collect(packages: Iterable[str] = PACKAGES) -> list[Paragraph]:
    """Return all usable paragraphs with names blanked out, in an order that depends only on the installed packages."""
    found = list(_compiled())
    with _no_garbage_collection():
        for package in packages:
            for path, module in module_sources(package):
                found += _documented(path, module)
    return [Paragraph(".".join(names[:2]), text) for names, doc in found for text in paragraphs(doc, names[1:])]


def paragraphs(docstring: str, names: Iterable[str] = ()) -> Iterator[str]:
    """Yield the paragraphs of prose in a docstring, with a blank in place of `names`.

    >>> docstring = "Too short.\\n\\nNotes\\n-----\\nUse sort_stable where the order of equal items has to stay."
    >>> list(paragraphs(docstring, names=["sort"]))
    ['Use ____stable where the order of equal items has to stay.']
    """
    section = ""
    for block in re.split(r"\n\s*\n", docstring):
        lines = [line.strip() for line in block.strip().splitlines()]
        if len(lines) > 1 and _UNDERLINE.fullmatch(lines[1]):
            section = lines[0].lower()
            lines = lines[2:]
        if section in _SKIPPED_SECTIONS or any(line.startswith((">>>", "..")) for line in lines):
            continue
        text = _blank_out(names, " ".join(" ".join(lines).split()))
        if len(words(text)) >= FEWEST_WORDS and not text.startswith(BLANK + "("):
            yield text


def _blank_out(names: Iterable[str], text: str) -> str:
    """Return the text with these names blanked out, also within longer names (kmeans in kmeans_plusplus)."""
    for name in names:
        if name.lower() in text.lower():
            text = re.sub(rf"(?<![^\W_]){re.escape(name)}(?![^\W_])", BLANK, text, flags=re.IGNORECASE)
    return text


def choose_task(found: list[Paragraph], rows: int, rng: np.random.Generator) -> tuple[list[Paragraph], list[str]]:
    """Return a stream of at most `rows` paragraphs in random order, and the texts that are not in it.

    Whole functions are drawn, so each function in the stream has at least two paragraphs.
    """
    owners = defaultdict(set)
    for owner, text in found:
        owners[_opening(text)].add(owner)
    distinct = list(dict.fromkeys(p for p in found if len(owners[_opening(p.text)]) == 1))
    of_owner = defaultdict(list)
    for paragraph in distinct:
        of_owner[paragraph.owner].append(paragraph)
    stream: list[Paragraph] = []
    for owner in rng.permutation(sorted(of_owner)).tolist():
        if 1 < len(of_owner[owner]) <= rows - len(stream):
            stream += of_owner[owner]
    chosen = set(stream)
    rest = sorted({p.text for p in found if p not in chosen})
    return [stream[i] for i in rng.permutation(len(stream))], rest


def _opening(text: str) -> tuple[str, ...]:
    return tuple(words(text)[:OPENING])


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Disable the garbage collector: syntax trees have no cycles, and the search for cycles takes a quarter of the time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def module_sources(package: str) -> Iterator[tuple[Path, str]]:
    """Yield the source files of a package and the public names of their modules."""
    prefix: list[str] = []
    root = Path(sysconfig.get_path("stdlib"))
    if package != STANDARD:
        spec = importlib.util.find_spec(package)
        if spec is None or not spec.submodule_search_locations:
            return
        prefix, root = [package], Path(spec.submodule_search_locations[0])
    for folder, below, files in os.walk(root):
        below[:] = sorted(set(below) - _SKIPPED_FOLDERS)
        for name in sorted(files):
            path = Path(folder, name)
            parts = [*prefix, *path.relative_to(root).with_suffix("").parts]
            module = ".".join(part for part in parts if not part.startswith("_"))
            if path.suffix == ".py" and module:
                yield path, module


def _documented(path: Path, module: str) -> list[tuple[tuple[str, ...], str]]:
    """Return the docstrings of a file: ((module, class or function, method ...), docstring)."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return []
    return list(_in_body(tree.body, (module,)))


def _in_body(body: list[ast.stmt], outer: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    for node in body:
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                if name.startswith("_"):
                    continue
                names = (*outer, name) if len(outer) > 1 else (_module_of(outer[0], name), name)
                if docstring := ast.get_docstring(node):
                    yield names, docstring
                if isinstance(node, ast.ClassDef):
                    yield from _in_body(node.body, names)
            # NumPy and SciPy document compiled functions with add_newdoc.
            case ast.Expr(value=ast.Call(func=ast.Name(id="add_newdoc"), args=args)):
                match args[-2:]:
                    case [ast.Constant(value=str(name)), ast.Constant(value=str(docstring))]:
                        yield (_module_of(outer[0], name), name), inspect.cleandoc(docstring)


def _module_of(module: str, name: str) -> str:
    """Return the module from which users import a name: numpy.cross, not numpy.numeric.cross."""
    package, _, below = module.partition(".")
    if package == "numpy" and name in _NUMPY and (below.startswith("lib") or below.split(".")[0] not in _NUMPY):
        return package
    return module.removesuffix("." + name)


def _compiled() -> Iterator[tuple[tuple[str, ...], str]]:
    for module in (builtins, itertools, math, np):
        for name, item in sorted(vars(module).items()):
            if name.startswith("_") or (module is np and not isinstance(item, np.ufunc)) or not callable(item):
                continue
            if isinstance(docstring := item.__doc__, str):
                yield (module.__name__, name), inspect.cleandoc(docstring)
