"""The command line of the benchmarks: which to run, on which data, and where results go."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lab.benchmarks.report import Job, print_report, write_report
from lab.datasets import data_folder
from memorytree.errors import DataMissing

ROOT = Path(__file__).resolve().parents[2]

BENCHMARKS = {
    "vw": "Vowpal Wabbit's memory tree, dense keys",
    "sparse": "Vowpal Wabbit's memory tree, TF-IDF keys",
    "recall": "exact scan and hnswlib: recall against time, and building",
    "learning": "the classifier: error, query and fit time beside exact 1-NN and Vowpal Wabbit",
    "elsewhere": "the classifiers on other data: beside exact neighbours and logistic regression",
    "feedback": "answers to questions before and after rewards, by kind of feedback",
    "rewards": "the classifier trained by rewards only, and its controls",
    "multilabel": "the multi-label classifier, its controls, and its baselines",
    "retrieval": "images by captions: beside exact search and a ridge map, with shuffled rewards",
    "locomo": "evidence for questions about long conversations: beside BM25 and TF-IDF, before and after feedback",
    "space": "the learned space searched by memorytree and by hnswlib: error against time",
    "store": "the cost of durability: a store beside the tree in memory and SQLite",
    "patience": "first answer, import, and one call from Python",
}


def parse_arguments(given: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the parsed command line."""
    listing = "\n".join(f"  {name:<11}{what}" for name, what in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="mt bench",
        description=f"Benchmarks of memorytree (all of them when none is named):\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which to run")
    parser.add_argument("--quick", action="store_true", help="small sizes, a minute in all; nothing is written")
    parser.add_argument("--data", type=Path, metavar="DIR", help="data sets (default: $MEMORYTREE_DATA)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where results are written (default: docs/results)")
    parser.add_argument("--seed", type=int, default=0, help="first seed (default: 0)")
    chosen = parser.parse_args(given)
    unknown = [name for name in chosen.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    return chosen


def main(given: Sequence[str] | None = None) -> int:
    """Run the benchmarks; return 1 if the data of one is missing, else 0."""
    chosen = parse_arguments(given)
    out = chosen.out if chosen.out or chosen.quick else ROOT / "docs" / "results"
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    skipped = 0
    for name in chosen.names or BENCHMARKS:
        # Without auto-refresh: a refresh thread would add to the CPU time of this process, which is measured.
        with Progress(*columns, console=console, auto_refresh=False, transient=True) as progress:
            task = progress.add_task(name, total=None)

            def step(what, steps=None, *, name=name, progress=progress, task=task):
                progress.update(task, description=f"{name}: {what}", total=steps, advance=0 if steps else 1)
                progress.refresh()

            job = Job(quick=chosen.quick, data=data_folder(chosen.data), seed=chosen.seed, step=step)
            try:
                report = importlib.import_module(f"lab.benchmarks.{name}").run(job)
            except DataMissing as missing:
                skipped += 1
                progress.stop()
                console.print(f"{name}: skipped. {missing}", highlight=False, soft_wrap=True)
                continue
        print_report(report, console)
        if out:
            write_report(report, name, out, job)
    return 1 if skipped else 0


if __name__ == "__main__":
    sys.exit(main())
