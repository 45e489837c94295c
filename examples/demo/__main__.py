"""Learn, online, which function a paragraph of documentation is about, and watch it happen."""

from __future__ import annotations

import argparse
import importlib.util
import io
import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
from rich.console import Console

from examples.demo import docstrings, race, vectors
from examples.demo.race import Race
from examples.demo.screen import Screen

FEWEST_ROWS = 100


class CannotRun(Exception):
    """Why the demo cannot run here, in one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; returns the exit code."""
    options = _parse(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # better a question mark than no answer
    try:
        if not options.no_picture:
            _check_picture(options.out)
        contest = run(options, Screen(Console(stderr=True, highlight=False)) if options.json else Screen())
        if options.json:
            print(json.dumps(race.figures(contest)))
    except CannotRun as reason:
        print(f"memorytree demo: {reason}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("memorytree demo: stopped", file=sys.stderr)
        return 130
    return 0


def run(options: argparse.Namespace, screen: Screen) -> Race:
    """Collect, learn, show; returns the race."""
    rng = np.random.default_rng(options.seed)
    screen.title("which function is this paragraph about?")

    start = time.perf_counter()
    with screen.working("reading docstrings"):
        found = docstrings.collect(("numpy",) if options.quick else docstrings.PACKAGES)
        stream, rest = docstrings.choose_task(found, options.rows, rng)
        if len(stream) < FEWEST_ROWS:
            raise CannotRun(f"found only {len(stream)} paragraphs; are the sources of NumPy and SciPy installed?")
        functions = len({paragraph.owner for paragraph in stream})
        keys = vectors.make_keys([paragraph.text for paragraph in stream], rest, rng)
    screen.tell("reading", f"{len(found):,} paragraphs from the docstrings on this machine", start)
    screen.tell("the task", f"{len(stream):,} paragraphs of {functions:,} functions and classes, names blanked out")

    start = time.perf_counter()
    with screen.working("compiling the engine (the first time takes a while)"):
        race.warm_up(keys.shape[1], options.beam)
    screen.tell("compiling", "the engine (kept for next time)", start)

    start = time.perf_counter()
    contest = Race(keys, [paragraph.owner for paragraph in stream], beam=options.beam, seed=options.seed)
    screen.follow(contest)
    screen.tell("learning", "each paragraph was first a question, then a memory", start)

    screen.show_questions(contest, stream, rng)
    screen.show_table(contest)
    if not options.no_picture:
        from examples.demo.picture import draw

        try:
            draw(contest, options.out, functions)
        except OSError as reason:
            raise CannotRun(f"cannot save the picture as {options.out}: {reason.strerror or reason}") from None
        screen.say(f"The picture is in {options.out}")
    return contest


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mt demo", description=__doc__)
    parser.add_argument("--rows", type=_at_least(FEWEST_ROWS), help="at most so many paragraphs (default: 16,000)")
    parser.add_argument("--seed", type=_at_least(0), default=0, help="another seed, another order (default: 0)")
    parser.add_argument("--beam", type=_at_least(1), default=32, help="leaves that a query looks into (default: 32)")
    parser.add_argument("--out", type=Path, default=Path("memorytree-demo.png"), help="where to save the picture")
    parser.add_argument("--no-picture", action="store_true", help="save no picture")
    parser.add_argument("--quick", action="store_true", help="NumPy's docstrings only, and 600 paragraphs")
    parser.add_argument(
        "--json", action="store_true", help="the closing figures as JSON; what is shown goes to standard error"
    )
    options = parser.parse_args(arguments)
    if options.rows is None:
        options.rows = 600 if options.quick else 16_000
    return options


def _at_least(least: int) -> Callable[[str], int]:
    def whole(text: str) -> int:
        number = int(text)
        if number < least:
            raise argparse.ArgumentTypeError(f"must be at least {least}, not {number}")
        return number

    whole.__name__ = "whole number"
    return whole


def _check_picture(path: Path) -> None:
    """Find out now, not after the work, whether the picture can be drawn and saved."""
    if importlib.util.find_spec("matplotlib") is None:
        raise CannotRun('the picture needs matplotlib: pip install "memorytree[demo]", or use --no-picture')
    folder = path.parent
    if path.is_dir():
        raise CannotRun(f"cannot save the picture as {path}: that is a folder")
    if not folder.is_dir():
        raise CannotRun(f"cannot save the picture as {path}: there is no folder {folder}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise CannotRun(f"cannot save the picture as {path}: no permission to write there")


if __name__ == "__main__":
    sys.exit(main())
