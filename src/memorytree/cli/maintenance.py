"""The commands for any store: stats, plot, export, import, backup, verify, repair."""

from __future__ import annotations

import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from memorytree.cli import input
from memorytree.cli.options import DEFAULT_STORE, AsJson, Store, examples
from memorytree.cli.output import counted, jsonl_stdout, show_progress, status, write, write_json
from memorytree.cli.stores import open_existing
from memorytree.errors import InvalidOption

if TYPE_CHECKING:
    from memorytree.store import MemoryStore

PICTURE_FORMATS = (".pdf", ".png", ".svg")


@examples("memorytree stats", "memorytree stats --json | jq .memories")
def stats(store: Store = DEFAULT_STORE, json: AsJson = False) -> None:
    """Show the size of a store and the shape of its index."""
    import memorytree

    with status("measuring"), open_existing(memorytree.open, store, "r") as opened:
        memories, figures, app_settings = len(opened), opened.stats(), opened.app_settings
    size = _size_on_disk(store)
    if json:
        tree = asdict(figures) | {"levels": [asdict(level) for level in figures.levels]}
        write_json(
            {"store": str(store), "memories": memories, "bytes_on_disk": size, "app_settings": app_settings, "tree": tree}
        )
        return
    write(f"{'store':>22}  {store}")
    write(f"{'bytes on disk':>22}  {size:,}")
    write(str(figures))


def _size_on_disk(folder: Path) -> int:
    """The bytes of all files below a folder, without files that another process removes meanwhile."""
    size = 0
    for file in folder.rglob("*"):
        try:
            size += file.stat().st_size if file.is_file() else 0
        except FileNotFoundError:
            continue
    return size


@examples("memorytree plot", "memorytree plot --depth 6 --out tree.svg")
def plot(
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="FILE", help="Write the picture to a .png, .svg or .pdf file.")
    ] = None,
    depth: Annotated[int, typer.Option(min=0, help="How many levels of the tree, from the root.")] = 4,
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Draw the index, as text or to a file.

    For vectors this is the tree. For texts it is the words that most texts contain, five for each level of depth, with the
    importance that rewards have given them.
    """
    import memorytree

    if out is not None and out.suffix.lower() not in PICTURE_FORMATS:
        raise InvalidOption(f"--out takes a file name that ends with {', '.join(PICTURE_FORMATS)}, not {out.name!r}")
    with status("drawing"), open_existing(memorytree.open, store, "r") as opened:
        names = _words_by_column(opened)
        if out is None:
            picture = opened.plot(depth=depth, names=names)
        else:
            import matplotlib

            matplotlib.use("Agg")
            opened.plot(True, depth=depth, names=names).figure.savefig(out, bbox_inches="tight", dpi=150)
    if out is not None:
        write_json({"file": str(out)}) if json else write(f"drew {out}")
    elif json:
        write_json({"picture": picture.splitlines()})
    else:
        write(picture)


def _words_by_column(opened: MemoryStore) -> dict[int, str] | None:
    """The words of a store for texts by their column; None for other stores."""
    text_settings = opened.app_settings.get("text")
    if not isinstance(text_settings, dict) or "features" not in text_settings:
        return None
    from memorytree.text.features import feature_names, words_of

    values = (opened[id] for id in opened)
    words = {
        word for value in values if isinstance(value, str) for word in words_of(value)
    }  # imported values can be other data
    return {column: word for word in words for column, feature in feature_names(word).items() if feature == word}


@examples("memorytree verify", "memorytree verify --store notes && memorytree backup --store notes notes-copy")
def verify(store: Store = DEFAULT_STORE, json: AsJson = False) -> None:
    """Read everything in a store and report all damage.

    The exit code is 1 if there is any. Another process may be writing meanwhile.
    """
    import memorytree

    with status("verifying"):
        report = memorytree.store.verify(store)
    if json:
        write_json({"ok": report.ok, **asdict(report)})
    else:
        write(str(report))
    if not report.ok:
        raise typer.Exit(1)


@examples("memorytree repair", "memorytree repair --store notes --json | jq .lost")
def repair(store: Store = DEFAULT_STORE, json: AsJson = False) -> None:
    """Recover what is intact in a damaged store.

    The damaged files are moved to a folder in the same directory; nothing is deleted.
    """
    import memorytree

    with status("repairing"):
        report = memorytree.store.repair(store)
    if json:
        write_json(asdict(report) | {"kept": str(report.kept)})
    else:
        write(str(report))


@examples(
    "memorytree backup /backups/notes-monday", "memorytree backup --store notes copy && memorytree verify --store copy"
)
def backup(
    target: Annotated[Path, typer.Argument(metavar="DIR", help="A directory that does not exist yet, or is empty.")],
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Copy a store to a new directory, also while it is in use."""
    import memorytree

    with status("copying"), open_existing(memorytree.open, store, "r") as opened:
        memories = len(opened)
        opened.backup(target)
    write_json({"backup": str(target), "memories": memories}) if json else write(f"{target} is a copy of {store}")


@examples(
    "memorytree export > memories.jsonl",
    "memorytree export memories.jsonl --store notes",
    "memorytree export | jq -r .value",
)
def export(
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="The file to write; without it, standard output.")
    ] = None,
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Write all memories as JSON Lines: id, key, value (the text), metadata and times.

    Standard output is always JSON Lines. With a file, --json is for the summary.
    """
    import memorytree

    with open_existing(memorytree.open, store, "r") as opened:
        exported = opened.export_jsonl(jsonl_stdout() if file is None else file, progress=show_progress())
    if file is not None:
        summary = f"exported {counted(exported, 'memory', 'memories')} to {file}"
        write_json({"file": str(file), "exported": exported}) if json else write(summary)


@examples(
    "memorytree import memories.jsonl",
    "memorytree export --store notes | memorytree import --store copy",
)
def import_(
    file: Annotated[
        Path | None,
        typer.Argument(metavar="FILE", exists=True, dir_okay=False, help="The file to read; without it, standard input."),
    ] = None,
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Store the memories that export wrote; memories with the same ids are replaced.

    After an error none is stored. To store texts without keys use "memorytree remember --jsonl".
    """
    import memorytree

    if file is None and input.is_interactive():
        raise InvalidOption("give a file that export wrote, or pipe it in")
    with open_existing(memorytree.open, store) as opened:
        imported = opened.import_jsonl(sys.stdin if file is None else file, progress=show_progress())
    write_json({"imported": imported}) if json else write(f"imported {counted(imported, 'memory', 'memories')}")
