"""What `import memorytree` offers, and what it does not load before it is asked for."""

import subprocess
import sys

import pytest

import memorytree


def test_every_public_name_is_there():
    assert set(memorytree.__all__) == set(memorytree._ROOM_OF) <= set(dir(memorytree))
    for name in memorytree.__all__:
        assert getattr(memorytree, name).__name__ == name


def test_rooms_can_be_entered_by_name():
    assert memorytree.store.open is memorytree.open
    assert issubclass(memorytree.errors.UnknownId, memorytree.MemoryTreeError)


@pytest.mark.parametrize("name", ["nonsense", "_private", "Memorytree"])
def test_what_is_not_there(name):
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
def test_nothing_is_loaded_before_it_is_needed(code, unwanted):
    check = f"{code}\nimport sys\nloaded = {unwanted!r} & set(sys.modules)\nassert not loaded, loaded"
    subprocess.run([sys.executable, "-c", f"import sys; sys.path[:0] = {sys.path!r}\n{check}"], check=True)
