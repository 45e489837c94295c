"""Sparse keys: our paper routing beside Vowpal Wabbit's memory tree, and how well a stored key finds itself.

TF-IDF rows of Wikipedia paragraphs, the class being the article (10,000 classes). `--memory_tree` and
`MemoryTree(routing="paper")`, one pass, c = 4, d = 5, alpha = 0.9; error on held-out paragraphs, CPU time, the least of
all runs. Self-consistency error is the share of stored keys whose own query returns no equal key.
"""

from statistics import mean

from benchmarks import duel
from benchmarks.report import Job, Report, Table
from memorytree.lab.datasets import load


def run(job: Job) -> Report:
    shots, seeds = (1, 1) if job.quick else (3, 3)
    train, labels, test, answers = load(f"wikipara-{shots}", job.data).parts
    if job.quick:
        train, labels, test, answers = train[:3000], labels[:3000], test[:500], answers[:500]
    contest = duel.Contest(f"wikipara-{shots}", train, labels, test, answers, center=False, seeds=seeds, consistency=True)
    job.step("starting", contest.steps)
    report = Report("Vowpal Wabbit's memory tree, sparse keys", __doc__)
    runs = report.runs[contest.name] = duel.fight(contest, job)
    report.tables.append(duel.tabulate(contest, runs))
    duel.judge(report, contest, runs, inserts=20, queries=20)

    ours = runs["memorytree"]
    table = Table("Self-consistency error of memorytree", ["", "after inserting", "after a sweep", "sweep s"])
    for seed, found in enumerate(ours, job.seed):
        table.add(f"seed {seed}", found["inconsistent"], found["inconsistent_after_sweep"], found["sweep_s"])
    report.tables.append(table)
    before, after = (mean(run[name] for run in ours) for name in ("inconsistent", "inconsistent_after_sweep"))
    report.at_most("self-consistency error at d = 5", 1, 100 * before, "%")
    report.at_most("self-consistency error after a sweep", 0, 100 * after, "%")
    return report
