"""Fixed workloads for the estimators: fit, partial_fit, predictions, learned weights, and the same after pickling."""

import pickle

import numpy as np
import scipy.sparse

from memorytree.estimators import (
    MemoryTreeClassifier,
    MemoryTreeMultilabelClassifier,
    MemoryTreeRetriever,
    StreamClassifier,
    metrics,
    progressive_val_score,
)


def clusters(n, seed, classes=6, features=8):
    """Dense rows around one centre for each class, and their classes."""
    rng = np.random.default_rng(seed)
    centers = 1.2 * np.random.default_rng(99).normal(size=(classes, features))
    y = rng.integers(classes, size=n)
    return centers[y] + rng.normal(size=(n, features)), y


def words(n, seed, classes=6, features=300):
    """Sparse rows: three words of the row's class and six of any class."""
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    X = np.zeros((n, features), np.float32)
    for i in range(n):
        X[i, 10 * y[i] + rng.choice(10, 3, replace=False)] = rng.random(3) + 0.5
        X[i, 60 + rng.choice(features - 60, 6, replace=False)] += rng.random(6) + 0.5
    return scipy.sparse.csr_matrix(X), y


def topics(n, seed, labels=8, dense=False):
    """Rows of a few topics each, and an indicator matrix of the topics."""
    rng = np.random.default_rng(seed)
    Y = rng.random((n, labels)) < 0.25
    X = np.zeros((n, 4 * labels + 30), np.float32)
    for i in range(n):
        for topic in np.flatnonzero(Y[i]):
            X[i, 4 * topic + rng.choice(4, 2, replace=False)] = 1
        X[i, 4 * labels + rng.choice(30, 3, replace=False)] = 1
    if dense:
        return (X @ np.random.default_rng(98).normal(size=(X.shape[1], 10))).astype(np.float32), Y.astype(np.int64)
    return scipy.sparse.csr_matrix(X), Y.astype(np.int64)


def found(model, X):
    """Ids, scores and values of the memories behind each prediction."""
    return [[(hit.id, hit.score, hit.value) for hit in hits[:4]] for hits in model.kneighbors(X)]


