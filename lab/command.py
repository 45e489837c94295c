"""`./mt lab`: list the experiments, run some or all of them, build the page."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from lab import baselines, documents, report, runner, tables
from lab.cache import ResultCache
from lab.datasets import Source, data_folder, files_digest
from lab.experiments import EXPERIMENTS, Experiment, Plan
from lab.measuring import measurement_context
from lab.parts import Part
from lab.process import end_children, measure
from lab.results import Results
from memorytree.errors import DamagedFile, DataMissing, MemoryTreeError

LOG_WIDTH = 140  # of output that does not go to a terminal
OK, NOTHING_SUCCEEDED, WRONG_USAGE, FILE_ERROR, INTERRUPTED = 0, 1, 2, 3, 130
PROGRAM = "mt lab"


@dataclass(frozen=True)
class RunOptions:
    """How parts are run and where results go."""

    out: Path
    resume: bool = True
    jobs: int = 1
    as_json: bool = False


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line of the lab; return the exit code."""
    chosen = parser().parse_args(arguments)
    try:
        return int(chosen.action(chosen))
    except (MemoryTreeError, OSError) as error:
        print(f"{PROGRAM}: {error}", file=sys.stderr)
        file_error = isinstance(error, DamagedFile) or not isinstance(error, MemoryTreeError)
        return FILE_ERROR if file_error else WRONG_USAGE
    except KeyboardInterrupt:
        return INTERRUPTED


def parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    about = "The paper's tables and figures, measured beside the systems that it names."
    main = argparse.ArgumentParser(prog=PROGRAM, description=about)
    commands = main.add_subparsers(metavar="COMMAND", required=True)

    output = argparse.ArgumentParser(add_help=False)
    output.add_argument(
        "--json", dest="as_json", action="store_true", help="write JSON Lines to standard output, all else to standard error"
    )
    folder = argparse.ArgumentParser(add_help=False)
    folder.add_argument(
        "--out", type=Path, help="folder of the results (default: docs/results/lab in a checkout, else memorytree-lab)"
    )
    folder.add_argument("--quick", action="store_true", help="small synthetic data, a few minutes in all with compilation")
    running = argparse.ArgumentParser(add_help=False)
    running.add_argument("--data", type=Path, help="folder of the data sets (default: $MEMORYTREE_DATA)")
    running.add_argument(
        "--seeds", type=_positive, default=5, help="number of seeds; systems of linear time have one (default: 5)"
    )
    running.add_argument(
        "--baseline", action="append", metavar="MODULE:CLASS", help="a system of your own; may be given several times"
    )
    running.add_argument(
        "--resume", action=argparse.BooleanOptionalAction, default=True, help="use the cached results of finished parts"
    )
    running.add_argument(
        "--jobs",
        type=_positive,
        help="parts that run at a time (default: 1; for a quick run one per core)",
    )

    def add(name: str, action: Callable[[argparse.Namespace], int], *parents: argparse.ArgumentParser) -> Any:
        about = action.__doc__ or ""
        command = commands.add_parser(name, help=about, description=about, parents=[*parents, output])
        command.set_defaults(action=action)
        return command

    add("list", list_experiments)
    names = add("run", run_some, folder, running)
    names.add_argument("names", nargs="+", metavar="NAME", help="experiments, as `list` shows them")
    add("all", run_all, folder, running)
    add("report", build_page, folder)
    return main


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {number}")
    return number


_positive.__name__ = "whole number"  # argparse names the type in its error


# ---- the commands


def list_experiments(chosen: argparse.Namespace) -> int:
    """List the experiments."""
    width = max(map(len, EXPERIMENTS))
    for name, experiment in EXPERIMENTS.items():
        about = (experiment.__doc__ or "").splitlines()[0]
        print(json.dumps({"name": name, "about": about}) if chosen.as_json else f"{name:<{width}}  {about}")
    return OK


def run_some(chosen: argparse.Namespace) -> int:
    """Run some experiments; parts that were finished before are not run again."""
    unknown = [name for name in chosen.names if name not in EXPERIMENTS]
    if unknown:
        raise MemoryTreeError(f"no experiment {', '.join(unknown)}; there are {', '.join(EXPERIMENTS)}")
    experiments = [EXPERIMENTS[name] for name in dict.fromkeys(chosen.names)]
    return run_experiments(experiments, _plan(chosen), _run_options(chosen))


def run_all(chosen: argparse.Namespace) -> int:
    """Run all experiments, then build the page."""
    code = run_experiments(list(EXPERIMENTS.values()), _plan(chosen), _run_options(chosen))
    if code != NOTHING_SUCCEEDED:
        build_page(chosen)
    return code


def build_page(chosen: argparse.Namespace) -> int:
    """Build one HTML page of all results."""
    page = report.write(chosen.out or default_out(chosen.quick))
    print(json.dumps({"page": str(page)}) if chosen.as_json else f"The page is {page}")
    return OK


