"""Looking after a store: stats, draw, verify, repair, backup, import, export."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memorytree.cli import input
from memorytree.cli.options import DEFAULT_STORE, AsJson, Store, examples
from memorytree.cli.output import lines_out, shows_progress, working, write, write_json
from memorytree.cli.stores import existing
from memorytree.errors import InvalidOption

if TYPE_CHECKING:
    from memorytree.store import MemoryStore

PICTURES = (".pdf", ".png", ".svg")


@examples("memorytree stats", "memorytree stats --json | jq .memories")
def stats(store: Store = DEFAULT_STORE, json: AsJson = False) -> None:
    """Figures of a store: how many memories, the shape of the tree, bytes."""
    import memorytree

    with working("measuring"), existing(memorytree.open, store, "r") as opened:
        memories, figures, settings = len(opened), opened.stats(), opened.settings
    on_disk = _bytes_below(store)
    if json:
        levels = [asdict(level) for level in figures.levels]
        tree = asdict(figures) | {"levels": levels}
        write_json({"store": str(store), "memories": memories, "bytes_on_disk": on_disk, "settings": settings, "tree": tree})
        return
    write(f"{'store':>22}  {store}")
    write(f"{'bytes on disk':>22}  {on_disk:,}")
    write(str(figures))


def _bytes_below(folder: Path) -> int:
    """How much the files below a folder hold; a writer may take some away meanwhile."""
    held = 0
    for file in folder.rglob("*"):
        try:
            held += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:
            continue
    return held


@examples("memorytree draw", "memorytree draw --depth 6 --out tree.svg")
def draw(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Draw to this file: .png, .svg or .pdf.")
    ] = None,
    depth: Annotated[int, typer.Option(min=0, help="How many levels, from the root down.")] = 4,
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """A picture of the tree: as text, or to a file.

    A store for texts has no tree but lists of texts by word: the words that most texts have, and how much rewards have made
    them count, five for each level.
    """
    import memorytree

    if out is not None and out.suffix.lower() not in PICTURES:
        raise InvalidOption(f"a picture is a file that ends with {', '.join(PICTURES)}, not {out.name!r}")
    with working("drawing"), existing(memorytree.open, store, "r") as opened:
        names = _words_in(opened)
        if out is None:
            picture = opened.draw(depth=depth, names=names)
        else:
            import matplotlib

            matplotlib.use("Agg")
            opened.draw(True, depth=depth, names=names).figure.savefig(out, bbox_inches="tight", dpi=150)
    if out is not None:
        write_json({"file": str(out)}) if json else write(f"the picture is in {out}")
    elif json:
        write_json({"picture": picture.splitlines()})
    else:
        write(picture)


def _words_in(opened: MemoryStore) -> dict[int, str] | None:
    """What the numbers of terms stand for, where these are words of texts."""
    made_of = opened.settings.get("text")
    if not isinstance(made_of, dict) or "recipe" not in made_of:
        return None
    from memorytree.text.features import features_by_number, words_of

    texts = (opened[id] for id in opened)
    words = {word for text in texts if isinstance(text, str) for word in words_of(text)}  # anything can be imported
    return {number: word for word in words for number, feature in features_by_number(word).items() if feature == word}


@examples("memorytree verify", "memorytree verify --store notes && memorytree backup --store notes notes-copy")
def verify(store: Store = DEFAULT_STORE, json: AsJson = False) -> None:
    """Read everything in a store and report all damage.

    The exit code is 1 if there is any. Another process may be writing meanwhile.
    """
    import memorytree

    with working("reading everything"):
        report = memorytree.store.verify(store)
    if json:
        write_json({"ok": report.ok, **asdict(report)})
    else:
        write(str(report))
    if not report.ok:
        raise typer.Exit(1)


@examples("memorytree repair", "memorytree repair --store notes --json | jq .lost")
def repair(store: Store = DEFAULT_STORE, json: AsJson = False) -> None:
    """Save what can be saved of a damaged store.

    The damaged files are put aside in the same directory; nothing is deleted.
    """
    import memorytree

    with working("repairing"):
        done = memorytree.store.repair(store)
    if json:
        write_json(asdict(done) | {"kept": str(done.kept)})
    else:
        write(str(done))


@examples(
    "memorytree backup /backups/notes-monday", "memorytree backup --store notes copy && memorytree verify --store copy"
)
def backup(
    target: Annotated[Path, typer.Argument(metavar="DIR", help="A directory that is not there yet, or empty.")],
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Copy a store as it is now to a new directory, while it is in use."""
    import memorytree

    with working("copying"), existing(memorytree.open, store, "r") as opened:
        memories = len(opened)
        opened.backup(target)
    write_json({"backup": str(target), "memories": memories}) if json else write(f"{target} is a copy of {store}")


@examples(
    "memorytree export > memories.jsonl",
    "memorytree export memories.jsonl --store notes",
    "memorytree export | jq -r .value",
)
def export(
    file: Annotated[Path | None, typer.Argument(metavar="FILE", help="Where to; without it, standard output.")] = None,
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Write all memories as JSON Lines: id, key, value (the text), metadata and times.

    To standard output it is JSON Lines in any case; with a file, --json is about what is said of it.
    """
    import memorytree

    with existing(memorytree.open, store, "r") as opened:
        written = opened.export(lines_out() if file is None else file, progress=shows_progress())
    if file is not None:
        write_json({"file": str(file), "exported": written}) if json else write(f"{file} holds {written:,} memories")


@examples(
    "memorytree import memories.jsonl",
    "memorytree export --store notes | memorytree import --store copy",
)
def import_(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="Where from; without it, standard input."),
    ] = None,
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Store the memories that export wrote, all or none of them; a memory that has the same id is replaced.

    Texts without keys come in by "memorytree remember --jsonl".
    """
    import memorytree

    if file is None and input.somebody_types():
        raise InvalidOption("give a file that export wrote, or pipe it in")
    with existing(memorytree.open, store) as opened:
        read = opened.import_(sys.stdin if file is None else file, progress=shows_progress())
    write_json({"imported": read}) if json else write(f"imported {read:,} {'memory' if read == 1 else 'memories'}")
