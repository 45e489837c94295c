"""Stores in today's format, kept in `golden/`, so that later versions must read them.

    python -m tests.store.golden [NAME ...]

`EXPECTED` says what they hold.
"""

import shutil
import sys
from pathlib import Path

import numpy as np

import memorytree
from memorytree import GraphRouting
from memorytree.store.schema import FORMAT
from tests.faults.damage import leave_without_closing

FOLDER = Path(__file__).parent / "golden"
NAMED = [{"tea": 1.0}, {"tea": 1.0, "sugar": 0.5}, {"coffee": 2.0}, {"coffee": 1.0, "milk": 1.0}]
EXPECTED = {
    "dense": {
        0: ("text", {"user": "u17", "kind": "fact"}),
        1: (b"bytes", {"added": "later"}),
        3: ({"list": [1, 2.5, None, True], "text": "äöü"}, {"user": None}),
        4: ("replaced", {"count": 3}),
        9: ((1, "tuple"), {"share": 0.5}),
        10: ("after the snapshot", {"changed": True}),
    },
    "named": {0: (0, {}), 1: (1, {}), 2: (2, {}), 3: (3, {})},
    "neighbours": {id: (id, {}) for id in range(40) if id != 7},
}


def make_dense(path: Path) -> None:
    """Some of everything, left as by a killed process: a snapshot, and a log with more events."""
    with memorytree.open(path, seed=1, app_settings={"made": "for tests"}) as store:
        store.insert([1.0, 0.0], "text", metadata={"user": "u17", "kind": "fact"}, label="a")
        store.insert([0.0, 1.0], b"bytes")
        store.insert([0.5, 0.5], np.arange(3))
        store.insert([2.0, 0.0], {"list": [1, 2.5, None, True], "text": "äöü"}, metadata={"user": None}, features=[1.0, 2.0])
        store.insert([0.0, 2.0], "first")
        store.insert([0.0, 2.5], "replaced", id=4, metadata={"count": 3})
        store.insert([2.0, 2.0], (1, "tuple"), id=9, metadata={"share": 0.5})
        store.update_metadata(1, {"added": "later"})
        store.reward(store.query([1.0, 0.1], k=2), [1.0, 0.25])
        store.remove(2)
    store = memorytree.open(path)
    store.insert([3.0, 3.0], "after the snapshot")
    store.update_metadata(10, {"changed": True})
    store.reward(store.query([3.0, 3.0]), [1.0])
    leave_without_closing(store)


def make_named(path: Path) -> None:
    """Named features in term lists, closed in order."""
    with memorytree.open(path, seed=1, scorer="cosine") as store:
        store.insert_many(NAMED, range(4))
        hits = store.query({"tea": 1.0, "milk": 1.0}, k=3)
        store.reward(hits, [0.0, 1.0, 0.0])


def make_neighbours(path: Path) -> None:
    """A graph of neighbours from which one memory was removed, closed in order."""
    with memorytree.open(path, seed=1, routing=GraphRouting(flat=0)) as store:
        store.insert_many(np.arange(40.0)[:, None] ** 2, range(40))
        store.remove(7)


MAKERS = {"dense": make_dense, "named": make_named, "neighbours": make_neighbours}


def main() -> None:
    """Write stores in today's format."""
    for name in sys.argv[1:] or MAKERS:
        target = FOLDER / f"format-{FORMAT}-{name}"
        shutil.rmtree(target, ignore_errors=True)
        MAKERS[name](target)
        (target / "owner.lock").unlink()


if __name__ == "__main__":
    main()
