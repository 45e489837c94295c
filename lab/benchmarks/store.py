"""The cost of durability: a store beside the tree in memory and beside plain SQLite insertions of the same rows."""

import gc
import sqlite3
import tempfile
import time
from pathlib import Path

import msgpack

import memorytree
from lab.benchmarks.report import Job, Report
from lab.datasets.synthetic import Clusters
from lab.tables import Table
from memorytree import MemoryTree

DIMENSIONS = 128
QUERY_ROUNDS = 20
SINGLE_INSERTS, FIRST_TURNS, LATER_TURNS = 300, 5, 20
QUERIES = 2000
KINDS = ("fact", "task", "note")


def run(job: Job) -> Report:
    """Run the benchmark."""
    report = Report(
        "The cost of durability",
        f"Keys of {DIMENSIONS} numbers in clusters, short text values, one field of metadata. CPU time for what the "
        "processor does, wall time where the disk decides; systems take turns, and the least time of each counts, except "
        "for single inserts, of which all count.",
    )
    sizes = (5_000, 20_000) if job.quick else (100_000, 1_000_000)
    job.step("inserting many", 5)
    with tempfile.TemporaryDirectory() as folder:
        _bulk(report, Path(folder), sizes[0], job)
        job.step("inserting one by one")
        _single(report, Path(folder), job)
        job.step("querying")
        _queries(report, Path(folder), sizes[0], job)
        job.step("opening again")
        _reopening(report, Path(folder), sizes[1], job)
    return report


def _rows(n: int, seed: int):
    keys, labels = Clusters(1000, DIMENSIONS, seed=seed).draw(n)
    values = [f"memory number {i} of cluster {label}" for i, label in enumerate(labels.tolist())]
    return keys, values, [{"kind": KINDS[label % 3]} for label in labels.tolist()]


def _plain_table(path: Path) -> sqlite3.Connection:
    """Return a connection to a hand-made table with the same durability as the store."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE memories (id INTEGER PRIMARY KEY, key BLOB, value BLOB, metadata BLOB)")
    return connection


def _packed(keys, values, metadata):
    packed = zip(keys, values, metadata, strict=True)
    return [(row.tobytes(), msgpack.packb(value), msgpack.packb(data)) for row, value, data in packed]


def _both_clocks(work) -> tuple[float, float]:
    wall, cpu = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - wall, time.process_time() - cpu


def _bulk(report: Report, folder: Path, n: int, job: Job) -> None:
    keys, values, metadata = _rows(n, job.seed)
    rows = _packed(keys, values, metadata)
    times: dict[str, list[float]] = {"tree in memory": [], "SQLite, same rows": [], "store": []}
    for turn in range(2 if job.quick else 3):
        tree = MemoryTree(seed=job.seed)
        times["tree in memory"].append(_both_clocks(lambda tree=tree: tree.insert_many(keys, values))[0])
        connection = _plain_table(folder / f"plain {turn}.sqlite")

        def insert(connection=connection):
            connection.execute("BEGIN")
            connection.executemany("INSERT INTO memories (key, value, metadata) VALUES (?, ?, ?)", rows)
            connection.execute("COMMIT")

        times["SQLite, same rows"].append(_both_clocks(insert)[0])
        connection.close()
        store = memorytree.open(folder / f"bulk {turn}", seed=job.seed)
        times["store"].append(_both_clocks(lambda store=store: store.insert_many(keys, values, metadata=metadata))[0])
        store.close()
    table = Table(f"insert_many of {n:,} memories, wall time", ["system", "seconds", "µs a memory"])
    least = {name: min(seconds) for name, seconds in times.items()}
    for name, seconds in least.items():
        table.add(name, seconds, seconds / n * 1e6)
    report.tables.append(table)
    report.runs["bulk"] = times
    both = least["tree in memory"] + least["SQLite, same rows"]
    report.at_most("insert_many against tree plus SQLite", 3, least["store"] / both, "x")


def _single(report: Report, folder: Path, job: Job) -> None:
    """A new store and a new table take turns. Commits take less time once SQLite's log has reached its full length."""
    turns = FIRST_TURNS + LATER_TURNS
    keys, values, metadata = _rows(SINGLE_INSERTS * turns, job.seed)
    rows = _packed(keys, values, metadata)
    with memorytree.open(folder / "warm", seed=job.seed, durability="normal") as warm:  # compiles
        for i in range(len(keys)):
            warm.insert(keys[i], values[i], metadata=metadata[i])
    store = memorytree.open(folder / "single", seed=job.seed)
    connection = _plain_table(folder / "single.sqlite")
    gc.collect()  # so that garbage of earlier steps is not collected during the timing
    seconds: dict[str, list[float]] = {"SQLite": [], "store": []}
    for turn in range(turns):
        part = range(turn * SINGLE_INSERTS, (turn + 1) * SINGLE_INSERTS)

        def plain(part=part):
            for i in part:
                connection.execute("INSERT INTO memories (key, value, metadata) VALUES (?, ?, ?)", rows[i])

        def ours(part=part):
            for i in part:
                store.insert(keys[i], values[i], metadata=metadata[i])

        seconds["SQLite"].append(_both_clocks(plain)[0])
        seconds["store"].append(_both_clocks(ours)[0])
    connection.close()
    store.close()
    first, later = SINGLE_INSERTS * FIRST_TURNS, SINGLE_INSERTS * LATER_TURNS
    phases = {f"the first {first:,}": slice(FIRST_TURNS), f"the {later:,} after them": slice(FIRST_TURNS, None)}
    table = Table("Single durable inserts into a new store or table, wall time, µs each", ["system", *phases])
    for name, found in seconds.items():
        table.add(name, *(sum(found[part]) / len(found[part]) / SINGLE_INSERTS * 1e6 for part in phases.values()))
    report.tables.append(table)
    report.runs["single"] = seconds
    for what, part in phases.items():
        rate = sum(seconds["SQLite"][part]) / sum(seconds["store"][part])
        report.at_least(f"rate of single durable inserts against SQLite's, {what}", 0.8, rate, "x")


