"""The waiting time of a user: the first operations from the shell and from Python, the import, and one call.

In wall-clock time and CPU time of the whole process, with an empty Numba cache and with a full one: `memorytree remember`,
`recall` and `reward` on a new store; ten lines of Python with vectors, and with texts; the first example of
docs/memory-tree.md, with 1,000 memories. None of these compiles anything. Then what the first operations cost that do: the
insertion of the 1,001st vector, and of the 1,001st text, which make the graph and the term lists. Last, single calls from
Python with 128 dimensions: CPU time of a call, the least and the median over chunks of 1,000 calls. Targets are compared
with CPU time: on a machine that does nothing else, wall-clock time is about the same.
"""

import json
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab import process
from lab.benchmarks.report import Job, Report
from lab.datasets.synthetic import Clusters
from lab.measuring import cpu_seconds
from lab.tables import Table
from lab.tree_driver import filled_tree, warm_up
from memorytree.errors import DataMissing

IMPORT = "import memorytree"
VECTORS = """
from memorytree import MemoryTree
tree = MemoryTree(seed=0)
tree.insert([1.0, 0.0], "east")
tree.insert_many([[0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]], ["north", "west", "south"])
hits = tree.query([0.9, 0.2], k=2)
print(hits[0].value)
tree.reward(hits, [1.0, 0.0])
"""
TEXTS = """
from memorytree import TextMemory
with TextMemory(seed=0) as memory:
    memory.remember("Ada likes green tea")
    memory.remember_many(["Bob takes the train to work", "Cleo plays chess on Sundays"])
    hits = memory.recall("What does Ada drink?", k=2)
    print(hits[0].text)
    memory.reward(hits, [1.0, 0.0])
"""
GROWING_VECTORS = """
import numpy as np
from memorytree import MemoryTree
X = np.random.default_rng(0).normal(size=(1001, 128)).astype(np.float32)
tree = MemoryTree(seed=0)
tree.insert_many(X[:1000], range(1000))
tree.insert(X[1000], 1000)
print(tree.query(X[0])[0].value)
"""
GROWING_TEXTS = """
from memorytree import TextMemory
with TextMemory(seed=0) as memory:
    memory.remember_many([f"a text about the number {i}" for i in range(1000)])
    memory.remember("one more")
    print(memory.recall("the number 7")[0].text)
"""
CLI = [sys.executable, "-m", "memorytree"]


def quickstart() -> str:
    """Return the first Python example of the guide to `MemoryTree`."""
    guide = Path(__file__).resolve().parents[2] / "docs" / "memory-tree.md"
    found = re.search(r"^```python\n(.*?)^```", guide.read_text(encoding="utf8") if guide.exists() else "", re.M | re.S)
    if not found:
        raise DataMissing(f"{guide} has no Python example to time")
    return found.group(1)


def timed(command: list[str], folder: str, cache: str) -> tuple[float, float, str]:
    """Run a command in a folder: its wall-clock seconds, its CPU seconds, and what it wrote."""
    env = process.child_environment(NUMBA_CACHE_DIR=cache)
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    ended = subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, check=False)
    seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    if ended.returncode:
        raise process.ChildError(f"{command} failed: {ended.stderr.strip()[-2000:]}")
    return seconds, after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime, ended.stdout


def first_operations(cache: str) -> dict[str, tuple[float, float]]:
    """(wall-clock seconds, CPU seconds) of the first operations, each in a process of its own, with this Numba cache."""
    seconds = {}
    with tempfile.TemporaryDirectory() as folder:

        def run(name: str, command: list[str]) -> str:
            *seconds[name], written = timed(command, folder, cache)
            return written

        run("memorytree init", [*CLI, "init", "--seed", "0"])
        run("memorytree remember", [*CLI, "remember", "Ada likes green tea", "Bob takes the train to work"])
        written = run("memorytree recall", [*CLI, "recall", "What does Ada drink?", "--json"])
        run("memorytree reward", [*CLI, "reward", json.loads(written)["receipt"], "0=1", "1=0"])
        run("ten lines with vectors", [sys.executable, "-c", VECTORS])
        run("ten lines with texts", [sys.executable, "-c", TEXTS])
        run("first example, 1,000 memories", [sys.executable, "-c", quickstart()])
        run("import memorytree", [sys.executable, "-c", IMPORT])
        run("python alone", [sys.executable, "-c", "pass"])
        run("1,001 vectors", [sys.executable, "-c", GROWING_VECTORS])
        run("1,001 texts", [sys.executable, "-c", GROWING_TEXTS])
    return seconds