def digest(array):
    """A few numbers that change when an array does."""
    array = np.asarray(array, np.float64).ravel()
    weights = np.cos(np.arange(len(array)))
    return [len(array), float(array.sum()), float((array * weights).sum()), array[:: max(len(array) // 8, 1)].tolist()]


def scorer_state(model):
    """What the scorer of a classifier has learned: magnitudes only, since the sign of a principal direction is arbitrary."""
    scorer = model.scorer_
    weights = scorer.weights
    state = {"counts": digest(weights.counts)}
    if hasattr(weights, "tables"):
        tables = weights.tables
        taken = tables.top[0]
        state["tables"] = [digest(tables.words[:taken, 0]), digest(np.abs(tables.numbers[:taken, 1:]))]
        state["places"] = digest(tables.spans)
    if hasattr(weights, "linear"):
        state["linear"] = [digest(np.abs(weights.linear)), digest(weights.squares), weights.mixture_squares.tolist()]
    if hasattr(weights, "log_losses"):
        state["log_losses"] = weights.log_losses.tolist()
        state["duals"] = [digest(weights.owners), digest(weights.duals), digest(weights.squares)]
    if hasattr(weights, "bias"):
        mixture = scorer.mixture
        state["mixture"] = mixture.weights.tolist()
        state["bias"] = [digest(weights.bias), digest(mixture.curvature), digest(mixture.outcomes), mixture.missed]
    else:
        state["mixture"] = weights.mixture.tolist()
    return state


def classifier_answers(model, X):
    """Predictions, probabilities, memories and learned weights."""
    return [model.predict(X), model.predict_proba(X[:12]), found(model, X[:4]), scorer_state(model), model.classes_]


def classifier(rows, options, streamed):
    """A classifier that is fitted or streamed to, pickled, and continued in both copies."""
    X, y = rows(340, 0)
    asked, _ = rows(30, 1)
    model = MemoryTreeClassifier(random_state=0, **options)
    if streamed:
        for first, last in [(0, 3), (3, 4), *((i, i + 1) for i in range(4, 20)), (20, 150), (150, 340)]:
            model.partial_fit(X[first:last], y[first:last])
    else:
        model.fit(X, y)
    answers = [classifier_answers(model, asked)]
    for copy in (model, pickle.loads(pickle.dumps(model))):
        copy.partial_fit(*rows(60, 2))
        answers.append(classifier_answers(copy, asked))
    assert len(answers) == 3
    np.testing.assert_array_equal(answers[1][1], answers[2][1])
    return answers[:2]


def classifier_dense():
    return {
        "fit": classifier(clusters, {}, False),
        "partial_fit": classifier(clusters, {}, True),
        "reward": classifier(clusters, {"supervision": "reward", "max_iter": 2}, False),
        "none": classifier(clusters, {"supervision": "none", "capacity": 250, "n_neighbors": 5}, True),
        "forest": classifier(clusters, {"n_trees": 2, "max_iter": 1, "beam": 3}, False),
    }


def classifier_sparse():
    def thick(n, seed):
        X, y = clusters(n, seed)
        return scipy.sparse.csr_matrix(np.hstack([X, X])), np.array(list("abcdef"))[y]

    return {
        "fit": classifier(words, {}, False),
        "partial_fit": classifier(words, {}, True),
        "capacity": classifier(words, {"capacity": 200, "beam": 2}, True),
        "reward": classifier(words, {"supervision": "reward"}, False),
        "thick": classifier(thick, {"max_iter": 1}, False),
    }


def multilabel_answers(model, X):
    """Labels, probabilities, memories and learned weights."""
    top, scores = model.predict_topk(X[:12], 5)
    decision = model.decision_function(X).toarray()
    predicted = model.predict(X)
    predicted = predicted.toarray() if scipy.sparse.issparse(predicted) else predicted
    return [predicted, top, scores, digest(decision), found(model, X[:4]), scorer_state(model), model.classes_]


def multilabel(dense, options, streamed, write=lambda Y: Y):
    """A multi-label classifier that is fitted or streamed to, pickled, and continued in both copies."""
    X, Y = topics(300, 0, dense=dense)
    asked, truth = topics(25, 1, dense=dense)
    model = MemoryTreeMultilabelClassifier(random_state=0, **options)
    if streamed:
        for first, last in [(0, 2), (2, 10), (10, 11), (11, 120), (120, 300)]:
            model.partial_fit(X[first:last], write(Y[first:last]))
    else:
        model.fit(X, write(Y))
    answers = [[*multilabel_answers(model, asked), model.score(asked, write(truth))]]
    for copy in (model, pickle.loads(pickle.dumps(model))):
        more, labels = topics(80, 2, dense=dense)
        copy.partial_fit(more, write(labels))
        answers.append(multilabel_answers(copy, asked))
    np.testing.assert_array_equal(answers[1][2], answers[2][2])
    return answers[:2]


def lists(Y):
    return [[f"topic {label}" for label in np.flatnonzero(row)] for row in Y]


def multilabel_sparse():
    return {
        "fit": multilabel(False, {}, False),
        "f1": multilabel(False, {"objective": "f1", "max_iter": 2, "n_neighbors": 20}, False, scipy.sparse.csr_matrix),
        "partial_fit": multilabel(False, {"capacity": 150}, True, lists),
    }


def multilabel_dense():
    return {
        "fit": multilabel(True, {}, False),
        "partial_fit": multilabel(True, {"objective": "f1"}, True, lists),
    }


def retriever():
    """Retrieval with and without features of values, from dense and sparse keys, before and after rewards."""
    answers = {}
    for name, make in (("dense", clusters), ("sparse", words)):
        X, y = make(700, 5)
        features = np.eye(6)[y] + 0.1 * np.random.default_rng(3).random((700, 6))
        rewards = (y[:, None] == y).astype(float)
        rewards[5, :20] = np.nan
        own = np.arange(700)[:, None]
        more, labels = make(50, 6)
        for described in (True, False):
            model = MemoryTreeRetriever(random_state=0).fit(X, values=y.tolist(), features=features if described else None)
            before = model.retrieve(X[:6], k=3)
            model.fit_rewards(X, rewards, exclude=own)
            after = model.retrieve(X[:12], k=4, exclude=own[:12])
            copy = pickle.loads(pickle.dumps(model))
            for one in (model, copy):
                one.partial_fit(more, labels.tolist(), features=features[:50] if described else None)
                one.fit_rewards(X[:80], lambda i, hits, y=y: [float(hit.value == y[i]) for hit in hits])
            late, again = model.retrieve(X[:12], k=4), copy.retrieve(X[:12], k=4)
            np.testing.assert_array_equal(late.scores, again.scores)
            answers[f"{name}, {'with' if described else 'without'} features"] = [
                [hits.ids, hits.scores] for hits in (before, after, late)
            ]
    return answers


def streams():
    """River's conventions and progressive validation."""
    answers = {}
    X, y = clusters(160, 7)
    rows = [dict(enumerate(row)) for row in X.tolist()]
    model = StreamClassifier(seed=0)
    result = progressive_val_score(model, zip(rows, y.tolist(), strict=True))
    answers["dense"] = [str(result), result.curve, [model.predict_proba_one(row) for row in rows[:6]]]
    X, y = words(160, 7)
    rows = [{f"w{j}": float(row[0, j]) for j in row.indices} for row in X]
    model = StreamClassifier(n_neighbors=8, capacity=100, seed=0, sparse=True)
    result = progressive_val_score(model, zip(rows, y.tolist(), strict=True))
    answers["sparse"] = [str(result), result.curve, [model.predict_proba_one(row) for row in rows[:6]]]
    result = progressive_val_score(MemoryTreeClassifier(random_state=0), zip(X, y, strict=True))
    answers["scikit-learn"] = [result.rows, result.mistakes, result.error, result.constant_error, result.entropy_reduction]
    return answers


def judged():
    """Every metric once."""
    rng = np.random.default_rng(0)
    truth, predicted = rng.integers(0, 2, (20, 7)), rng.integers(0, 2, (20, 7))
    ranked = np.array([rng.permutation(7) for _ in range(20)])
    ranked[rng.random(ranked.shape) < 0.2] = -1
    propensity = metrics.propensities(truth.sum(axis=0), 20)
    one, two = rng.random((20, 7)), rng.random((20, 7))
    return [
        metrics.hamming_loss(truth, predicted),
        metrics.micro_f1(truth, predicted),
        metrics.macro_f1(truth, predicted),
        [metrics.precision_at_k(truth, ranked, k) for k in (1, 3, 5)],
        propensity,
        [metrics.propensity_scored_precision_at_k(truth, ranked, k, propensity) for k in (1, 3, 5)],
        metrics.mean_reward(one, two),
        metrics.centered_reward(one, two, one.mean(axis=0)),
    ]


CASES = {
    "classifier_dense": classifier_dense,
    "classifier_sparse": classifier_sparse,
    "multilabel_dense": multilabel_dense,
    "multilabel_sparse": multilabel_sparse,
    "retriever": retriever,
    "streams": streams,
    "metrics": judged,
}
