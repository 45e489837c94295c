"""What commands write: results to standard output, as text or JSON; everything else to standard error."""

from __future__ import annotations

import json
import logging
import sys
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import TextIOWrapper
from typing import TYPE_CHECKING, TextIO

from memorytree.cli.options import format_value

if TYPE_CHECKING:
    from rich.console import Console

    from memorytree.store.inputs import MetadataValue

WIDTH = 100  # of tables that are not written to a terminal


def _console() -> Console:
    """Standard output for Rich, which is imported here because many calls do without it."""
    from rich.console import Console

    class OutputConsole(Console):
        """A console that reports a broken pipe as an exception; Rich would exit with a code of its own."""

        def on_broken_pipe(self) -> None:
            raise BrokenPipeError

    console = OutputConsole(highlight=False)
    return console if console.is_terminal else OutputConsole(highlight=False, width=WIDTH)


def write_message(message: str) -> None:
    """Write a line that is not a result to standard error."""
    print(f"memorytree: {printable(message)}", file=sys.stderr)


class _MessageHandler(logging.Handler):
    """Writes what the library logs as messages."""

    def emit(self, record: logging.LogRecord) -> None:
        write_message(record.getMessage())


@contextmanager
def messages_of_library() -> Iterator[None]:
    """Write what the library logs at level INFO or above, such as that it is compiling kernels."""
    logger, handler = logging.getLogger("memorytree"), _MessageHandler()
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False  # messages are written once
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates


def write(text: str) -> None:
    """Write a line of the result."""
    print(printable(text))


def write_json(data: object) -> None:
    """Write a result as one line of JSON. Characters are escaped only if the output is not UTF-8."""
    encoding = (sys.stdout.encoding or "").lower().replace("-", "")
    print(json.dumps(data, ensure_ascii=encoding != "utf8"))


def write_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Write a table. A column name that begins with ">" aligns right; an empty last column is left out."""
    cells = [[printable(str(cell)) for cell in row] for row in rows]
    if not any(row[-1] for row in cells):
        columns, cells = columns[:-1], [row[:-1] for row in cells]
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for column in columns:
        number = column.startswith(">")
        table.add_column(column.lstrip(">"), justify="right" if number else "left", no_wrap=number, overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    _console().print(table)


def write_unwrapped(name: str, text: str) -> None:
    """Write a name and a text on one line without wrapping, so that the text can be copied."""
    from rich.text import Text

    _console().print(Text.assemble((f"{name} ", "bold"), (text, "dim")), soft_wrap=True)


def jsonl_stdout() -> TextIO:
    """Standard output for JSON Lines, which are UTF-8 in any locale."""
    if isinstance(sys.stdout, TextIOWrapper):
        sys.stdout.reconfigure(encoding="utf8")
    return sys.stdout


def status(text: str) -> AbstractContextManager[object]:
    """Show a spinner with a text, if standard error is a terminal."""
    if not sys.stderr.isatty():
        return nullcontext()
    from rich.console import Console

    return Console(stderr=True).status(text)


def show_progress() -> bool:
    """Whether to draw progress bars: only on a terminal."""
    return sys.stderr.isatty()


def counted(number: int, singular: str, plural: str) -> str:
    """A number with its noun.

    >>> counted(1, "memory", "memories"), counted(2000, "memory", "memories")
    ('1 memory', '2,000 memories')
    """
    return f"{number:,} {singular if number == 1 else plural}"


def format_metadata(metadata: Mapping[str, MetadataValue]) -> str:
    """Metadata as --meta and --where take it."""
    return ", ".join(f"{name}={format_value(value)}" for name, value in metadata.items())


def printable(text: str) -> str:
    """Replace control characters, so that stored text cannot send escape sequences to the terminal.

    >>> printable("red" + chr(27) + "[31m alert" + chr(7))
    'red�[31m alert�'
    """
    if text.isprintable():
        return text
    return "".join("\ufffd" if unicodedata.category(c) in ("Cc", "Cs") and c not in "\n\t" else c for c in text)
