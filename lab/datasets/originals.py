"""The paper's own data sets, in the formats in which they were published, if their files are present."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from lab.datasets.base import TEST_ROWS, Dataset, find_file, indicator, require_file
from lab.datasets.formats import FeatureColumns, read_captions, read_libsvm, read_split, read_vw, read_xmc
from lab.datasets.images import image_features
from lab.datasets.standard import flickr as prepared_flickr
from lab.datasets.standard import retrieval
from memorytree.errors import DamagedData, DataMissing

ALOI_FEATURES = 128
REPOSITORY = "http://manikvarma.org/downloads/XC/XMLRepository.html"
EXTREME = {"rcv1-2k": "RCV1-2K", "amazoncat-13k": "AmazonCat-13K", "wiki10-31k": "Wiki10-31K"}
MIN_IMAGES = 10  # a tenth of them are test rows
CAPTIONS = {
    "flickr8k": "Flickr8k: captions.csv (image,caption) or Flickr8k.token.txt, with features.npz or a folder `images`",
    "pascal": "Pascal Sentences: captions.csv (image,caption) or a folder `sentence` with a text file for each image",
    "coco": "MS COCO: captions_train2014.json, https://cocodataset.org",
}


def aloi(folder: Path | None, *, classes: int | None = None, tests: int | None = TEST_ROWS) -> Dataset:
    """Small objects, 1,000 classes, dense rows: aloi/train and aloi/test, or aloi/aloi.scale with a tenth as test."""
    origin = "ALOI in LIBSVM format, https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass.html"
    if folder is not None and not any((Path(folder) / "aloi").glob("train*")):
        rows, labels = read_libsvm(require_file(folder, "aloi/aloi.scale", origin), ALOI_FEATURES)
        whole = split_tenth(Dataset("aloi", "classes", rows, labels, rows[:0], labels[:0]))
    else:
        train, test = (
            read_libsvm(require_file(folder, f"aloi/{part}", origin), ALOI_FEATURES) for part in ("train", "test")
        )
        whole = Dataset("aloi", "classes", *train, *test)
    whole = few_classes(whole, classes)
    dense = Dataset("aloi", "classes", whole.train.toarray(), whole.truth, whole.test.toarray(), whole.test_truth)
    return dense.fixed_split(tests)


def imagenet(folder: Path | None, *, classes: int | None = None, tests: int | None = TEST_ROWS) -> Dataset:
    """Images by features of a network, as VW text: imagenet/train.vw and imagenet/test.vw."""
    origin = "features of ImageNet's images as VW text, as used for the Recall Tree"
    require_file(folder, "imagenet/train.vw", origin)
    return few_classes(vw_text(Path(folder or "") / "imagenet", "imagenet"), classes).fixed_split(tests)


def few_classes(data: Dataset, classes: int | None) -> Dataset:
    """Return the rows of the first classes; None for all."""
    if classes is None:
        return data
    known = np.flatnonzero(data.truth < classes), np.flatnonzero(data.test_truth < classes)
    return data.with_rows(known[0]).with_test_rows(known[1])


def split_tenth(data: Dataset) -> Dataset:
    """Split a data set without test rows: a tenth of its rows, always the same, become test rows."""
    order = np.random.default_rng(0).permutation(data.rows)
    tests = data.rows // 10
    test, train = data.with_rows(order[:tests]), data.with_rows(order[tests:])
    return Dataset(data.name, data.kind, train.train, train.truth, test.train, test.truth)


def vw_text(path: Path, name: str | None = None) -> Dataset:
    """Return VW text as a data set: a folder with train.vw and test.vw, or one file of which a tenth become test rows."""
    origin = "VW text: `label |namespace feature:weight ...`"
    name, columns = name or f"vw:{path}", FeatureColumns()
    if path.is_dir():
        train, labels = read_vw(require_file(path, "train.vw", origin), columns, growing=True)
        test, truth = read_vw(require_file(path, "test.vw", origin), columns, growing=False)
    else:
        train, labels = read_vw(require_file(path.parent, path.name, origin), columns, growing=True)
        test, truth = train[:0], []
    if not labels:
        raise DamagedData(f"{path} has no rows")
    if not any(labels):
        raise DamagedData(f"{path} has no row with a label")
    kind, train_truth, test_truth = number_labels(labels, truth)
    data = Dataset(name, kind, train, train_truth, test, test_truth)
    return data if path.is_dir() else split_tenth(data)


def number_labels(labels: list[list[int]], truth: list[list[int]]) -> tuple[str, Any, Any]:
    """Number the labels from 0 in their order; return (kind, truth of training rows, truth of test rows)."""
    place = {label: number for number, label in enumerate(sorted({label for own in labels + truth for label in own}))}
    sets = [[[place[label] for label in sorted(set(own))] for own in part] for part in (labels, truth)]
    if all(len(own) == 1 for own in labels + truth):
        known, tested = (np.array([own[0] for own in part], np.int64) for part in sets)
        return "classes", known, tested
    known, tested = (indicator(part, len(place)) for part in sets)
    return "labels", known, tested


def extreme(folder: Path | None, name: str, *, rows: int | None = None) -> Dataset:
    """A set of the Extreme Classification Repository: train and test files, or one data file with split files."""
    origin = f"{EXTREME[name]} of the Extreme Classification Repository, {REPOSITORY}"
    if folder is None or not (Path(folder) / name).is_dir():
        raise DataMissing(f"{name}/train.txt and {name}/test.txt are needed in the folder named by --data ({origin})")
    here = Path(folder) / name
    train, test, whole = (one_like(here, part) for part in ("train.txt", "test.txt", "data.txt"))
    if train and test:
        train_rows, test_rows = read_xmc(train), read_xmc(test)
    elif whole:
        keys, labels = read_xmc(whole)
        first, second = (read_split(expect_like(here, part, origin)) for part in ("trSplit.txt", "tstSplit.txt"))
        if max(first.max(), second.max()) >= keys.shape[0]:
            raise DamagedData(f"{here}: the split names row {max(first.max(), second.max()) + 1} of {keys.shape[0]}")
        train_rows, test_rows = (keys[first], labels[first]), (keys[second], labels[second])
    else:
        raise DataMissing(
            f"{here} has neither train.txt and test.txt nor data.txt with trSplit.txt and tstSplit.txt ({origin})"
        )
    return Dataset(name, "labels", *(part[:rows] for part in (*train_rows, *test_rows)))


def one_like(folder: Path, ending: str) -> Path | None:
    """Return the file whose name contains `ending`, packed or not; the published names begin with the name of the set."""
    return next(iter(sorted(path for path in folder.glob(f"*{ending}*") if path.is_file())), None)


def expect_like(folder: Path, ending: str, origin: str) -> Path:
    """Return the same file; raise `DataMissing` if there is none."""
    found = one_like(folder, ending)
    if found is None:
        raise DataMissing(f"{folder}: no file ends with {ending} ({origin})")
    return found


def flickr(folder: Path | None, *, seed: int = 0, images: int | None = None) -> Dataset:
    """Return Flickr8k from captions.csv and features.npz; if one of them is missing, from the published files."""
    if all(find_file(folder, f"flickr8k/{name}") for name in ("captions.csv", "features.npz")):
        return prepared_flickr(folder, seed, images=images)
    return captioned(folder, "flickr8k", seed=seed, images=images)


def captioned(folder: Path | None, name: str, *, seed: int = 0, images: int | None = None) -> Dataset:
    """Return images with captions: keys are captions, values from features.npz or HoG of the folder `images`."""
    origin = CAPTIONS[name]
    here = None if folder is None else Path(folder) / name
    if here is None or not here.is_dir():
        raise DataMissing(f"{here or name} is needed, with captions and features.npz or a folder images ({origin})")
    captions = here / "sentence"
    if not captions.is_dir():
        # Flickr8k.lemma.token.txt holds lemmas; the file with the original captions has precedence.
        given = [one_like(here, ending) for ending in ("captions.csv", "Flickr8k.token.txt", ".token.txt")]
        given += [next(iter(sorted(here.rglob("captions_train*.json*"))), None)]
        captions = next((path for path in given if path), None) or require_file(here, "captions.csv", origin)
    pairs = read_captions(captions)
    features = image_features(here, origin)
    if not {image for image, _ in pairs} & set(features):  # text files have the name of the image without its suffix
        features = {Path(image).stem: feature for image, feature in features.items()}
    captioned_images = {image for image, _ in pairs}
    known = {image: row for image, row in features.items() if image in captioned_images}
    if len(known) < MIN_IMAGES:
        raise DamagedData(f"{here}: {len(known)} images have captions and features; at least {MIN_IMAGES} are needed")
    return retrieval(name, pairs, known, seed=seed, images=images)
