"""What commands write: results to standard output, for people or as JSON; everything else to standard error."""

from __future__ import annotations

import json
import sys
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from io import TextIOWrapper
from typing import Any, TextIO

from rich.console import Console
from rich.table import Table
from rich.text import Text

from memorytree.cli.options import written

WIDTH = 100  # of tables that go to a file or a pipe


class _Console(Console):
    """A console for which a broken pipe is an error like others: Rich would choose the exit code itself."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def say(message: str) -> None:
    """Tell the person something that is no result: one line on standard error."""
    print(f"memorytree: {printable(message)}", file=sys.stderr)


def write(text: str) -> None:
    """A line of result."""
    print(printable(text))


def write_json(data: Any) -> None:
    """A result as one line of JSON; letters stay as they are where the output can hold them."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    print(json.dumps(data, ensure_ascii=encoding != "utf8"))


def write_table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Results as a table; the name of a column of numbers begins with >. A last column without any content is left out."""
    rows = [[printable(str(cell)) for cell in row] for row in rows]
    if not any(row[-1] for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    console = _Console(highlight=False)
    if not console.is_terminal:
        console = _Console(highlight=False, width=WIDTH)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        number = column.startswith(">")
        table.add_column(column.lstrip(">"), justify="right" if number else "left", no_wrap=number, overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    console.print(table)


def write_long(name: str, text: str) -> None:
    """A line that is never broken, as it will be copied."""
    _Console(highlight=False).print(Text.assemble((f"{name} ", "bold"), (text, "dim")), soft_wrap=True)


def lines_out() -> TextIO:
    """Standard output for JSON Lines that others write; these are UTF-8, whatever the locale."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf8")
    return sys.stdout


def working(on: str) -> AbstractContextManager[object]:
    """While something takes its time: a sign of life, on a terminal."""
    console = Console(stderr=True)
    return console.status(on) if console.is_terminal else nullcontext()


def shows_progress() -> bool:
    """Whether somebody is looking who would like to see a bar."""
    return sys.stderr.isatty()


def described(metadata: Mapping[str, Any]) -> str:
    """Metadata as people read it, and as --meta and --where take it."""
    return ", ".join(f"{name}={written(value)}" for name, value in metadata.items())


def printable(text: str) -> str:
    """A text that does nothing to a terminal but be read: what is remembered may come from anywhere.

    >>> printable("red" + chr(27) + "[31m alert" + chr(7))
    'red�[31m alert�'
    """
    if text.isprintable():
        return text
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" else c for c in text)
