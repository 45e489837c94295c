"""The names that `import memorytree` offers, and the modules that it does not import before they are used."""

import subprocess
import sys

import pytest

import memorytree


def test_every_public_name_exists():
    assert set(memorytree.__all__) <= set(dir(memorytree))
    for name in memorytree.__all__:
        assert getattr(memorytree, name).__name__ == name


def test_every_listed_name_exists():
    for name in dir(memorytree):
        assert getattr(memorytree, name) is not None


def test_modules_are_attributes():
    assert memorytree.store.open is memorytree.open
    assert issubclass(memorytree.errors.UnknownId, memorytree.MemoryTreeError)
    assert callable(memorytree.checks.check_index)


@pytest.mark.parametrize("name", ["nonsense", "_private", "Memorytree"])
def test_other_names_raise_attribute_error(name):
    with pytest.raises(AttributeError, match=name):
        getattr(memorytree, name)


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import memorytree", {"numba", "numpy", "typer", "rich"}),
        ("import memorytree.cli", {"numba", "numpy", "matplotlib", "sklearn"}),
        ("from memorytree import MemoryTree, TextMemory", {"typer", "rich", "matplotlib", "sklearn"}),
    ],
)
def test_nothing_is_imported_before_it_is_needed(code, unwanted):
    check = f"{code}\nimport sys\nloaded = {unwanted!r} & set(sys.modules)\nassert not loaded, loaded"
    subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{check}"], check=True)
