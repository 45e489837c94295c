"""Kill a process that writes to a store, again and again, and see that nothing it acknowledged is lost.

    python -m tests.faults.crash 1000

A child applies a stream of operations and acknowledges each on a pipe; it is killed at a random moment. What the store
then holds must be what an uncrashed twin holds after the same operations: all that were acknowledged, and at most the one
that was under way. The next child goes on from there.
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

import memorytree
from memorytree import files
from memorytree.checks import check_tree
from memorytree.engine.state import POOL
from memorytree.store import connection, doctor

DIMENSIONS = 4
KINDS = {
    "paper": {"seed": 5, "routing": "paper", "leaf_factor": 1, "capacity": 60},
    "principal": {"seed": 5, "routing": "principal", "leaf_factor": 1},
    "neighbours": {"seed": 5, "routing": "neighbours", "leaf_factor": 1, "capacity": 80},
    "terms": {"seed": 5, "routing": "terms"},
    "alone": {"seed": 5},
}
PACE = {"alone": 10}  # where hardly anything but lone insertions is done, more happens before the end


def keys_of(store, rows):
    """Rows as keys of the kind that a store takes."""
    if store.app_settings["kind"] != "terms":
        return rows
    return [{f"word {int(10 * number) % 40}": abs(float(number)) + 0.1 for number in row} for row in rows]


def open_for_writing(path: Path, kind: str, **how):
    """The store of a kind."""
    return memorytree.open(path, app_settings={"kind": kind}, **how, **KINDS[kind])


def operate(store, seed: int) -> None:
    """Do the next operation; which one depends only on the seed and on what the store holds."""
    chance = np.random.default_rng([seed, store.version])
    what = chance.choice(["insert", "many", "replace", "remove", "reward", "tidy"], p=[0.35, 0.15, 0.1, 0.15, 0.2, 0.05])
    if store.app_settings["kind"] == "alone":
        what = "most" if store.version % 150 == 149 else "insert"
    # Insertions one after another wait to be taken in, so only other operations look what is there.
    ids = [] if what in ("insert", "many") else list(store)
    [key] = keys_of(store, chance.normal(size=(1, DIMENSIONS)).astype(np.float32))
    if what in ("remove", "reward", "replace") and not ids:
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
    elif what == "reward":
        hits = store.query(key, k=3, explore=0.5, exploration_seed=store.version)
        store.reward(hits, chance.random(len(hits)).round(2).tolist())
    elif store.version % 2:
        store.reroute(3)
    else:
        store.refit()


def write_until_killed(path: Path, kind: str, seed: int, pipe: int) -> None:
    """The child: operate, acknowledge, and now and then tidy up, until the end."""
    connection.COMMITS_BEFORE_LONG_LOG = connection.HELD_PAGES = 5  # soon enough for kills to meet it
    store = open_for_writing(path, kind)
    store._session.database._connection.execute("PRAGMA wal_autocheckpoint = 20")  # the same for the log that begins anew
    pace = PACE.get(kind, 1)
    while True:
        operate(store, seed)
        os.write(pipe, b".")
        if store.version % (17 * pace) == 0:
            store.checkpoint()
        if store.version % (101 * pace) == 0:
            store.compact()


def contents(store) -> dict:
    """All that a store is, so that two can be compared, bit by bit; when something was stored does not count."""
    state = files.state_of(store._session.state().tree)
    state.pop("values")
    arrays = state.pop("arrays", {})
    for name in list(arrays):
        # Where in the pool a sparse key lies depends on when the pool was last rewritten; the keys themselves are compared.
        if name.endswith((".spans", ".key_features", ".key_weights")):
            del arrays[name]
        elif name.endswith(".counters") and "keys." in name:
            arrays[name][POOL] = 0
    arrays = {name: (array.shape, array.tobytes()) for name, array in arrays.items()}
    probes = keys_of(store, np.random.default_rng(0).normal(size=(5, DIMENSIONS)).astype(np.float32))
    answers = [(hits.ids, hits.values, hits.scores) for hits in (store.query(probe, k=4) for probe in probes)]
    filtered = [store.query(probe, k=4, where={"parity": 1}).ids for probe in probes]
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
            os._exit(1)  # only reached by an error, whose trace has been printed by then
    os.close(write)
    acknowledged = 0
    for _ in range(chance.randrange(1, 25 * PACE.get(kind, 1))):
        acknowledged += len(os.read(read, 1))
    time.sleep(chance.random() * 0.004)
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
        while twin.version < 40:  # kernels are compiled before anybody forks
            operate(twin, seed)
        contents(twin)
        twin.close()
        twin = open_for_writing(Path(folder) / "second twin", kind, durability="normal")
        for kill in range(1, kills + 1):
            least = twin.version + kill_once(path, kind, seed, chance)
            with memorytree.open(path, mode="r") as store:
                assert least <= store.version <= least + 1, f"{least} acknowledged, {store.version} there"
                while twin.version < store.version:
                    operate(twin, seed)
                check_tree(store._session.state().tree)
                mine, other = contents(store), contents(twin)
                for part, content in mine.items():
                    assert content == other[part], f"after kill {kill}: not the same {part}"
            if kill % 10 == 0 or kill == kills:
                damage = doctor.verify(path)
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
