"""Other data: the classifiers at their default settings on small public and synthetic data sets.

Digits, wine, breast cancer and iris come with scikit-learn; the others are generated: a chess board of 10 x 10 squares,
shells around a centre, 300 clusters, classes of several clusters each, digits with wrong labels, in other units, and stored
as a sparse matrix. Seven rows of ten are for training, the others for testing; every seed splits anew. The baselines are
exact 1-NN, on the rows as they are and on rows scaled to unit variance, and logistic regression on scaled rows. "Behind" is
the error above that of the best of the three, which a user would have to choose beforehand.

Several labels a row: digits with properties of the number (even, prime, large, round) and generated ones: bags of words on
20 topics (sparse, dense, and with 300 rows only), words of 1,000 rare labels, and 40 overlapping discs in the plane. Beside
`MemoryTreeMultilabelClassifier` a vote of the 20 exact neighbours (of sparse rows by cosine, of dense ones scaled) and
logistic regression for each label, on scaled rows. Figures are the share of rows whose likeliest label is wrong, and in
brackets the number of wrong labels a row. "Behind" is the first above that of the better of the two.
"""

import warnings
from collections.abc import Callable
from statistics import mean

import numpy as np
import scipy.sparse
from sklearn import datasets
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.multiclass import OneVsRestClassifier
from sklearn.neighbors import KNeighborsClassifier, KNeighborsRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from lab.benchmarks.report import Job, Report, spread
from lab.tables import Table
from memorytree.estimators import MemoryTreeClassifier, MemoryTreeMultilabelClassifier
from memorytree.estimators.metrics import hamming_loss, precision_at_k

Rows = tuple[np.ndarray, np.ndarray]


def included(load: Callable) -> Callable[[np.random.Generator], Rows]:
    """Return a maker of a data set that comes with scikit-learn."""
    return lambda rng: load(return_X_y=True)


def board(rng: np.random.Generator) -> Rows:
    """A chess board of 10 x 10 squares."""
    X = rng.random((4000, 2))
    return X, np.floor(10 * X).sum(axis=1).astype(int) % 2


def shells(rng: np.random.Generator) -> Rows:
    """Four classes by distance from the centre."""
    X = rng.normal(size=(4000, 6))
    return X, np.digitize((X**2).sum(axis=1), [3.45, 5.35, 7.84])


def clusters(rng: np.random.Generator) -> Rows:
    """Three hundred Gaussian clusters."""
    return datasets.make_blobs(4000, 10, centers=300, cluster_std=1.5, random_state=int(rng.integers(2**31)))


def scattered(rng: np.random.Generator) -> Rows:
    """Eight classes of several clusters each."""
    options = {"n_informative": 12, "n_redundant": 4, "n_classes": 8, "random_state": int(rng.integers(2**31))}
    return datasets.make_classification(4000, 30, **options)


def wrong_labels(rng: np.random.Generator) -> Rows:
    """Digits with a fifth of the labels random."""
    X, y = datasets.load_digits(return_X_y=True)
    return X, np.where(rng.random(len(y)) < 0.2, rng.integers(10, size=len(y)), y)


def other_units(rng: np.random.Generator) -> Rows:
    """Digits with every feature in another unit."""
    X, y = datasets.load_digits(return_X_y=True)
    return X * 10 ** rng.uniform(-3, 3, X.shape[1]), y


def stored_sparse(rng: np.random.Generator) -> Rows:
    """Digits as a sparse matrix."""
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


def bags(rng: np.random.Generator, rows: int = 4000) -> Rows:
    """Bags of words on 20 topics, sparse."""
    options = {
        "n_classes": 20,
        "n_labels": 3,
        "length": 40,
        "allow_unlabeled": False,
        "random_state": int(rng.integers(2**31)),
    }
    X, Y = datasets.make_multilabel_classification(rows, 500, **options)
    return scipy.sparse.csr_matrix(X), Y


def dense_bags(rng: np.random.Generator) -> Rows:
    """The same bags of words, dense."""
    X, Y = bags(rng)
    return X.toarray(), Y


def few_bags(rng: np.random.Generator) -> Rows:
    """The same with 300 rows."""
    return bags(rng, 300)


def rare_labels(rng: np.random.Generator) -> Rows:
    """Rows of ten words, half of them words of their labels: each label has three of 5,000, and few rows."""
    words, often = rng.integers(5000, size=(1000, 3)), 1 / (10 + np.arange(1000))
    X, Y = scipy.sparse.lil_matrix((4000, 5000)), scipy.sparse.lil_matrix((4000, 1000), dtype=int)
    for row in range(4000):
        labels = rng.choice(1000, size=rng.integers(1, 4), replace=False, p=often / often.sum())
        Y[row, labels] = 1
        X[row, rng.choice(words[labels].reshape(-1), 5)] = 1
        X[row, rng.integers(5000, size=5)] = 1
    return X.tocsr(), Y.tocsr()


def discs(rng: np.random.Generator) -> Rows:
    """Points in 40 overlapping discs of the plane."""
    X, centres, radii = rng.random((4000, 2)), rng.random((40, 2)), rng.uniform(0.05, 0.25, 40)
    Y = (np.linalg.norm(X[:, None] - centres, axis=2) < radii).astype(int)
    return X[Y.any(axis=1)], Y[Y.any(axis=1)]


