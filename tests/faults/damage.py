"""Damage every byte of a small store in turn, and see that no wrong answer comes of it.

    python -m tests.faults.damage

Flips: whatever byte of the database or of a snapshot is changed, the store opens with right answers or says that it is
damaged; and `verify` reports every change that touches what the store holds. Only memories that came by themselves after
the last event are counted nowhere yet: the last of them may be missing, and then `verify` says so. Truncations: wherever the
log of the database ends, the store is as it was after some of the operations, in order, without a hole.
"""

import argparse
import contextlib
import os
import shutil
import sqlite3
import sys
import tempfile
import warnings
from pathlib import Path

import memorytree
from memorytree.errors import MemoryTreeError
from memorytree.store import database, verify

SMALL_PAGE = 512
KEYS = [[float(i), float(i % 3)] for i in range(9)]


def make_store(path: Path, alone: int = 0) -> list[dict]:
    """A small store with some of everything: removed, replaced, rewarded and described memories, a snapshot and a log.

    So many memories come by themselves in the end; returns the answers before these, and after each.
    """
    database.PAGE_BYTES, before = SMALL_PAGE, database.PAGE_BYTES
    try:
        with memorytree.open(path, seed=1) as store:
            store.insert_many(KEYS, [f"value {i}" for i in range(9)], metadata=[{"parity": i % 2} for i in range(9)])
            store.insert(KEYS[2], b"replaced", id=3)
            hits = store.query(KEYS[1], k=3)
            store.reward(hits, [1.0, 0.0, None])
            store.remove(4)
        store = memorytree.open(path)
        store.insert([20.0, 1.0], {"after": "the snapshot"}, metadata={"parity": 1})
        store.remove(5)
        store.reward(store.query(KEYS[0], k=2), [0.5, 0.5])
        states = [answers(store)]
        for i in range(alone):
            store.insert([40.0 + i, 1.0], "alone")
            states.append(answers(store))
        leave_without_closing(store)
        return states
    finally:
        database.PAGE_BYTES = before


def leave_without_closing(store) -> None:
    """Let go of a store as a killed process does: no snapshot, and the log of the database stays."""
    folder = store.path
    kept = {path: path.read_bytes() for path in folder.glob("memories.sqlite*")}
    store._session.abandon()
    for path, content in kept.items():
        path.write_bytes(content)
    (folder / "memories.sqlite-shm").unlink(missing_ok=True)


def answers(store) -> dict:
    """What a store holds and says: value and metadata by id, and the hits of a few queries."""
    held = {id: (store[id], store.metadata(id), store.key(id).tolist()) for id in store}
    queries = [store.query(key, k=4) for key in KEYS[::4]]
    return {"held": held, "queries": [(hits.ids, hits.values) for hits in queries]}


def logical_rows(path: Path) -> list | None:
    """All rows that a database holds, as SQLite reads them; None if it cannot."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            names = ("facts", "events", "memories", "queries", "rewards")
            return [connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in names]
    except (sqlite3.Error, UnicodeDecodeError, OverflowError):
        return None


def opened_answers(path: Path, mode: str = "r") -> dict | None:
    """The answers of a store, or None if it says that it cannot be opened or answered from. Nothing else may happen."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a snapshot that is damaged is a warning: the database has everything
            with memorytree.open(path, mode=mode) as store:
                return answers(store)
    except MemoryTreeError:
        return None


class Copies:
    """Copies of a store, one after another, each damaged in one file."""

    def __init__(self, original: Path, folder: Path):
        self.original, self.path = original, folder / "copy"

    def with_file(self, name: Path, content: bytes) -> Path:
        """The store with other content in one file."""
        shutil.rmtree(self.path, ignore_errors=True)
        shutil.copytree(self.original, self.path, copy_function=os.link)
        (self.path / name).unlink()
        (self.path / name).write_bytes(content)
        for log in ("memories.sqlite", "memories.sqlite-wal", "memories.sqlite-shm"):
            # SQLite writes to these; a link would change the original.
            if (self.path / log).exists():
                data = (self.path / log).read_bytes()
                (self.path / log).unlink()
                (self.path / log).write_bytes(data)
        return self.path


