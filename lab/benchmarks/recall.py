"""Search: the ten nearest of many keys, by memorytree and by the libraries that search by a graph; recall against time.

Sets: HoG features of Omniglot's drawings; 128-dimensional keys in Gaussian clusters of about a hundred; 32 independent
Gaussians, keys without any structure; and made-up embeddings, 20 latent dimensions through a random network of two layers,
of unit length. Queries are rows that are not stored. Every library has M = 16 and ef_construction = 100, memorytree its
defaults; all run on one thread in one process and take turns, setting by setting, and the least CPU time of a query in a
batch counts. Settings are ef, for memorytree the target recall; times at a recall are interpolated between the settings
around it. The plain default is a query without any option.
"""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from lab.baselines.graphs import SYSTEMS, GraphSystem, Memorytree, Principal
from lab.benchmarks.report import Job, Report
from lab.datasets.synthetic import Clusters, embeddings
from lab.measuring import cpu_seconds, installed
from lab.plots import Line, Panel, lines
from lab.tables import Table
from lab.tree_driver import warm_up

K = 10
LEVELS = (0.9, 0.95, 0.99)
ROWS_AT_ONCE = 200
ROUNDS = 3
ENOUGH = 0.9985  # recall above which a system is not asked to search further

Curve = list[tuple[float, float]]


def nearest(keys: np.ndarray, queries: np.ndarray) -> np.ndarray:
    """Return the rows of the K nearest keys of each query, by comparing all."""
    lengths = np.einsum("ij,ij->i", keys, keys)
    found = [
        np.argpartition(lengths - 2 * queries[start : start + ROWS_AT_ONCE] @ keys.T, K, axis=1)[:, :K]
        for start in range(0, len(queries), ROWS_AT_ONCE)
    ]
    return np.concatenate(found)


def recall(found: np.ndarray, truth: np.ndarray) -> float:
    """Return the mean share of the true neighbours that were found."""
    return float(np.mean([len(np.intersect1d(a, b)) for a, b in zip(found, truth, strict=True)])) / K


def sets_of(job: Job) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return (keys, queries) by the name of the data."""
    rows, many, queries = (5_000, 5_000, 200) if job.quick else (100_000, 300_000, 1_000)
    clusters, chance = Clusters(rows // 100, seed=job.seed), np.random.default_rng(job.seed)
    drawings = job.load("omniglot-15", tests=queries)
    made = embeddings(many + queries, job.seed)
    return {
        "Omniglot": (drawings.train, drawings.test[:queries]),
        "clusters": (clusters.draw(rows)[0], clusters.draw(queries)[0]),
        "no structure": tuple(chance.normal(size=(n, 32)).astype(np.float32) for n in (rows, queries)),
        "embeddings": (made[:many], made[many:]),
    }


def run(job: Job) -> Report:
    """Run the benchmark."""
    report = Report("Recall against time", __doc__)
    sets = sets_of(job)
    systems = [kind for kind in SYSTEMS if installed(kind.module)]
    missing = [kind.name for kind in SYSTEMS if kind not in systems]
    report.missing += [f"{name} is not installed, so nothing was compared with it" for name in missing]
    rounds = 1 if job.quick else ROUNDS
    job.step("starting", len(sets) * (1 + len(systems) * (1 + rounds)))
    panels = []
    for name, (keys, queries) in sets.items():
        panels.append(add_set(job, report, name, systems, np.ascontiguousarray(keys), np.ascontiguousarray(queries)))
    report.figure = lines(panels, columns=2)
    return report


def add_set(
    job: Job, report: Report, name: str, kinds: Sequence[type[GraphSystem]], keys: np.ndarray, queries: np.ndarray
) -> Panel:
    """Measure all systems on one set, and add tables and targets to the report."""
    job.step(f"{name}: comparing all keys")
    truth = nearest(keys, queries)
    systems, built = [kind() for kind in kinds], {}
    warm_up(keys, routing="graph", seed=0)
    warm_up(keys, routing="principal", seed=0)
    for system in systems:
        job.step(f"{name}: {system.name}, building")
        built[system.name], _ = cpu_seconds(lambda: system.build(keys))  # noqa: B023 (runs at once)
    curves = measure(job, name, systems, queries, truth)
    shape = f"{len(keys):,} x {keys.shape[1]}, {name}"
    ours = next(system for system in systems if isinstance(system, Memorytree))
    plain_s, found = cpu_seconds(lambda: ours.search_plainly(queries, K), 3)
    plain = recall(found, truth), plain_s / len(queries) * 1e6
    table = Table(f"{shape}: CPU µs", ["system", "insertion", *(f"query at recall {level}" for level in LEVELS)])
    for system in systems:
        times = [time_at(curves[system.name], level) for level in LEVELS]
        table.add(system.name, built[system.name] / len(keys) * 1e6, *times)
    report.tables.append(table)
    default = Table(f"{shape}: a query without options", ["recall@10", "query µs", "expected recall (stats)"])
    default.add(*plain, ours.tree.stats().expected_recall)
    report.tables.append(default)
    report.at_least(f"{name}: recall@10 of a query without options", 0.98, plain[0])
    peers = [system.name for system in systems if not isinstance(system, Memorytree | Principal)]
    for level in LEVELS:
        theirs = [us for peer in peers if (us := time_at(curves[peer], level)) is not None]
        own = time_at(curves[ours.name], level)
        ratio = min(theirs) / own if theirs and own else None
        report.at_least(f"{name}: queries at recall {level}, times as fast as the best peer", 2, ratio, "x")
    if "hnswlib" in built:
        report.at_least(f"{name}: insertions, times as fast as hnswlib", 3, built["hnswlib"] / built[ours.name], "x")
    points = [Line(system.name, [(us, share) for share, us in curves[system.name]]) for system in systems]
    return Panel(shape, "CPU µs a query", f"recall@{K}", points, logx=True)


def measure(job: Job, name: str, systems: Sequence[GraphSystem], queries: np.ndarray, truth: np.ndarray) -> dict[str, Curve]:
    """Return (recall, µs) of every system and setting; the systems take turns."""
    least: dict[str, dict[float, tuple[float, float]]] = {system.name: {} for system in systems}
    for _ in range(1 if job.quick else ROUNDS):
        for system in systems:
            job.step(f"{name}: {system.name}")
            for setting in system.settings:
                seconds, found = cpu_seconds(lambda: system.search(queries, K, setting))  # noqa: B023 (runs at once)
                share, us = recall(found, truth), seconds / len(queries) * 1e6
                before = least[system.name].get(setting, (share, np.inf))
                least[system.name][setting] = share, min(us, before[1])
                if share > ENOUGH:
                    break
    return {system: list(points.values()) for system, points in least.items()}


def time_at(curve: Curve, level: float) -> float | None:
    """Return the least time to reach a recall, on straight lines between settings; None if no setting does."""
    ordered = sorted(curve)
    if ordered and ordered[0][0] >= level:
        return ordered[0][1]
    times = [t0 + (t1 - t0) * (level - r0) / (r1 - r0) for (r0, t0), (r1, t1) in pairwise(ordered) if r0 < level <= r1]
    return min(times, default=None)
