"""Registers the commands, and runs them."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Annotated

import typer

from memorytree.cli import maintenance, recall, remember
from memorytree.cli.errors import EXIT_CODES, CommandGroup
from memorytree.cli.options import EXAMPLES

ABOUT = """A memory that learns: store texts, find them by questions, report which were useful, forget them.

Texts are kept in a store, a directory: --store, else the environment variable MEMORYTREE_STORE, else ./memories. Every
command takes --json."""

PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Texts": (remember.init, remember.remember, recall.recall, recall.reward, recall.explain, remember.forget),
    "Any store": (
        maintenance.stats,
        maintenance.plot,
        maintenance.export,
        maintenance.import_,
        maintenance.backup,
        maintenance.verify,
        maintenance.repair,
    ),
}


def escape(text: str) -> str:
    """A text in which Rich finds no markup. Importing `rich.markup` for this would take as long as all other imports here.

    >>> print(escape("[bold] or [3]"))
    \\[bold] or [3]
    """
    return re.sub(r"(\[[a-z#/@][^[]*?])", r"\\\1", text)


def _paragraphs(text: str | None) -> str:
    """A docstring without the line breaks inside its paragraphs, so that help is as wide as the terminal."""
    return "\n\n".join(escape(" ".join(paragraph.split())) for paragraph in (text or "").split("\n\n"))


def _titled_list(title: str, lines: Sequence[str]) -> str:
    """A title and lines, separated as typer's help requires."""
    return "\n\n".join([f"[bold]{title}[/]", *map(escape, lines)])


app = typer.Typer(
    name="memorytree",
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_titled_list("Exit codes:", [f"{code}: {meaning}" for code, meaning in EXIT_CODES.items()]),
)

for _panel, _commands in PANELS.items():
    for _command in _commands:
        app.command(
            _command.__name__.rstrip("_"),
            help=_paragraphs(_command.__doc__),
            epilog=_titled_list("Examples:", EXAMPLES[_command.__name__]),
            rich_help_panel=_panel,
        )(_command)


def _print_version(requested: bool) -> None:
    if requested:
        from memorytree import __version__

        typer.echo(f"memorytree {__version__}")
        raise typer.Exit()


@app.callback(help=_paragraphs(ABOUT))
def _memorytree(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """The options of `memorytree` itself."""


def main() -> None:
    """Run the command line."""
    app(prog_name="memorytree")
