"""Kill a process that writes to a store again and again, and check that nothing it acknowledged is lost.

    python -m tests.faults.crash 1000

A child process applies a stream of operations and acknowledges each on a pipe, until it is killed at a random moment. The
store must then equal a twin that was never killed, after the same operations: all that were acknowledged, and at most one
more. The next child continues from there.
"""

import argparse
import os
import random
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from memorytree import GraphRouting, TermLists
from memorytree.engine.arrays import POOL
from memorytree.serialization import split_arrays
from memorytree.store import verify
from tests.inspected_store import InspectedStore

DIMENSIONS = 4
KINDS = {
    "paper": {"seed": 5, "routing": "paper", "leaf_factor": 1, "capacity": 60},
    "principal": {"seed": 5, "routing": "principal", "leaf_factor": 1},
    "graph": {"seed": 5, "routing": GraphRouting(flat=0), "leaf_factor": 1, "capacity": 80},
    "terms": {"seed": 5, "routing": TermLists(flat=0)},
    "growing": {"seed": 5, "routing": GraphRouting(flat=25), "leaf_factor": 1},
    "single": {"seed": 5},
}
PACE = {"single": 10}  # mostly single insertions, so more operations fit between two kills


def keys_of(store, rows):
    """Rows as keys of the kind that a store takes."""
    if store.app_settings["kind"] != "terms":
        return rows
    return [{f"word {int(10 * number) % 40}": abs(float(number)) + 0.1 for number in row} for row in rows]


def open_for_writing(path: Path, kind: str, **how):
    """A store of one kind."""
    return InspectedStore(path, app_settings={"kind": kind}, **how, **KINDS[kind])


def operate(store, seed: int) -> None:
    """Do the next operation; which one depends only on the seed and on what the store holds."""
    chance = np.random.default_rng([seed, store.version])
    what = chance.choice(
        ["insert", "many", "replace", "remove", "reward", "update", "tidy"], p=[0.3, 0.15, 0.1, 0.15, 0.15, 0.1, 0.05]
    )
    if store.app_settings["kind"] == "single":
        what = "most" if store.version % 150 == 149 else "insert"
    ids = list(store) if what not in ("insert", "many") else []
    [key] = keys_of(store, chance.normal(size=(1, DIMENSIONS)).astype(np.float32))
    if what in ("remove", "reward", "replace", "update") and not ids:
        what = "insert"
    if what == "insert":
        store.insert(key, {"number": store.version}, metadata={"parity": store.version % 2})
    elif what == "many":
        keys = keys_of(store, chance.normal(size=(20, DIMENSIONS)).astype(np.float32))
        labels = [row % 3 if row % 2 else None for row in range(20)] if store.version % 2 else None
        store.insert_many(keys, [f"row {row}" for row in range(20)], labels=labels, metadata={"parity": None})
    elif what == "most":
        store.remove_many(ids[:-10])
    elif what == "replace":
        store.insert(key, "replaced", id=ids[chance.integers(len(ids))])
    elif what == "remove":
        store.remove(ids[chance.integers(len(ids))])
    elif what == "update":
        store.update_metadata(ids[chance.integers(len(ids))], {"parity": store.version % 2, "updated": True})
    elif what == "reward":
        hits = store.query(key, k=3, explore=0.5, exploration_seed=store.version)
        store.reward(hits, chance.random(len(hits)).round(2).tolist())
    elif store.version % 2:
        store.reroute(3)
    else:
        store.refit()


def write_until_killed(path: Path, kind: str, seed: int, pipe: int) -> None:
    """The child process: operate, acknowledge, and now and then write a snapshot or compact."""
    store = open_for_writing(path, kind)
    store.session.database.rows("PRAGMA wal_autocheckpoint = 20")  # often, so that kills hit it
    pace = PACE.get(kind, 1)
    while True:
        operate(store, seed)
        os.write(pipe, b".")
        if store.version % (17 * pace) == 0:
            store.checkpoint()
        if store.version % (101 * pace) == 0:
            store.compact()


def contents(store) -> dict:
    """Everything in a store except times, so that two stores can be compared bit by bit."""
    state, arrays = split_arrays(store.tree.state_dict())
    for name in list(arrays):
        # Positions in the pool of sparse keys depend on when it was last compacted; the keys themselves are compared.
        if name.endswith((".spans", ".key_features", ".key_weights")):
            del arrays[name]
        elif name.endswith(".counters") and "keys." in name:
            arrays[name][POOL] = 0
    arrays = {name: (array.shape, array.tobytes()) for name, array in arrays.items()}
    probes = keys_of(store, np.random.default_rng(0).normal(size=(5, DIMENSIONS)).astype(np.float32))
    answers = [list(store.query(probe, k=4)) for probe in probes]
    filtered = [store.query(probe, k=4, where={"parity": 1}).ids.tolist() for probe in probes]
    return {
        "held": {id: (store[id], store.metadata(id), _plain(store.key(id))) for id in store},
        "tree": (repr(state), arrays),
        "answers": answers,
        "filtered": filtered,
    }


def _plain(key):
    """A key as data that can be compared."""
    return key.tolist() if hasattr(key, "tolist") else sorted(key.items())


def kill_once(path: Path, kind: str, seed: int, chance: random.Random) -> int:
    """Fork a child that writes, kill it at a random moment, and return how many operations it acknowledged."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.close(read)
            write_until_killed(path, kind, seed, write)
        finally:
            os._exit(1)  # only reached after an error, whose traceback has been printed
    os.close(write)
    acknowledged = 0
    for _ in range(chance.randrange(1, 25 * PACE.get(kind, 1))):
        acknowledged += len(os.read(read, 1))
    time.sleep(chance.random() * 0.004)  # waits for nothing: it makes the moment of the kill random
    os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "the child ended by itself"
    while rest := os.read(read, 4096):
        acknowledged += len(rest)
    os.close(read)
    return acknowledged


def run(kills: int, kind: str = "paper", seed: int = 0, report=lambda line: None) -> int:
    """So many kills; returns how many operations were acknowledged in all. Raises AssertionError if anything is lost."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        twin = open_for_writing(Path(folder) / "twin", kind, durability="normal")
        while twin.version < 40:  # compile the kernels before the first fork
            operate(twin, seed)
        contents(twin)
        twin.close()
        twin = open_for_writing(Path(folder) / "second twin", kind, durability="normal")
        for kill in range(1, kills + 1):
            least = twin.version + kill_once(path, kind, seed, chance)
            with InspectedStore(path, mode="r") as store:
                assert least <= store.version <= least + 1, f"{least} acknowledged, {store.version} there"
                while twin.version < store.version:
                    operate(twin, seed)
                store.tree.check()
                mine, other = contents(store), contents(twin)
                for part, content in mine.items():
                    assert content == other[part], f"after kill {kill}: not the same {part}"
            if kill % 10 == 0 or kill == kills:
                damage = verify(path)
                assert damage.ok, damage
                report(f"{kind}: {kill:,} kills, {twin.version:,} operations acknowledged, nothing lost")
        done = twin.version
        twin.close()
    return done


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kills", type=int, nargs="?", default=1000)
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    for number, kind in enumerate(KINDS):
        share = len(range(number, chosen.kills, len(KINDS)))
        run(share, kind, chosen.seed, lambda line: print(f"\r{line}", end="", flush=True))
        print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
