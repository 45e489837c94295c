"""Search: the nearest of many keys by exact scan, by hnswlib and by memorytree; recall against time.

The ten nearest (Euclidean) of 128-dimensional keys in Gaussian clusters of about a hundred, for fresh rows of the same
clusters; and of 32 independent Gaussians, keys without any structure. The scan is one BLAS matrix-vector product and a
partial sort for each query, one thread; hnswlib has M = 16, ef_construction = 100, one thread, `ef` swept; ours is principal
routing and graph routing, the beam swept, one thread. CPU time of a query, the least of several runs; queries of
hnswlib and ours go in as one batch.
"""

import numpy as np

from lab.baselines.approximate import hnsw_of, nearest_by_hnsw
from lab.benchmarks.report import Job, Report
from lab.datasets.synthetic import Clusters
from lab.measuring import cpu_seconds, installed
from lab.tables import Table
from lab.tree_driver import filled_tree, nearest_ids, warm_up

K = 10
HNSW, TREE, GRAPH = "hnswlib", "memorytree", "memorytree, graph"
ROUTINGS = {TREE: "principal", GRAPH: "graph"}
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 96, 128, 256, 512)
RECALL_GOAL = 0.9


class Scan:
    """Exact search: |key|^2 - 2 key.query ranks keys as their distance does."""

    def __init__(self, keys):
        self.keys, self.lengths = keys, np.einsum("ij,ij->i", keys, keys)

    def one(self, query):
        """Return the nearest keys of one query."""
        distance = self.lengths - 2 * (self.keys @ query)
        best = np.argpartition(distance, K)[:K]
        return best[np.argsort(distance[best])]

    def many(self, queries):
        """Return the nearest keys of many queries, on one thread."""
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            return np.array([self.one(query) for query in queries])


def recall(found, truth) -> float:
    """Return the mean share of the true neighbours that were found."""
    return float(np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, truth, strict=True)])) / K


def sets_of(job: Job) -> dict[str, tuple]:
    """Return (keys, queries) by the name of the data."""
    rows, few, queries = (10_000, 5_000, 200) if job.quick else (100_000, 30_000, 2_000)
    clusters, chance = Clusters(rows // 100, seed=job.seed), np.random.default_rng(job.seed)
    return {
        "clusters": (clusters.draw(rows)[0], clusters.draw(queries)[0]),
        "no structure": tuple(chance.normal(size=(n, 32)).astype(np.float32) for n in (few, queries)),
    }


def run(job: Job) -> Report:
    """Run the benchmark."""
    report = Report("Recall against time: exact scan, hnswlib, memorytree", __doc__)
    if not installed(HNSW):
        report.missing.append("hnswlib is not installed, so nothing was compared with it")
    sets = sets_of(job)
    systems = [HNSW] * installed(HNSW) + list(ROUTINGS)
    job.step("starting", len(sets) * (1 + len(systems) * (1 + len(WIDTHS))))
    curves, scans, build_s = {}, {}, {}
    for name, (keys, queries) in sets.items():
        scans[name], curves[name], build_s[name] = measure(job, name, systems, keys, queries)
        report.tables += tables(name, keys, len(queries), scans[name], curves[name], build_s[name])
    scan_us, spent = scans["clusters"], build_s["clusters"]
    times = {system: fastest(points) for system, points in curves["clusters"].items()}
    for system in (TREE, GRAPH):
        faster = scan_us / times[system] if times[system] else 0.0
        report.at_least(f"{system}: recall@10 of 0.9, times faster than the scan", 20, faster, "x")
    for system, wanted in ((TREE, 20), (GRAPH, 5)):
        ratio = spent[HNSW] / spent[system] if HNSW in spent else None
        report.at_least(f"{system}: inserts per second, times hnswlib's", wanted, ratio, "x")
    report.figure = plot(curves, scans, sets)
    return report


def measure(job: Job, name: str, systems: list[str], keys, queries):
    """Return µs of the scan, (width, recall, µs) of every system and width, and seconds of building."""
    repeats = 2 if job.quick else 3
    job.step(f"{name}: exact scan")
    scan, few = Scan(keys), queries[: max(50, len(queries) // 10)]
    scan_s, _ = cpu_seconds(lambda: scan.many(few), repeats)
    truth = scan.many(queries)
    points, build_s = {system: [] for system in systems}, {}
    for system in systems:
        job.step(f"{name}: {system}, building")
        options = {"routing": ROUTINGS.get(system), "seed": 0}
        if system == HNSW:
            build_s[system], index = cpu_seconds(lambda: hnsw_of(keys), repeats)
        else:
            warm_up(keys, **options)
            build_s[system], index = cpu_seconds(lambda options=options: filled_tree(keys, **options), repeats)
        search = nearest_by_hnsw if system == HNSW else nearest_ids
        for width in WIDTHS:
            job.step(f"{name}: {system}, {width}")
            if system == HNSW and width < K:  # hnswlib needs ef >= k
                continue
            seconds, found = cpu_seconds(lambda: search(index, queries, K, width), repeats)  # noqa: B023 (runs at once)
            points[system].append((width, recall(found, truth), seconds / len(queries) * 1e6))
    return scan_s / len(few) * 1e6, points, build_s


def fastest(points) -> float | None:
    """Return the µs of the fastest setting that reaches the recall goal."""
    return min((us for _, share, us in points if share >= RECALL_GOAL), default=None)


def tables(name, keys, queries, scan_us, curves, build_s) -> list[Table]:
    """Return the tables of recall and of building."""
    shape = f"{len(keys):,} x {keys.shape[1]}, {name}"
    found = Table(
        f"Recall@{K}: {shape}, {queries:,} queries",
        ["system", "setting", "recall", "query µs", "times faster than the scan"],
    )
    found.add("exact scan", "-", 1.0, scan_us, 1.0)
    for system, points in curves.items():
        for width, share, us in points:
            found.add(system, f"{'ef' if system == HNSW else 'beam'} {width}", share, us, scan_us / us)
    built = Table(f"Building: {shape}", ["system", "inserts/s", "CPU s"])
    for system, seconds in build_s.items():
        built.add(system, len(keys) / seconds, seconds)
    return [found, built]


def plot(curves, scans, sets):
    """Return the curves of recall against time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2))
    for axes, name in zip(figure.subplots(1, 2), sets, strict=True):
        for (system, points), marker in zip(curves[name].items(), "os^", strict=False):
            axes.plot([us for *_, us in points], [share for _, share, _ in points], marker=marker, label=system)
        axes.plot([scans[name]], [1.0], "k*", markersize=12, label="exact scan")
        axes.axvline(scans[name] / 20, color="grey", linewidth=0.8, linestyle=":", label="a twentieth of the scan")
        axes.axhline(RECALL_GOAL, color="grey", linewidth=0.8, linestyle="--")
        rows, width = sets[name][0].shape
        axes.set(
            xscale="log", xlabel="CPU µs a query", ylabel=f"recall@{K}", title=f"{rows:,} keys of {width} numbers: {name}"
        )
        axes.grid(alpha=0.3)
        axes.legend()
    return figure
