"""Search among sparse keys: recall against time, beside other systems; growth; filters."""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
import scipy.sparse as sp

from lab.baselines.inverted import EFFORTS, EXACT, SYSTEMS
from lab.benchmarks.report import Job, Report
from lab.datasets.synthetic import texts
from lab.measuring import cpu_seconds, installed
from lab.plots import Line, Panel, lines
from lab.tables import Table
from lab.tree_driver import warm_up
from memorytree import MemoryTree

K = 10
LEVELS = (0.9, 0.95, 0.99)
RECALLS = (0.5, 0.7, 0.8, 0.85, 0.9, 0.93, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)
SETS = ("wikipara-1", "wikipara-2", "wikipara-3", "yso")
COMPARED = ("wikipara-3", "yso")
GROWTH = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
SHARES = (0.1, 0.01, 0.001)
QUERIES = 1000
OURS = "memorytree"
OPTIONS = {"scorer": "cosine", "routing": "terms"}
OWN_SCORES = ("bm25s",)  # rank by other scores, exactly


class Point(NamedTuple):
    """One setting of a system: its name, recall and CPU µs of a query."""

    effort: str
    recall: float
    us: float


def unit_rows(rows: sp.csr_matrix) -> sp.csr_matrix:
    """Return rows of length one."""
    lengths = np.sqrt(np.asarray(rows.multiply(rows).sum(axis=1)).ravel())
    return sp.csr_matrix(sp.diags(1 / np.maximum(lengths, 1e-30)) @ rows, dtype=np.float32)


def last_scores(keys: sp.csr_matrix, queries: sp.csr_matrix) -> np.ndarray:
    """Return the exact cosine of the tenth neighbour of each query."""
    columns = keys.T.tocsr()
    blocks = (queries[first : first + 50] @ columns for first in range(0, queries.shape[0], 50))
    return np.concatenate([np.partition(block.toarray(), -K, axis=1)[:, -K] for block in blocks])


def recall_of(keys: sp.csr_matrix, queries: sp.csr_matrix, found: np.ndarray, last: np.ndarray) -> float:
    """Return the share of the rows found that are as near as the exact tenth neighbour."""
    pairs = keys[np.maximum(found, 0).ravel()].multiply(queries[np.repeat(np.arange(len(found)), found.shape[1])])
    scores = np.where(found >= 0, np.asarray(pairs.sum(axis=1)).reshape(found.shape), -1)
    return float(np.mean(scores >= last[:, None] - 1e-5))


def filled(keys: sp.csr_matrix, job: Job) -> tuple[float, MemoryTree]:
    """Return CPU µs of an insertion, and a tree of these keys; everything is compiled before."""
    warm_up(keys, seed=job.seed, **OPTIONS)
    first = MemoryTree(seed=job.seed, **OPTIONS)
    first.insert_many(keys[:2000], range(min(keys.shape[0], 2000)))  # compiles what measures effort
    first.query_many(keys[:10], k=K, allowed=np.arange(500))

    def fill() -> MemoryTree:
        tree = MemoryTree(seed=job.seed, **OPTIONS)
        tree.insert_many(keys, range(keys.shape[0]))
        return tree

    seconds, tree = cpu_seconds(fill)
    return seconds / keys.shape[0] * 1e6, tree


def measure_ours(tree: MemoryTree, keys: sp.csr_matrix, queries: sp.csr_matrix, last: np.ndarray) -> list[Point]:
    """Return the default and the recalls asked for."""
    points = []
    for wanted in (None, *RECALLS):
        seconds, hits = cpu_seconds(lambda wanted=wanted: tree.query_many(queries, k=K, recall=wanted), 5)
        share = recall_of(keys, queries, hits.ids, last)
        points.append(Point("default" if wanted is None else f"recall={wanted}", share, seconds / len(last) * 1e6))
    return points


