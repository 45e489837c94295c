"""One data set, two memory trees: Vowpal Wabbit's and ours with paper routing, on the same rows in the same orders.

Every seed is a new order of the training rows and a new random stream; each run is a process of its own. VW runs at two
learning rates, and ours is compared with the one that has the lower error on that data set.
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import mean

import numpy as np
import scipy.sparse as sp

from lab import process
from lab.baselines.exact import nearest_rows
from lab.baselines.vowpal import write_examples
from lab.benchmarks.report import Job, Report, spread
from lab.measuring import installed
from lab.tables import Table

SETTINGS = {"balance": 0.9, "leaf_factor": 4, "reroutes": 5}
RATES = (0.001, 0.1)  # the authors' scripts use the first; the second often has a lower error
COLUMNS = [
    "system",
    "error",
    "± over seeds",
    "inserts/s",
    "query µs",
    "one call µs",
    "bytes beyond key",
    "resident beyond key",
]


@dataclass
class Comparison:
    """A data set and the settings that belong to it."""

    name: str
    train: object
    labels: np.ndarray
    test: object
    answers: np.ndarray
    center: bool
    seeds: int
    consistency: bool = False

    @property
    def steps(self) -> int:
        """The number of runs."""
        return self.seeds * (1 + len(RATES) * installed("vowpalwabbit"))

    @property
    def features(self) -> int:
        """The number of non-zero features of all training rows."""
        return self.train.nnz if sp.issparse(self.train) else int(np.count_nonzero(self.train))


def nearest_error(comparison: Comparison) -> float:
    """Return the error of exact nearest neighbours (Euclidean) as a reference."""
    found = nearest_rows(comparison.train, comparison.test)
    return float(np.mean(comparison.labels[found] != comparison.answers))


def run_systems(comparison: Comparison, job: Job) -> dict[str, list[dict]]:
    """Return the figures of every run by the name of the system."""
    runs: dict[str, list[dict]] = {}
    rows, tests = comparison.train.shape[0], comparison.test.shape[0]
    arrays = {name: getattr(comparison, name) for name in ("train", "labels", "test", "answers")}
    for seed in range(job.seed, job.seed + comparison.seeds):
        order = np.random.default_rng(seed).permutation(rows)
        with process.SharedArrays(**arrays, order=order) as folder:
            common = {"folder": folder, "repeats": 3}
            if installed("vowpalwabbit"):
                write_examples(Path(folder) / "train.vw", comparison.train[order], comparison.labels[order])
                vw = {**common, "seed": seed, "rows": rows, "tests": tests, "features": comparison.features}
                for rate in RATES:
                    name = f"VW, rate {rate}"
                    job.step(f"{comparison.name}, seed {seed}, {name}")
                    spec = {**vw, "options": {**SETTINGS, "rate": rate}}
                    runs.setdefault(name, []).append(process.call("lab.benchmarks.measures:measure_vw", spec))
            job.step(f"{comparison.name}, seed {seed}, memorytree")
            options = {**SETTINGS, "routing": "paper", "center": comparison.center, "seed": seed}
            spec = {**common, "options": options, "consistency": comparison.consistency}
            runs.setdefault("memorytree", []).append(process.call("lab.benchmarks.measures:measure_tree", spec))
    return runs


def tabulate(comparison: Comparison, runs: dict[str, list[dict]]) -> Table:
    """Return a row for each system: mean error, best times, least memory."""
    rows = comparison.train.shape[0]
    table = Table(f"{comparison.name}: {rows:,} rows, {comparison.seeds} seeds", COLUMNS)
    table.add("exact nearest neighbour", nearest_error(comparison), *[None] * 6)
    for name, found in runs.items():
        table.add(
            name,
            mean_error(found),
            spread(run["error"] for run in found),
            rows / least(found, "insert_s"),
            least(found, "query_us"),
            least(found, "call_us"),
            least(found, "beyond_key"),
            least(found, "resident_beyond_key"),
        )
    return table


def mean_error(found: list[dict]) -> float:
    """Return the mean error over runs."""
    return mean(run["error"] for run in found)


def least(found: list[dict], figure: str) -> float | None:
    """Return the least of a figure over runs, or None if the system does not have it."""
    return min(run[figure] for run in found) if figure in found[0] else None


def add_targets(
    report: Report, comparison: Comparison, runs: dict[str, list[dict]], *, inserts: float, queries: float, memory=None
) -> None:
    """Compare our figures with those of VW at the learning rate with the lower error."""
    ours = runs["memorytree"]
    vw = min((found for name, found in runs.items() if name != "memorytree"), key=mean_error, default=None)
    if vw is None:
        report.missing.append("vowpalwabbit is not installed, so nothing was compared with it")

    def times(figure: str, our_figure: str = "") -> float | None:
        mine = least(ours, our_figure or figure)
        return least(vw, figure) / mine if vw and mine > 0 else None

    report.at_least(f"{comparison.name}: inserts per second, times VW's", inserts, times("insert_s"), "x")
    report.at_least(f"{comparison.name}: query, times faster than VW's", queries, times("query_us"), "x")
    if memory:
        fewer = f"{comparison.name}: bytes beyond the key, times fewer than VW's"
        report.at_least(fewer, memory, times("resident_beyond_key", "beyond_key"), "x")
        report.at_least(f"{fewer}, both by growth of the process", memory, times("resident_beyond_key"), "x")
        if vw:
            report.at_most(f"{comparison.name}: mean error", mean_error(vw), mean_error(ours))
