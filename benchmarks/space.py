"""The learned space: what `MemoryTreeClassifier` has learned to see of Omniglot's rows, searched by ours and by hnswlib.

The classifier is fitted to 15 drawings of each character at its default settings. What it sees of a row, 64 numbers, is then
the key: of the training rows in a `MemoryTree`, in `MemoryForest`s (Euclidean distance, beam swept) and in hnswlib (M = 16,
ef_construction = 100, `ef` swept), all of them on one thread. The answer is the label of the nearest row. CPU time of a
query in a batch of all test rows, the least of several runs; the making of the keys is in no one's time. Errors are means
over seeds, each a fit of its own. Times at equal error are those of the fastest setting that errs no more than so far above
exact search.
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

HNSW = "hnswlib"
TREES = (1, 2, 4)
BEAMS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
EFS = (1, 2, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)
ABOVE = (0.05, 0.02, 0.01, 0.005, 0.002, 0.0)


def measure(spec: dict) -> dict:
    """Fit, then search what was learned with every system, in this process."""
    from benchmarks import learner

    train, labels, test, answers = learner.read(spec)
    _, model = learner.fit(spec, train, labels)
    keys, queries = (model.memory_._core.seen(model.memory_._keys.many(rows)[0]) for rows in (train, test))

    def error(rows) -> float:
        return float(np.mean(labels[rows] != answers))

    def sweep(make, search, settings) -> dict:
        build_s, index = cpu_seconds(make, spec["repeats"])
        points = []
        for setting in settings:
            seconds, rows = cpu_seconds(lambda setting=setting: search(index, setting)[:, 0], spec["repeats"])
            points.append((setting, error(rows), seconds / len(queries) * 1e6))
        return {"inserts_per_s": len(keys) / build_s, "points": points}

    found = {}
    if installed(HNSW):
        found[HNSW] = sweep(lambda: hnsw_of(keys), lambda index, ef: ask_hnsw(index, queries, 1, ef).astype(int), EFS)
    for trees in TREES:
        make = forest(trees, spec["seed"])
        for beam in (1, 4):
            ours.ask_all(make(keys[: learner.WARMING]), queries[: learner.WARMING], 1, beam)
        found[f"memorytree, {trees} tree{'s' if trees > 1 else ''}"] = sweep(
            lambda make=make: make(keys), lambda tree, beam: ours.ask_all(tree, queries, 1, beam), BEAMS
        )
    raw, seen = error(nearest_rows(train, test)), error(nearest_rows(keys, queries))
    return {"systems": found, "raw": raw, "exact": seen, "width": keys.shape[1]}


def forest(trees: int, seed: int):
    """Return what puts rows one after the other into so many trees; the id of a row is its number."""

    def make(keys):
        memory = MemoryTree(seed=seed) if trees == 1 else MemoryForest(trees=trees, seed=seed)
        memory.insert_many(keys, range(len(keys)))
        return memory

    return make


def run(job: Job) -> Report:
    seeds = job.seeds(3)
    train, labels, test, answers = job.load("omniglot-15").parts
    job.step("starting", len(seeds))
    runs = []
    with process.Arrays(train=train, labels=labels, test=test, answers=answers) as folder:
        for seed in seeds:
            job.step(f"fitting and searching, seed {seed}")
            spec = {"folder": folder, "seed": seed, "repeats": 2 if job.quick else 3}
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


def fastest(points, most: float) -> float | None:
    """Return the µs of the fastest setting that errs no more than this."""
    return min((us for _, error, us in points if error <= most), default=None)


def equal_error(systems: dict, exact: float) -> Table:
    """Times of all systems at equal error, and how many times faster than hnswlib our fastest is."""
    table = Table("Query µs at equal error", ["error at most", *systems, "times faster than hnswlib"])
    for above in ABOVE:
        times = {name: fastest(system["points"], exact + above + 1e-9) for name, system in systems.items()}
        mine = min((us for name, us in times.items() if name != HNSW and us), default=None)
        peer = times.get(HNSW)
        ratio = peer / mine if peer and mine else None
        table.add(f"{exact + above:.4f} (exact + {above:g})", *times.values(), ratio)
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
