"""`memorytree lab`: list the experiments, run some or all of them, build the page."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from memorytree.errors import DataMissing

# Everything else is imported where it is needed: the help of the whole command line should not wait for the lab.
if TYPE_CHECKING:
    from memorytree.lab.experiments import Experiment, Plan
    from memorytree.lab.parts import Part
    from memorytree.lab.runner import Found

app = typer.Typer(no_args_is_help=True, help="The paper's tables and figures, measured beside the systems it names.")

LOG_WIDTH = 140  # of tables that do not go to a terminal
FINE, NOTHING, WRONG, STOPPED = 0, 1, 2, 130  # as everywhere on the command line

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Experiments, as `memorytree lab list` shows them.")]
Data = Annotated[Path | None, typer.Option(help="Folder of the data sets (default: $MEMORYTREE_DATA).", file_okay=False)]
Quick = Annotated[bool, typer.Option("--quick", help="Small made-up data, a few minutes in all (compiling included).")]
Seeds = Annotated[int, typer.Option(min=1, help="How many seeds; systems of linear time have one.")]
Peers = Annotated[
    list[str] | None,
    typer.Option("--peer", metavar="MODULE:CLASS", help="A system of your own beside the others; may be repeated."),
]
Out = Annotated[
    Path | None, typer.Option(help="Where results go (default: docs/results/lab in a checkout, else memorytree-lab).")
]
Resume = Annotated[bool, typer.Option(help="Take parts that were finished before as they are.")]
Jobs = Annotated[
    int | None,
    typer.Option(
        min=1, help="Parts that run at a time (default: 1, or all cores for a quick run, whose times mean little)."
    ),
]
AsJson = Annotated[
    bool, typer.Option("--json", help="Write JSON Lines to standard output, for programs; all else goes to standard error.")
]


@app.command("list")
def list_them(as_json: AsJson = False) -> None:
    """Show what can be run."""
    from memorytree.lab.experiments import EXPERIMENTS

    if as_json:
        for name, experiment in EXPERIMENTS.items():
            typer.echo(json.dumps({"name": name, "about": (experiment.__doc__ or "").splitlines()[0]}))
        return
    width = max(map(len, EXPERIMENTS))
    for name, experiment in EXPERIMENTS.items():
        typer.echo(f"{name:<{width}}  {(experiment.__doc__ or '').splitlines()[0]}")


@app.command("run")
def run_some(
    names: Names,
    data: Data = None,
    quick: Quick = False,
    seeds: Seeds = 5,
    peer: Peers = None,
    out: Out = None,
    resume: Resume = True,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Run some experiments; parts that were finished before are not run again."""
    from memorytree.lab.experiments import EXPERIMENTS

    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        typer.echo(f"memorytree lab: no experiment {', '.join(unknown)}; there are {', '.join(EXPERIMENTS)}", err=True)
        raise typer.Exit(WRONG)
    chosen = [EXPERIMENTS[name] for name in dict.fromkeys(names)]
    raise typer.Exit(_run(chosen, _plan(data, quick, seeds, peer), out, resume, jobs, as_json))


@app.command("all")
def run_all(
    data: Data = None,
    quick: Quick = False,
    seeds: Seeds = 5,
    peer: Peers = None,
    out: Out = None,
    resume: Resume = True,
    jobs: Jobs = None,
    as_json: AsJson = False,
) -> None:
    """Run all experiments, then build the page."""
    from memorytree.lab.experiments import EXPERIMENTS

    code = _run(list(EXPERIMENTS.values()), _plan(data, quick, seeds, peer), out, resume, jobs, as_json)
    if code != NOTHING:
        build_page(out, quick, as_json)
    raise typer.Exit(code)


@app.command("report")
def build_page(out: Out = None, quick: Quick = False, as_json: AsJson = False) -> None:
    """Build one HTML page of everything that has been run."""
    from memorytree.lab import report

    page = report.write(out or default_out(quick))
    typer.echo(json.dumps({"page": str(page)}) if as_json else f"The page is {page}")


def default_out(quick: bool) -> Path:
    """Where results go: to those of a checkout if we stand in one, but never a quick run's."""
    return Path("docs/results/lab") if not quick and _in_checkout(Path()) else Path("memorytree-lab")


def _in_checkout(here: Path) -> bool:
    return (here / "src" / "memorytree").is_dir() and (here / "docs" / "results").is_dir()


