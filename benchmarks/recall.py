"""Search: the nearest of many keys by exact scan, by hnswlib and by ours, recall against time.

The ten nearest (Euclidean) of 128-dimensional keys in Gaussian clusters of about a hundred, for fresh rows of the same
clusters; and of 32 independent Gaussians, keys without any structure. The scan is one BLAS matrix-vector product and a
partial sort for each query, one thread; hnswlib has M = 16, ef_construction = 100, one thread, `ef` swept; ours is principal
routing without and with neighbours, the beam swept, one thread. CPU time of a query, the least of several runs; queries of
hnswlib and ours go in as one batch.
"""

import numpy as np

from benchmarks import ours
from benchmarks.report import Job, Report, Table
from memorytree.lab.datasets.made import Clusters
from memorytree.lab.measuring import cpu_seconds, installed
from memorytree.lab.peers.approximate import ask_hnsw, hnsw_of

K = 10
HNSW, TREE, NEIGHBOURS = "hnswlib", "memorytree", "memorytree, neighbours"
ROUTINGS = {TREE: "principal", NEIGHBOURS: "neighbours"}
WIDTHS = (1, 2, 4, 8, 16, 32, 64, 96, 128, 256, 512)
ENOUGH = 0.9


class Scan:
    """Exact search: |key|^2 - 2 key.query ranks keys as their distance does."""

    def __init__(self, keys):
        self.keys, self.lengths = keys, np.einsum("ij,ij->i", keys, keys)

    def one(self, query):
        distance = self.lengths - 2 * (self.keys @ query)
        best = np.argpartition(distance, K)[:K]
        return best[np.argsort(distance[best])]

    def many(self, queries):
        from threadpoolctl import threadpool_limits

        with threadpool_limits(1):
            return np.array([self.one(query) for query in queries])


def recall(found, truth) -> float:
    return float(np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, truth, strict=True)])) / K


def sets_of(job: Job) -> dict[str, tuple]:
    """Return keys and queries by what they are."""
    rows, few, asked = (10_000, 5_000, 200) if job.quick else (100_000, 30_000, 2_000)
    clusters, chance = Clusters(rows // 100, seed=job.seed), np.random.default_rng(job.seed)
    return {
        "clusters": (clusters.draw(rows)[0], clusters.draw(asked)[0]),
        "no structure": tuple(chance.normal(size=(n, 32)).astype(np.float32) for n in (few, asked)),
    }


def run(job: Job) -> Report:
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
    for system in (TREE, NEIGHBOURS):
        faster = scan_us / times[system] if times[system] else 0.0
        report.at_least(f"{system}: recall@10 of 0.9, times faster than the scan", 20, faster, "x")
    for system, wanted in ((TREE, 20), (NEIGHBOURS, 5)):
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
            ours.warm_up(keys, **options)
            build_s[system], index = cpu_seconds(lambda options=options: ours.numbered(keys, **options), repeats)
        ask = ask_hnsw if system == HNSW else ours.ask_all
        for width in WIDTHS:
            job.step(f"{name}: {system}, {width}")
            if system == HNSW and width < K:  # it keeps no fewer in mind than it returns
                continue
            seconds, found = cpu_seconds(lambda: ask(index, queries, K, width), repeats)  # noqa: B023
            points[system].append((width, recall(found, truth), seconds / len(queries) * 1e6))
    return scan_s / len(few) * 1e6, points, build_s


def fastest(points) -> float | None:
    """Return the µs of the fastest setting that finds enough."""
    return min((us for _, share, us in points if share >= ENOUGH), default=None)


def tables(name, keys, asked, scan_us, curves, build_s) -> list[Table]:
    shape = f"{len(keys):,} x {keys.shape[1]}, {name}"
    found = Table(
        f"Recall@{K}: {shape}, {asked:,} queries", ["", "setting", "recall", "query µs", "times faster than the scan"]
    )
    found.add("exact scan", "-", 1.0, scan_us, 1.0)
    for system, points in curves.items():
        for width, share, us in points:
            found.add(system, f"{'ef' if system == HNSW else 'beam'} {width}", share, us, scan_us / us)
    built = Table(f"Building: {shape}", ["", "inserts/s", "CPU s"])
    for system, seconds in build_s.items():
        built.add(system, len(keys) / seconds, seconds)
    return [found, built]


def plot(curves, scans, sets):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 4.2))
    for axes, name in zip(figure.subplots(1, 2), sets, strict=True):
        for (system, points), marker in zip(curves[name].items(), "os^", strict=False):
            axes.plot([us for *_, us in points], [share for _, share, _ in points], marker=marker, label=system)
        axes.plot([scans[name]], [1.0], "k*", markersize=12, label="exact scan")
        axes.axvline(scans[name] / 20, color="grey", linewidth=0.8, linestyle=":", label="a twentieth of the scan")
        axes.axhline(ENOUGH, color="grey", linewidth=0.8, linestyle="--")
        rows, width = sets[name][0].shape
        axes.set(
            xscale="log", xlabel="CPU µs a query", ylabel=f"recall@{K}", title=f"{rows:,} keys of {width} numbers: {name}"
        )
        axes.grid(alpha=0.3)
        axes.legend()
    return figure
