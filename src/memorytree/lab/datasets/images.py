"""What images are like: features that somebody computed, or histograms of oriented gradients (HoG) computed here."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from memorytree.errors import DamagedData, DataMissing
from memorytree.lab.datasets.base import unit

ENDINGS = {".jpg", ".jpeg", ".png", ".gif", ".bmp"}
SIZE = (128, 128)
CACHE = "hog.npz"


def image_features(folder: Path, origin: str) -> dict[str, np.ndarray]:
    """Features at length one by the name of the image: from features.npz, or HoG of all images below `images`."""
    given, images = folder / "features.npz", folder / "images"
    if given.is_file():
        return read_features(given)
    if not images.is_dir():
        raise DataMissing(f"{given} or the folder {images} is needed ({origin})")
    kept = folder / CACHE
    paths = sorted(path for path in images.rglob("*") if path.suffix.lower() in ENDINGS)
    if not paths:
        raise DataMissing(f"{images} holds no image ({origin})")
    names = [path.name for path in paths]
    if kept.is_file():
        known = read_features(kept)
        if list(known) == names:
            return known
    features = np.stack([hog_of(path) for path in paths])
    try:
        np.savez_compressed(kept, files=np.array(names), feat=features.astype(np.float16))
    except OSError:  # the folder cannot be written: they are computed again next time
        return dict(zip(names, unit(features.astype(np.float16)), strict=True))
    return read_features(kept)


def read_features(path: Path) -> dict[str, np.ndarray]:
    """`files` and `feat` of an npz file."""
    with np.load(path) as file:
        if not {"files", "feat"} <= set(file.files):
            raise DamagedData(f"{path} should hold the arrays `files` and `feat`, not {', '.join(file.files)}")
        names, features = [Path(name).name for name in file["files"].tolist()], unit(file["feat"])
    if len(names) != len(features):
        raise DamagedData(f"{path} has {len(names)} files but {len(features)} rows of features")
    return dict(zip(names, features, strict=True))


def hog_of(path: Path) -> np.ndarray:
    """Histograms of oriented gradients of an image, scaled to one size, in grey."""
    from skimage.feature import hog
    from skimage.io import imread
    from skimage.transform import resize

    pixels = np.asarray(imread(path, as_gray=True), np.float64)
    if pixels.ndim == 3:  # a moving picture: its first
        pixels = pixels[0]
    small = resize(pixels, SIZE, anti_aliasing=True)
    return np.asarray(hog(small, orientations=9, pixels_per_cell=(16, 16), cells_per_block=(2, 2)), np.float32)
