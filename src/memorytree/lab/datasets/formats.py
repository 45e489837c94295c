"""Published text formats: LIBSVM, Vowpal Wabbit, the Extreme Classification Repository, and captions of images.

Files may be plain or packed (.xz, .gz, .bz2). A line that is not in the format is named in a `DamagedData`.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np
import scipy.sparse as sp

from memorytree.errors import DamagedData
from memorytree.lab.datasets.base import indicator

PACKED: dict[str, Callable[..., IO[str]]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
ENCODING = "utf-8-sig"
PLACES = 2**31 - 1  # columns of a matrix whose indices have 32 bits
HEAVIEST = float(np.finfo(np.float32).max)


def unpacked(path: Path) -> IO[str]:
    """A text file to read, with or without a byte order mark, unpacked on the way if its name says that it is packed."""
    return PACKED.get(path.suffix, open)(path, "rt", encoding=ENCODING)


def wrong(path: Path, number: int, why: str, line: str) -> DamagedData:
    """The error that names a line of a file."""
    return DamagedData(f"{path}, line {number}: {why}: {line.strip()!r:.80}")


def without_blank_end(lines: Iterable[str]) -> Iterator[str]:
    """The lines of a file but for blank ones at its end."""
    blank: list[str] = []
    for line in lines:
        if line.strip():
            yield from blank
            yield line
            blank.clear()
        else:
            blank.append(line)


def first_and_rest(text: str) -> tuple[str, list[str]]:
    """The first word and those after it; where white space comes first, the first word is empty."""
    words = text.split()
    return (words[0], words[1:]) if text[:1].strip() else ("", words)


class Rows:
    """Sparse rows as they are read, one feature after the other."""

    def __init__(self) -> None:
        self.columns: list[int] = []
        self.weights: list[float] = []
        self.bounds = [0]

    def add(self, pairs: Iterable[tuple[int, float]]) -> None:
        """One more row."""
        for column, weight in pairs:
            self.columns.append(column)
            self.weights.append(weight)
        self.bounds.append(len(self.columns))

    def matrix(self, width: int | None = None) -> Any:
        """All rows as a CSR matrix."""
        columns = np.array(self.columns, np.int32)
        width = int(columns.max(initial=-1)) + 1 if width is None else width
        rows = sp.csr_matrix((np.array(self.weights, np.float32), columns, self.bounds), (len(self.bounds) - 1, width))
        rows.sum_duplicates()
        return rows


def numbered_pairs(written: list[str], first: int = 0) -> list[tuple[int, float]]:
    """`3:0.5`, `7:1` as pairs, places counted from `first`; a ValueError where it is not that."""
    pairs = [(int(place) - first, finite(float(weight))) for place, weight in (pair.split(":") for pair in written)]
    if any(not 0 <= place < PLACES for place, _ in pairs):
        raise ValueError
    return pairs


def finite(weight: float) -> float:
    """A weight that a matrix holds, in 32 bits; a ValueError for others, and for what is no number."""
    if not abs(weight) <= HEAVIEST:
        raise ValueError
    return weight


def whole_number(text: str) -> int:
    """A whole number, which may be written as 3.0; a ValueError where it is none."""
    number = float(text)
    if not number.is_integer() or abs(number) >= 2**53:  # from there on, neighbours are read as the same
        raise ValueError
    return int(number)


# ---- LIBSVM


def read_libsvm(path: Path, width: int | None = None) -> tuple[Any, np.ndarray]:
    """Rows `class place:weight ...`, places from 1, as (CSR matrix, classes as they are written)."""
    rows, classes = Rows(), []
    with unpacked(path) as file:
        for number, line in enumerate(file, 1):
            written = line.split("#")[0].strip()
            if not written:
                continue
            label, *pairs = written.split()
            try:
                classes.append(whole_number(label))
                rows.add(numbered_pairs(pairs, first=1))
            except ValueError:
                why = f"not `class place:weight ...` with whole classes, places from 1 to {PLACES} and finite weights"
                raise wrong(path, number, why, line) from None
    return matrix_within(path, rows, width), np.array(classes, np.int64)


def matrix_within(path: Path, rows: Rows, width: int | None) -> Any:
    """Rows as a matrix of this width, if they fit into it."""
    needed = max(rows.columns, default=-1) + 1
    if width is not None and needed > width:
        raise DamagedData(f"{path}: feature {needed - 1} is beyond the {width} features that there should be")
    return rows.matrix(width)


# ---- the Extreme Classification Repository


def read_xmc(path: Path) -> tuple[Any, Any]:
    """First line `rows features labels`, then `l1,l2 place:weight ...`, as two CSR matrices: rows, and their labels."""
    with unpacked(path) as file:
        first = file.readline()
        try:
            count, features, labels = sizes = [int(size) for size in first.split()]
            if min(sizes) < 0 or max(sizes) > PLACES:
                raise ValueError
        except ValueError:
            raise wrong(path, 1, f"not `rows features labels`, each at most {PLACES}", first) from None
        rows = Rows()
        sets: list[list[int]] = []
        for number, line in enumerate(file, 2):
            # A blank line is a row without labels and features, until all rows are there.
            if len(sets) >= count and not line.strip():
                continue
            names, pairs = first_and_rest(line)  # a row without labels begins with a space
            try:
                rows.add(numbered_pairs(pairs))
                sets.append(sorted({int(name) for name in names.split(",") if name}))
            except ValueError:
                why = f"not `label,label place:weight ...` with places below {PLACES} and finite weights"
                raise wrong(path, number, why, line) from None
            if max(sets[-1], default=0) >= labels or min(sets[-1], default=0) < 0:
                raise wrong(path, number, f"labels go from 0 to {labels - 1}", line)
    if len(sets) != count:
        raise DamagedData(f"{path}: {len(sets)} rows, but its first line says {count}")
    return matrix_within(path, rows, features), indicator(sets, labels)


def read_split(path: Path, column: int = 0) -> np.ndarray:
    """One column of a split file of the Repository: the numbers of rows, there from 1, here from 0."""
    chosen = []
    with unpacked(path) as file:
        for number, line in enumerate(without_blank_end(file), 1):
            try:
                chosen.append(int(line.split()[column]) - 1)
            except (ValueError, IndexError):
                raise wrong(path, number, f"column {column + 1} is no row number", line) from None
            if not 0 <= chosen[-1] < PLACES:
                raise wrong(path, number, f"row numbers go from 1 to {PLACES}", line)
    if not chosen:
        raise DamagedData(f"{path} names no rows")
    return np.array(chosen, np.int64)


# ---- Vowpal Wabbit


Feature = tuple[tuple[str, str], float]
"""((namespace, name), weight)."""


class Columns:
    """The columns of named features, in the order in which they first came; features that are whole numbers in a single
    namespace keep their number."""

    def __init__(self) -> None:
        self.names: dict[tuple[str, str], int] = {}

    def grow(self, rows: list[list[Feature]]) -> None:
        """Give the features of these rows a column each, where they have none."""
        for row in rows:
            for name, _ in row:
                self.names.setdefault(name, len(self.names))
        if len({space for space, _ in self.names}) == 1 and all(name.isdecimal() for _, name in self.names):
            self.names = {(space, name): int(name) for space, name in self.names}

    def beyond(self) -> tuple[str, str] | None:
        """The first feature whose number is too large for a column, if there is one."""
        return next((name for name, column in self.names.items() if column >= PLACES), None)

    def matrix(self, rows: list[list[Feature]]) -> Any:
        """Rows of named features as a CSR matrix; features without a column are left out."""
        found = Rows()
        for row in rows:
            found.add((self.names[name], weight) for name, weight in row if name in self.names)
        return found.matrix(1 + max(self.names.values(), default=-1))


def vw_line(line: str) -> tuple[list[int], list[Feature]]:
    """The labels and the named features of a line of VW text; a ValueError where it is none."""
    head, *spaces = line.strip().split("|")
    if not spaces:
        raise ValueError
    # A row without labels has nothing before its first bar.
    labels = [int(label) for label in head.split()[0].split(",")] if head else []
    features = []
    for space in spaces:
        # `|name:scale a:1 b`: a space after the bar means that the namespace has no name.
        first, pairs = first_and_rest(space)
        name, _, scale = first.partition(":")
        times = float(scale) if scale else 1.0
        for pair in pairs:
            feature, _, weight = pair.partition(":")
            features.append(((name, feature), finite(times * float(weight) if weight else times)))
    return labels, features


def read_vw(path: Path, columns: Columns, *, growing: bool) -> tuple[Any, list[list[int]]]:
    """VW text, `label |namespace feature:weight ...` or `label,label |...`, as (CSR matrix, the labels of each row)."""
    rows, labels, numbers = [], [], []
    with unpacked(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                own, features = vw_line(line)
            except ValueError:
                why = "not `label |namespace feature:weight ...` with finite weights"
                raise wrong(path, number, why, line) from None
            labels.append(own)
            rows.append(features)
            numbers.append(number)
    if growing:
        columns.grow(rows)
        far = columns.beyond()
        if far:
            place = next(place for place, row in enumerate(rows) if far in dict(row))
            raise wrong(path, numbers[place], f"features that are numbers stay below {PLACES}", far[1])
    return columns.matrix(rows), labels


def vw_lines(keys: Any, labels: Iterable[str]) -> Iterator[str]:
    """Rows in VW's text format, each behind what stands for its label."""
    keys = sp.csr_matrix(keys).sorted_indices()
    for row, label in enumerate(labels):
        here = slice(keys.indptr[row], keys.indptr[row + 1])
        pairs = zip(keys.indices[here].tolist(), keys.data[here].tolist(), strict=True)
        yield f"{label} |f {' '.join(f'{place}:{weight:.6g}' for place, weight in pairs)}\n"


