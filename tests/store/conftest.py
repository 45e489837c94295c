"""A store for a test."""

import pytest

import memorytree


@pytest.fixture
def store(tmp_path):
    with memorytree.open(tmp_path / "store", seed=0, durability="normal") as store:
        yield store


def reopened(store):
    """The store, closed and opened again."""
    store.close()
    return memorytree.open(store.path, durability="normal")
