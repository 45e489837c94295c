"""Options that several commands have, and how what people write on a command line is read."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from memorytree.errors import InvalidOption

Command = TypeVar("Command", bound=Callable[..., None])

DEFAULT_STORE = Path("memories")
EXAMPLES: dict[str, tuple[str, ...]] = {}
"""By name of a command's function, how it is used; --help shows them."""

Store = Annotated[
    Path,
    typer.Option("--store", "-s", metavar="DIR", envvar="MEMORYTREE_STORE", help="The directory of the store."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON to standard output, for programs.")]
Lines = Annotated[bool, typer.Option("--jsonl", help="Standard input is JSON Lines: one object a line.")]
HowMany = Annotated[int, typer.Option("-k", min=1, help="How many at most.")]
Where = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Only memories with this metadata; the same name again: any of its values."),
]


def examples(*lines: str) -> Callable[[Command], Command]:
    """Say how a command is used."""

    def note(command: Command) -> Command:
        EXAMPLES[command.__name__] = lines
        return command

    return note


def plain(text: str) -> Any:
    """What stands behind NAME=: a number, true, false or null as in JSON; anything else is text, as is what is in quotes.

    >>> plain("7"), plain("true"), plain("Ada"), plain('"7"'), plain("007")
    (7, True, 'Ada', '7', '007')
    """
    try:
        read = json.loads(text, parse_constant=str)
    except ValueError:
        return text
    return text if isinstance(read, list | dict) else read


def written(value: Any) -> str:
    """What `plain` reads as this value; text is in quotes only where it would be taken for something else.

    >>> written("Ada"), written(7), written("7"), written(True)
    ('Ada', '7', '"7"', 'true')
    """
    return value if isinstance(value, str) and plain(value) == value else json.dumps(value, ensure_ascii=False)


def pair(option: str, given: str) -> tuple[str, Any]:
    """The name and the value of NAME=VALUE."""
    name, equals, text = given.partition("=")
    if not name or not equals:
        raise InvalidOption(f"{option} takes NAME=VALUE, not {given!r}")
    return name, plain(text)


def metadata_of(given: Iterable[str] | None) -> dict[str, Any]:
    """Metadata from NAME=VALUE; of a name that comes twice the last counts."""
    return dict(pair("--meta", one) for one in given or ())


def filter_of(given: Iterable[str] | None) -> dict[str, list[Any]] | None:
    """A filter from NAME=VALUE: all names must fit, and for each of them one of its values.

    >>> filter_of(["kind=fact", "user=7", "kind=task"])
    {'kind': ['fact', 'task'], 'user': [7]}
    """
    if not given:
        return None
    wanted: dict[str, list[Any]] = {}
    for one in given:
        name, value = pair("--where", one)
        wanted.setdefault(name, []).append(value)
    return wanted


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_SPAN = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def seconds(given: Any) -> float | None:
    """A length of time: a number of seconds, or numbers with s, m, h, d and w behind them.

    >>> seconds("30d"), seconds("1h30m"), seconds("90")
    (2592000.0, 5400.0, 90.0)
    """
    if given is None or (isinstance(given, int | float) and not isinstance(given, bool)):
        return given
    text = str(given)
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    spans = _SPAN.findall(text)
    if not spans or "".join(number + unit for number, unit in spans) != text:
        raise InvalidOption(f"a time to live is like 90, 45s, 30m, 12h, 30d, 2w or 1h30m, not {text!r}")
    return float(sum(float(number) * _SECONDS[unit] for number, unit in spans))
