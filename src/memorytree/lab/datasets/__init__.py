"""Data sets by name: those that stand in for the paper's, the paper's own where their files are there, and made ones.

    load("omniglot-15", Path("data"))      # a Dataset
    load("vw:some/folder", None)           # any VW text: train.vw and test.vw

Which file is expected where is said by the `DataMissing` of a set that is not there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from memorytree.errors import InvalidOption
from memorytree.lab.datasets import made, originals, standing, toys
from memorytree.lab.datasets.base import KINDS, TEST_ROWS, Dataset, data_folder, files_of

__all__ = ["KINDS", "NAMES", "TEST_ROWS", "Dataset", "Source", "data_folder", "files_of", "load"]

QUICK_ROWS, QUICK_IMAGES = 1500, 1000

# Sets of classes: how to load them, and how many classes a quick run takes.
_CLASSES: dict[str, tuple[Callable[..., Dataset], int]] = {
    "omniglot-1": (partial(standing.omniglot, shots=1), 200),
    "omniglot-2": (partial(standing.omniglot, shots=2), 200),
    "omniglot-3": (partial(standing.omniglot, shots=3), 200),
    "omniglot-5": (partial(standing.omniglot, shots=5), 100),
    "omniglot-15": (partial(standing.omniglot, shots=15), 60),
    "wikipara-1": (partial(standing.wikipara, shots=1), 500),
    "wikipara-2": (partial(standing.wikipara, shots=2), 300),
    "wikipara-3": (partial(standing.wikipara, shots=3), 300),
    "clinc150": (standing.clinc, 15),
    "aloi": (originals.aloi, 50),
    "imagenet": (originals.imagenet, 200),
}
_LABELS: dict[str, Callable[..., Dataset]] = {
    "bibtex": standing.bibtex,
    "yso": standing.yso,
    **{name: partial(originals.extreme, name=name) for name in originals.EXTREME},
}
_RETRIEVAL: dict[str, Callable[..., Dataset]] = {
    "flickr8k": originals.flickr,
    "pascal": partial(originals.captioned, name="pascal"),
    "coco": partial(originals.captioned, name="coco"),
}
NAMES = (*_CLASSES, *_LABELS, *_RETRIEVAL)
"""Every name that `load` knows, besides "vw:PATH", "clusters-N" and the small ones of `toys`."""


def load(
    name: str, folder: Path | None = None, *, seed: int = 0, quick: bool = False, tests: int | None = TEST_ROWS
) -> Dataset:
    """A data set by its name.

    Args:
        name: one of `NAMES`; "vw:PATH" for a folder with train.vw and test.vw, or for one file; "clusters-N" for N rows of
            Gaussian clusters.
        folder: where the files are; by default MEMORYTREE_DATA, or the folder shared beside the checkout.
        seed: re-orders the training rows, unless it is 0; of captioned images it picks the split.
        quick: some of it only: a few classes, rows or images.
        tests: how many test rows to take of sets with classes; None for all.

    Example:
        >>> load("clusters-1000").train.shape
        (1000, 128)
    """
    folder = data_folder(folder)
    if name in _CLASSES:
        make, few = _CLASSES[name]
        return make(folder, classes=few if quick else None, tests=tests).seeded(seed)
    if name in _LABELS:
        return _LABELS[name](folder, rows=QUICK_ROWS if quick else None).seeded(seed)
    if name in _RETRIEVAL:
        return _RETRIEVAL[name](folder, seed=seed, images=QUICK_IMAGES if quick else None)
    if name in toys.TOYS:
        return toys.TOYS[name](seed)
    if name.startswith("vw:"):
        return originals.vw_text(Path(name.removeprefix("vw:"))).seeded(seed)
    if name.startswith("clusters-") and name.removeprefix("clusters-").isdecimal():
        return made.clusters(int(name.removeprefix("clusters-"))).seeded(seed)
    raise InvalidOption(f"no data set {name!r}; there are {', '.join((*NAMES, *toys.TOYS))}, vw:PATH and clusters-N")


@dataclass(frozen=True)
class Source:
    """Which data set, from where, in which order: what a process needs to know to load it."""

    name: str
    folder: Path | None = None
    seed: int = 0
    quick: bool = False

    def load(self) -> Dataset:
        """The data set itself."""
        return load(self.name, self.folder, seed=self.seed, quick=self.quick)

    def repeats(self, wanted: int) -> int:
        """How often something that is timed is repeated: once in a quick run, whose times mean little."""
        return 1 if self.quick else wanted
