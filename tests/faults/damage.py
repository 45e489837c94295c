"""Damage every byte of a small store in turn, and check that no wrong answer follows.

    python -m tests.faults.damage

Flips: whatever byte of the database or of a snapshot is changed, the store opens with right answers or says that it is
damaged, and `verify` reports every change of what the store holds. Truncations: wherever the log of the database ends, the
store is as it was after a prefix of the operations.
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


def make_store(path: Path) -> dict:
    """A small store with some of everything: removed, replaced, rewarded and described memories, a snapshot and a log.

    Returns its answers.
    """
    database.PAGE_BYTES, before = SMALL_PAGE, database.PAGE_BYTES
    try:
        with memorytree.open(path, seed=1) as store:
            store.insert_many(KEYS, [f"value {i}" for i in range(9)], metadata=[{"parity": i % 2} for i in range(9)])
            store.insert(KEYS[2], b"replaced", id=3)
            hits = store.query(KEYS[1], k=3)
            store.reward(hits, [1.0, 0.0, None])
            store.remove(4)
            store.update_metadata(6, {"parity": 3})
        store = memorytree.open(path)
        store.insert([20.0, 1.0], {"after": "the snapshot"}, metadata={"parity": 1})
        store.remove(5)
        store.update_metadata(7, {"late": True})
        store.reward(store.query(KEYS[0], k=2), [0.5, 0.5])
        found = answers(store)
        leave_without_closing(store)
        return found
    finally:
        database.PAGE_BYTES = before


def leave_without_closing(store) -> None:
    """Close a store, and leave its files as a killed process does: without a last snapshot, and with the log."""
    with tempfile.TemporaryDirectory() as folder:
        kept = shutil.copytree(store.path, Path(folder) / "kept", ignore=shutil.ignore_patterns("*-shm"))
        store.close()
        shutil.rmtree(store.path)
        shutil.move(kept, store.path)


def answers(store) -> dict:
    """What a store holds and answers: value, metadata and key by id, and the hits of a few queries."""
    held = {id: (store[id], store.metadata(id), store.key(id).tolist()) for id in store}
    queries = [store.query(key, k=4) for key in KEYS[::4]]
    return {"held": held, "queries": [(hits.ids.tolist(), hits.values) for hits in queries]}


def logical_rows(path: Path) -> list | None:
    """All rows that a database holds, as SQLite reads them; None if it cannot."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            names = ("facts", "events", "memories", "queries", "rewards")
            return [connection.execute(f"SELECT * FROM {name} ORDER BY 1, 2").fetchall() for name in names]
    except (sqlite3.Error, UnicodeDecodeError, OverflowError):
        return None


def opened_answers(path: Path, mode: str = "r") -> dict | None:
    """The answers of a store, or None if it raises a typed error. No other error may be raised."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a damaged snapshot
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
            # SQLite writes to these files, and through a link would change the original.
            if (self.path / log).exists():
                data = (self.path / log).read_bytes()
                (self.path / log).unlink()
                (self.path / log).write_bytes(data)
        return self.path


def flip_bytes(every: int = 1, report=lambda line: None) -> dict[str, int]:
    """Flip bytes of all files in turn; counts of what happened. AssertionError for a wrong answer or unnoticed damage."""
    counts = {"flips": 0, "as before": 0, "refused": 0, "found by verify": 0}
    with tempfile.TemporaryDirectory() as folder:
        original = Path(folder) / "store"
        right = make_store(original)
        # The log is merged into the database first: the log itself has checksums of SQLite's own.
        with contextlib.closing(sqlite3.connect(original / "memories.sqlite")) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        rows = logical_rows(original / "memories.sqlite")
        assert opened_answers(original) == right
        assert verify(original).ok
        copies = Copies(original, Path(folder))
        files = [path.relative_to(original) for path in sorted(original.rglob("*")) if path.is_file()]
        for name in files:
            if name.name == "owner.lock" or name.name.endswith(("-wal", "-shm")):
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
                assert found in (None, right), f"a wrong answer after flipping {where}"
                whole = verify(path).ok
                counts["found by verify"] += not whole
                is_snapshot = name.parts[0] == "snapshots"
                touched = is_snapshot or logical_rows(path / "memories.sqlite") != rows
                assert not (touched and whole), f"verify did not notice that {where} was flipped"
                written = opened_answers(path, mode="w")
                assert written in (None, right), f"a wrong answer to the writer after flipping {where}"
            report(f"{name}: {counts}")
    return counts


def truncate_log(every: int = 1) -> dict[str, int]:
    """Truncate the log of the database after every byte; counts of lengths and of different states."""
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
                # The rows determine everything else, so each content is opened once.
                if rows not in known:
                    known[rows] = opened_answers(path)
                    assert known[rows] in prefixes, f"a log of {length} bytes gives a state that never was"
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
    print("flips:", flip_bytes(chosen.every, lambda line: print(line, flush=True)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
