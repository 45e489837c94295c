"""Learning from labels: `MemoryTreeClassifier` at its default settings, beside exact 1-NN and Vowpal Wabbit's memory tree.

Omniglot's HoG features, Wikipedia paragraphs (the class is the article) and questions to an assistant (CLINC150), with fixed
splits; every seed fits anew. Error is on 2,000 test rows. A query is one of a batch of 2,000 on one thread: CPU time, the
least of several runs of every seed. Fit is the mean over seeds. Wikipara 1-shot is also compared with exact 1-NN row by row
on all its test rows: a row counts as wrong by the share of seeds that were wrong, and the interval is the mean difference of
the two errors plus or minus 1.96 standard errors; "not worse" means that it does not lie above zero. Vowpal Wabbit is
`--memory_tree` with three passes (c = 4, d = 5, alpha = 0.9, rate 0.001), one seed; its fit is the CPU time of its driver
less that of the same driver with `--noop`, which only reads.
"""

from pathlib import Path
from statistics import mean

import numpy as np
import scipy.sparse as sp

from lab import process
from lab.baselines.exact import nearest_rows
from lab.baselines.vowpal import write_examples
from lab.benchmarks.report import Job, Report, spread
from lab.datasets import TEST_ROWS
from lab.measuring import installed
from lab.tables import Table

# Error and µs a query to reach; None: no worse than exact 1-NN.
GOALS = {
    "omniglot-1": (0.80, 20),
    "omniglot-15": (0.44, 40),
    "wikipara-1": (None, 30),
    "wikipara-3": (0.48, 80),
    "clinc150": (0.09, 20),
}
VW_SETTINGS = {"balance": 0.9, "leaf_factor": 4, "reroutes": 5, "rate": 0.001, "passes": 3}
COLUMNS = ["data set", "rows", "exact 1-NN", "error", "± over seeds", "query µs", "fit CPU s"]


def run(job: Job) -> Report:
    """Run the benchmark."""
    seeds, with_vw = job.seeds(), installed("vowpalwabbit")
    report = Report("Learning from labels", __doc__)
    ours = Table(f"MemoryTreeClassifier, default settings, {len(seeds)} seeds", COLUMNS)
    heads = ["data set", "rows", "exact 1-NN", "error", "low end", "difference", "high end"]
    paired = Table("Row by row, all test rows", heads)
    theirs = Table(
        f"Vowpal Wabbit's memory tree, {VW_SETTINGS['passes']} passes",
        ["data set", "error", "query µs", "fit CPU s", "times our fit", "reading CPU s"],
    )
    job.step("starting", len(GOALS) * (len(seeds) + with_vw))
    for name, (goal, us) in GOALS.items():
        runs, wrong, nearest_wrong = measure(name, job, tests=TEST_ROWS if goal else None)
        report.runs[name] = runs
        errors, fits = ([one[figure] for one in runs["memorytree"]] for figure in ("error", "fit_s"))
        query_us = min(one["query_us"] for one in runs["memorytree"])
        ours.add(name, runs["rows"], runs["exact 1-NN"], mean(errors), spread(errors), query_us, mean(fits))
        if goal:
            report.at_most(f"{name}: error", goal, mean(errors))
        else:
            low, middle, high = interval(wrong - nearest_wrong)
            paired.add(name, len(wrong), float(nearest_wrong.mean()), float(wrong.mean()), low, middle, high)
            report.at_most(f"{name}: error less that of exact 1-NN, low end of the interval", 0, low)
        report.at_most(f"{name}: query", us, query_us, "µs")
        vw = runs.get("VW")
        if vw:
            fit_s = vw["insert_s"]
            theirs.add(name, vw["error"], vw["query_us"], fit_s, fit_s / mean(fits), vw["parse_s"])
        report.at_most(f"{name}: fit, share of VW's", 0.2, mean(fits) / fit_s if vw else None)
    report.tables += [ours, paired, theirs]
    if not with_vw:
        report.missing.append("vowpalwabbit is not installed, so nothing was compared with it")
    return report


def measure(name: str, job: Job, tests: int | None):
    """Return the figures of all systems, the share of seeds with an error on each test row, and the errors of exact 1-NN."""
    arrays = train, labels, test, answers = job.load(name, tests=tests).arrays
    nearest_wrong = labels[nearest_rows(train, test)] != answers
    runs: dict = {"rows": len(labels), "exact 1-NN": float(nearest_wrong[:TEST_ROWS].mean()), "memorytree": []}
    with process.SharedArrays(train=train, labels=labels, test=test, answers=answers) as folder:
        for seed in job.seeds():
            job.step(f"{name}, seed {seed}")
            spec = {"folder": folder, "seed": seed, "repeats": 5}
            runs["memorytree"].append(process.call("lab.benchmarks.measures:measure_classifier", spec))
        if installed("vowpalwabbit"):
            job.step(f"{name}, VW")
            runs["VW"] = fit_vw(folder, arrays, job.seed)
    wrong = np.mean([one.pop("wrong") for one in runs["memorytree"]], axis=0)
    return runs, wrong, nearest_wrong


def interval(differences: np.ndarray) -> tuple[float, float, float]:
    """Return the mean of paired differences between the ends of its 95 % interval."""
    middle = float(np.mean(differences))
    reach = 1.96 * float(np.std(differences, ddof=1)) / len(differences) ** 0.5
    return middle - reach, middle, middle + reach


def fit_vw(folder: str, arrays: tuple, seed: int) -> dict:
    """Return the figures of VW's memory tree on these rows."""
    train, labels, *_ = arrays
    write_examples(Path(folder) / "train.vw", train, labels)
    features = train.nnz if sp.issparse(train) else int(np.count_nonzero(train))
    spec = {"folder": folder, "seed": seed, "rows": len(labels), "tests": TEST_ROWS, "features": features, "repeats": 1}
    return process.call("lab.benchmarks.measures:measure_vw", {**spec, "options": VW_SETTINGS})