def flip_bytes(every: int = 1, report=lambda line: None, alone: int = 0) -> dict[str, int]:
    """Flip bytes of all files in turn; counts of what happened. AssertionError for a wrong answer or damage unnoticed.

    With memories that come by themselves in the end, bytes of the database only.
    """
    counts = {"flips": 0, "as before": 0, "refused": 0, "found by verify": 0}
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder) / "store"
        states = make_store(original, alone)
        # The log is merged into the database first: what lies in a log has checksums of SQLite's own.
        with contextlib.closing(sqlite3.connect(original / "memories.sqlite")) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        right, rows = opened_answers(original), logical_rows(original / "memories.sqlite")
        assert right == states[-1]
        assert verify(original).ok
        copies = Copies(original, Path(folder))
        files = [path.relative_to(original) for path in sorted(original.rglob("*")) if path.is_file()]
        for name in files:
            if name.name == "owner.lock" or name.name.endswith(("-wal", "-shm")) or (alone and len(name.parts) > 1):
                continue
            content = (original / name).read_bytes()
            for place in range(0, len(content), every):
                damaged = bytearray(content)
                damaged[place] ^= 1 << (place % 8 if place % SMALL_PAGE > 8 else 0)  # in page headers, counts change by one
                path = copies.with_file(name, bytes(damaged))
                where = f"{name} byte {place}"
                found = opened_answers(path)
                counts["flips"] += 1
                counts["refused" if found is None else "as before"] += 1
                assert found is None or found in states, f"a wrong answer after flipping {where}"
                whole = verify(path).ok
                assert found in (None, right) or not whole, f"a memory is missing unnoticed after flipping {where}"
                counts["found by verify"] += not whole
                is_snapshot = name.parts[0] == "snapshots"
                touched = is_snapshot or logical_rows(path / "memories.sqlite") != rows
                assert not (touched and whole), f"verify did not notice that {where} was flipped"
                written = opened_answers(path, mode="w")
                assert written is None or written in states, f"a wrong answer to the writer after flipping {where}"
            report(f"{name}: {counts}")
    return counts


def truncate_log(every: int = 1) -> dict[str, int]:
    """Cut the log of the database after every byte; counts of lengths tried and of states found."""
    database.PAGE_BYTES, before = SMALL_PAGE, database.PAGE_BYTES
    counts = {"lengths": 0, "states": 0}
    try:
        with tempfile.TemporaryDirectory() as folder:
            original = Path(folder) / "store"
            prefixes = []
            with memorytree.open(original, seed=1) as store:
                store.insert_many(KEYS, range(9))
            store = memorytree.open(original)
            prefixes.append(answers(store))
            for do in (
                lambda: store.insert([30.0, 1.0], "later"),
                lambda: store.remove(2),
                lambda: store.insert([1.0, 1.0], "again", id=7),
                lambda: store.reward(store.query(KEYS[0], k=2), [1.0, 0.0]),
            ):
                do()
                prefixes.append(answers(store))
            leave_without_closing(store)
            log = original / "memories.sqlite-wal"
            content, known = log.read_bytes(), {}
            copies = Copies(original, Path(folder))
            for length in [*range(0, len(content), every), len(content)]:
                path = copies.with_file(Path(log.name), content[:length])
                rows = repr(logical_rows(path / "memories.sqlite"))
                counts["lengths"] += 1
                # What the rows are decides everything else, so each content is opened once.
                if rows not in known:
                    known[rows] = opened_answers(path)
                    assert known[rows] in prefixes, f"a log of {length} bytes gives no state there ever was"
                    assert verify(path).ok
            assert known[rows] == prefixes[-1]
            counts["states"] = len(known)
            assert len(known) == len(prefixes)
    finally:
        database.PAGE_BYTES = before
    return counts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=int, default=1, help="damage every so many bytes only")
    chosen = parser.parse_args()
    print("truncations:", truncate_log(chosen.every))
    for alone in (0, 3):
        print("flips:", flip_bytes(chosen.every, lambda line: print(line, flush=True), alone))
    return 0


if __name__ == "__main__":
    sys.exit(main())
