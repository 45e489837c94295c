"""Search: the nearest of many keys by exact scan, by hnswlib and by ours with principal routing, recall against time.

The ten nearest (Euclidean) of 128-dimensional keys in Gaussian clusters of about a hundred, for fresh rows of the same
clusters. The scan is one BLAS matrix-vector product and a partial sort for each query, one thread; hnswlib has M = 16,
ef_construction = 100, one thread, `ef` swept; ours is principal routing with the beam swept, one thread. CPU time of a
query, the least of several runs; queries of hnswlib and ours go in as one batch.
"""

import numpy as np

from benchmarks import ours
from benchmarks.report import Job, Report, Table
from memorytree.lab.datasets.made import Clusters
from memorytree.lab.measuring import cpu_seconds, installed
from memorytree.lab.peers.approximate import ask_hnsw, hnsw_of

K = 10
OPTIONS = {"routing": "principal", "seed": 0}
BEAMS = (1, 2, 4, 8, 16, 32, 64, 96, 128, 256, 512)
EFS = (10, 16, 24, 32, 48, 64, 96, 128, 256, 512)


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


def curve(search, settings, queries, truth, repeats, say):
    """Return (setting, recall, µs a query) for every setting."""
    points = []
    for setting in settings:
        say(setting)
        seconds, found = cpu_seconds(lambda setting=setting: search(setting), repeats)
        points.append((setting, recall(found, truth), seconds / len(queries) * 1e6))
    return points


def run(job: Job) -> Report:
    rows, asked, repeats = (10_000, 200, 2) if job.quick else (100_000, 2_000, 3)
    clusters = Clusters(rows // 100, seed=job.seed)
    keys, _ = clusters.draw(rows)
    queries, _ = clusters.draw(asked)
    job.step("exact scan", 3 + len(BEAMS) + (1 + len(EFS)) * installed("hnswlib"))
    scan, few = Scan(keys), queries[: max(50, asked // 10)]
    scan_s, _ = cpu_seconds(lambda: scan.many(few), repeats)
    scan_us = scan_s / len(few) * 1e6
    truth = scan.many(queries)

    report = Report("Recall against time: exact scan, hnswlib, memorytree", __doc__)
    build = Table(f"Building, {rows:,} x {keys.shape[1]}", ["", "inserts/s", "CPU s"])
    points = Table(f"Recall@{K}, {asked:,} queries", ["", "setting", "recall", "query µs", "times faster than the scan"])
    points.add("exact scan", "-", 1.0, scan_us, 1.0)
    curves, build_s = {}, {}

    def measure(name, knob, make, search, settings):
        job.step(f"{name}, building")
        build_s[name], index = cpu_seconds(make, repeats)
        build.add(name, rows / build_s[name], build_s[name])
        curves[name] = curve(
            lambda setting: search(index, setting),
            settings,
            queries,
            truth,
            repeats,
            lambda setting: job.step(f"{name}, {knob} {setting}"),
        )
        for setting, share, spent in curves[name]:
            points.add(name, f"{knob} {setting}", share, spent, scan_us / spent)

    if installed("hnswlib"):
        measure(
            "hnswlib",
            "ef",
            lambda: hnsw_of(keys),
            lambda index, ef: ask_hnsw(index, queries, K, ef),
            EFS,
        )
    else:
        report.missing.append("hnswlib is not installed, so nothing was compared with it")
    job.step("memorytree, compiling")
    ours.warm_up(keys, **OPTIONS)
    measure(
        "memorytree",
        "beam",
        lambda: ours.numbered(keys, **OPTIONS),
        lambda tree, beam: ours.ask_all(tree, queries, K, beam),
        BEAMS,
    )

    enough = [spent for _, share, spent in curves["memorytree"] if share >= 0.9]
    faster = build_s["hnswlib"] / build_s["memorytree"] if "hnswlib" in build_s else None
    report.tables += [points, build]
    report.at_least("recall@10 of 0.9, times faster than the scan", 20, scan_us / min(enough) if enough else 0.0, "x")
    report.at_least("inserts per second, times hnswlib's", 20, faster, "x")
    report.figure = plot(curves, scan_us, rows)
    return report


def plot(curves, scan_us, rows):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 4.2))
    axes = figure.subplots()
    for (name, points), marker in zip(curves.items(), "os", strict=False):
        axes.plot([spent for *_, spent in points], [share for _, share, _ in points], marker=marker, label=name)
    axes.plot([scan_us], [1.0], "k*", markersize=12, label="exact scan")
    axes.axvline(scan_us / 20, color="grey", linewidth=0.8, linestyle=":", label="a twentieth of the scan")
    axes.axhline(0.9, color="grey", linewidth=0.8, linestyle="--")
    axes.set(xscale="log", xlabel="CPU µs a query", ylabel=f"recall@{K}", title=f"{rows:,} keys of 128 dimensions")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
