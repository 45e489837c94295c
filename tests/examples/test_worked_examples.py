"""The worked examples, run on small files of the same format."""

import lzma
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def run(name, *arguments):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / name), *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def written(path, text):
    with lzma.open(path, "wt", encoding="utf8") as file:
        file.write(text)


@pytest.fixture
def images(tmp_path):
    """Images of five kinds; a caption names the kind among random words."""
    rng = np.random.default_rng(0)
    kinds, n = ["dog", "boat", "child", "bike", "horse"], 200
    kind = rng.integers(len(kinds), size=n)
    features = rng.normal(size=(n, 12)) * 0.3
    features[np.arange(n), kind] += 2
    names = [f"image{i}.png" for i in range(n)]
    lines = ["image,caption"]
    for i, name in enumerate(names):
        for _ in range(2):
            noise = " ".join(f"word{number}" for number in rng.integers(40, size=6))
            lines.append(f"{name},a {kinds[kind[i]]} and {noise}")
    written(tmp_path / "captions.csv.xz", "\n".join(lines) + "\n")
    np.savez(tmp_path / "features.npz", files=np.array(names), feat=features.astype(np.float16))
    return tmp_path, names


def rewards_in(printed):
    return [float(line.rsplit(":", 1)[1]) for line in printed.splitlines() if line.startswith("mean cosine")]


def test_images_are_found_by_captions(images, tmp_path):
    from PIL import Image

    folder, names = images
    for name in names:
        Image.new("RGB", (8, 6), (30, 60, 90)).save(folder / name)
    for shown in ([], ["--images", folder]):
        before, after = rewards_in(run("find_images.py", folder, "--out", tmp_path / "sheet.png", *shown))
        assert after > before
        assert (tmp_path / "sheet.png").read_bytes().startswith(b"\x89PNG")
        (tmp_path / "sheet.png").unlink()


def test_subjects_are_assigned_to_titles(tmp_path):
    rng = np.random.default_rng(0)
    words = {"bees": [0, 1], "history": [2], "cities": [3], "bread": [1, 4]}

    def rows(n):
        lines = []
        for _ in range(n):
            chosen = rng.choice(list(words), size=2, replace=False).tolist()
            labels = sorted({label for word in chosen for label in words[word]})
            lines.append(f"{','.join(map(str, labels))}\t{' '.join(chosen)} of year{rng.integers(20)}")
        return "\n".join(lines) + "\n"

    written(tmp_path / "train.tsv.xz", rows(300))
    written(tmp_path / "test.tsv.xz", rows(50))
    written(tmp_path / "labels.txt.xz", "insects\nfood\nthe past\ntowns\nbaking\n")
    printed = run("index_subjects.py", tmp_path, "--title", "bees and cities")
    first = next(line for line in printed.splitlines() if line.startswith("of the first 1"))
    assert float(first.rsplit(" ", 1)[1].rstrip("%")) > 90
    assert "bees and cities" in printed
    assert "towns" in printed
    assert "because of" in printed


NOTES = """Bob takes the train to work
The cat sleeps on the red sofa
Carla was born in Lisbon in 1985
Ada prefers tea to coffee

The doctor told Bob to avoid peanuts
Ada plays the violin in an orchestra
"""


@pytest.mark.parametrize(
    ("question", "best"), [("How does Bob commute to his job?", 0), ("musical instruments", 5), ("Where is the kitten?", 1)]
)
def test_notes_are_found_by_meaning(tmp_path, question, best):
    pytest.importorskip("wordllama")
    (tmp_path / "notes.txt").write_text(NOTES, encoding="utf8")
    command = ["ask_notes.py", tmp_path / "notes.txt", question, "--memory", tmp_path / "memory"]
    printed = run(*command, "--useful", best).splitlines()
    assert int(printed[0].split()[1]) == best
    assert printed[-1].startswith("learned from")
    assert run(*command).splitlines()[0].split()[1] == str(best)


def test_notes_are_found_by_their_words(tmp_path):
    (tmp_path / "notes.txt").write_text(NOTES, encoding="utf8")
    printed = run("ask_notes.py", tmp_path / "notes.txt", "Who sleeps on the sofa?", "--words", "--useful", 1)
    assert "The cat sleeps on the red sofa" in printed.splitlines()[0]
    assert "learned from 1 reward" in printed
