"""The output of the demo on a terminal, or in a file or pipe."""

from __future__ import annotations

import textwrap
import time
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Table

from examples.demo.docstrings import Paragraph, words
from examples.demo.race import CONSTANT, NOTHING, SCAN, TREE, Race, entropy_reduction, error

WIDTH = 80


class Question(NamedTuple):
    """A paragraph of the stream and the one that the tree returned for it."""

    query: Paragraph
    found: Paragraph

    @property
    def right(self) -> bool:
        """Whether both belong to the same function."""
        return self.query.owner == self.found.owner


class Screen:
    """Prints in 80 columns; colours and a live bar only where there is a terminal."""

    def __init__(self, console: Console | None = None):
        self._console = console or Console(highlight=False)
        self._console.width = min(self._console.width, WIDTH)

    def title(self, question: str) -> None:
        """Print the first line."""
        self._console.print(f"\n[bold]memorytree[/]: {question}\n")

    def line(self, text: str) -> None:
        """Print a line without wrapping, so that it can be copied."""
        self._console.print(escape(text), soft_wrap=True)

    def report(self, stage: str, result: str, since: float | None = None) -> None:
        """Print a finished stage and its time."""
        took = "" if since is None else f"{time.perf_counter() - since:.1f} s"
        self._console.print(f"[bold cyan]{stage:<10}[/] {result:<61}[dim]{took:>8}[/]")

    def working(self, on: str) -> AbstractContextManager[object]:
        """Return a context that shows a spinner on a terminal."""
        return self._console.status(on) if self._console.is_terminal else nullcontext()

    def run(self, race: Race) -> None:
        """Run the race and show its state: a bar on a terminal, else a line for every tenth of the rows."""
        rows = len(race.labels)
        if not self._console.is_terminal:
            tenth = 1
            for done in race.run():
                if done >= tenth * rows / 10:
                    self._console.print(" " * 11 + _standing(race, done))
                    tenth = int(10 * done / rows) + 1
            return
        columns = TextColumn("[bold cyan]learning  [/]"), BarColumn(bar_width=20), TextColumn("{task.fields[standing]}")
        with Progress(*columns, console=self._console, transient=True) as bar:
            task = bar.add_task("", total=rows, standing="")
            for done in race.run():
                bar.update(task, completed=done, standing=_standing(race, done))

    def show_questions(self, race: Race, stream: list[Paragraph], rng: np.random.Generator) -> None:
        """Print two right predictions and a wrong one from the end of the stream."""
        questions = choose_questions(race, stream, rng)
        if not questions:
            return
        self._console.print("\n[bold]New paragraphs: two right predictions and a wrong one[/]")
        for question in questions:
            text = textwrap.fill(f"“{question.query.text}”", WIDTH - 2, initial_indent="  ", subsequent_indent="   ")
            self._console.print(f"\n{escape(text)}", style="italic")
            verdict = "[green]right[/]" if question.right else f"[red]no:[/] {escape(question.query.owner)}"
            self._console.print(f"    prediction   [bold]{escape(question.found.owner)}[/]  {verdict}")
            reminder = textwrap.shorten(question.found.text, 55, placeholder=" …")
            self._console.print(f"    because of   [dim]“{escape(reminder)}”[/]")

    def show_table(self, race: Race) -> None:
        """Print the final figures."""
        table = Table(box=None, pad_edge=False, padding=(0, 3, 0, 0))
        for column in ("", "error", "entropy reduction", "one query"):
            table.add_column(column, justify="left" if not column else "right", header_style="bold", no_wrap=True)
        times = {TREE: _time(race.tree_times[-1]), SCAN: _time(race.scan_times[-1]), CONSTANT: "–"}
        for system in (TREE, SCAN, CONSTANT):
            right = race.right[system]
            bits = entropy_reduction(right, race.right[CONSTANT])[-1]
            style = "bold" if system == TREE else None
            table.add_row(system, f"{error(right)[-1]:.1%}", _bits(bits), times[system], style=style)
        self._console.print()
        self._console.print(table)
        new = 1 - race.seen_before.mean()
        ratio = race.scan_times[-1] / race.tree_times[-1]
        speed = f"{ratio:.0f} times as fast as" if ratio >= 1.5 else "not yet faster than"
        note = (
            "Entropy reduction is log2 of the accuracy less log2 of the constant predictor's. "
            f"{new:.1%} of the paragraphs are the first of their function, so no system can predict them. "
            f"With {race.sizes[-1]:,} memories the tree is {speed} a scan of all of them."
        )
        self._console.print(f"\n{textwrap.fill(note, WIDTH)}\n")


def choose_questions(race: Race, stream: list[Paragraph], rng: np.random.Generator) -> list[Question]:
    """Return two right predictions and a near miss among readable paragraphs."""
    last = np.arange(len(stream) * 3 // 4, len(stream))
    questions = [
        Question(stream[row], stream[race.remembered[row]])
        for row in rng.permutation(last).tolist()
        if race.remembered[row] != NOTHING and _readable(stream[row].text)
    ]
    right = [q for q in questions if q.right and _overlap(q.query.text, q.found.text) < 0.4]
    missed = [q for q in questions if not q.right]
    missed.sort(key=lambda q: q.query.owner.rpartition(".")[0] != q.found.owner.rpartition(".")[0])
    return right[:2] + missed[:1]


def _readable(text: str) -> bool:
    letters = sum(letter.isalpha() or letter in " ,.'" for letter in text)
    return 60 <= len(text) <= 220 and text[0].isupper() and text.endswith(".") and letters / len(text) > 0.97


def _overlap(text: str, other: str) -> float:
    one, two = set(words(text)), set(words(other))
    return len(one & two) / max(1, len(one | two))


def _standing(race: Race, done: int) -> str:
    wrong = error(race.right[TREE][:done])[-1]
    bits = entropy_reduction(race.right[TREE][:done], race.right[CONSTANT][:done])[-1]
    return f"{done:>6,} rows, error {wrong:.1%}, {_bits(bits)}, {_time(np.median(race.seconds[done // 2 : done]))}"


def _bits(bits: float) -> str:
    return "–" if np.isnan(bits) else f"{bits:.2f} bits"


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:,.0f} µs"
