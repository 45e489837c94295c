"""The paper's own data sets, for those who have them, in the formats in which they were published."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from memorytree.errors import DamagedData, DataMissing
from memorytree.lab.datasets.base import TEST_ROWS, Dataset, expect, find, indicator
from memorytree.lab.datasets.formats import Columns, read_captions, read_libsvm, read_split, read_vw, read_xmc
from memorytree.lab.datasets.images import image_features
from memorytree.lab.datasets.standing import flickr as standing_flickr
from memorytree.lab.datasets.standing import retrieval

ALOI_FEATURES = 128
REPOSITORY = "http://manikvarma.org/downloads/XC/XMLRepository.html"
EXTREME = {"rcv1-2k": "RCV1-2K", "amazoncat-13k": "AmazonCat-13K", "wiki10-31k": "Wiki10-31K"}
FEWEST_IMAGES = 10  # a tenth of them is asked about
CAPTIONS = {
    "flickr8k": "Flickr8k: captions.csv (image,caption) or Flickr8k.token.txt, with features.npz or a folder `images`",
    "pascal": "Pascal Sentences: captions.csv (image,caption) or a folder `sentence` with a text file for each image",
    "coco": "MS COCO: captions_train2014.json, https://cocodataset.org",
}


def aloi(folder: Path | None, *, classes: int | None = None, tests: int | None = TEST_ROWS) -> Dataset:
    """Small objects, 1,000 classes, dense rows: aloi/train and aloi/test, or aloi/aloi.scale with a tenth as test."""
    origin = "ALOI in LIBSVM format, https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html"
    if folder is not None and not any((Path(folder) / "aloi").glob("train*")):
        rows, labels = read_libsvm(expect(folder, "aloi/aloi.scale", origin), ALOI_FEATURES)
        whole = cut(Dataset("aloi", "classes", rows, labels, rows[:0], labels[:0]))
    else:
        train, test = (read_libsvm(expect(folder, f"aloi/{part}", origin), ALOI_FEATURES) for part in ("train", "test"))
        whole = Dataset("aloi", "classes", *train, *test)
    whole = few_classes(whole, classes)
    dense = Dataset("aloi", "classes", whole.train.toarray(), whole.truth, whole.test.toarray(), whole.test_truth)
    return dense.standing(tests)


def imagenet(folder: Path | None, *, classes: int | None = None, tests: int | None = TEST_ROWS) -> Dataset:
    """Images by features of a network, as VW text: imagenet/train.vw and imagenet/test.vw."""
    origin = "features of ImageNet's images as VW text, as used for the Recall Tree"
    expect(folder, "imagenet/train.vw", origin)
    return few_classes(vw_text(Path(folder or "") / "imagenet", "imagenet"), classes).standing(tests)


def few_classes(data: Dataset, classes: int | None) -> Dataset:
    """The rows of the first so many classes."""
    if classes is None:
        return data
    known = np.flatnonzero(data.truth < classes), np.flatnonzero(data.test_truth < classes)
    return data.ordered(known[0]).asked(known[1])


def cut(data: Dataset) -> Dataset:
    """A data set without test rows: a tenth of its rows, always the same, become its test rows."""
    order = np.random.default_rng(0).permutation(data.rows)
    tests = data.rows // 10
    asked, shown = data.ordered(order[:tests]), data.ordered(order[tests:])
    return Dataset(data.name, data.kind, shown.train, shown.truth, asked.train, asked.truth)


def vw_text(path: Path, name: str | None = None) -> Dataset:
    """Any VW text: a folder with train.vw and test.vw, or one file of which a tenth is asked about."""
    origin = "VW text: `label |namespace feature:weight ...`"
    name, columns = name or f"vw:{path}", Columns()
    if path.is_dir():
        train, labels = read_vw(expect(path, "train.vw", origin), columns, growing=True)
        test, truth = read_vw(expect(path, "test.vw", origin), columns, growing=False)
    else:
        train, labels = read_vw(expect(path.parent, path.name, origin), columns, growing=True)
        test, truth = train[:0], []
    if not labels:
        raise DamagedData(f"{path} has no rows")
    if not any(labels):
        raise DamagedData(f"{path} has no row with a label")
    kind, known, asked = numbered(labels, truth)
    data = Dataset(name, kind, train, known, test, asked)
    return data if path.is_dir() else cut(data)


def numbered(labels: list[list[int]], truth: list[list[int]]) -> tuple[str, Any, Any]:
    """Labels as numbers from 0, in their order: (kind, of training rows, of test rows)."""
    place = {label: number for number, label in enumerate(sorted({label for own in labels + truth for label in own}))}
    sets = [[[place[label] for label in sorted(set(own))] for own in part] for part in (labels, truth)]
    if all(len(own) == 1 for own in labels + truth):
        known, asked = (np.array([own[0] for own in part], np.int64) for part in sets)
        return "classes", known, asked
    known, asked = (indicator(part, len(place)) for part in sets)
    return "labels", known, asked


def extreme(folder: Path | None, name: str, *, rows: int | None = None) -> Dataset:
    """A set of the Extreme Classification Repository: train and test files, or one data file with split files."""
    origin = f"{EXTREME[name]} of the Extreme Classification Repository, {REPOSITORY}"
    if folder is None or not (Path(folder) / name).is_dir():
        raise DataMissing(f"{name}/train.txt and {name}/test.txt are needed in the folder named by --data ({origin})")
    here = Path(folder) / name
    train, test, whole = (one_like(here, part) for part in ("train.txt", "test.txt", "data.txt"))
    if train and test:
        shown, asked = read_xmc(train), read_xmc(test)
    elif whole:
        keys, labels = read_xmc(whole)
        first, second = (read_split(expect_like(here, part, origin)) for part in ("trSplit.txt", "tstSplit.txt"))
        if max(first.max(), second.max()) >= keys.shape[0]:
            raise DamagedData(f"{here}: the split names row {max(first.max(), second.max()) + 1} of {keys.shape[0]}")
        shown, asked = (keys[first], labels[first]), (keys[second], labels[second])
    else:
        raise DataMissing(
            f"{here} has neither train.txt and test.txt nor data.txt with trSplit.txt and tstSplit.txt ({origin})"
        )
    return Dataset(name, "labels", *(part[:rows] for part in (*shown, *asked)))


def one_like(folder: Path, ending: str) -> Path | None:
    """The file whose name ends so, packed or not; the publishers put the name of the set before it."""
    return next(iter(sorted(path for path in folder.glob(f"*{ending}*") if path.is_file())), None)


def expect_like(folder: Path, ending: str, origin: str) -> Path:
    """The same, where it must be there."""
    found = one_like(folder, ending)
    if found is None:
        raise DataMissing(f"{folder}: no file ends with {ending} ({origin})")
    return found


def flickr(folder: Path | None, *, seed: int = 0, images: int | None = None) -> Dataset:
    """Flickr8k with captions.csv and features.npz, the standing set; where one of them is missing, as it was published."""
    if all(find(folder, f"flickr8k/{name}") for name in ("captions.csv", "features.npz")):
        return standing_flickr(folder, seed, images=images)
    return captioned(folder, "flickr8k", seed=seed, images=images)


def captioned(folder: Path | None, name: str, *, seed: int = 0, images: int | None = None) -> Dataset:
    """Images with captions: keys are captions, values features.npz (`files`, `feat`), or HoG of the folder `images`."""
    origin = CAPTIONS[name]
    here = None if folder is None else Path(folder) / name
    if here is None or not here.is_dir():
        raise DataMissing(f"{here or name} is needed, with captions and features.npz or a folder images ({origin})")
    captions = here / "sentence"
    if not captions.is_dir():
        # Flickr8k comes with lemmas too, in Flickr8k.lemma.token.txt; the captions as they were said go first.
        given = [one_like(here, ending) for ending in ("captions.csv", "Flickr8k.token.txt", ".token.txt")]
        given += [next(iter(sorted(here.rglob("captions_train*.json*"))), None)]
        captions = next((path for path in given if path), None) or expect(here, "captions.csv", origin)
    said = read_captions(captions)
    features = image_features(here, origin)
    if not {image for image, _ in said} & set(features):  # text files are named without the image's ending
        features = {Path(image).stem: feature for image, feature in features.items()}
    seen = {image for image, _ in said}
    known = {image: row for image, row in features.items() if image in seen}
    if len(known) < FEWEST_IMAGES:
        raise DamagedData(f"{here}: {len(known)} images have captions and features; at least {FEWEST_IMAGES} are needed")
    return retrieval(name, said, known, seed=seed, images=images)