def least(runs: list[dict[str, tuple[float, float]]]) -> dict[str, tuple[float, float]]:
    """The least of the figures of several runs."""
    return {name: tuple(map(min, zip(*(run[name] for run in runs), strict=True))) for name in runs[0]}


def measure_calls(spec: dict) -> dict:
    """Time single calls, chunk by chunk, in this process."""
    clusters = Clusters(100, seed=spec["seed"])

    def chunks(call):
        spent = []
        for _ in range(spec["chunks"]):
            rows = list(clusters.draw(1_000)[0])
            seconds, _ = cpu_seconds(lambda rows=rows: [call(row) for row in rows], clock=time.thread_time)
            spent.append(seconds * 1e3)  # µs a call
        return sorted(spent)

    def tree_of(n, **options):
        keys, labels = clusters.draw(n)
        warm_up(keys, **options, seed=spec["seed"])
        return filled_tree(keys, labels.tolist(), **options, seed=spec["seed"])

    tree, principal, flat = tree_of(10_000), tree_of(10_000, routing="principal"), tree_of(900)
    return {
        "query, k = 10, 10,000 memories": chunks(lambda row: tree.query(row, 10)),
        "query, k = 10, 10,000 memories, principal": chunks(lambda row: principal.query(row, 10)),
        "query, k = 1, 10,000 memories, principal": chunks(principal.query),
        "query, k = 10, 900 memories (flat)": chunks(lambda row: flat.query(row, 10)),
        "insert, 10,000 memories": chunks(lambda row: tree.insert(row, 0)),
        "insert, 10,000 memories, principal": chunks(lambda row: principal.insert(row, 0)),
    }


def run(job: Job) -> Report:
    """Run the benchmark."""
    repeats = 1 if job.quick else 3
    report = Report("Patience: the first operations and a single call", __doc__)
    empty, full = [], []
    for number in range(repeats):
        job.step(f"empty and full Numba cache, {number + 1} of {repeats}", 40)
        with tempfile.TemporaryDirectory() as cache:
            empty.append(first_operations(cache))
            full.append(first_operations(cache))
    cold, warm = least(empty), least(full)
    job.step("single calls")
    calls = process.call("lab.benchmarks.patience:measure_calls", {"seed": job.seed, "chunks": 5 if job.quick else 20})

    columns = ["", "empty cache, wall-clock s", "CPU s", "full cache, wall-clock s", "CPU s"]
    starts = Table("First operations, each in a process of its own, the least of several runs", columns)
    for name in cold:
        starts.add(name, *cold[name], *warm[name])
    single = Table("One call, 128 dimensions", ["call", "least µs", "median µs"])
    for name, spent in calls.items():
        single.add(name, spent[0], spent[len(spent) // 2])
    report.tables += [starts, single]
    report.runs = {"empty": empty, "full": full, "calls": calls}
    for name in list(cold)[1:7]:
        report.at_most(f"{name}, empty Numba cache", 1.5, cold[name][1], "s")
    for name in list(cold)[1:4]:
        report.at_most(f"{name}, full Numba cache", 0.5, warm[name][1], "s")
    report.at_most("query, k = 10, 10,000 memories", 7, calls["query, k = 10, 10,000 memories"][0], "µs")
    report.at_most("insert, principal", 12, calls["insert, 10,000 memories, principal"][0], "µs")
    return report
