"""Find images by captions, learn from the quality of the results, and show them on a contact sheet.

    python examples/find_images.py DATA [--images FOLDER] [--out found.png]

DATA holds captions.csv.xz (columns image, caption) and features.npz (`files`, and `feat`: for each image a row of features
of an image network), as made from Flickr8k. With the folder of the image files the sheet shows them; without it, it shows
their first captions.
"""

import argparse
import csv
import lzma
import textwrap
from pathlib import Path

import numpy as np

from memorytree.estimators import MemoryTreeRetriever
from memorytree.estimators.metrics import mean_reward
from memorytree.text.features import text_vectorizer


def read(folder: Path) -> tuple[list[str], list[list[str]], np.ndarray]:
    """Return the names of images, their captions, and their unit features."""
    captions: dict[str, list[str]] = {}
    with lzma.open(folder / "captions.csv.xz", "rt", encoding="utf8") as file:
        for row in csv.DictReader(file):
            captions.setdefault(row["image"], []).append(row["caption"])
    with np.load(folder / "features.npz") as file:
        names, features = [Path(name).name for name in file["files"].tolist()], file["feat"].astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    return names, [captions[name] for name in names], features


def main() -> None:
    """Store, query, learn, query again."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--images", type=Path, help="folder of the image files")
    parser.add_argument("--out", type=Path, default=Path("found.png"), help="the contact sheet")
    chosen = parser.parse_args()
    names, captions, images = read(chosen.data)

    order = np.random.default_rng(0).permutation(len(names))
    queries, stored = order[: len(order) // 10], order[len(order) // 10 :]
    texts = np.array([" ".join(five) for five in captions])
    keys = text_vectorizer().fit(texts[stored])
    X, T = keys.transform(texts[stored]), keys.transform(texts[queries])

    retriever = MemoryTreeRetriever(verbose=1, random_state=0).fit(X, values=stored.tolist(), features=images[stored])
    before = retriever.retrieve(T, k=3)

    # In an application the users give the rewards; here the reward is the similarity of the images.
    def reward(row, hits):
        return np.clip(images[hits.values] @ images[stored[row]], 0, 1)

    retriever.fit_rewards(X, reward, exclude=[[row] for row in range(len(stored))])
    after = retriever.retrieve(T, k=3)

    for when, hits in (("before", before), ("after", after)):
        found = images[[row.values[0] for row in hits]]
        print(f"mean cosine of the image found and the true one, {when} learning: {mean_reward(images[queries], found):.3f}")
    sheet(chosen, names, captions, images, queries[:5], before, after)
    print(f"contact sheet: {chosen.out}")


def sheet(chosen, names, captions, images, queries, before, after) -> None:
    """Draw a row for each query: the true image, the images found before learning, and after."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(14, 2.3 * len(queries)), layout="constrained")
    grid = figure.subplots(len(queries), 7, squeeze=False)
    titles = ["true image", "before: first", "second", "third", "after: first", "second", "third"]
    for row, (query, cells) in enumerate(zip(queries.tolist(), grid, strict=True)):
        shown = [query, *before[row].values, *after[row].values]
        for place, (cell, image) in enumerate(zip(cells, shown, strict=True)):
            similarity = float(images[image] @ images[query])
            if chosen.images:
                from matplotlib.image import imread

                cell.imshow(imread(chosen.images / names[image]))
            else:
                text = textwrap.fill(captions[image][0].rstrip(" ."), 24)
                cell.text(0.5, 0.5, text, ha="center", va="center", fontsize=8, wrap=True, transform=cell.transAxes)
            cell.set(xticks=[], yticks=[])
            cell.set_title(titles[place] if row == 0 else "", fontsize=9, loc="left")
            cell.set_xlabel("" if place == 0 else f"cosine {similarity:.2f}", fontsize=8)
            for side in cell.spines.values():
                side.set(edgecolor="black" if place == 0 else colormaps["viridis"](similarity), linewidth=3)
    figure.suptitle("Images found by captions. A lighter frame means an image more similar to the true one.")
    figure.savefig(chosen.out, dpi=90)


if __name__ == "__main__":
    main()
