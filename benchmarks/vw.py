"""Dense keys: our paper routing beside Vowpal Wabbit's memory tree.

`--memory_tree` and `MemoryTree(routing="paper", center=True)`, one pass, with the same leaf factor (c = 4), reroutes
(d = 5) and balance (the paper's alpha = 0.9), on Omniglot's HoG features and on Gaussian clusters whose label is the
cluster. Error is on held-out rows; times are CPU times, the least of all runs. A query of ours is
one of a batch on one thread, or one call from Python; VW's Python binding has single calls only. Bytes beyond the key
are, for VW, the growth of the process less 12 bytes for each non-zero feature, and for us what the tree's arrays take
less the keys; the last column is the growth of the process for both.
"""

from benchmarks import duel
from benchmarks.report import Job, Report
from memorytree.errors import DataMissing
from memorytree.lab.datasets import load
from memorytree.lab.datasets.made import Clusters


def run(job: Job) -> Report:
    shots, rows, tests, seeds = (1, 2_000, 500, 2) if job.quick else (15, 20_000, 2_000, 5)
    report = Report("Vowpal Wabbit's memory tree, dense keys", __doc__)
    clusters = Clusters(rows // 10, seed=job.seed)
    contests = [duel.Contest("clusters", *clusters.draw(rows), *clusters.draw(tests), center=True, seeds=seeds)]
    try:
        train, labels, test, answers = load(f"omniglot-{shots}", job.data).parts
        hog = train, labels, test[:tests], answers[:tests]
        contests.insert(0, duel.Contest(f"omniglot-{shots}", *hog, center=True, seeds=seeds))
    except DataMissing as missing:
        report.missing.append(str(missing))
    job.step("starting", sum(contest.steps for contest in contests))
    for contest in contests:
        runs = report.runs[contest.name] = duel.fight(contest, job)
        report.tables.append(duel.tabulate(contest, runs))
        duel.judge(report, contest, runs, inserts=30, queries=200, memory=30)
    report.missing = sorted(set(report.missing))
    return report
