"""Putting texts in, and taking them out: init, remember, forget."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from memorytree.cli import input
from memorytree.cli.options import (
    DEFAULT_STORE,
    AsJson,
    Lines,
    Store,
    Where,
    examples,
    filter_of,
    metadata_of,
    seconds,
)
from memorytree.cli.output import say, working, write, write_json
from memorytree.cli.stores import existing
from memorytree.errors import InvalidOption

MANY = 10
"""Before more than so many memories are forgotten, the person is asked."""


@examples(
    "memorytree init",
    "memorytree init --store notes --capacity 10000",
)
def init(
    store: Store = DEFAULT_STORE,
    capacity: Annotated[
        int | None, typer.Option(min=1, help="Keep at most so many texts; the one not used for the longest time goes.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, help="The same seed and the same commands give the same memory.")
    ] = None,
    json: AsJson = False,
) -> None:
    """Make a store for texts.

    Where there is one already it stays as it is.
    """
    from memorytree import TextMemory

    with working("making a store"), TextMemory(store, capacity=capacity, seed=seed) as memory:
        memories = len(memory)
    if json:
        write_json({"store": str(store), "memories": memories})
    else:
        write(f"{store} is a store with {_counted(memories, 'memory', 'memories')}")


@examples(
    'memorytree remember "Ada likes green tea" --meta user=ada --meta kind=fact',
    'memorytree remember "The parking permit is in the blue folder" --ttl 30d',
    "memorytree remember < notes.txt",
    "jq -c '{text: .body, metadata: {from: .sender}}' mails.jsonl | memorytree remember --jsonl",
)
def remember(
    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXT...", help="What to remember, each a text.")] = None,
    meta: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="What else is known of them; may be repeated.")
    ] = None,
    ttl: Annotated[str | None, typer.Option(metavar="TIME", help="Gone after this time: 45s, 30m, 12h, 30d, 2w.")] = None,
    id: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="The id of a single text; one that has it is replaced.")
    ] = None,
    jsonl: Lines = False,
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Remember texts: those given, or one a line of standard input.

    With --jsonl each line is an object with "text", and if you like "metadata", "ttl" and "id". Either all are remembered or
    none. Their ids are written.
    """
    from memorytree import TextMemory

    given: list[dict[str, Any]] = [{"text": text} for text in texts or ()]
    if jsonl and texts:
        raise InvalidOption("--jsonl reads texts from standard input: give no others")
    if not given:
        given = _from_pipe(jsonl)
    if id is not None:
        if len(given) != 1:
            raise InvalidOption(f"--id is for a single text, not for {len(given)}")
        given[0]["id"] = id
    known = metadata_of(meta)
    wanted: list[Any] = [one.get("id") for one in given]
    with working("remembering"), existing(TextMemory, store) as memory:
        ids = memory.remember_many(
            [one["text"] for one in given],
            metadata=[{**known, **one.get("metadata", {})} for one in given],
            ids=wanted,
            ttl=[seconds(one.get("ttl", ttl)) for one in given],
        )
    if json:
        for number, one in zip(ids, given, strict=True):
            write_json({"id": number, "text": one["text"]})
    elif ids:
        write(f"remembered {_counted(len(ids), 'text', 'texts')}: {_spans(ids)}")


def _from_pipe(jsonl: bool) -> list[dict[str, Any]]:
    """The texts that come through standard input."""
    if not jsonl:
        return [{"text": line} for _, line in input.lines("a text to remember")]
    found = []
    for number, line in input.objects("texts to remember", {"text"}, {"metadata", "ttl", "id"}):
        told = {name: value for name, value in line.items() if value is not None}
        if not isinstance(told.get("text"), str) or not isinstance(told.get("metadata", {}), dict):
            raise InvalidOption(f'line {number}: "text" is text and "metadata" an object')
        found.append(told)
    return found


@examples(
    "memorytree forget 17",
    "memorytree forget --where user=ada --where kind=draft",
    "memorytree forget --where user=ada --yes",
)
def forget(
    ids: Annotated[list[int] | None, typer.Argument(metavar="ID...", help="Which to forget.")] = None,
    where: Where = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Forget memories, by their ids or by what is known of them.

    Either all are forgotten or none. You are asked before more than ten are.
    """
    import memorytree

    if not ids and not where:
        raise InvalidOption("say which to forget: ids, or --where")
    if ids and where:
        raise InvalidOption("say which to forget by ids or by --where, not by both")
    with existing(memorytree.open, store) as opened:
        chosen = list(ids) if ids else opened.matching(filter_of(where))
        if len(chosen) > MANY and not yes and not _confirmed(len(chosen), store):
            say("nothing was forgotten")
            raise typer.Exit(1)
        with working("forgetting"):
            opened.remove_many(chosen)
    if json:
        write_json({"forgotten": chosen})
    elif chosen:
        write(f"forgot {_counted(len(chosen), 'memory', 'memories')}: {_spans(chosen)}")
    if not chosen:
        say("no memory fits")
        raise typer.Exit(1)


def _confirmed(many: int, store: Path) -> bool:
    """Ask; where nobody can answer, --yes is needed."""
    if not input.somebody_types():
        raise InvalidOption(f"this would forget {many:,} memories in {store}: say --yes if that is meant")
    return typer.confirm(f"Forget {many:,} memories in {store}?", err=True)


def _counted(number: int, one: str, many: str) -> str:
    return f"{number:,} {one if number == 1 else many}"


def _spans(ids: list[int]) -> str:
    """Ids as people write them.

    >>> _spans([3, 4, 5, 9])
    '3-5, 9'
    """
    runs: list[list[int]] = []
    for id in ids:
        if runs and id == runs[-1][1] + 1:
            runs[-1][1] = id
        else:
            runs.append([id, id])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
