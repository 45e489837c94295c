"""One data set, two memory trees: Vowpal Wabbit's and ours with paper routing, the same rows in the same orders.

Every seed is a new order of the training rows and a new random stream, each run a process of its own. VW is run at two
learning rates, and ours is held against the one that errs less on that data set.
"""

from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev

import numpy as np
import scipy.sparse as sp

from benchmarks import peer_vw
from benchmarks.report import Job, Report, Table
from memorytree.lab import process
from memorytree.lab.measuring import installed
from memorytree.lab.peers.exact import nearest_rows
from memorytree.lab.peers.vowpal import memory_tree_options

BALANCE, LEAF_FACTOR, REROUTES = 0.9, 4, 5
RATES = (0.001, 0.1)  # the authors' scripts use the first; the second often errs less
COLUMNS = [
    "",
    "error",
    "± over seeds",
    "inserts/s",
    "query µs",
    "one call µs",
    "bytes beyond key",
    "resident beyond key",
]


@dataclass
class Contest:
    """A data set and the settings that go with it."""

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
        return self.seeds * (1 + len(RATES) * installed("vowpalwabbit"))


def nearest_error(contest: Contest) -> float:
    """Return the error of exact nearest neighbours (Euclidean), for orientation."""
    found = nearest_rows(contest.train, contest.test)
    return float(np.mean(contest.labels[found] != contest.answers))


def fight(contest: Contest, job: Job) -> dict[str, list[dict]]:
    """Return every run's figures under the name of its system."""
    runs: dict[str, list[dict]] = {}
    rows = contest.train.shape[0]
    features = contest.train.nnz if sp.issparse(contest.train) else int(np.count_nonzero(contest.train))
    settings = {"balance": BALANCE, "leaf_factor": LEAF_FACTOR, "reroutes": REROUTES}
    arrays = {name: getattr(contest, name) for name in ("train", "labels", "test", "answers")}
    for seed in range(job.seed, job.seed + contest.seeds):
        order = np.random.default_rng(seed).permutation(rows)
        with process.Arrays(**arrays, order=order) as folder:
            common = {"folder": folder, "seed": seed, "rows": rows, "features": features, "repeats": 3}
            if installed("vowpalwabbit"):
                peer_vw.write_examples(Path(folder) / "train.vw", contest.train[order], contest.labels[order])
                peer_vw.write_examples(Path(folder) / "test.vw", contest.test)
                for rate in RATES:
                    name = f"VW, rate {rate}"
                    job.step(f"{contest.name}, seed {seed}, {name}")
                    spec = {**common, "options": memory_tree_options(rows, **settings, rate=rate)}
                    runs.setdefault(name, []).append(process.call("benchmarks.peer_vw:measure", spec))
            job.step(f"{contest.name}, seed {seed}, memorytree")
            options = {**settings, "routing": "paper", "center": contest.center, "seed": seed}
            spec = {**common, "options": options, "consistency": contest.consistency}
            runs.setdefault("memorytree", []).append(process.call("benchmarks.ours:measure", spec))
    return runs


def tabulate(contest: Contest, runs: dict[str, list[dict]]) -> Table:
    rows = contest.train.shape[0]
    table = Table(f"{contest.name}: {rows:,} rows, {contest.seeds} seeds", COLUMNS)
    table.add("exact nearest neighbour", nearest_error(contest), *[None] * 6)
    for name, found in runs.items():
        errors = [run["error"] for run in found]
        table.add(
            name,
            mean_error(found),
            stdev(errors) if len(errors) > 1 else None,
            rows / least(found, "insert_s"),
            least(found, "query_us"),
            least(found, "call_us"),
            least(found, "beyond_key"),
            least(found, "resident_beyond_key"),
        )
    return table


def mean_error(found: list[dict]) -> float:
    return mean(run["error"] for run in found)


def least(found: list[dict], figure: str) -> float | None:
    return min(run[figure] for run in found) if figure in found[0] else None


def judge(report: Report, contest: Contest, runs: dict[str, list[dict]], *, inserts, queries, memory=None) -> None:
    """Hold our figures against those of VW at the learning rate that errs less."""
    ours = runs["memorytree"]
    peer = min((found for name, found in runs.items() if name != "memorytree"), key=mean_error, default=None)
    if peer is None:
        report.missing.append("vowpalwabbit is not installed, so nothing was compared with it")

    def times(figure, ours_figure=None):
        mine = least(ours, ours_figure or figure)
        return least(peer, figure) / mine if peer and mine > 0 else None

    report.at_least(f"{contest.name}: inserts per second, times VW's", inserts, times("insert_s"), "x")
    report.at_least(f"{contest.name}: query, times faster than VW's", queries, times("query_us"), "x")
    if memory:
        fewer = f"{contest.name}: bytes beyond the key, times fewer than VW's"
        report.at_least(fewer, memory, times("resident_beyond_key", "beyond_key"), "x")
        report.at_least(f"{fewer}, both by growth of the process", memory, times("resident_beyond_key"), "x")
        if peer:
            report.at_most(f"{contest.name}: mean error", mean_error(peer), mean_error(ours))