def facts_of_digits(rng: np.random.Generator) -> Rows:
    """Digits labelled with properties of the number and with the number itself."""
    X, y = datasets.load_digits(return_X_y=True)
    facts = [y % 2 == 0, np.isin(y, [2, 3, 5, 7]), y > 4, np.isin(y, [0, 6, 8, 9]), *(y == digit for digit in range(10))]
    return X, np.stack(facts, axis=1).astype(int)


LABEL_SETS = {
    "facts of digits": facts_of_digits,
    "bags of words, 20 topics": bags,
    "the same, dense": dense_bags,
    "the same, 300 rows": few_bags,
    "1,000 rare labels": rare_labels,
    "40 discs": discs,
}


def run(job: Job) -> Report:
    """Run the benchmark."""
    report = Report("Other data", __doc__)
    job.step("starting", (len(SETS) + len(LABEL_SETS)) * len(job.seeds()))
    one_label(report, job)
    several_labels(report, job)
    return report


def columns_for(answers: str, *baselines: str) -> list[str]:
    """Return the heads of a table."""
    return ["data set", "rows", "features", answers, "error", "± over seeds", *baselines, "behind"]


def one_label(report: Report, job: Job) -> None:
    """Add the table of the classifier."""
    seeds = job.seeds()
    columns = columns_for("classes", "1-NN", "1-NN, scaled", "logistic regression")
    table = Table(f"MemoryTreeClassifier, default settings, {len(seeds)} splits", columns)
    for name, make in SETS.items():
        errors: dict[str, list[float]] = {}
        for seed in seeds:
            job.step(f"{name}, seed {seed}")
            X, y = make(np.random.default_rng(seed))
            train, test, labels, answers = train_test_split(X, y, test_size=0.3, random_state=seed)
            scale = StandardScaler(with_mean=not scipy.sparse.issparse(X))
            baselines = {
                "memorytree": MemoryTreeClassifier(random_state=seed),
                "1-NN": KNeighborsClassifier(1),
                "1-NN, scaled": make_pipeline(scale, KNeighborsClassifier(1)),
                "logistic regression": make_pipeline(scale, LogisticRegression(max_iter=1000)),
            }
            for baseline, model in baselines.items():
                errors.setdefault(baseline, []).append(1 - model.fit(train, labels).score(test, answers))
        report.runs[name] = errors
        ours, *others = (mean(errors[baseline]) for baseline in baselines)
        table.add(
            name, X.shape[0], X.shape[1], len(np.unique(y)), ours, spread(errors["memorytree"]), *others, ours - min(others)
        )
    report.tables.append(table)


def several_labels(report: Report, job: Job) -> None:
    """Add the table of the multi-label classifier."""
    seeds = job.seeds()
    columns = columns_for("labels", "20 neighbours", "logistic regression")
    table = Table(f"MemoryTreeMultilabelClassifier, default settings, {len(seeds)} splits", columns)
    for name, make in LABEL_SETS.items():
        found: dict[str, list[tuple[float, float]]] = {}
        for seed in seeds:
            job.step(f"{name}, seed {seed}")
            X, Y = make(np.random.default_rng(seed))
            train, test, labels, truth = train_test_split(X, Y, test_size=0.3, random_state=seed)
            ours = MemoryTreeMultilabelClassifier(random_state=seed).fit(train, labels)
            answers = {"memorytree": (ours.predict_topk(test, 1)[0], ours.predict(test))}
            for baseline, chances in baseline_chances(train, labels, test).items():
                answers[baseline] = chances.argmax(axis=1)[:, None], scipy.sparse.csr_matrix(chances > 0.5)
            for baseline, (first, predicted) in answers.items():
                truth, predicted = scipy.sparse.csr_matrix(truth), scipy.sparse.csr_matrix(predicted)
                found.setdefault(baseline, []).append((1 - precision_at_k(truth, first, 1), hamming_loss(truth, predicted)))
        report.runs[name] = found
        errors = {baseline: mean(error for error, _ in runs) for baseline, runs in found.items()}
        shown = {
            baseline: f"{errors[baseline]:.3f} ({mean(loss for _, loss in runs):.2f})" for baseline, runs in found.items()
        }
        deviation, ours = spread(error for error, _ in found["memorytree"]), shown.pop("memorytree")
        behind = errors.pop("memorytree") - min(errors.values())
        table.add(name, X.shape[0], X.shape[1], Y.shape[1], ours, deviation, *shown.values(), behind)
    report.tables.append(table)


def baseline_chances(train, labels, test) -> dict[str, np.ndarray]:
    """Return the chances of all labels for each test row: by a vote of exact neighbours and by logistic regression."""
    sparse, truth = scipy.sparse.issparse(train), labels.toarray() if scipy.sparse.issparse(labels) else labels
    scale = StandardScaler(with_mean=not sparse)
    vote = KNeighborsRegressor(20, metric="cosine") if sparse else make_pipeline(scale, KNeighborsRegressor(20))
    linear = make_pipeline(scale, OneVsRestClassifier(LogisticRegression(max_iter=1000)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about labels that no training row has
        chances = linear.fit(train, truth).predict_proba(test)
    return {"20 neighbours": vote.fit(train, truth).predict(test), "logistic regression": chances}
