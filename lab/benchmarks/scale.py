"""Growth: a query without options of 1,000 to a million made-up embeddings, by memorytree, beside hnswlib up to 100,000.

Keys are those of `./mt bench recall`: 96 numbers from 20 latent dimensions. The exponent is that of the time of a query
between neighbouring sizes: 0.5 means that a hundred times as many memories take ten times as long. Filters fit a random
part of the memories. CPU time on one thread, the least of three runs.
"""

import math

import numpy as np

from lab.baselines.graphs import Hnswlib, Memorytree
from lab.benchmarks.recall import K, nearest, recall, time_at
from lab.benchmarks.report import Job, Report
from lab.datasets.synthetic import embeddings
from lab.measuring import cpu_seconds, installed
from lab.tables import Table
from lab.tree_driver import warm_up
from memorytree.arguments import IdSet

SIZES, QUERIES = (1_000, 10_000, 100_000, 1_000_000), 500
PEER_ROWS = 100_000
PARTS = (0.1, 0.01, 0.001)


def run(job: Job) -> Report:
    """Run the benchmark."""
    sizes = SIZES[:2] if job.quick else SIZES
    report = Report("Growth to a million memories", __doc__)
    made = embeddings(sizes[-1] + QUERIES, job.seed)
    queries = made[-QUERIES:]
    job.step("starting", 2 * len(sizes) + 1)
    warm_up(made[:5_000], routing="graph", seed=0)
    grown = Table(
        "A query without options", ["memories", "recall@10", "query µs", "exponent", "insertion µs", "bytes", "hnswlib"]
    )
    before = None
    for n in sizes:
        job.step(f"{n:,} memories")
        keys, system = made[:n], Memorytree()
        insert_s, _ = cpu_seconds(lambda: system.build(keys))  # noqa: B023 (runs at once)
        job.step(f"{n:,} memories: comparing all keys")
        truth = nearest(keys, queries)
        us, share = measure(system, queries, truth)
        exponent = None if before is None else math.log(us / before) / math.log(10)
        stats = system.tree.stats()
        peer = hnswlib_us(keys, queries, truth, share) if n <= PEER_ROWS and installed("hnswlib") else None
        grown.add(f"{n:,}", share, us, exponent, insert_s / n * 1e6, stats.bytes / n, peer)
        report.at_least(f"{n:,} memories: recall@10 of a query without options", 0.98, share)
        before = us
    report.tables += [grown, filters(job, report, system, made[: sizes[-1]], queries, us)]
    return report


def measure(system: Memorytree, queries: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Return µs of a query without options, and its recall."""
    seconds, found = cpu_seconds(lambda: system.search_plainly(queries, K), 3)
    return seconds / len(queries) * 1e6, recall(found, truth)


def hnswlib_us(keys: np.ndarray, queries: np.ndarray, truth: np.ndarray, share: float) -> float | None:
    """Return µs of a query of hnswlib at a recall."""
    system, curve = Hnswlib(), []
    system.build(keys)
    for setting in system.settings:
        seconds, found = cpu_seconds(lambda: system.search(queries, K, setting), 3)  # noqa: B023 (runs at once)
        curve.append((recall(found, truth), seconds / len(queries) * 1e6))
    return time_at(curve, share)


def filters(job: Job, report: Report, system: Memorytree, keys: np.ndarray, queries: np.ndarray, plain_us: float) -> Table:
    """Measure queries that may return a part of the memories only."""
    job.step("filters")
    table = Table(f"Filters, {len(keys):,} memories", ["part", "recall@10", "query µs", "times that without"])
    chance = np.random.default_rng(job.seed)
    for part in PARTS:
        ids = np.flatnonzero(chance.random(len(keys)) < part)
        allowed, truth = IdSet(ids), ids[nearest(keys[ids], queries)]
        search = lambda: system.tree.query_many(queries, K, allowed=allowed).ids  # noqa: B023, E731 (runs at once)
        seconds, found = cpu_seconds(search, 3)
        us = seconds / len(queries) * 1e6
        table.add(f"{part:.1%}", recall(found, truth), us, us / plain_us)
        report.at_most(f"a filter that {part:.1%} fit, times a query without", 3, us / plain_us, "x")
    return table
