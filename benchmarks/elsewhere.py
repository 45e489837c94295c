"""Other data: `MemoryTreeClassifier` at its default settings on small sets it was not made for, and on made-up ones.

Digits, wine, breast cancer and iris come with scikit-learn; the others are generated: a chess board of 10 x 10 squares,
shells around a centre, clusters by the hundred, classes of several clusters each, digits with wrong labels, in other units,
and stored as a sparse matrix. Seven rows of ten are learned from, the others asked for; every seed splits anew. Beside it
exact 1-NN, on the rows as they are and on rows scaled to unit variance, and logistic regression on scaled rows. "Behind" is
the error above that of the best of the three, which a user would have to know beforehand.
"""

from collections.abc import Callable
from statistics import mean, stdev

import numpy as np
import scipy.sparse
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from benchmarks.report import Job, Report, Table
from memorytree.estimators import MemoryTreeClassifier

Rows = tuple[np.ndarray, np.ndarray]


def included(load: Callable) -> Callable[[np.random.Generator], Rows]:
    return lambda rng: load(return_X_y=True)


def board(rng: np.random.Generator) -> Rows:
    X = rng.random((4000, 2))
    return X, np.floor(10 * X).sum(axis=1).astype(int) % 2


def shells(rng: np.random.Generator) -> Rows:
    X = rng.normal(size=(4000, 6))
    return X, np.digitize((X**2).sum(axis=1), [3.45, 5.35, 7.84])


def clusters(rng: np.random.Generator) -> Rows:
    return datasets.make_blobs(4000, 10, centers=300, cluster_std=1.5, random_state=int(rng.integers(2**31)))


def scattered(rng: np.random.Generator) -> Rows:
    options = {"n_informative": 12, "n_redundant": 4, "n_classes": 8, "random_state": int(rng.integers(2**31))}
    return datasets.make_classification(4000, 30, **options)


def wrong_labels(rng: np.random.Generator) -> Rows:
    X, y = datasets.load_digits(return_X_y=True)
    return X, np.where(rng.random(len(y)) < 0.2, rng.integers(10, size=len(y)), y)


def other_units(rng: np.random.Generator) -> Rows:
    X, y = datasets.load_digits(return_X_y=True)
    return X * 10 ** rng.uniform(-3, 3, X.shape[1]), y


def stored_sparse(rng: np.random.Generator) -> Rows:
    X, y = datasets.load_digits(return_X_y=True)
    return scipy.sparse.csr_matrix(X), y


SETS = {
    "digits": included(datasets.load_digits),
    "wine": included(datasets.load_wine),
    "breast cancer": included(datasets.load_breast_cancer),
    "iris": included(datasets.load_iris),
    "chess board": board,
    "shells": shells,
    "300 clusters": clusters,
    "8 scattered classes": scattered,
    "digits, 20 % of labels random": wrong_labels,
    "digits in other units": other_units,
    "digits stored sparse": stored_sparse,
}


def run(job: Job) -> Report:
    seeds = job.seeds()
    report = Report("Other data", __doc__)
    columns = [
        "",
        "rows",
        "features",
        "classes",
        "error",
        "± over seeds",
        "1-NN",
        "1-NN, scaled",
        "logistic regression",
        "behind",
    ]
    table = Table(f"MemoryTreeClassifier, default settings, {len(seeds)} splits", columns)
    job.step("starting", len(SETS) * len(seeds))
    for name, make in SETS.items():
        errors: dict[str, list[float]] = {}
        for seed in seeds:
            job.step(f"{name}, seed {seed}")
            X, y = make(np.random.default_rng(seed))
            train, test, labels, answers = train_test_split(X, y, test_size=0.3, random_state=seed)
            scale = StandardScaler(with_mean=not scipy.sparse.issparse(X))
            peers = {
                "memorytree": MemoryTreeClassifier(random_state=seed),
                "1-NN": KNeighborsClassifier(1),
                "1-NN, scaled": make_pipeline(scale, KNeighborsClassifier(1)),
                "logistic regression": make_pipeline(scale, LogisticRegression(max_iter=1000)),
            }
            for peer, model in peers.items():
                errors.setdefault(peer, []).append(1 - model.fit(train, labels).score(test, answers))
        report.runs[name] = errors
        ours, *others = (mean(errors[peer]) for peer in peers)
        spread = stdev(errors["memorytree"]) if len(seeds) > 1 else None
        table.add(name, X.shape[0], X.shape[1], len(np.unique(y)), ours, spread, *others, ours - min(others))
    report.tables.append(table)
    return report
