"""Data sets by name: public substitutes for the paper's sets, the paper's own if present, and synthetic ones.

    load("omniglot-15", Path("data"))      # a Dataset
    load("vw:some/folder", None)           # any VW text: train.vw and test.vw

The `DataMissing` error of a missing set names the expected file and its origin.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from lab.datasets import originals, small, standard, synthetic
from lab.datasets.base import KINDS, TEST_ROWS, Dataset, Rows, Truth, data_folder, files_digest
from memorytree.errors import InvalidOption

__all__ = ["KINDS", "NAMES", "TEST_ROWS", "Dataset", "Rows", "Source", "Truth", "data_folder", "files_digest", "load"]

QUICK_ROWS, QUICK_IMAGES = 1500, 1000

# Sets of classes: how to load them, and how many classes a quick run takes.
_CLASSES: dict[str, tuple[Callable[..., Dataset], int]] = {
    "omniglot-1": (partial(standard.omniglot, shots=1), 200),
    "omniglot-2": (partial(standard.omniglot, shots=2), 200),
    "omniglot-3": (partial(standard.omniglot, shots=3), 200),
    "omniglot-5": (partial(standard.omniglot, shots=5), 100),
    "omniglot-15": (partial(standard.omniglot, shots=15), 60),
    "wikipara-1": (partial(standard.wikipara, shots=1), 500),
    "wikipara-2": (partial(standard.wikipara, shots=2), 300),
    "wikipara-3": (partial(standard.wikipara, shots=3), 300),
    "clinc150": (standard.clinc, 15),
    "aloi": (originals.aloi, 50),
    "imagenet": (originals.imagenet, 200),
}
_LABELS: dict[str, Callable[..., Dataset]] = {
    "bibtex": standard.bibtex,
    "yso": standard.yso,
    **{name: partial(originals.extreme, name=name) for name in originals.EXTREME},
}
_RETRIEVAL: dict[str, Callable[..., Dataset]] = {
    "flickr8k": originals.flickr,
    "pascal": partial(originals.captioned, name="pascal"),
    "coco": partial(originals.captioned, name="coco"),
}
NAMES = (*_CLASSES, *_LABELS, *_RETRIEVAL)
"""The names that `load` accepts, besides "vw:PATH", "clusters-N" and the synthetic sets of `small.SMALL`."""


def load(
    name: str, folder: Path | None = None, *, seed: int = 0, quick: bool = False, tests: int | None = TEST_ROWS
) -> Dataset:
    """Return a data set by its name.

    Args:
        name: one of `NAMES`; "vw:PATH" for a folder with train.vw and test.vw, or for one file; "clusters-N" for N rows of
            Gaussian clusters.
        folder: of the files; by default MEMORYTREE_DATA, or the shared folder beside the checkout.
        seed: permutes the training rows, except 0; for captioned images it determines the split.
        quick: load only a few classes, rows or images.
        tests: the number of test rows of sets with classes; None for all.

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
    if name in small.SMALL:
        return small.SMALL[name](seed)
    if name.startswith("vw:"):
        return originals.vw_text(Path(name.removeprefix("vw:"))).seeded(seed)
    if name.startswith("clusters-") and name.removeprefix("clusters-").isdecimal():
        return synthetic.clusters(int(name.removeprefix("clusters-"))).seeded(seed)
    raise InvalidOption(f"no data set {name!r}; there are {', '.join((*NAMES, *small.SMALL))}, vw:PATH and clusters-N")


@dataclass(frozen=True)
class Source:
    """What a process needs in order to load a data set: name, folder, seed, and whether the run is quick."""

    name: str
    folder: Path | None = None
    seed: int = 0
    quick: bool = False

    def load(self) -> Dataset:
        """Return the data set."""
        return load(self.name, self.folder, seed=self.seed, quick=self.quick)

    def repeats(self, wanted: int) -> int:
        """Return how often timed work is repeated: as wanted, but once in a quick run."""
        return 1 if self.quick else wanted
