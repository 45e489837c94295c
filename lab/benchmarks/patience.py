"""The waiting time of a user: the first answer, the import, and one call.

The first Python example of docs/memory-tree.md, in wall-clock time from the start of the process to its first answer and to
its end, with an empty Numba cache and with a full one; the import alone. Then single calls from Python on 10,000 memories of
128 dimensions, principal routing, k = 1: CPU time of a call, the least and the median over chunks of 1,000 calls.
"""

import re
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

IMPORT = "import time; start = time.perf_counter(); import memorytree; print(time.perf_counter() - start)"


def quickstart() -> str:
    """Return the first Python example of the guide to `MemoryTree`."""
    guide = Path(__file__).resolve().parents[2] / "docs" / "memory-tree.md"
    found = re.search(r"^```python\n(.*?)^```", guide.read_text(encoding="utf8") if guide.exists() else "", re.M | re.S)
    if not found:
        raise DataMissing(f"{guide} has no Python example to time")
    return found.group(1)


def run_python(code: str, cache: str) -> tuple[float, float, str]:
    """Run code in a fresh interpreter: wall-clock seconds to the first line it prints and to its end, and that line."""
    start = time.perf_counter()
    env = process.child_environment(NUMBA_CACHE_DIR=cache)
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen([sys.executable, "-u", "-c", code], text=True, cwd=cache, env=env, **pipes) as python:
        first = python.stdout.readline()
        answered = time.perf_counter() - start
        _, errors = python.communicate()
        ended = time.perf_counter() - start
    if python.returncode:
        raise process.ChildError(f"the example failed: {errors.strip()[-2000:]}")
    return answered, ended, first


def measure_calls(spec: dict) -> dict:
    """Time single calls, chunk by chunk, in this process."""
    clusters = Clusters(100, seed=spec["seed"])
    options = {"routing": "principal", "seed": spec["seed"]}
    keys, labels = clusters.draw(10_000)
    warm_up(keys, **options)
    tree = filled_tree(keys, labels.tolist(), **options)

    def chunks(call):
        spent = []
        for _ in range(spec["chunks"]):
            rows = list(clusters.draw(1_000)[0])
            seconds, _ = cpu_seconds(lambda rows=rows: [call(row) for row in rows], clock=time.thread_time)
            spent.append(seconds * 1e3)  # µs a call
        return sorted(spent)

    return {"query": chunks(tree.query), "insert": chunks(lambda row: tree.insert(row, 0))}


def run(job: Job) -> Report:
    """Run the benchmark."""
    code = quickstart()
    repeats = 2 if job.quick else 5
    report = Report("Patience: the first answer and a single call", __doc__)
    job.step("empty Numba cache", 4)
    with tempfile.TemporaryDirectory() as cache:
        cold, cold_end, _ = run_python(code, cache)
        job.step("full Numba cache")
        warm, warm_end, _ = min(run_python(code, cache) for _ in range(repeats))
        job.step("import")
        imported = min(float(run_python(IMPORT, cache)[2]) for _ in range(repeats))
    job.step("single calls")
    calls = process.call("lab.benchmarks.patience:measure_calls", {"seed": job.seed, "chunks": 5 if job.quick else 20})

    starts = Table("Starting, wall-clock s", ["start", "to the first answer", "to the end"])
    starts.add("first example, empty Numba cache", cold, cold_end)
    starts.add("first example, full Numba cache", warm, warm_end)
    starts.add("import memorytree", imported, imported)
    single = Table("One call, 10,000 memories", ["call", "least µs", "median µs"])
    for name, spent in calls.items():
        single.add(name, spent[0], spent[len(spent) // 2])
    report.tables += [starts, single]
    report.runs = calls
    report.at_most("first answer, empty Numba cache", 10, cold, "s")
    report.at_most("first answer, full Numba cache", 1.5, warm, "s")
    report.at_most("import", 1, imported, "s")
    report.at_most("one query call", 8, calls["query"][0], "µs")
    report.at_most("one insert call", 12, calls["insert"][0], "µs")
    return report
