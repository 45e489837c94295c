"""Sparse keys: search by term lists beside other systems, and our paper routing beside Vowpal Wabbit's memory tree.

Search: recall@10 of the exact cosine against CPU time of a query in a batch, one thread, the least of several runs; the
plain default, and `recall=` from .5 to .999. Others are a lean exact inverted index in Numba, a product of scipy matrices,
bm25s (which ranks exactly by scores of its own, without weights of query terms) and Seismic, with its parameters swept.
Growth is measured on made-up texts.

Memory trees: TF-IDF rows of Wikipedia paragraphs, the class being the article (10,000 classes). `--memory_tree` and
`MemoryTree(routing="paper")`, one pass, c = 4, d = 5, alpha = 0.9; error on held-out paragraphs, CPU time, the least of
all runs. Self-consistency error is the share of stored keys whose own query returns no equal key.
"""

from statistics import mean

from lab.benchmarks.report import Job, Report
from lab.benchmarks.sparse_search import add_search
from lab.benchmarks.vw_comparison import Comparison, add_targets, run_systems, tabulate
from lab.tables import Table


def run(job: Job) -> Report:
    """Run the benchmark."""
    shots, seeds = (1, 1) if job.quick else (3, 3)
    train, labels, test, answers = job.load_all(f"wikipara-{shots}")
    if job.quick:
        train, labels, test, answers = train[:3000], labels[:3000], test[:500], answers[:500]
    data = train, labels, test, answers
    comparison = Comparison(f"wikipara-{shots}", *data, center=False, seeds=seeds, consistency=True)
    job.step("starting", comparison.steps)
    report = Report("Sparse keys: search, and Vowpal Wabbit's memory tree", __doc__)
    runs = report.runs[comparison.name] = run_systems(comparison, job)
    report.tables.append(tabulate(comparison, runs))
    add_targets(report, comparison, runs, inserts=20, queries=20)

    ours = runs["memorytree"]
    table = Table("Self-consistency error of memorytree", ["run", "after inserting", "after a sweep", "sweep s"])
    for seed, found in enumerate(ours, job.seed):
        table.add(f"seed {seed}", found["inconsistent"], found["inconsistent_after_sweep"], found["sweep_s"])
    report.tables.append(table)
    before, after = (mean(run[name] for run in ours) for name in ("inconsistent", "inconsistent_after_sweep"))
    report.at_most("self-consistency error at d = 5", 1, 100 * before, "%")
    report.at_most("self-consistency error after a sweep", 0, 100 * after, "%")
    add_search(report, job)
    return report