def measure_peer(name: str, keys: sp.csr_matrix, queries: sp.csr_matrix, last: np.ndarray) -> tuple[float, list[Point]]:
    """Return CPU µs of building for a row, and all efforts of another system."""
    seconds, search = cpu_seconds(lambda: SYSTEMS[name](keys))
    points = []
    for effort in EFFORTS.get(name, EXACT):
        search(queries[:5], K, effort)
        spent, found = cpu_seconds(lambda effort=effort: search(queries, K, effort), 3)
        share = 1.0 if name in OWN_SCORES else recall_of(keys, queries, found, last)
        points.append(Point("-" if effort is None else str(effort), share, spent / len(last) * 1e6))
    return seconds / keys.shape[0] * 1e6, points


def time_at(points: list[Point], level: float) -> float | None:
    """Return the least time that reaches a recall, on straight lines between neighbouring points of the best ones."""
    best = [point for point in points if not any(other.recall >= point.recall and other.us < point.us for other in points)]
    best.sort(key=lambda point: point.recall)
    reached = [point.us for point in best if point.recall >= level][:1]
    for below, above in pairwise(best):
        if below.recall < level <= above.recall:
            part = (level - below.recall) / (above.recall - below.recall)
            reached = [below.us + part * (above.us - below.us)]
    return reached[0] if reached else None


def compare(report: Report, job: Job, name: str) -> Panel:
    """Measure one data set with all systems, and add its tables and targets."""
    data = job.load(name, tests=None)
    keys, queries = unit_rows(data.train), unit_rows(data.test[data.test.getnnz(axis=1) > 0][:QUERIES])
    last = last_scores(keys, queries)
    job.step(f"{name}: {OURS}")
    insert_us, tree = filled(keys, job)
    curves, built = {OURS: measure_ours(tree, keys, queries, last)}, {OURS: insert_us}
    for system in SYSTEMS if name in COMPARED else ():
        job.step(f"{name}: {system}")
        if system in ("bm25s", "seismic") and not installed(system):
            report.missing.append(f"{system} is not installed, so nothing was compared with it")
            continue
        built[system], curves[system] = measure_peer(system, keys, queries, last)
    shown = Table(
        f"{name}: {keys.shape[0]:,} keys, {len(last):,} queries", ["system", "effort", "recall@10", "query µs", "insert µs"]
    )
    for system, points in curves.items():
        for point in points:
            shown.add(system, point.effort, point.recall, point.us, built[system])
    report.tables.append(shown)
    report.at_least(f"{name}: recall@10 of the plain default", 0.97, curves[OURS][0].recall)
    if name in COMPARED:
        add_levels(report, name, curves)
        add_filters(report, job, name, tree, keys, queries)
    graphs = [
        Line(system, [(point.us, point.recall) for point in sorted(points, key=lambda point: point.us)])
        for system, points in curves.items()
    ]
    return Panel(title=name, x="CPU µs a query", y="recall@10", lines=graphs, logx=True)


def add_levels(report: Report, name: str, curves: dict[str, list[Point]]) -> None:
    """Add the times at each level of recall, and the targets."""
    table = Table(f"{name}: query µs at a recall", ["recall@10", *curves, "best other / memorytree"])
    for level in LEVELS:
        times = {system: time_at(points, level) for system, points in curves.items()}
        others = [us for system, us in times.items() if system != OURS and us is not None]
        ratio = min(others) / times[OURS] if others and times[OURS] else None
        table.add(level, *times.values(), ratio)
        report.at_least(f"{name}: times as fast as the best other at recall {level}", 2, ratio, "x")
    report.tables.append(table)


