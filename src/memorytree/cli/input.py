"""What commands read from a pipe: lines of text, or JSON Lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

from memorytree.errors import InvalidOption


def somebody_types() -> bool:
    """Whether standard input is a person at a terminal, not a pipe or a file."""
    return sys.stdin.isatty()


def lines(wanted: str) -> Iterator[tuple[int, str]]:
    """The lines of standard input that hold something, with their numbers; `wanted` says what they should be."""
    if somebody_types():
        raise InvalidOption(f"{wanted}: give it, or pipe it in, one a line")
    for number, line in enumerate(sys.stdin, 1):
        if line.strip():
            yield number, line.rstrip("\r\n")


def objects(wanted: str, needed: set[str], allowed: set[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The JSON objects of standard input, one a line, with the numbers of their lines."""
    for number, line in lines(wanted):
        try:
            found = json.loads(line)
        except ValueError as error:
            raise InvalidOption(f"line {number} is not JSON: {error}") from None
        if not isinstance(found, dict) or not needed <= found.keys():
            raise InvalidOption(f"line {number} is not an object with {' and '.join(map(repr, sorted(needed)))}")
        unknown = sorted(found.keys() - needed - allowed)
        if unknown:
            known = ", ".join(sorted(needed | allowed))
            raise InvalidOption(f"line {number}: there is no {unknown[0]!r} here, only {known}")
        yield number, found
