"""The command line: `memorytree COMMAND`, a room for each."""

from __future__ import annotations

import typer

from memorytree.lab.command import app as lab

app = typer.Typer(no_args_is_help=True, add_completion=False, help="A memory that learns.")
app.add_typer(lab, name="lab")


@app.callback()
def _group() -> None:
    """A memory that learns."""


def main() -> None:
    """Run the command line."""
    app()
