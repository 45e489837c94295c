"""Names that the doctests of several files begin with."""

import pytest


@pytest.fixture(autouse=True)
def example_store(request, tmp_path):
    """The examples of the methods of `MemoryStore` have a small store named `store`."""
    classes = ("store.MemoryStore.", "learning.StoreLearner.", "reader.StoreReader.")
    if request.node.name.startswith(tuple(f"memorytree.store.{name}" for name in classes)):
        from memorytree.store import MemoryStore

        namespace = request.getfixturevalue("doctest_namespace")
        with MemoryStore(tmp_path / "store", seed=0, durability="normal") as store:
            store.insert([1.0, 0.0], "east", metadata={"kind": "fact"})
            store.insert([0.0, 1.0], "north", metadata={"kind": "task"})
            namespace["store"] = store
            yield
    else:
        yield
