"""What a person at the keyboard waits for: the first answer, the import, and one call.

The README's first Python example from the start of the process to its end, in wall-clock time, with an empty Numba
cache and with a full one; the import alone. Then single calls from Python on 10,000 memories of 128 dimensions,
principal routing, k = 1: CPU time of a call, the least and the median over chunks of 1,000 calls.
"""

import re
import subprocess
import sys
import tempfile
import time

from benchmarks import child, data
from benchmarks.measure import cpu_seconds
from benchmarks.report import Job, Report, Table

IMPORT = "import time; start = time.perf_counter(); import memorytree; print(time.perf_counter() - start)"


def quickstart() -> str:
    """Return the README's first Python example."""
    readme = child.ROOT / "README.md"
    found = re.search(
        r"^```python\n(.*?)^```", readme.read_text(encoding="utf8") if readme.exists() else "", re.M | re.S
    )
    if not found:
        raise data.DataMissingError("README.md has no Python example to time")
    return found.group(1)


def run_python(code: str, cache: str) -> tuple[float, str]:
    """Run code in a fresh interpreter; return the wall-clock seconds it took and what it printed."""
    start = time.perf_counter()
    env = child.environment(NUMBA_CACHE_DIR=cache)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=cache, env=env)
    spent = time.perf_counter() - start
    if done.returncode:
        raise child.ChildError(f"the example failed: {done.stderr.strip()[-2000:]}")
    return spent, done.stdout


def measure_calls(spec: dict) -> dict:
    """Time single calls, chunk by chunk, in this process."""
    from benchmarks import ours

    clusters = data.Clusters(100, seed=spec["seed"])
    options = {"routing": "principal", "seed": spec["seed"]}
    keys, labels = clusters.draw(10_000)
    ours.warm_up(keys, **options)
    tree, _ = ours.insert_all(keys, labels.tolist(), **options)

    def chunks(call):
        spent = []
        for _ in range(spec["chunks"]):
            rows = list(clusters.draw(1_000)[0])
            seconds, _ = cpu_seconds(lambda rows=rows: [call(row) for row in rows], clock=time.thread_time)
            spent.append(seconds * 1e3)  # µs a call
        return sorted(spent)

    return {"query": chunks(tree.query), "insert": chunks(lambda row: tree.insert(row, 0))}


def run(job: Job) -> Report:
    code = quickstart()
    repeats = 2 if job.quick else 5
    report = Report("Patience: the first answer and a single call", __doc__)
    job.step("empty Numba cache", 4)
    with tempfile.TemporaryDirectory() as cache:
        cold, _ = run_python(code, cache)
        job.step("full Numba cache")
        warm = min(run_python(code, cache)[0] for _ in range(repeats))
        job.step("import")
        imported = min(float(run_python(IMPORT, cache)[1]) for _ in range(repeats))
    job.step("single calls")
    calls = child.call("benchmarks.patience:measure_calls", {"seed": job.seed, "chunks": 5 if job.quick else 20})

    starts = Table("Starting", ["", "wall-clock s"])
    starts.add("README example, empty Numba cache", cold)
    starts.add("README example, full Numba cache", warm)
    starts.add("import memorytree", imported)
    single = Table("One call, 10,000 memories", ["", "least µs", "median µs"])
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
