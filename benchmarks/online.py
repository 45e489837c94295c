"""Online: one pass, every row is predicted before it is learned from, beside Vowpal Wabbit's learners.

Entropy reduction is log2 of the accuracy over the accuracy of the best constant answer, in bits. Ours is
`MemoryTreeClassifier` at its default settings through `progressive`, a new order of the rows for each seed. Vowpal Wabbit
gets the order of the first seed: `predict`, then `learn`, for each row; memory trees with c = 4, d = 5, alpha = 0.9 at two
rates, the others with logistic loss and otherwise as they come. One against all takes time linear in the classes: it is
stopped after 300 CPU seconds. Where it has not seen all rows by then, it is named as missing in the table, its curve ends
there, and bits are compared at the last point of the curves that both have. CPU time of the whole pass; VW's includes the
parsing of its text.
"""

from math import log2
from pathlib import Path
from statistics import mean, stdev

import numpy as np

from benchmarks import peer_vw
from benchmarks.report import Job, Report, Table
from memorytree.estimators import Progress
from memorytree.lab import process
from memorytree.lab.measuring import installed
from memorytree.lab.peers.vowpal import memory_tree_options

SETS = ("omniglot-15", "wikipara-3")
LIMIT = 300  # CPU seconds
OURS, OAA = "memorytree", "VW one against all"
COLUMNS = ["", "seeds", "error", "bits", "± over seeds", "CPU s"]


def learners(rows: int, classes: int) -> dict[str, list[str]]:
    """Return the options of VW's learners; all but one against all are logarithmic in the number of classes."""
    memory = {"balance": 0.9, "leaf_factor": 4, "reroutes": 5}
    trees = {f"VW memory tree, rate {rate}": memory_tree_options(rows, **memory, rate=rate) for rate in (0.001, 0.1)}
    logistic = ["--loss_function", "logistic"]
    return {
        **trees,
        "VW eigen memory tree": ["--emt"],
        "VW recall tree": ["--recall_tree", str(classes), *logistic],
        "VW LOMtree": ["--log_multi", str(classes), *logistic],
        OAA: ["--oaa", str(classes), *logistic],
    }


def run(job: Job) -> Report:
    seeds, peer = job.seeds(), installed("vowpalwabbit")
    report = Report("Online: one pass, predicted before learned", __doc__)
    job.step("starting", len(SETS) * (len(seeds) + len(learners(2, 2)) * peer))
    for name in SETS:
        train, labels, _, _ = job.load(name).parts
        runs: dict[str, list[dict]] = {OURS: []}
        for seed in seeds:
            order = np.random.default_rng(seed).permutation(len(labels))
            with process.Arrays(train=train[order], labels=labels[order]) as folder:
                job.step(f"{name}, seed {seed}, {OURS}")
                runs[OURS].append(process.call("benchmarks.learner:progress", {"folder": folder, "seed": seed}))
                if peer and seed == job.seed:
                    peer_vw.write_examples(Path(folder) / "train.vw", train[order], labels[order])
                    runs |= rivals(name, folder, labels[order], job, report)
        report.runs[name] = runs
        report.tables.append(tabulate(name, len(labels), {who: one for who, one in runs.items() if finished(one, labels)}))
        bits = {who: mean(one["bits"] for one in found) for who, found in runs.items()}
        best = max((bits[who] for who in bits if who not in (OURS, OAA)), default=None)
        if OAA in runs:
            rows, above = ahead(runs[OURS][0], runs[OAA][0])
            report.at_least(f"{name}: bits above one against all after {rows:,} rows", 0, above)
        what = f"{name}: bits above the best logarithmic learner of VW"
        report.at_least(what, 1, None if best is None else bits[OURS] - best)
    if not peer:
        report.missing.append("vowpalwabbit is not installed, so nothing was compared with it")
    report.figure = plot(report.runs)
    return report


def rivals(name: str, folder: str, labels, job: Job, report: Report) -> dict[str, list[dict]]:
    """Return what came of VW's learners; those that were stopped are named as missing."""
    runs = {}
    for who, options in learners(len(labels), int(labels.max()) + 1).items():
        job.step(f"{name}, {who}")
        spec = {"folder": folder, "seed": job.seed, "options": options, "limit": LIMIT if who == OAA else None}
        found = follow(process.call("benchmarks.peer_vw:progress", spec), labels)
        runs[who] = [found]
        if not finished([found], labels):
            report.missing.append(
                f"{name}, {who}: stopped after {LIMIT} CPU s and {found['rows']:,} of {len(labels):,} rows"
            )
    return runs


def finished(runs: list[dict], labels) -> bool:
    return runs[0].get("rows", len(labels)) == len(labels)


def ahead(ours: dict, other: dict) -> tuple[int, float]:
    """Return the last number of rows that both curves have, and by how many bits ours is ahead there."""
    errors, others = dict(map(tuple, ours["curve"])), dict(map(tuple, other["curve"]))
    rows = max(errors.keys() & others.keys())
    # The constant answer is the same for both, so it cancels.
    return rows, log2((1 - errors[rows]) / max(1 - others[rows], 1e-9))


def follow(found: dict, labels) -> dict:
    """Return what came of predictions that were made one by one."""
    progress = Progress()
    for guess, label in zip(found["found"], labels.tolist(), strict=False):
        progress.note(guess == label, label)
    curve = [*progress.curve, (progress.rows, progress.error)]
    bits = progress.entropy_reduction
    return {"rows": progress.rows, "error": progress.error, "bits": bits, "curve": curve, "cpu_s": found["cpu_s"]}


def tabulate(name: str, rows: int, runs: dict[str, list[dict]]) -> Table:
    table = Table(f"{name}: {rows:,} rows", COLUMNS)
    for who, found in runs.items():
        bits = [one["bits"] for one in found]
        spread = stdev(bits) if len(bits) > 1 else None
        error, spent = mean(one["error"] for one in found), min(one["cpu_s"] for one in found)
        table.add(who, len(found), error, mean(bits), spread, spent)
    return table


def plot(runs: dict[str, dict[str, list[dict]]]):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2))
    for axes, (name, found) in zip(figure.subplots(1, len(runs)), runs.items(), strict=True):
        for who, (first, *_) in found.items():
            axes.plot(*zip(*first["curve"], strict=True), marker=".", label=who)
        axes.set(xscale="log", xlabel="rows", ylabel="error so far", title=name)
        axes.grid(alpha=0.3)
    axes.legend(fontsize=7)
    return figure