def default_out(quick: bool) -> Path:
    """Return the results folder of a checkout, or for quick runs and elsewhere a folder in the working directory."""
    checkout = Path("src/memorytree").is_dir() and Path("docs/results").is_dir()
    return Path("docs/results/lab") if checkout and not quick else Path("memorytree-lab")


def _plan(chosen: argparse.Namespace) -> Plan:
    folder = data_folder(chosen.data)
    if folder is not None and not folder.is_dir():
        named_by = "MEMORYTREE_DATA" if chosen.data is None else "--data"
        raise DataMissing(f"{named_by} is {folder}, which is not a folder; it must be the folder of the data sets")
    if chosen.baseline and not {"", os.getcwd()} & set(sys.path):
        sys.path.insert(0, os.getcwd())  # the working directory is importable, here and in child processes
    return Plan(folder, chosen.quick, chosen.seeds, baselines.resolve(chosen.baseline or ()))


def _run_options(chosen: argparse.Namespace) -> RunOptions:
    jobs = chosen.jobs or (os.cpu_count() or 1 if chosen.quick else 1)
    return RunOptions(chosen.out or default_out(chosen.quick), chosen.resume, jobs, chosen.as_json)


# ---- running


def run_experiments(chosen: Sequence[Experiment], plan: Plan, options: RunOptions) -> int:
    """Run experiments and write their documents; return the exit code."""
    console = Console(stderr=options.as_json)
    if not console.is_terminal:
        console = Console(stderr=options.as_json, width=LOG_WIDTH)
    if plan.data is None and not plan.quick:
        console.print("No data folder: set --data or MEMORYTREE_DATA. Parts that need data will fail with this reason.")
    wanted = {experiment.name: list(experiment.parts(plan)) for experiment in chosen}
    for baseline in plan.baselines:
        if not any(part.baseline == baseline for own in wanted.values() for part in own):
            console.print(f"{baseline} is suited to none of these experiments.", style="yellow", highlight=False)
    found, interrupted = _run_parts([part for own in wanted.values() for part in own], plan, options, console)
    for dataset in sorted(changed_datasets(found, plan)):
        warning = f"{dataset}: parts were measured on other files than those in {plan.data}; --no-resume runs them again."
        console.print(warning, style="yellow", highlight=False, soft_wrap=True)
    context = measurement_context(0, plan.quick)
    for experiment in chosen:
        results = Results({part: found[part] for part in wanted[experiment.name] if part in found})
        reason = documents.reason_to_keep(experiment.name, plan, results, options.out, replace=not options.resume)
        document = documents.write(experiment, plan, results, context, None if reason else options.out)
        _show(document, console)
        if reason:
            console.print(reason, style="yellow", highlight=False, soft_wrap=True)
        if options.as_json:
            print(json.dumps(document))
    if interrupted:
        console.print("Interrupted; finished parts are cached, and the same command continues from there.")
        return INTERRUPTED
    if not any(one.get("status") == "ok" for one in found.values()):
        return NOTHING_SUCCEEDED
    console.print(f"Results are in {options.out}.", highlight=False)
    return OK


def _run_parts(
    parts: Sequence[Part], plan: Plan, options: RunOptions, console: Console
) -> tuple[runner.ResultsByPart, bool]:
    """Return the results of the finished parts, and whether the user interrupted the run."""

    def measure_part(part: Part) -> dict[str, Any]:
        return measured(part, plan)

    # SIGTERM interrupts a run in the background as Ctrl-C does one in the foreground.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        cache = ResultCache(options.out / "parts", plan.quick)
        found = runner.run(
            runner.in_order(parts), cache, measure_part,
            resume=options.resume, jobs=options.jobs, end=end_children, console=console,
        )  # fmt: skip
        return found, False
    except runner.RunInterrupted as interruption:
        return interruption.found, True
    finally:
        signal.signal(signal.SIGTERM, before)


def changed_datasets(found: runner.ResultsByPart, plan: Plan) -> set[str]:
    """Return the data sets whose files differ from those that were measured; results without a digest count as unchanged."""
    now = {part.dataset: files_digest(part.dataset, plan.data) for part in found}
    noted = {(part.dataset, one["files"]) for part, one in found.items() if "files" in one}
    return {dataset for dataset, files in noted if now[dataset] not in ("", files)}


def measured(part: Part, plan: Plan) -> dict[str, Any]:
    """Run one part in a process of its own."""
    source = Source(part.dataset, plan.data, part.seed, plan.quick)
    found = measure(part.baseline, source, job=part.job, options=dict(part.options))
    files = files_digest(part.dataset, plan.data)
    return {**found, "files": files} if files else found


def _show(document: dict[str, Any], console: Console) -> None:
    console.rule(document["title"], align="left")
    for table in [*document["tables"], documents.claims_table(document["claims"]).to_json()]:
        console.print(tables.to_rich(tables.Table.from_json(table)))
    for problem in document["troubles"]:
        console.print(problem, style="yellow", highlight=False)
