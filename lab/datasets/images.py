"""Features of images: precomputed ones, or histograms of oriented gradients (HoG) computed here."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from lab.datasets.base import unit
from memorytree.errors import DamagedData, DataMissing

ENDINGS = {".jpg", ".jpeg", ".png", ".gif", ".bmp"}
SIZE = (128, 128)
CACHE = "hog.npz"


def image_features(folder: Path, origin: str) -> dict[str, np.ndarray]:
    """Return unit features by the name of the image: from features.npz, or HoG of all images below `images`."""
    precomputed, images = folder / "features.npz", folder / "images"
    if precomputed.is_file():
        return read_features(precomputed)
    if not images.is_dir():
        raise DataMissing(f"{precomputed} or the folder {images} is needed ({origin})")
    cached = folder / CACHE
    paths = sorted(path for path in images.rglob("*") if path.suffix.lower() in ENDINGS)
    if not paths:
        raise DataMissing(f"{images} holds no image ({origin})")
    names = [path.name for path in paths]
    if cached.is_file():
        known = read_features(cached)
        if list(known) == names:
            return known
    features = np.stack([hog_of(path) for path in paths])
    try:
        np.savez_compressed(cached, files=np.array(names), feat=features.astype(np.float16))
    except OSError:  # the folder is read-only: the next run computes them again
        return dict(zip(names, unit(features.astype(np.float16)), strict=True))
    return read_features(cached)


def read_features(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays `files` and `feat` of an npz file as unit features by name."""
    with np.load(path) as file:
        if not {"files", "feat"} <= set(file.files):
            raise DamagedData(f"{path} should hold the arrays `files` and `feat`, not {', '.join(file.files)}")
        names, features = [Path(name).name for name in file["files"].tolist()], unit(file["feat"])
    if len(names) != len(features):
        raise DamagedData(f"{path} has {len(names)} files but {len(features)} rows of features")
    return dict(zip(names, features, strict=True))


def hog_of(path: Path) -> np.ndarray:
    """Return the histograms of oriented gradients of an image in grey, scaled to one size."""
    from skimage.feature import hog
    from skimage.io import imread
    from skimage.transform import resize

    pixels = np.asarray(imread(path, as_gray=True), np.float64)
    if pixels.ndim == 3:  # an animation: its first image
        pixels = pixels[0]
    small = resize(pixels, SIZE, anti_aliasing=True)
    return np.asarray(hog(small, orientations=9, pixels_per_cell=(16, 16), cells_per_block=(2, 2)), np.float32)
