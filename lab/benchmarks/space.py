"""The learned space of `MemoryTreeClassifier` on Omniglot's rows, searched by memorytree and by hnswlib.

The classifier is fitted to 15 drawings of each character at its default settings. The projection of a row, 64 numbers, is
then the key: training rows are stored in a `MemoryTree` with routing="graph", in one with routing="principal", in four
such trees (Euclidean distance, beam swept) and in hnswlib (M = 16, ef_construction = 100, ef swept), all on one thread. The
answer is the label of the nearest row. CPU time of a query in a batch of all test rows; the systems take turns, the least of
several rounds counts; the projection is not timed. Errors are means over seeds, each with its own fit. Times at equal error,
so far above that of exact search, are interpolated linearly between settings.
"""

from collections.abc import Callable
from statistics import mean

import numpy as np

from lab import process
from lab.baselines.approximate import hnsw_of, nearest_by_hnsw
from lab.baselines.exact import nearest_rows
from lab.benchmarks.measures import fit_classifier
from lab.benchmarks.report import Job, Report
from lab.measuring import cpu_seconds, installed
from lab.process import read_arrays
from lab.tables import Table
from lab.tree_driver import WARM_UP_ROWS, filled_tree, nearest_ids, project

HNSW, GRAPH = "hnswlib", "memorytree, graph"
TREES: dict[str, dict] = {
    GRAPH: {"routing": "graph"}, "memorytree, 1 tree": {}, "memorytree, 4 trees": {"trees": 4},
}  # fmt: skip
FINE = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48, 64)
COARSE = (1, 2, 4, 8, 16, 32, 64, 128)
ABOVE = (0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


def makers(seed: int) -> dict[str, Callable]:
    """Return for each system a function that builds its index of some rows."""
    trees = {
        name: lambda rows, settings=settings: filled_tree(rows, seed=seed, **settings) for name, settings in TREES.items()
    }
    return {HNSW: hnsw_of, **trees} if installed(HNSW) else trees


def measure(spec: dict) -> dict:
    """Fit, then search the learned space with every system, in this process."""
    train, labels, test, answers = read_arrays(spec["folder"], "train", "labels", "test", "answers")
    _, model = fit_classifier(spec, train, labels)
    keys, queries = (project(model.memory_, rows) for rows in (train, test))

    def error(rows) -> float:
        return float(np.mean(labels[rows] != answers))

    def search(name: str, index, setting: int):
        found = nearest_by_hnsw if name == HNSW else nearest_ids
        return found(index, queries, 1, setting).astype(int)[:, 0]

    systems = makers(spec["seed"])
    for name in TREES:  # compiles
        few = systems[name](keys[:WARM_UP_ROWS])
        for beam in (1, 4):
            nearest_ids(few, queries[:WARM_UP_ROWS], 1, beam)
    build_s: dict[str, float] = {}
    points: dict[str, dict] = {name: {} for name in systems}
    for _ in range(spec["repeats"]):
        for name, make in systems.items():
            seconds, index = cpu_seconds(lambda make=make: make(keys))
            build_s[name] = min(seconds, build_s.get(name, np.inf))
            for setting in FINE if name in (HNSW, GRAPH) else COARSE:
                seconds, rows = cpu_seconds(lambda: search(name, index, setting), 2)  # noqa: B023 (runs at once)
                us = seconds / len(queries) * 1e6
                points[name][setting] = (setting, error(rows), min(us, points[name].get(setting, (0, 0, us))[2]))
    found = {name: {"inserts_per_s": len(keys) / build_s[name], "points": list(points[name].values())} for name in systems}
    raw, learned = error(nearest_rows(train, test)), error(nearest_rows(keys, queries))
    return {"systems": found, "raw": raw, "exact": learned, "width": keys.shape[1]}


def run(job: Job) -> Report:
    """Run the benchmark."""
    seeds = job.seeds(3)
    train, labels, test, answers = job.load("omniglot-15", tests=None).arrays
    job.step("starting", len(seeds))
    runs = []
    with process.SharedArrays(train=train, labels=labels, test=test, answers=answers) as folder:
        for seed in seeds:
            job.step(f"fitting and searching, seed {seed}")
            spec = {"folder": folder, "seed": seed, "repeats": 2 if job.quick else 4}
            runs.append(process.call("lab.benchmarks.space:measure", spec))
    found = together(runs)
    systems = found["systems"]
    report = Report("The learned space: error against time", __doc__, runs={"seeds": runs})
    points = Table(
        f"1-NN in {found['width']} learned dimensions, {len(labels):,} rows, {len(answers):,} queries",
        ["system", "setting", "error", "query µs"],
    )
    points.add("exact, rows as they are", "-", found["raw"], None)
    points.add("exact, learned space", "-", found["exact"], None)
    for name, system in systems.items():
        for setting, error, us in system["points"]:
            points.add(name, f"{'ef' if name == HNSW else 'beam'} {setting}", error, us)
    report.tables += [equal_error(systems, found["exact"]), inserts(systems), points]
    for above in ABOVE:
        mine, baseline = (time_at(systems.get(name), found["exact"] + above) for name in (GRAPH, HNSW))
        ratio = baseline / mine if mine and baseline else None
        report.at_least(f"a query at the error of exact search + {above:g}, times faster than hnswlib's", 1, ratio, "x")
    rates = [systems[name]["inserts_per_s"] for name in (GRAPH, HNSW) if name in systems]
    report.at_least("inserts, times hnswlib's", 5, rates[0] / rates[1] if len(rates) > 1 else None, "x")
    if HNSW not in systems:
        report.missing.append("hnswlib is not installed, so nothing was compared with it")
    report.figure = plot(systems, found["exact"])
    return report


def together(runs: list[dict]) -> dict:
    """Return several runs as one: mean errors, least times."""
    systems = {}
    for name in runs[0]["systems"]:
        each = [run["systems"][name] for run in runs]
        points = [
            (same[0][0], mean(error for _, error, _ in same), min(us for *_, us in same))
            for same in zip(*(one["points"] for one in each), strict=True)
        ]
        systems[name] = {"inserts_per_s": max(one["inserts_per_s"] for one in each), "points": points}
    return {**runs[0], "systems": systems, **{kind: mean(run[kind] for run in runs) for kind in ("raw", "exact")}}


def time_at(system: dict | None, most: float) -> float | None:
    """Return the µs at which a system reaches an error of at most `most`, interpolated linearly between its settings."""
    points = sorted((us, error) for _, error, us in system["points"]) if system else []
    least = None
    for (us, error), (before_us, before) in zip(points, [(0.0, np.inf), *points], strict=False):
        if error <= most < before:
            share = (before - most) / (before - error) if np.isfinite(before) else 1.0
            at = before_us + share * (us - before_us)
            least = at if least is None else min(least, at)
    return least


def equal_error(systems: dict, exact: float) -> Table:
    """Return the times of all systems at equal error."""
    table = Table("Query µs at equal error", ["error at most", *systems])
    for above in ABOVE:
        table.add(f"{exact + above:.4f} (exact + {above:g})", *(time_at(each, exact + above) for each in systems.values()))
    return table


def inserts(systems: dict) -> Table:
    """Return the rates of insertion."""
    table = Table("Inserts, one after the other", ["system", "inserts/s", "times hnswlib's"])
    baseline = systems[HNSW]["inserts_per_s"] if HNSW in systems else None
    for name, system in systems.items():
        table.add(name, system["inserts_per_s"], system["inserts_per_s"] / baseline if baseline else None)
    return table


def plot(systems: dict, exact: float):
    """Return the curves of error against time."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.5, 4.2))
    axes = figure.subplots()
    for (name, system), marker in zip(systems.items(), "os^v", strict=False):
        _, errors, times = zip(*system["points"], strict=True)
        axes.plot(times, errors, marker=marker, label=name)
    axes.axhline(exact, color="grey", linewidth=0.8, linestyle="--", label="exact search")
    axes.set(xscale="log", xlabel="CPU µs a query", ylabel="1-NN error", title="Omniglot, 15 of each, the learned space")
    axes.grid(alpha=0.3)
    axes.legend()
    return figure
