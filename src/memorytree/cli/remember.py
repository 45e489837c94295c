"""The commands init, remember and forget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memorytree.cli import input
from memorytree.cli.options import (
    DEFAULT_STORE,
    AsJson,
    FromJsonLines,
    Store,
    Where,
    examples,
    parse_duration,
    parse_filter,
    parse_metadata,
)
from memorytree.cli.output import counted, status, write, write_json, write_message
from memorytree.cli.stores import open_existing
from memorytree.errors import InvalidOption

if TYPE_CHECKING:
    from memorytree.store.inputs import MetadataValue

CONFIRM_ABOVE = 10
"""Removing more memories than this needs a confirmation."""


@dataclass(frozen=True)
class NewText:
    """A text to remember."""

    text: str
    metadata: dict[str, MetadataValue] | None = None
    ttl: object = None
    id: int | None = None


@examples(
    "memorytree init",
    "memorytree init --store notes --capacity 10000",
)
def init(
    store: Store = DEFAULT_STORE,
    capacity: Annotated[
        int | None,
        typer.Option(min=1, help="The largest number of texts; beyond it the one used least recently is removed."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The same seed and the same commands give the same store.")] = None,
    json: AsJson = False,
) -> None:
    """Create a store for texts.

    A store that exists is not changed.
    """
    from memorytree import TextMemory

    with status("creating a store"), TextMemory(store, capacity=capacity, seed=seed) as memory:
        memories = len(memory)
    if json:
        write_json({"store": str(store), "memories": memories})
    else:
        write(f"{store} is a store with {counted(memories, 'memory', 'memories')}")


@examples(
    'memorytree remember "Ada likes green tea" --meta user=ada --meta kind=fact',
    'memorytree remember "The parking permit is in the blue folder" --ttl 30d',
    "memorytree remember < notes.txt",
    "jq -c '{text: .body, metadata: {from: .sender}}' mails.jsonl | memorytree remember --jsonl",
)
def remember(
    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXT...", help="The texts to store.")] = None,
    meta: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Metadata for all texts; may be repeated.")
    ] = None,
    ttl: Annotated[
        str | None, typer.Option(metavar="TIME", help="Remove the texts after this time: 45s, 30m, 12h, 30d, 2w.")
    ] = None,
    id: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The id of a single text; a text that has this id is replaced.")
    ] = None,
    jsonl: FromJsonLines = False,
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Store texts: the arguments, or standard input, one text per line.

    With --jsonl each line is an object with "text" and, optionally, "metadata", "ttl" and "id". After an error no text is
    stored. The output lists the ids.
    """
    from memorytree import TextMemory

    if jsonl and texts:
        raise InvalidOption("--jsonl reads texts from standard input: give none as arguments")
    given = [NewText(text) for text in texts] if texts else _read_texts(jsonl)
    if id is not None:
        if len(given) != 1:
            raise InvalidOption(f"--id is for a single text, not for {len(given)}")
        given = [replace(given[0], id=id)]
    common = parse_metadata(meta)
    with status("storing"), open_existing(TextMemory, store) as memory:
        ids = memory.remember_many(
            [one.text for one in given],
            [{**common, **(one.metadata or {})} for one in given],
            ids=[one.id for one in given],
            ttl=[parse_duration(ttl if one.ttl is None else one.ttl) for one in given],
        )
    if json:
        for number, one in zip(ids, given, strict=True):
            write_json({"id": number, "text": one.text})
    elif ids:
        write(f"remembered {counted(len(ids), 'text', 'texts')}: {format_ranges(ids)}")


def _read_texts(jsonl: bool) -> list[NewText]:
    """Texts from standard input."""
    if not jsonl:
        return [NewText(line) for _, line in input.lines("a text")]
    texts = []
    for number, line in input.json_objects("texts", {"text"}, {"metadata", "ttl", "id"}):
        text, metadata, id = line["text"], line.get("metadata"), line.get("id")
        if not isinstance(text, str) or not isinstance(metadata, dict | None) or not isinstance(id, int | None):
            raise InvalidOption(f'line {number}: "text" is text, "metadata" an object and "id" an integer')
        texts.append(NewText(text, metadata, line.get("ttl"), id))
    return texts


@examples(
    "memorytree forget 17",
    "memorytree forget --where user=ada --where kind=draft",
    "memorytree forget --where user=ada --yes",
)
def forget(
    ids: Annotated[list[int] | None, typer.Argument(metavar="ID...", help="The ids of the memories to remove.")] = None,
    where: Where = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Remove memories, by id or by metadata.

    After an error none is removed. Removing more than ten asks for confirmation.
    """
    import memorytree

    if not ids and not where:
        raise InvalidOption("give the ids of the memories to remove, or --where")
    if ids and where:
        raise InvalidOption("give either ids or --where, not both")
    with open_existing(memorytree.open, store) as opened:
        chosen = list(ids) if ids else opened.ids(parse_filter(where))
        if len(chosen) > CONFIRM_ABOVE and not yes and not _confirmed(len(chosen), store):
            write_message("nothing was removed")
            raise typer.Exit(1)
        with status("removing"):
            opened.remove_many(chosen)
    if json:
        write_json({"forgotten": chosen})
    elif chosen:
        write(f"forgot {counted(len(chosen), 'memory', 'memories')}: {format_ranges(chosen)}")
    if not chosen:
        write_message("no memory matches")
        raise typer.Exit(1)


def _confirmed(number: int, store: Path) -> bool:
    """Ask for confirmation on a terminal; elsewhere --yes is required."""
    if not input.is_interactive():
        raise InvalidOption(f"this would remove {number:,} memories from {store}: confirm with --yes")
    return typer.confirm(f"Remove {number:,} memories from {store}?", err=True)


def format_ranges(ids: list[int]) -> str:
    """Ids, with runs of consecutive ids shortened.

    >>> format_ranges([3, 4, 5, 9])
    '3-5, 9'
    """
    runs: list[list[int]] = []
    for id in ids:
        if runs and id == runs[-1][1] + 1:
            runs[-1][1] = id
        else:
            runs.append([id, id])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
