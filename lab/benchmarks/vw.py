"""Dense keys: our paper routing beside Vowpal Wabbit's memory tree.

`--memory_tree` and `MemoryTree(routing="paper", center=True)`, one pass, with the same leaf factor (c = 4), reroutes
(d = 5) and balance (the paper's alpha = 0.9), on Omniglot's HoG features and on Gaussian clusters whose label is the
cluster. Error is on held-out rows; times are CPU times, the least of all runs. A query of ours is one of a batch on one
thread, or one call from Python; VW's Python binding has single calls only. Bytes beyond the key are, for VW, the growth of
the process less 12 bytes for each non-zero feature, and for us the bytes of the tree's arrays less the keys; the last column
is the growth of the process for both.
"""

from lab.benchmarks.report import Job, Report
from lab.benchmarks.vw_comparison import Comparison, add_targets, run_systems, tabulate
from lab.datasets.synthetic import Clusters
from memorytree.errors import DataMissing


def run(job: Job) -> Report:
    """Run the benchmark."""
    shots, rows, tests, seeds = (1, 2_000, 500, 2) if job.quick else (15, 20_000, 2_000, 5)
    report = Report("Vowpal Wabbit's memory tree, dense keys", __doc__)
    clusters = Clusters(rows // 10, seed=job.seed)
    comparisons = [Comparison("clusters", *clusters.draw(rows), *clusters.draw(tests), center=True, seeds=seeds)]
    try:
        train, labels, test, answers = job.load_all(f"omniglot-{shots}")
        hog = train, labels, test[:tests], answers[:tests]
        comparisons.insert(0, Comparison(f"omniglot-{shots}", *hog, center=True, seeds=seeds))
    except DataMissing as missing:
        report.missing.append(str(missing))
    job.step("starting", sum(comparison.steps for comparison in comparisons))
    for comparison in comparisons:
        runs = report.runs[comparison.name] = run_systems(comparison, job)
        report.tables.append(tabulate(comparison, runs))
        add_targets(report, comparison, runs, inserts=30, queries=200, memory=30)
    report.missing = sorted(set(report.missing))
    return report
