"""What commands read from standard input: lines of text, or JSON Lines."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

from memorytree.errors import InvalidOption


def is_interactive() -> bool:
    """Whether standard input is a terminal, not a pipe or a file."""
    return sys.stdin.isatty()


def lines(content: str) -> Iterator[tuple[int, str]]:
    """The lines of standard input that are not empty, with their numbers; `content` names what they contain."""
    if is_interactive():
        raise InvalidOption(f"{content} is missing: give it as an argument, or pipe it in, one per line")
    for number, line in enumerate(sys.stdin, 1):
        if line.strip():
            yield number, line.rstrip("\r\n")


def json_objects(content: str, required: set[str], optional: set[str]) -> Iterator[tuple[int, dict[str, object]]]:
    """The JSON objects on standard input, one per line, with the numbers of their lines."""
    for number, line in lines(content):
        try:
            data = json.loads(line)
        except ValueError as error:
            raise InvalidOption(f"line {number} is not JSON: {error}") from None
        if not isinstance(data, dict) or not required <= data.keys():
            raise InvalidOption(f"line {number} is not an object with {' and '.join(map(repr, sorted(required)))}")
        unknown = sorted(data.keys() - required - optional)
        if unknown:
            raise InvalidOption(
                f"line {number}: {unknown[0]!r} is not allowed; the names are {', '.join(sorted(required | optional))}"
            )
        yield number, data
