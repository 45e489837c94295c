"""Learn online which function a paragraph of documentation describes, and show the progress."""

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
    """The demo cannot run here; the message is one line."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return the exit code."""
    options = _parse(arguments)
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a question mark for characters that the terminal cannot show
    try:
        if not options.no_picture:
            _check_picture(options.out)
        result = run(options, Screen(Console(stderr=True, highlight=False)) if options.json else Screen())
        if options.json:
            print(json.dumps(race.figures(result)))
    except CannotRun as reason:
        print(f"mt demo: {reason}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("mt demo: interrupted", file=sys.stderr)
        return 130
    return 0


def run(options: argparse.Namespace, screen: Screen) -> Race:
    """Collect the data, learn, show the results; return the race."""
    rng = np.random.default_rng(options.seed)
    screen.title("which function does this paragraph describe?")

    start = time.perf_counter()
    with screen.working("reading docstrings"):
        found = docstrings.collect(("numpy",) if options.quick else docstrings.PACKAGES)
        stream, rest = docstrings.choose_task(found, options.rows, rng)
        if len(stream) < FEWEST_ROWS:
            raise CannotRun(f"found only {len(stream)} paragraphs; the sources of NumPy and SciPy are needed")
        functions = len({paragraph.owner for paragraph in stream})
        keys = vectors.make_keys([paragraph.text for paragraph in stream], rest, rng)
    screen.report("reading", f"{len(found):,} paragraphs from the docstrings on this machine", start)
    screen.report("the task", f"{len(stream):,} paragraphs of {functions:,} functions and classes, names blanked out")

    start = time.perf_counter()
    with screen.working("compiling the engine (slow in the first run only)"):
        race.warm_up(keys.shape[1], options.beam)
    screen.report("compiling", "the engine (cached for the next run)", start)

    start = time.perf_counter()
    result = Race(keys, [paragraph.owner for paragraph in stream], beam=options.beam, seed=options.seed)
    screen.run(result)
    screen.report("learning", "each paragraph was queried before it was inserted", start)

    screen.show_questions(result, stream, rng)
    screen.show_table(result)
    if not options.no_picture:
        from examples.demo.picture import draw

        try:
            draw(result, options.out, functions)
        except OSError as reason:
            raise CannotRun(f"cannot save the picture as {options.out}: {reason.strerror or reason}") from None
        screen.line(f"The picture is in {options.out}")
    return result


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="mt demo", description=__doc__)
    parser.add_argument("--rows", type=_at_least(FEWEST_ROWS), help="maximum number of paragraphs (default: 16,000)")
    parser.add_argument("--seed", type=_at_least(0), default=0, help="of the order of the paragraphs (default: 0)")
    parser.add_argument("--beam", type=_at_least(1), default=32, help="leaves that a query searches (default: 32)")
    parser.add_argument("--out", type=Path, default=Path("memorytree-demo.png"), help="where to save the picture")
    parser.add_argument("--no-picture", action="store_true", help="save no picture")
    parser.add_argument("--quick", action="store_true", help="NumPy's docstrings only, and 600 paragraphs")
    parser.add_argument(
        "--json", action="store_true", help="write the final figures as JSON, all other output to standard error"
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
    """Check before the work that the picture can be drawn and saved."""
    if importlib.util.find_spec("matplotlib") is None:
        raise CannotRun("the picture needs matplotlib; install it, or use --no-picture")
    folder = path.parent
    if path.is_dir():
        raise CannotRun(f"cannot save the picture as {path}: that is a folder")
    if not folder.is_dir():
        raise CannotRun(f"cannot save the picture as {path}: there is no folder {folder}")
    if not os.access(path if path.exists() else folder, os.W_OK):
        raise CannotRun(f"cannot save the picture as {path}: no permission to write there")


if __name__ == "__main__":
    sys.exit(main())