def _queries(report: Report, folder: Path, n: int, job: Job) -> None:
    keys, values, metadata = _rows(n, job.seed)
    queries = _rows(QUERIES, job.seed + 1)[0]
    tree = MemoryTree(seed=job.seed)
    tree.insert_many(keys, values)
    with memorytree.open(folder / "asked", seed=job.seed) as store:
        store.insert_many(keys, values, metadata=metadata)
    store = memorytree.open(folder / "asked")
    ways = {
        "tree in memory, the best": lambda: [tree.query(x).values for x in queries],
        "store, the best": lambda: [store.query(x).values for x in queries],
        "tree in memory, the best 5": lambda: [tree.query(x, 5).values for x in queries],
        "store, the best 5": lambda: [store.query(x, 5).values for x in queries],
        "tree in memory, batch": lambda: tree.query_many(queries, 5),
        "store, batch": lambda: store.query_many(queries, 5),
        "store, the best 5 of the third that matches": lambda: [
            store.query(x, 5, where={"kind": "fact"}).values for x in queries
        ],
    }
    least = dict.fromkeys(ways, float("inf"))
    for _ in range(QUERY_ROUNDS):
        for name, way in ways.items():
            least[name] = min(least[name], _both_clocks(way)[1])
    store.close()
    table = Table(f"A query among {n:,}, values read, CPU time", ["system", "µs"])
    for name, seconds in least.items():
        table.add(name, seconds / QUERIES * 1e6)
    report.tables.append(table)
    report.runs["queries"] = least
    for what in ("the best", "the best 5"):
        ratio = least[f"store, {what}"] / least[f"tree in memory, {what}"]
        report.at_most(f"a query for {what} against the tree in memory", 1.3, ratio, "x")


def _reopening(report: Report, folder: Path, n: int, job: Job) -> None:
    keys, values, metadata = _rows(n, job.seed)
    path = folder / "large"
    with memorytree.open(path, seed=job.seed) as store:
        for first in range(0, n, 100_000):
            part = slice(first, first + 100_000)
            store.insert_many(keys[part], values[part], metadata=metadata[part])
        found = store.query(keys[7], k=3).ids.tolist()
        checkpoint_s, _ = _both_clocks(store.checkpoint)
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        store = memorytree.open(path)
        opened = time.perf_counter() - begun
        answered, _ = _both_clocks(lambda store=store: store.query(keys[7], k=3))
        assert store.query(keys[7], k=3).ids.tolist() == found
        store.close()
        times.append((opened, answered))
    size = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
    table = Table(f"A store of {n:,} memories", ["step", "figure"])
    table.add("opening, seconds", min(opened for opened, _ in times))
    table.add("first answer, seconds more", min(answered for _, answered in times))
    table.add("writing a snapshot, seconds", checkpoint_s)
    table.add("bytes on disk a memory", size / n)
    table.add("of these the key itself", 4 * DIMENSIONS)
    report.tables.append(table)
    report.runs["reopening"] = times
    report.at_most(f"opening {n:,} memories", 5, min(opened for opened, _ in times), "s")
