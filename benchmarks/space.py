"""The learned space: what `MemoryTreeClassifier` has learned to see of Omniglot's rows, searched by ours and by hnswlib.

The classifier is fitted to 15 drawings of each character at its default settings. What it sees of a row, 64 numbers, is then
the key: of the training rows in a `MemoryTree` with routing="neighbours", in one with routing="principal", in a
`MemoryForest` of four such trees (Euclidean distance, beam swept) and in hnswlib (M = 16, ef_construction = 100, ef swept),
all of them on one thread. The answer is the label of the nearest row. CPU time of a query in a batch of all test rows; the
systems take turns, the least of several rounds counts; the making of the keys is in no one's time. Errors are means over
seeds, each a fit of its own. Times at equal error, so far above that of exact search, lie on straight lines between
settings.
"""

from statistics import mean

import numpy as np

from benchmarks import ours
from benchmarks.report import Job, Report, Table
from memorytree import MemoryForest, MemoryTree
from memorytree.lab import process
from memorytree.lab.measuring import cpu_seconds, installed
from memorytree.lab.peers.approximate import ask_hnsw, hnsw_of
from memorytree.lab.peers.exact import nearest_rows

HNSW, NEIGHBOURS = "hnswlib", "memorytree, neighbours"
FINE = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 24, 28, 32, 40, 48, 64)
COARSE = (1, 2, 4, 8, 16, 32, 64, 128)
ABOVE = (0.05, 0.02, 0.01, 0.005, 0.002, 0.001)


def measure(spec: dict) -> dict:
    """Fit, then search what was learned with every system, in this process."""
    from benchmarks import learner

    train, labels, test, answers = learner.read(spec)
    _, model = learner.fit(spec, train, labels)
    keys, queries = (model.memory_._core.seen(model.memory_._keys.many(rows)[0]) for rows in (train, test))

    def error(rows) -> float:
        return float(np.mean(labels[rows] != answers))

    def filled(memory, rows):
        memory.insert_many(rows, range(len(rows)))  # the id of a row is its number
        return memory

    seed = spec["seed"]
    makers = {
        NEIGHBOURS: lambda rows: filled(MemoryTree(routing="neighbours", seed=seed), rows),
        "memorytree, 1 tree": lambda rows: filled(MemoryTree(seed=seed), rows),
        "memorytree, 4 trees": lambda rows: filled(MemoryForest(trees=4, seed=seed), rows),
    }
    for make in makers.values():
        for beam in (1, 4):
            ours.ask_all(make(keys[: learner.WARMING]), queries[: learner.WARMING], 1, beam)
    systems = {
        name: (make, lambda tree, beam: ours.ask_all(tree, queries, 1, beam), FINE if name == NEIGHBOURS else COARSE)
        for name, make in makers.items()
    }
    if installed(HNSW):
        systems = {HNSW: (hnsw_of, lambda index, ef: ask_hnsw(index, queries, 1, ef).astype(int), FINE), **systems}
    build_s: dict[str, float] = {}
    points: dict[str, dict] = {name: {} for name in systems}
    for _ in range(spec["repeats"]):
        for name, (make, search, settings) in systems.items():
            seconds, index = cpu_seconds(lambda make=make: make(keys))
            build_s[name] = min(seconds, build_s.get(name, np.inf))
            for setting in settings:
                seconds, rows = cpu_seconds(lambda: search(index, setting)[:, 0], 2)  # noqa: B023
                us = seconds / len(queries) * 1e6
                points[name][setting] = (setting, error(rows), min(us, points[name].get(setting, (0, 0, us))[2]))
    found = {name: {"inserts_per_s": len(keys) / build_s[name], "points": list(points[name].values())} for name in systems}
    raw, seen = error(nearest_rows(train, test)), error(nearest_rows(keys, queries))
    return {"systems": found, "raw": raw, "exact": seen, "width": keys.shape[1]}


def run(job: Job) -> Report:
    seeds = job.seeds(3)
    train, labels, test, answers = job.load("omniglot-15", tests=None).parts
    job.step("starting", len(seeds))
    runs = []
    with process.Arrays(train=train, labels=labels, test=test, answers=answers) as folder:
        for seed in seeds:
            job.step(f"fitting and searching, seed {seed}")
            spec = {"folder": folder, "seed": seed, "repeats": 2 if job.quick else 4}
            runs.append(process.call("benchmarks.space:measure", spec))
    found = together(runs)
    systems = found["systems"]
    report = Report("The learned space: error against time", __doc__, runs={"seeds": runs})
    points = Table(
        f"1-NN in {found['width']} learned dimensions, {len(labels):,} rows, {len(answers):,} queries",
        ["", "setting", "error", "query µs"],
    )
    points.add("exact, rows as they are", "-", found["raw"], None)
    points.add("exact, learned space", "-", found["exact"], None)
    for name, system in systems.items():
        for setting, error, us in system["points"]:
            points.add(name, f"{'ef' if name == HNSW else 'beam'} {setting}", error, us)
    report.tables += [equal_error(systems, found["exact"]), inserts(systems), points]
    for above in ABOVE:
        mine, peer = (time_at(systems.get(name), found["exact"] + above) for name in (NEIGHBOURS, HNSW))
        ratio = peer / mine if mine and peer else None
        report.at_least(f"a query at the error of exact search + {above:g}, times faster than hnswlib's", 1, ratio, "x")
    rates = [systems[name]["inserts_per_s"] for name in (NEIGHBOURS, HNSW) if name in systems]
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
    """Return the µs at which a system errs so much: where its settings, joined by straight lines, come down to it."""
    points = sorted((us, error) for _, error, us in system["points"]) if system else []
    least = None
    for (us, error), (before_us, before) in zip(points, [(0.0, np.inf), *points], strict=False):
        if error <= most < before:
            share = (before - most) / (before - error) if np.isfinite(before) else 1.0
            at = before_us + share * (us - before_us)
            least = at if least is None else min(least, at)
    return least


def equal_error(systems: dict, exact: float) -> Table:
    """Times of all systems at equal error."""
    table = Table("Query µs at equal error", ["error at most", *systems])
    for above in ABOVE:
        table.add(f"{exact + above:.4f} (exact + {above:g})", *(time_at(each, exact + above) for each in systems.values()))
    return table


def inserts(systems: dict) -> Table:
    table = Table("Inserts, one after the other", ["", "inserts/s", "times hnswlib's"])
    peer = systems[HNSW]["inserts_per_s"] if HNSW in systems else None
    for name, system in systems.items():
        table.add(name, system["inserts_per_s"], system["inserts_per_s"] / peer if peer else None)
    return table


def plot(systems: dict, exact: float):
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
