"""A part: the smallest piece of an experiment that is run, kept and not run again. One peer, one data set, one seed."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import memorytree
from memorytree.lab import peers
from memorytree.lab.measuring import PACKAGES, machine, versions

# What came of a part and will not change by trying again; one that failed or whose peer is missing is tried again.
FINAL = ("ok", "stopped")


@dataclass(frozen=True)
class Part:
    """What determines one measurement.

    Attributes:
        peer: who is measured, by its name in `memorytree.lab.peers`, or "package.module:Class".
        dataset: on what, by its name in `memorytree.lab.datasets`, or what a job of its own makes of the name.
        seed: orders the rows and fixes what is left to chance.
        job: "batch", "online", or "module:function" for a job of an experiment's own.
        options: given to the peer or the job; must be plain data.
        slow: whether it should wait until everything else has run. Says nothing about the result.

    >>> Part("ours", "omniglot-1").label
    'ours on omniglot-1, seed 0'
    >>> Part("ours", "omniglot-1", options=options(beam=4)).label
    'ours on omniglot-1, beam 4, seed 0'
    """

    peer: str
    dataset: str
    seed: int = 0
    job: str = "batch"
    options: tuple[tuple[str, Any], ...] = ()
    slow: bool = field(default=False, compare=False)

    @property
    def label(self) -> str:
        """The part in words."""
        settings = "".join(f", {name} {value}" for name, value in self.options)
        return f"{self.peer} on {self.dataset}{settings}, seed {self.seed}"

    @property
    def kind(self) -> tuple[Any, ...]:
        """All that determines it but the seed: parts of one kind take about the same time."""
        return (self.job, self.peer, self.dataset, self.options)

    def identity(self, quick: bool) -> dict[str, Any]:
        """Everything that the result depends on, as plain data: a peer's own settings too, and the code of a user's own."""
        own = ":" in self.peer
        settings = peers.peer(self.peer).defaults if own or self.peer in peers.PEERS else {}
        plain = json.loads(json.dumps({**settings, **dict(self.options)}))  # as it will be read again: lists for tuples
        return {
            "peer": self.peer, "dataset": self.dataset, "seed": self.seed, "job": self.job,
            "options": plain, "quick": quick, "memorytree": memorytree.__version__,
            **({"source": peers.source(peers.peer(self.peer))} if own else {}),
        }  # fmt: skip


def options(**given: Any) -> tuple[tuple[str, Any], ...]:
    """Return options in the form in which a part holds them: sorted by name.

    >>> options(trees=2, beam=4)
    (('beam', 4), ('trees', 2))
    """
    return tuple(sorted(given.items()))


class Shelf:
    """A folder in which finished parts are kept, a file of JSON for each."""

    def __init__(self, folder: Path, quick: bool):
        self.folder = folder
        self.quick = quick

    def path(self, part: Part) -> Path:
        """Where a part is kept: a name that can be read, and a digest of all that determines the part."""
        text = json.dumps(part.identity(self.quick), sort_keys=True)
        digest = hashlib.sha256(text.encode()).hexdigest()[:10]
        job = part.job.rpartition(":")[2]
        return self.folder / job / f"{_plain(part.peer)}.{_plain(part.dataset)}.{part.seed}.{digest}.json"

    def find(self, part: Part) -> dict[str, Any] | None:
        """Return what came of a part, if it was run before; a file that cannot be read counts as none."""
        try:
            kept = json.loads(self.path(part).read_text(encoding="utf8"))
        except (OSError, ValueError):
            return None
        return kept if kept.get("part") == part.identity(self.quick) else None

    def keep(self, part: Part, result: Mapping[str, Any], wall_s: float) -> dict[str, Any]:
        """Write down what came of a part, when, on which machine and with which versions."""
        now = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        # Beside what determines the part: a part that was measured elsewhere is found all the same.
        where = {"machine": machine(), "versions": {**versions(PACKAGES), **result.get("versions", {})}}
        kept = {"part": part.identity(self.quick), "finished": now, "wall_s": round(wall_s, 3), **result, **where}
        path = self.path(part)
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole(path) as draft:
            draft.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf8")
        return kept


@contextmanager
def whole(path: Path) -> Iterator[Path]:
    """Give a draft to write, which then takes the place of the file: half a file is never seen, even if we are stopped now.

    Raises:
        OSError: with the path, which the error of a full disk does not know.
    """
    draft = path.with_name(f"{path.name}.part")
    try:
        yield draft
        os.replace(draft, path)
    except OSError as error:
        raise OSError(error.errno, error.strerror or str(error), str(path)) from error
    finally:
        draft.unlink(missing_ok=True)


def _plain(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_+-]+", "_", name)[-60:]
