"""Files of data sets, written for a test, plain or packed."""

import bz2
import gzip
import lzma

PACKERS = {"": open, ".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}


def write(folder, name, text, ending=""):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name + ending)
    with PACKERS[ending](path, "wt", encoding="utf8") as file:
        file.write(text)
    return path