def _plan(data: Path | None, quick: bool, seeds: int, peers: Sequence[str] | None) -> Plan:
    from memorytree.lab.datasets import data_folder
    from memorytree.lab.experiments import Plan
    from memorytree.lab.peers import chosen

    folder = data_folder(data)
    if folder is not None and not folder.is_dir():
        named_by = "MEMORYTREE_DATA" if data is None else "--data"
        raise DataMissing(f"{named_by} names {folder}, which is not a folder; it should be that of the data sets")
    if peers and not {"", os.getcwd()} & set(sys.path):
        sys.path.insert(0, os.getcwd())  # as if this were `python -m memorytree`; the children look there too
    return Plan(folder, quick, seeds, chosen(peers or ()))


def _run(chosen: Sequence[Experiment], plan: Plan, out: Path | None, resume: bool, jobs: int | None, as_json: bool) -> int:
    """Run experiments and write down what they found; returns the exit code."""
    from memorytree.lab import documents, runner
    from memorytree.lab.measuring import circumstances
    from memorytree.lab.results import Results

    console = Console(stderr=as_json)
    if not console.is_terminal:
        console = Console(stderr=as_json, width=LOG_WIDTH)
    folder = out or default_out(plan.quick)
    if plan.data is None and not plan.quick:
        console.print("No folder of data sets: --data or MEMORYTREE_DATA names one. What needs data will be shown as such.")
    wanted = {experiment.name: list(experiment.parts(plan)) for experiment in chosen}
    for peer in plan.peers:
        if not any(part.peer == peer for own in wanted.values() for part in own):
            console.print(f"{peer} can take part in none of these experiments.", style="yellow", highlight=False)
    parts = runner.in_order(part for own in wanted.values() for part in own)
    found, stopped = _finished(parts, plan, folder, resume, jobs, console)
    for dataset in sorted(_changed(found, plan)):
        said = f"{dataset}: parts were measured on other files than are in {plan.data}; --no-resume measures them again."
        console.print(said, style="yellow", highlight=False, soft_wrap=True)
    context = circumstances(0, plan.quick)
    for experiment in chosen:
        results = Results({part: found[part] for part in wanted[experiment.name] if part in found})
        reason = documents.reason_against(experiment.name, plan, results, folder, replace=not resume)
        told = documents.write(experiment, plan, results, context, None if reason else folder)
        _show(told, console)
        if reason:
            console.print(reason, style="yellow", highlight=False, soft_wrap=True)
        if as_json:
            typer.echo(json.dumps(told))
    if stopped:
        console.print("Stopped; what was finished is kept, and the same command goes on from there.")
        return STOPPED
    if not any(one.get("status") == "ok" for one in found.values()):
        return NOTHING
    console.print(f"Results are in {folder}.", highlight=False)
    return FINE


def _finished(
    parts: Sequence[Part], plan: Plan, folder: Path, resume: bool, jobs: int | None, console: Console
) -> tuple[Found, bool]:
    """What came of the parts until the end, or until the user stopped."""
    from memorytree.lab import runner
    from memorytree.lab.parts import Shelf
    from memorytree.lab.process import end_children

    def work(part: Part) -> dict[str, Any]:
        return measured(part, plan)

    at_a_time = jobs or (os.cpu_count() or 1 if plan.quick else 1)
    # A run in the background is stopped like one in front.
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        shelf = Shelf(folder / "parts", plan.quick)
        found = runner.run(parts, shelf, work, resume=resume, jobs=at_a_time, end=end_children, console=console)
        return found, False
    except runner.Stopped as stop:
        return stop.found, True
    finally:
        signal.signal(signal.SIGTERM, before)


def _changed(found: Found, plan: Plan) -> set[str]:
    """Data sets that had other files when parts were measured; parts that do not tell pass for unchanged."""
    from memorytree.lab.datasets import files_of

    now = {part.dataset: files_of(part.dataset, plan.data) for part in found}
    noted = {(part.dataset, one["files"]) for part, one in found.items() if "files" in one}
    return {dataset for dataset, files in noted if now[dataset] not in ("", files)}


def measured(part: Part, plan: Plan) -> dict[str, Any]:
    """Run one part in a process of its own."""
    from memorytree.lab.datasets import files_of
    from memorytree.lab.process import measure

    found = measure(
        part.peer, part.dataset, job=part.job, seed=part.seed, data=plan.data, quick=plan.quick, options=dict(part.options)
    )
    files = files_of(part.dataset, plan.data)
    return {**found, "files": files} if files else found


def _show(found: dict[str, Any], console: Console) -> None:
    from memorytree.lab import documents, tables

    console.rule(found["title"], align="left")
    for table in [*found["tables"], documents.claims_table(found["claims"]).to_json()]:
        console.print(tables.to_rich(tables.Table.from_json(table)))
    for trouble in found["troubles"]:
        console.print(trouble, style="yellow", highlight=False)
