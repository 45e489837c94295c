"""Operations of a store while its disk fails, call by call. `test_disk.py` runs this with `faulty_disk.c` preloaded."""

import errno
import mmap
import os
import struct
import sys
import warnings
from pathlib import Path

from memorytree.errors import StoreError
from tests.faults.crash import contents
from tests.inspected_store import InspectedStore

WRITES, SYNCS = 1, 2
FAULTS = {
    "disk full": (WRITES, errno.ENOSPC, True),
    "I/O error": (WRITES, errno.EIO, False),
    "failing sync": (SYNCS, errno.EIO, True),
    "short write": (WRITES, 0, True),
}
KEY = [1.0, 2.0, 3.0, 4.0]
SLOW = {"checkpoint": 1, "compact": 1, "backup": 1, "insert much": 40}  # these make many calls that are all alike
PAPER = {"seed": 5, "routing": "paper", "leaf_factor": 1, "app_settings": {"kind": "paper"}}


class FaultyDisk:
    """The plan of faults that the disk of this process follows."""

    def __init__(self, path: str):
        with open(path, "r+b") as file:
            self._plan = mmap.mmap(file.fileno(), 4096)

    def plan(self, calls: int, kind: int, error: int, lasting: bool) -> None:
        """After this many successful calls, fail."""
        self._plan[:40] = struct.pack("5q", calls, kind, error, int(lasting), 0)

    def heal(self) -> int:
        """End the faults; returns how many calls failed."""
        faults = struct.unpack("5q", self._plan[:40])[4]
        self._plan[:40] = struct.pack("5q", -1, 0, 0, 0, 0)
        return faults


def operations(store):
    """What may fail, by name."""
    first = next(iter(store))
    hits = store.query(KEY, k=2)
    return {
        "insert": lambda: store.insert(KEY, "one more"),
        "insert much": lambda: store.insert(KEY, bytes(3_000_000)),  # more than SQLite caches
        "insert_many": lambda: store.insert_many([KEY] * 50, range(50)),
        "replace": lambda: store.insert(KEY, "another", id=first),
        "remove": lambda: store.remove(first),
        "update_metadata": lambda: store.update_metadata(first, {"parity": 2}),
        "reward": lambda: store.reward(hits, [1.0] * len(hits)),
        "checkpoint": store.checkpoint,
        "compact": store.compact,
        "backup": lambda: store.backup(store.path.parent / f"backup {os.urandom(4).hex()}"),
    }


def grown(path: Path):
    """A store with a little of everything."""
    store = InspectedStore(path, **PAPER)
    if not len(store):
        for number in range(12):
            store.insert([number, number % 3, 1.0, 0.0], {"number": number}, metadata={"parity": number % 2})
        store.checkpoint()
        for _ in range(3):
            store.insert(KEY, "since the checkpoint")
    return store


def fail_each_call(folder: Path, disk: FaultyDisk, kind: str, name: str, every: int) -> int:
    """Let one operation fail at its first disk call, then at its second, and so on; returns at how many calls it failed.

    Operations in SLOW fail at every `every`-th call only.
    """
    calls, failures = 0, 0
    step = every * SLOW[name] if name in SLOW else 1
    while True:
        path = folder / f"{kind} {name} {calls}"
        store = grown(path)
        operation, before = operations(store)[name], contents(store)
        disk.plan(calls, *FAULTS[kind])
        try:
            operation()
            failed = False
        except StoreError:
            failed = True
        finally:
            faults = disk.heal()
        if not faults:
            store.close()
            return failures
        failures += failed
        if failed:
            assert contents(store) == before, f"{name} with {kind} at call {calls} changed the store"
            store.reward(store.query(KEY).receipt, {})  # writes nothing, but reads
            operation()  # now that the disk works again
        after = contents(store)
        assert store.verify().ok
        store.close()
        with InspectedStore(path) as again:
            assert contents(again) == after, f"{name} with {kind} at call {calls}: not the same when opened again"
            assert again.verify().ok
        calls += step


def main() -> int:
    folder, disk = Path(sys.argv[1]), FaultyDisk(os.environ["FAULTY_DISK_PLAN"])
    warnings.simplefilter("ignore")  # a snapshot that could not be written
    every = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    names = operations(grown(folder / "names"))
    for kind in FAULTS:
        failed = {name: fail_each_call(folder, disk, kind, name, every) for name in names}
        print(f"{kind}: failed at " + ", ".join(f"{count} calls of {name}" for name, count in failed.items()))
        assert failed["insert"]
        assert failed["checkpoint"]
    return 0


if __name__ == "__main__":
    sys.exit(main())