# ---- captions of images


def read_captions(path: Path) -> list[tuple[str, str]]:
    """(image, caption) for each caption.

    `path` is a CSV file with columns image and caption, Flickr's `image#number<tab>caption`, COCO's JSON, or a folder with a
    text file for each image, a caption in each line (Pascal Sentences).
    """
    if path.is_dir():
        return [
            (file.stem, caption.strip())
            for file in sorted(path.rglob("*.txt"))
            for caption in file.read_text(encoding=ENCODING).splitlines()
            if caption.strip()
        ]
    suffixes = [suffix for suffix in path.suffixes if suffix not in PACKED]
    readers = {".csv": _csv_captions, ".json": _coco_captions}
    with unpacked(path) as file:
        return readers.get(suffixes[-1] if suffixes else "", _token_captions)(path, file)


def _csv_captions(path: Path, file: IO[str]) -> list[tuple[str, str]]:
    rows = csv.DictReader(file)
    if not {"image", "caption"} <= set(rows.fieldnames or []):
        raise wrong(path, 1, "no columns `image` and `caption`", ",".join(rows.fieldnames or []))
    captions = []
    for row in rows:
        if row["image"] is None or row["caption"] is None:
            raise wrong(path, rows.line_num, "no image or no caption", ",".join(filter(None, row.values())))
        captions.append((row["image"], row["caption"]))
    return captions


def _token_captions(path: Path, file: IO[str]) -> list[tuple[str, str]]:
    captions = []
    for number, line in enumerate(without_blank_end(file), 1):
        image, tab, caption = line.rstrip("\n").partition("\t")
        if not tab:
            raise wrong(path, number, "not `image#number<tab>caption`", line)
        captions.append((image.partition("#")[0], caption))
    return captions


def _coco_captions(path: Path, file: IO[str]) -> list[tuple[str, str]]:
    try:
        whole = json.load(file)
        names = {image["id"]: image["file_name"] for image in whole["images"]}
        return [(names[note["image_id"]], note["caption"]) for note in whole["annotations"]]
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedData(f"{path} is not COCO's captions (`images` and `annotations`): {error!r:.80}") from None
