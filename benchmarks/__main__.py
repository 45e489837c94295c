"""The command line: which benchmarks to run, on which data, and where the results go."""

import argparse
import importlib
import sys
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from benchmarks.report import Job, print_report, write_report
from memorytree.errors import DataMissing
from memorytree.lab.datasets import data_folder

ROOT = Path(__file__).resolve().parent.parent

BENCHMARKS = {
    "vw": "Vowpal Wabbit's memory tree, dense keys",
    "sparse": "Vowpal Wabbit's memory tree, TF-IDF keys",
    "recall": "exact scan and hnswlib: recall against time, and building",
    "learning": "the classifier: error, query and fit time beside exact 1-NN and Vowpal Wabbit",
    "elsewhere": "the classifiers on other data: beside exact neighbours and logistic regression",
    "rewards": "the classifier taught by rewards only, and its controls",
    "multilabel": "the multi-label classifier, its controls, and its peers",
    "retrieval": "images by captions: beside exact search and a ridge map, with shuffled rewards",
    "locomo": "evidence for questions about long conversations: beside BM25 and TF-IDF, before and after feedback",
    "space": "the learned space searched by memorytree and by hnswlib: error against time",
    "store": "what it costs to last: a store beside the tree in memory and SQLite",
    "patience": "first answer, import, and one call from Python",
}


def arguments() -> argparse.Namespace:
    listing = "\n".join(f"  {name:<11}{what}" for name, what in BENCHMARKS.items())
    parser = argparse.ArgumentParser(
        prog="benchmarks",
        description=f"Benchmarks of memorytree (all of them when none is named):\n{listing}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="which to run")
    parser.add_argument("--quick", action="store_true", help="small sizes, a minute in all; nothing is written")
    parser.add_argument("--data", type=Path, metavar="DIR", help="data sets (default: $MEMORYTREE_DATA)")
    parser.add_argument("--out", type=Path, metavar="DIR", help="where results are written (default: docs/results)")
    parser.add_argument("--seed", type=int, default=0, help="first seed (default: 0)")
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in BENCHMARKS]
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}; there are {', '.join(BENCHMARKS)}")
    return chosen


def main() -> int:
    chosen = arguments()
    out = chosen.out if chosen.out or chosen.quick else ROOT / "docs" / "results"
    console = Console()
    if not console.is_terminal:
        console = Console(width=140)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    left_out = 0
    for name in chosen.names or BENCHMARKS:
        # No refresh thread: its work would be counted as ours in the CPU time of the process.
        with Progress(*columns, console=console, auto_refresh=False, transient=True) as progress:
            task = progress.add_task(name, total=None)

            def step(what, steps=None, *, name=name, progress=progress, task=task):
                progress.update(task, description=f"{name}: {what}", total=steps, advance=0 if steps else 1)
                progress.refresh()

            job = Job(quick=chosen.quick, data=data_folder(chosen.data), seed=chosen.seed, step=step)
            try:
                report = importlib.import_module(f"benchmarks.{name}").run(job)
            except DataMissing as missing:
                left_out += 1
                progress.stop()
                console.print(f"{name}: left out. {missing}", highlight=False, soft_wrap=True)
                continue
        print_report(report, console)
        if out:
            write_report(report, name, out, quick=chosen.quick, seed=chosen.seed)
    return 1 if left_out else 0


if __name__ == "__main__":
    sys.exit(main())
