"""The tree by itself as it grows: depth, time of a query and of an insertion, memory.

Principal routing on 128-dimensional keys in Gaussian clusters of about a hundred, each size in a process of its own.
Queries are fresh rows of the same clusters, k = 1, one leaf, one batch on one thread. CPU time: the least of several
runs for queries, the whole stream for insertions. Resident memory is that of the whole process at its peak, Python and
compiled code included; the rows reach the tree in chunks.
"""

from math import log2

from benchmarks import ours
from benchmarks.report import Job, Report, Table
from memorytree.lab import process
from memorytree.lab.datasets.made import Clusters
from memorytree.lab.measuring import MEGABYTE, cpu_seconds, peak_bytes, resident_bytes

OPTIONS = {"routing": "principal", "seed": 0}
CHUNK = 50_000
COLUMNS = ["memories", "average depth", "log2(n / leaf limit)", "depth", "leaf limit", "query µs", "insert µs"]
COLUMNS += ["bytes a memory", "of these beyond the key", "peak resident MB"]


def measure(spec: dict) -> dict:
    """Grow one tree in this process."""
    clusters = Clusters(max(10, spec["rows"] // 100), seed=spec["seed"])
    queries, _ = clusters.draw(spec["asked"])
    ours.warm_up(queries, **OPTIONS)
    before = resident_bytes()
    tree, left, insert_s = ours.MemoryTree(**OPTIONS), spec["rows"], 0.0
    while left:
        keys, labels = clusters.draw(min(left, CHUNK))
        values = labels.tolist()
        spent, _ = cpu_seconds(lambda keys=keys, values=values: tree.insert_many(keys, values))
        insert_s, left = insert_s + spent, left - len(keys)
    query_s, _ = cpu_seconds(lambda: ours.ask_all(tree, queries), spec["repeats"])
    return {
        **ours.anatomy(tree),
        "insert_us": insert_s / spec["rows"] * 1e6,
        "query_us": query_s / spec["asked"] * 1e6,
        "resident_before": before,
        "peak": peak_bytes(),
    }


def run(job: Job) -> Report:
    sizes = (1_000, 10_000) if job.quick else (10_000, 100_000, 1_000_000)
    report = Report("Growth: depth, time and memory as the tree grows", __doc__)
    table = Table("Principal routing, 128 dimensions", COLUMNS)
    job.step("starting", len(sizes))
    found = {}
    for rows in sizes:
        job.step(f"{rows:,} memories")
        spec = {"rows": rows, "asked": 2_000 if job.quick else 20_000, "repeats": 5, "seed": job.seed}
        here = found[rows] = process.call("benchmarks.growth:measure", spec)
        ideal = log2(rows / here["leaf_limit"])
        table.add(
            *(rows, here["average_depth"], ideal, here["depth"], here["leaf_limit"]),
            *(here["query_us"], here["insert_us"], here["bytes"] / rows, here["rest"] / rows, here["peak"] / MEGABYTE),
        )
        over = here["average_depth"] - ideal
        report.at_most(f"average depth over log2(n / leaf limit) at {rows:,}", 1.3, over)
    least, most = found[sizes[0]], found[sizes[-1]]
    growth = most["query_us"] / least["query_us"]
    report.at_most(f"query at one leaf, {sizes[-1]:,} against {sizes[0]:,} memories", 4, growth, "x")
    report.at_most(f"query at one leaf, {sizes[-1]:,} memories", 6, most["query_us"], "µs")
    report.at_most(f"peak memory of the process, {sizes[-1]:,} memories", 2048, most["peak"] / MEGABYTE, "MB")
    report.tables.append(table)
    report.runs = found
    report.figure = plot(found)
    return report


def plot(found):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.8))
    left, right = figure.subplots(1, 2)
    sizes = list(found)
    left.plot(sizes, [found[n]["query_us"] for n in sizes], "o-", label="query, one leaf")
    left.plot(sizes, [found[n]["insert_us"] for n in sizes], "s-", label="insert")
    left.set(xscale="log", ylim=(0, None), xlabel="memories", ylabel="CPU µs")
    right.plot(sizes, [found[n]["average_depth"] for n in sizes], "o-", label="average depth")
    bound = [log2(n / found[n]["leaf_limit"]) + 1.3 for n in sizes]
    right.plot(sizes, bound, "k:", label="log2(n / leaf limit) + 1.3")
    right.set(xscale="log", ylim=(0, None), xlabel="memories", ylabel="nodes from root to leaf")
    for axes in (left, right):
        axes.grid(alpha=0.3)
        axes.legend()
    figure.tight_layout()
    return figure