def add_filters(report: Report, job: Job, name: str, tree: MemoryTree, keys: sp.csr_matrix, queries: sp.csr_matrix) -> None:
    """Add the times and recalls of queries for a part of the memories."""
    plain, _ = cpu_seconds(lambda: tree.query_many(queries, k=K), 3)
    table = Table(f"{name}: only a part of the memories may be returned", ["share", "recall@10", "times the query without"])
    for share in SHARES:
        job.step(f"{name}: filters")
        chosen = np.sort(np.random.default_rng(job.seed).permutation(keys.shape[0])[: max(K, int(share * keys.shape[0]))])
        seconds, hits = cpu_seconds(lambda chosen=chosen: tree.query_many(queries, k=K, allowed=chosen), 3)
        place = np.full(keys.shape[0] + 1, -1)
        place[chosen] = np.arange(len(chosen))
        last = last_scores(keys[chosen], queries)
        table.add(share, recall_of(keys[chosen], queries, place[hits.ids], last), seconds / plain)
        report.at_most(f"{name}: times as long with {share:.1%} allowed", 3, seconds / plain, "x")
    report.tables.append(table)


def add_growth(report: Report, job: Job) -> Panel:
    """Measure the default for more and more texts of one kind."""
    sizes = GROWTH[:3] if job.quick else GROWTH
    columns = [
        "keys",
        "recall@10",
        "query µs",
        "lean exact query µs",
        "insert µs",
        "remove µs",
        "bytes beyond the key",
        "expected recall",
    ]
    table, points = Table("Growth: made-up texts of 5 to 50 words in 3,000 topics", columns), []
    for size in sizes:
        job.step(f"growth: {size:,}")
        rows = unit_rows(texts(size + QUERIES, seed=job.seed))
        keys, queries = rows[:size], rows[size:]
        last = last_scores(keys, queries)
        insert_us, tree = filled(keys, job)
        ours, lean = measure_ours_default(tree, queries), measure_peer("lean", keys, queries[:200], last[:200])[1][0]
        share, stats = recall_of(keys, queries, ours[1], last), tree.stats()
        table.add(
            size, share, ours[0], lean.us, insert_us, removal_us(tree), stats.other_bytes / size, stats.expected_recall
        )
        points.append((size, ours[0], lean.us))
        report.at_least(f"recall@10 of the plain default, {size:,} texts", 0.97, share)
    large = [point for point in points if point[0] >= 10_000] or points
    exponent = [float(np.polyfit(np.log([p[0] for p in large]), np.log([p[at] for p in large]), 1)[0]) for at in (1, 2)]
    report.tables.append(table)
    report.at_most("exponent of the time of a default query in the number of texts, from 10,000 on", 0.5, exponent[0])
    curves = [
        Line(f"{label}: n^{power:.2f}", [(p[0], p[at]) for p in points])
        for label, at, power in ((OURS, 1, exponent[0]), ("lean", 2, exponent[1]))
    ]
    return Panel(title="growth", x="memories", y="CPU µs a query", lines=curves, logx=True, logy=True)


def measure_ours_default(tree: MemoryTree, queries: sp.csr_matrix) -> tuple[float, np.ndarray]:
    """Return CPU µs of a query without options, and the ids found."""
    seconds, hits = cpu_seconds(lambda: tree.query_many(queries, k=K), 3)
    return seconds / queries.shape[0] * 1e6, hits.ids


def removal_us(tree: MemoryTree, many: int = 300) -> float:
    """Return CPU µs of a removal; the tree is not used afterwards."""
    chosen = np.random.default_rng(0).permutation(len(tree))[:many].tolist()
    tree.remove(chosen.pop())
    seconds, _ = cpu_seconds(lambda: [tree.remove(id) for id in chosen], 1)
    return seconds / len(chosen) * 1e6


def add_search(report: Report, job: Job) -> None:
    """Add everything about search to a report, with its figure."""
    names = COMPARED[:1] if job.quick else SETS
    steps = len(names) * (1 + len(SYSTEMS) + len(SHARES)) + len(GROWTH)
    job.step("search", steps)
    panels = [compare(report, job, name) for name in names]
    report.figure = lines([*(panel for panel in panels if panel.title in COMPARED), add_growth(report, job)])
