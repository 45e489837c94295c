"""The command line: `memorytree COMMAND`. A file for each group of commands; here they come together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated

import typer
from rich.markup import escape

from memorytree.cli import answers, texts, upkeep
from memorytree.cli.door import EXIT_CODES, Door
from memorytree.cli.options import EXAMPLES

__all__ = ["app", "main"]


def _flowing(text: str | None) -> str:
    """A docstring whose paragraphs are as wide as the terminal, not as the source."""
    return "\n\n".join(escape(" ".join(paragraph.split())) for paragraph in (text or "").split("\n\n"))


def _listed(title: str, lines: Sequence[str]) -> str:
    """Lines below a title, as typer keeps them apart."""
    return "\n\n".join([f"[bold]{title}[/]", *map(escape, lines)])


ABOUT = """A memory that learns: remember texts, recall them by a question, say which were useful, forget.

Memories last in a store: a directory that --store or the environment variable MEMORYTREE_STORE names, ./memories if neither
does. Every command takes --json."""

app = typer.Typer(
    name="memorytree",
    cls=Door,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_listed("Exit codes:", [f"{code}: {meaning}" for code, meaning in EXIT_CODES.items()]),
)

PANELS: dict[str, tuple[Callable[..., None], ...]] = {
    "Texts": (texts.init, texts.remember, answers.recall, answers.reward, answers.explain, texts.forget),
    "Any store": (
        upkeep.stats,
        upkeep.draw,
        upkeep.export,
        upkeep.import_,
        upkeep.backup,
        upkeep.verify,
        upkeep.repair,
    ),
}
for _panel, _commands in PANELS.items():
    for _command in _commands:
        _name = _command.__name__
        app.command(
            _name.rstrip("_"),
            help=_flowing(_command.__doc__),
            epilog=_listed("Examples:", EXAMPLES[_name]),
            rich_help_panel=_panel,
        )(_command)


def _version(wanted: bool) -> None:
    if wanted:
        from memorytree import __version__

        typer.echo(f"memorytree {__version__}")
        raise typer.Exit()


@app.callback(help=_flowing(ABOUT))
def _memorytree(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """`memorytree` itself."""


def main() -> None:
    """Run the command line."""
    app(prog_name="memorytree")
