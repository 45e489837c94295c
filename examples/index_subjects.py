"""Assign library subjects to book titles: learn from titles that librarians have indexed.

    python examples/index_subjects.py DATA [--title "bees in the city" ...]

DATA holds train.tsv.xz and test.tsv.xz (subject numbers separated by commas, a tab, the title) and labels.txt.xz (the names
of the subjects, one a line), as made from the records of a national library.
"""

import argparse
import lzma
from pathlib import Path

import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer

from memorytree.estimators import MemoryTreeMultilabelClassifier
from memorytree.estimators.metrics import precision_at_k


def read(path: Path) -> tuple[list[str], list[list[int]]]:
    """Return titles and the numbers of their subjects."""
    with lzma.open(path, "rt", encoding="utf8") as file:
        rows = [line.rstrip("\n").split("\t", 1) for line in file]
    return [title for _, title in rows], [[int(number) for number in numbers.split(",") if number] for numbers, _ in rows]


def main() -> None:
    """Learn from all titles, then index some."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--title", action="append", help="a title to index (may be given several times)")
    chosen = parser.parse_args()
    with lzma.open(chosen.data / "labels.txt.xz", "rt", encoding="utf8") as file:
        names = file.read().splitlines()
    titles, subjects = read(chosen.data / "train.tsv.xz")
    tests, answers = read(chosen.data / "test.tsv.xz")

    words = TfidfVectorizer(sublinear_tf=True, min_df=2, dtype=np.float32)
    columns = MultiLabelBinarizer(classes=range(len(names)), sparse_output=True)
    X, Y = words.fit_transform(titles), columns.fit_transform(subjects)
    model = MemoryTreeMultilabelClassifier(verbose=1, random_state=0).fit(X, Y)

    T = words.transform(tests)
    ranked, _ = model.predict_topk(T, k=5)
    truth = columns.transform(answers)
    for k in (1, 3, 5):
        print(f"of the first {k} subjects, right: {precision_at_k(truth, ranked, k):.1%}")

    queries = chosen.title or tests[:5]
    rows = words.transform(queries)
    labels, chances = model.predict_topk(rows, k=5)
    for title, numbers, of, behind in zip(queries, labels, chances, model.kneighbors(rows), strict=True):
        print(f"\n{title}")
        for number, chance in zip(numbers.tolist(), of.tolist(), strict=True):
            if number >= 0:
                print(f"  {chance:4.0%}  {names[number]}")
        print(f"  because of: {', '.join(titles[hit.id] for hit in behind[:2])}")


if __name__ == "__main__":
    main()
