"""Options that several commands share, and how NAME=VALUE and durations are parsed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from memorytree.errors import InvalidOption

if TYPE_CHECKING:
    from memorytree.store.inputs import MetadataValue

Command = TypeVar("Command", bound=Callable[..., None])

DEFAULT_STORE = Path("memories")
EXAMPLES: dict[str, tuple[str, ...]] = {}
"""Example calls by the name of a command's function; --help shows them."""

Store = Annotated[
    Path,
    typer.Option("--store", "-s", metavar="DIR", envvar="MEMORYTREE_STORE", help="The directory of the store."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write the result as JSON to standard output.")]
FromJsonLines = Annotated[bool, typer.Option("--jsonl", help="Read JSON Lines from standard input: one object per line.")]
MaxHits = Annotated[int, typer.Option("-k", min=1, help="The largest number of hits.")]
Where = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="Only texts with this metadata. Repeat a name to allow several values."),
]


def examples(*lines: str) -> Callable[[Command], Command]:
    """Register example calls of a command."""

    def register(command: Command) -> Command:
        EXAMPLES[command.__name__] = lines
        return command

    return register


def parse_value(text: str) -> MetadataValue:
    """The value in NAME=VALUE: a JSON number, true, false, null or quoted string; anything else is text as it stands.

    >>> parse_value("7"), parse_value("true"), parse_value("Ada"), parse_value('"7"'), parse_value("007")
    (7, True, 'Ada', '7', '007')
    """
    try:
        value = json.loads(text, parse_constant=str)
    except ValueError:
        return text
    return value if value is None or isinstance(value, str | int | float) else text


def format_value(value: MetadataValue) -> str:
    """The inverse of `parse_value`. Text is quoted only if it would be parsed as something else.

    >>> format_value("Ada"), format_value(7), format_value("7"), format_value(True)
    ('Ada', '7', '"7"', 'true')
    """
    return value if isinstance(value, str) and parse_value(value) == value else json.dumps(value, ensure_ascii=False)


def parse_pair(option: str, text: str) -> tuple[str, MetadataValue]:
    """The name and the value of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise InvalidOption(f"{option} takes NAME=VALUE, not {text!r}")
    return name, parse_value(value)


def parse_metadata(pairs: Iterable[str] | None) -> dict[str, MetadataValue]:
    """Metadata from NAME=VALUE pairs; the last value of a repeated name counts."""
    return dict(parse_pair("--meta", pair) for pair in pairs or ())


def parse_filter(pairs: Iterable[str] | None) -> dict[str, list[MetadataValue]] | None:
    """A filter from NAME=VALUE pairs: all names must match, each with one of its values.

    >>> parse_filter(["kind=fact", "user=7", "kind=task"])
    {'kind': ['fact', 'task'], 'user': [7]}
    """
    if not pairs:
        return None
    values: dict[str, list[MetadataValue]] = {}
    for pair in pairs:
        name, value = parse_pair("--where", pair)
        values.setdefault(name, []).append(value)
    return values


_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_DURATION_PART = re.compile(r"(\d+(?:\.\d+)?)([smhdw])")


def parse_duration(given: object) -> float | None:
    """Seconds from a number, or from text such as "90", "30d" or "1h30m".

    >>> parse_duration("30d"), parse_duration("1h30m"), parse_duration("90")
    (2592000.0, 5400.0, 90.0)
    """
    if given is None or (isinstance(given, int | float) and not isinstance(given, bool)):
        return given
    text = str(given)
    if re.fullmatch(r"\d+(\.\d+)?", text):
        return float(text)
    parts = _DURATION_PART.findall(text)
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise InvalidOption(f"a duration looks like 90, 45s, 30m, 12h, 30d, 2w or 1h30m, not {text!r}")
    return float(sum(float(number) * _SECONDS[unit] for number, unit in parts))
