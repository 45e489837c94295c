"""What memorytree can show of itself: demo, lab."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from memorytree.cli.options import AsJson, examples


@examples("memorytree demo", "memorytree demo --quick --no-picture")
def demo(
    rows: Annotated[int | None, typer.Option(min=100, help="At most so many paragraphs (default: 16,000).")] = None,
    seed: Annotated[int, typer.Option(min=0, help="Another seed, another order.")] = 0,
    beam: Annotated[int, typer.Option(min=1, help="Leaves that a query looks into.")] = 32,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to save the picture.")] = Path("memorytree-demo.png"),
    no_picture: Annotated[bool, typer.Option("--no-picture", help="Save no picture.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="NumPy's docstrings only, and 600 paragraphs.")] = False,
    json: AsJson = False,
) -> None:
    """Learn a few-shot task from the docstrings on this machine, and watch it happen."""
    from memorytree.demo.__main__ import main

    arguments = [f"--seed={seed}", f"--beam={beam}", f"--out={out}"]
    arguments += [] if rows is None else [f"--rows={rows}"]
    switches = {"--no-picture": no_picture, "--quick": quick, "--json": json}
    raise typer.Exit(main(arguments + [name for name, on in switches.items() if on]))


class Lab(TyperGroup):
    """The lab's commands; nothing of the lab is imported before one of them is wanted."""

    @property
    def _group(self) -> Any:
        return typer.main.get_command(import_module("memorytree.lab.command").app)

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the lab's commands."""
        return list(self._group.list_commands(ctx))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """One of the lab's commands."""
        return self._group.get_command(ctx, cmd_name)
