"""Published text formats: LIBSVM, Vowpal Wabbit, the Extreme Classification Repository, and captions of images.

Files may be plain or packed (.xz, .gz, .bz2). A line that violates the format raises `DamagedData` with its number.
"""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import IO

import numpy as np
import scipy.sparse as sp

from lab.datasets.base import Rows, indicator
from memorytree.errors import DamagedData

PACKED: dict[str, Callable[..., IO[str]]] = {".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
ENCODING = "utf-8-sig"
MAX_COLUMNS = 2**31 - 1  # column indices have 32 bits
MAX_WEIGHT = float(np.finfo(np.float32).max)


def open_text(path: Path) -> IO[str]:
    """Open a text file for reading, with or without a byte order mark; packed files are unpacked by their suffix."""
    return PACKED.get(path.suffix, open)(path, "rt", encoding=ENCODING)


def line_error(path: Path, number: int, why: str, line: str) -> DamagedData:
    """Return the error for a line of a file."""
    return DamagedData(f"{path}, line {number}: {why}: {line.strip()!r:.80}")


def drop_blank_end(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines of a file without the blank lines at its end."""
    blank: list[str] = []
    for line in lines:
        if line.strip():
            yield from blank
            yield line
            blank.clear()
        else:
            blank.append(line)


def split_first_word(text: str) -> tuple[str, list[str]]:
    """Return the first word and the other words; the first word is empty if the text begins with white space."""
    words = text.split()
    return (words[0], words[1:]) if text[:1].strip() else ("", words)


class SparseRows:
    """Builds a CSR matrix row by row."""

    def __init__(self) -> None:
        self.columns: list[int] = []
        self.weights: list[float] = []
        self.bounds = [0]

    def add(self, pairs: Iterable[tuple[int, float]]) -> None:
        """Append a row of (column, weight) pairs."""
        for column, weight in pairs:
            self.columns.append(column)
            self.weights.append(weight)
        self.bounds.append(len(self.columns))

    def matrix(self, width: int | None = None) -> Rows:
        """Return all rows as a CSR matrix."""
        columns = np.array(self.columns, np.int32)
        width = int(columns.max(initial=-1)) + 1 if width is None else width
        rows = sp.csr_matrix((np.array(self.weights, np.float32), columns, self.bounds), (len(self.bounds) - 1, width))
        rows.sum_duplicates()
        return rows


def parse_pairs(written: list[str], first: int = 0) -> list[tuple[int, float]]:
    """Parse pairs like `3:0.5`, columns counted from `first`; raise ValueError if one is malformed."""
    pairs = [(int(place) - first, check_weight(float(weight))) for place, weight in (pair.split(":") for pair in written)]
    if any(not 0 <= place < MAX_COLUMNS for place, _ in pairs):
        raise ValueError
    return pairs


def check_weight(weight: float) -> float:
    """Return a weight that fits into 32 bits; raise ValueError for larger ones and NaN."""
    if not abs(weight) <= MAX_WEIGHT:
        raise ValueError
    return weight


def parse_integer(text: str) -> int:
    """Parse a whole number, which may be written as 3.0; raise ValueError for other text."""
    number = float(text)
    if not number.is_integer() or abs(number) >= 2**53:  # larger floats do not represent every integer
        raise ValueError
    return int(number)


# ---- LIBSVM


def read_libsvm(path: Path, width: int | None = None) -> tuple[Rows, np.ndarray]:
    """Read rows `class place:weight ...`, places from 1; return a CSR matrix and the classes as written."""
    rows, classes = SparseRows(), []
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            written = line.split("#")[0].strip()
            if not written:
                continue
            label, *pairs = written.split()
            try:
                classes.append(parse_integer(label))
                rows.add(parse_pairs(pairs, first=1))
            except ValueError:
                why = f"not `class place:weight ...` with whole classes, places from 1 to {MAX_COLUMNS} and finite weights"
                raise line_error(path, number, why, line) from None
    return matrix_within(path, rows, width), np.array(classes, np.int64)


def matrix_within(path: Path, rows: SparseRows, width: int | None) -> Rows:
    """Return rows as a matrix of this width; raise `DamagedData` if they do not fit into it."""
    needed = max(rows.columns, default=-1) + 1
    if width is not None and needed > width:
        raise DamagedData(f"{path}: feature {needed - 1} is beyond the {width} features that there should be")
    return rows.matrix(width)


# ---- the Extreme Classification Repository


def read_xmc(path: Path) -> tuple[Rows, Rows]:
    """Read `rows features labels`, then lines `l1,l2 place:weight ...`; return two CSR matrices: rows and label sets."""
    with open_text(path) as file:
        first = file.readline()
        try:
            count, features, labels = sizes = [int(size) for size in first.split()]
            if min(sizes) < 0 or max(sizes) > MAX_COLUMNS:
                raise ValueError
        except ValueError:
            raise line_error(path, 1, f"not `rows features labels`, each at most {MAX_COLUMNS}", first) from None
        rows = SparseRows()
        sets: list[list[int]] = []
        for number, line in enumerate(file, 2):
            # A blank line is a row without labels and features, until all rows were read.
            if len(sets) >= count and not line.strip():
                continue
            names, pairs = split_first_word(line)  # a row without labels begins with a space
            try:
                rows.add(parse_pairs(pairs))
                sets.append(sorted({int(name) for name in names.split(",") if name}))
            except ValueError:
                why = f"not `label,label place:weight ...` with places below {MAX_COLUMNS} and finite weights"
                raise line_error(path, number, why, line) from None
            if max(sets[-1], default=0) >= labels or min(sets[-1], default=0) < 0:
                raise line_error(path, number, f"labels go from 0 to {labels - 1}", line)
    if len(sets) != count:
        raise DamagedData(f"{path}: {len(sets)} rows, but its first line gives {count}")
    return matrix_within(path, rows, features), indicator(sets, labels)


def read_split(path: Path, column: int = 0) -> np.ndarray:
    """Return one column of a split file of the Repository: row numbers, from 1 in the file, from 0 here."""
    chosen = []
    with open_text(path) as file:
        for number, line in enumerate(drop_blank_end(file), 1):
            try:
                chosen.append(int(line.split()[column]) - 1)
            except (ValueError, IndexError):
                raise line_error(path, number, f"column {column + 1} is not a row number", line) from None
            if not 0 <= chosen[-1] < MAX_COLUMNS:
                raise line_error(path, number, f"row numbers go from 1 to {MAX_COLUMNS}", line)
    if not chosen:
        raise DamagedData(f"{path} names no rows")
    return np.array(chosen, np.int64)


# ---- Vowpal Wabbit


Feature = tuple[tuple[str, str], float]
"""((namespace, name), weight)."""


class FeatureColumns:
    """Assigns columns to named features in the order of their first occurrence.

    If all features are whole numbers in a single namespace, their numbers are the columns.
    """

    def __init__(self) -> None:
        self.names: dict[tuple[str, str], int] = {}

    def grow(self, rows: list[list[Feature]]) -> None:
        """Assign columns to the features of these rows that have none."""
        for row in rows:
            for name, _ in row:
                self.names.setdefault(name, len(self.names))
        if len({space for space, _ in self.names}) == 1 and all(name.isdecimal() for _, name in self.names):
            self.names = {(space, name): int(name) for space, name in self.names}

    def beyond(self) -> tuple[str, str] | None:
        """Return the first feature whose number is too large for a column, or None."""
        return next((name for name, column in self.names.items() if column >= MAX_COLUMNS), None)

    def matrix(self, rows: list[list[Feature]]) -> Rows:
        """Return rows of named features as a CSR matrix; features without a column are omitted."""
        found = SparseRows()
        for row in rows:
            found.add((self.names[name], weight) for name, weight in row if name in self.names)
        return found.matrix(1 + max(self.names.values(), default=-1))


def vw_line(line: str) -> tuple[list[int], list[Feature]]:
    """Return the labels and the named features of a line of VW text; raise ValueError for other text."""
    head, *spaces = line.strip().split("|")
    if not spaces:
        raise ValueError
    # A row without labels is empty before its first bar.
    labels = [int(label) for label in head.split()[0].split(",")] if head else []
    features = []
    for space in spaces:
        # `|name:scale a:1 b`: a space after the bar means that the namespace has no name.
        first, pairs = split_first_word(space)
        name, _, scale = first.partition(":")
        times = float(scale) if scale else 1.0
        for pair in pairs:
            feature, _, weight = pair.partition(":")
            features.append(((name, feature), check_weight(times * float(weight) if weight else times)))
    return labels, features


def read_vw(path: Path, columns: FeatureColumns, *, growing: bool) -> tuple[Rows, list[list[int]]]:
    """Read VW text, `label |namespace feature:weight ...` or `label,label |...`; return a CSR matrix and labels."""
    rows, labels, numbers = [], [], []
    with open_text(path) as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                own, features = vw_line(line)
            except ValueError:
                why = "not `label |namespace feature:weight ...` with finite weights"
                raise line_error(path, number, why, line) from None
            labels.append(own)
            rows.append(features)
            numbers.append(number)
    if growing:
        columns.grow(rows)
        far = columns.beyond()
        if far:
            place = next(place for place, row in enumerate(rows) if far in dict(row))
            raise line_error(path, numbers[place], f"numeric features must be below {MAX_COLUMNS}", far[1])
    return columns.matrix(rows), labels


def vw_lines(keys: Rows, labels: Iterable[str]) -> Iterator[str]:
    """Yield rows in VW's text format, each after the text of its label."""
    keys = sp.csr_matrix(keys).sorted_indices()
    for row, label in enumerate(labels):
        here = slice(keys.indptr[row], keys.indptr[row + 1])
        pairs = zip(keys.indices[here].tolist(), keys.data[here].tolist(), strict=True)
        yield f"{label} |f {' '.join(f'{place}:{weight:.6g}' for place, weight in pairs)}\n"


# ---- captions of images


def read_captions(path: Path) -> list[tuple[str, str]]:
    """Return (image, caption) for each caption.

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
    with open_text(path) as file:
        return readers.get(suffixes[-1] if suffixes else "", _token_captions)(path, file)


def _csv_captions(path: Path, file: IO[str]) -> list[tuple[str, str]]:
    rows = csv.DictReader(file)
    if not {"image", "caption"} <= set(rows.fieldnames or []):
        raise line_error(path, 1, "no columns `image` and `caption`", ",".join(rows.fieldnames or []))
    captions = []
    for row in rows:
        if row["image"] is None or row["caption"] is None:
            raise line_error(path, rows.line_num, "no image or no caption", ",".join(filter(None, row.values())))
        captions.append((row["image"], row["caption"]))
    return captions


def _token_captions(path: Path, file: IO[str]) -> list[tuple[str, str]]:
    captions = []
    for number, line in enumerate(drop_blank_end(file), 1):
        image, tab, caption = line.rstrip("\n").partition("\t")
        if not tab:
            raise line_error(path, number, "not `image#number<tab>caption`", line)
        captions.append((image.partition("#")[0], caption))
    return captions


def _coco_captions(path: Path, file: IO[str]) -> list[tuple[str, str]]:
    try:
        content = json.load(file)
        names = {image["id"]: image["file_name"] for image in content["images"]}
        return [(names[note["image_id"]], note["caption"]) for note in content["annotations"]]
    except (KeyError, TypeError, ValueError) as error:
        raise DamagedData(f"{path} is not COCO's captions (`images` and `annotations`): {error!r:.80}") from None
