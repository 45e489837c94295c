"""`memorytree lab`: list the experiments, run some or all of them, build the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from memorytree.lab import documents, report, runner, tables
from memorytree.lab.datasets import data_folder
from memorytree.lab.experiments import EXPERIMENTS, Experiment, Plan
from memorytree.lab.measuring import circumstances
from memorytree.lab.parts import Part, Shelf
from memorytree.lab.process import measure
from memorytree.lab.results import Results

app = typer.Typer(no_args_is_help=True, help="The paper's tables and figures, measured beside the systems it names.")

LAB_WIDTH = 140  # of tables that go to a file

Names = Annotated[list[str], typer.Argument(metavar="NAME...", help="Experiments, as `memorytree lab list` shows them.")]
Data = Annotated[Path | None, typer.Option(help="Folder of the data sets (default: $MEMORYTREE_DATA).", file_okay=False)]
Quick = Annotated[bool, typer.Option("--quick", help="Small made-up data, about two minutes in all.")]
Seeds = Annotated[int, typer.Option(min=1, help="How many seeds; systems of linear time have one.")]
Out = Annotated[
    Path | None, typer.Option(help="Where results go (default: docs/results/lab of a checkout, else memorytree-lab).")
]
Resume = Annotated[bool, typer.Option(help="Take parts that were finished before as they are.")]
Jobs = Annotated[int, typer.Option(min=1, help="Parts that run at a time; times are only to be trusted with one.")]


@app.command("list")
def list_them() -> None:
    """Show what can be run."""
    width = max(map(len, EXPERIMENTS))
    for name, experiment in EXPERIMENTS.items():
        typer.echo(f"{name:<{width}}  {experiment.title}: {_first_line(experiment)}")


@app.command("run")
def run_some(
    names: Names,
    data: Data = None,
    quick: Quick = False,
    seeds: Seeds = 5,
    out: Out = None,
    resume: Resume = True,
    jobs: Jobs = 1,
) -> None:
    """Run some experiments; parts that were finished before are not run again."""
    unknown = [name for name in names if name not in EXPERIMENTS]
    if unknown:
        raise typer.BadParameter(f"no experiment {', '.join(unknown)}; there are {', '.join(EXPERIMENTS)}")
    _run([EXPERIMENTS[name] for name in dict.fromkeys(names)], Plan(data_folder(data), quick, seeds), out, resume, jobs)


@app.command("all")
def run_all(
    data: Data = None,
    quick: Quick = False,
    seeds: Seeds = 5,
    out: Out = None,
    resume: Resume = True,
    jobs: Jobs = 1,
) -> None:
    """Run all experiments, then build the page."""
    _run(list(EXPERIMENTS.values()), Plan(data_folder(data), quick, seeds), out, resume, jobs)
    build_page(out, quick)


@app.command("report")
def build_page(out: Out = None, quick: Quick = False) -> None:
    """Build one HTML page of everything that has been run."""
    typer.echo(f"The page is {report.write(out or default_out(quick))}")


def default_out(quick: bool) -> Path:
    """Where results go: to those of a checkout if we stand in one, but never a quick run's."""
    return Path("docs/results/lab") if not quick and _in_checkout(Path()) else Path("memorytree-lab")


def _in_checkout(here: Path) -> bool:
    return (here / "src" / "memorytree").is_dir() and (here / "docs" / "results").is_dir()


def _first_line(experiment: Experiment) -> str:
    return (experiment.__doc__ or "").strip().splitlines()[0]


def _run(chosen: Sequence[Experiment], plan: Plan, out: Path | None, resume: bool, jobs: int) -> None:
    console = Console() if Console().is_terminal else Console(width=LAB_WIDTH)
    folder = out or default_out(plan.quick)
    if plan.data is None and not plan.quick:
        console.print(
            "No folder of data sets: --data or MEMORYTREE_DATA names one. What needs data will be shown as failed."
        )
    wanted = {experiment.name: list(experiment.parts(plan)) for experiment in chosen}
    parts = runner.in_order(part for own in wanted.values() for part in own)
    shelf = Shelf(folder / "parts", plan.quick)
    try:
        found = runner.run(parts, shelf, lambda part: measured(part, plan), resume=resume, jobs=jobs, console=console)
        stopped = False
    except runner.Stopped as stop:
        found, stopped = stop.found, True
    context = circumstances(0, plan.quick)
    for experiment in chosen:
        results = Results({part: found[part] for part in wanted[experiment.name] if part in found})
        _show(documents.write(experiment, plan, results, context, folder), console)
    console.print(f"Results are in {folder}.", highlight=False)
    if stopped:
        console.print("Stopped; what was finished is kept, and the same command goes on from there.")
        raise typer.Exit(130)


def measured(part: Part, plan: Plan) -> dict[str, Any]:
    """Run one part in a process of its own."""
    return measure(
        part.peer, part.dataset, job=part.job, seed=part.seed, data=plan.data, quick=plan.quick, options=dict(part.options)
    )


def _show(found: dict[str, Any], console: Console) -> None:
    console.rule(found["title"], align="left")
    for table in [*found["tables"], documents.claims_table(found["claims"]).to_json()]:
        console.print(tables.to_rich(tables.Table.from_json(table)))
    for trouble in found["troubles"]:
        console.print(trouble, style="yellow", highlight=False)
