"""Progressive validation, and the classifier with river's interface."""

import math

import numpy as np
import pytest
import scipy.sparse
from sklearn.linear_model import SGDClassifier

from memorytree import MemoryTree
from memorytree.errors import InvalidKey
from memorytree.estimators import MemoryTreeClassifier, StreamClassifier, progressive_val_score


class LastLabel:
    """Predicts the label of the row before."""

    last = None

    def predict_one(self, x):
        return self.last

    def learn_one(self, x, y):
        self.last = y


def test_result_counts_rows_mistakes_and_bits():
    result = progressive_val_score(LastLabel(), [({}, label) for label in "aaaabbba"])
    assert result.rows == 8
    assert result.mistakes == 3  # the first, and the two changes
    assert result.constant_error == 3 / 8
    assert result.entropy_reduction == pytest.approx(math.log2(5 / 8) - math.log2(5 / 8))
    assert result.curve == [(1, 1.0), (2, 0.5), (4, 0.25), (8, 0.375)]
    assert "8 rows" in str(result)


def test_rows_are_predicted_before_they_are_learned(rng):
    """Random labels cannot be predicted better than by chance."""
    X, y = rng.normal(size=(400, 5)), rng.integers(10, size=400)
    assert progressive_val_score(MemoryTreeClassifier(random_state=0), zip(X, y, strict=True)).error > 0.8


def test_clustered_classes_are_learned_from_few_rows(rng):
    centers = rng.normal(size=(20, 8)) * 4
    y = rng.integers(20, size=500)
    X = centers[y] + rng.normal(size=(500, 8))
    rows = [dict(enumerate(row)) for row in X.tolist()]
    stream = progressive_val_score(StreamClassifier(seed=0), zip(rows, y.tolist(), strict=True), verbose=True)
    batch = progressive_val_score(MemoryTreeClassifier(random_state=0), zip(X, y, strict=True))
    assert stream.mistakes == batch.mistakes
    assert stream.error < 0.15
    assert stream.entropy_reduction > 3


def test_projection_of_a_full_memory_does_not_depend_on_batches(rng, tmp_path):
    keys = np.zeros((150, 8), np.float32)
    keys[:75, :4], keys[75:, 4:] = rng.normal(size=(2, 75, 4))
    one_by_one, batch, saved = (MemoryTree(scorer="metric", capacity=40, seed=0) for _ in range(3))
    for number, key in enumerate(keys):
        one_by_one.insert(key, number)
    batch.insert_many(keys, range(150))
    for part in (slice(0, 67), slice(67, 150)):
        saved.insert_many(keys[part], range(150)[part])
        saved.save(tmp_path / "half.tree")
        saved = MemoryTree.load(tmp_path / "half.tree")
    for tree in (one_by_one, batch, saved):
        assert tree.index.projection_fit == 112  # 8, 16, 32, and then after 40 more each time
        hits = tree.query_many(keys[110:] + 0.01, beam=8)
        assert hits.ids[:, 0].tolist() == list(range(110, 150))
        np.testing.assert_array_equal(hits.scores, one_by_one.query_many(keys[110:] + 0.01, beam=8).scores)


def test_scikit_learn_models_can_be_validated(rng):
    y = rng.integers(3, size=60)
    X = 5 * np.eye(3)[y] + rng.normal(size=(60, 3))
    model = MemoryTreeClassifier(random_state=0).fit(X, y)
    assert (
        progressive_val_score(model, zip(X[:1], y[:1], strict=True)).mistakes == 0
    )  # predicted before the row is learned again
    assert progressive_val_score(SGDClassifier(random_state=0), zip(X, y, strict=True), classes=[0, 1, 2]).error < 0.3
    rows = scipy.sparse.csr_array(X)
    stream = [(rows[i], y[i]) for i in range(60)]
    assert stream[0][0].ndim == 1
    assert progressive_val_score(MemoryTreeClassifier(random_state=0), stream).error < 0.3


def test_features_may_appear_and_disappear():
    model = StreamClassifier(seed=0)
    assert model.predict_one({"a": 1.0}) is None
    model.learn_one({"a": 1.0, "b": 0.0}, "x")
    model.learn_one({"a": 0.0}, "y")
    assert model.predict_one({"a": 0.9, "c": 5.0}) == "x"
    with pytest.raises(InvalidKey, match="must be numbers"):
        model.predict_one({"a": "red"})


@pytest.mark.parametrize("bad", [{}, {"a": "red"}, {"a": float("nan")}, {"a": 1e16}])
def test_invalid_first_row_leaves_the_model_unfitted(bad):
    model = StreamClassifier(seed=0)
    with pytest.raises(InvalidKey):
        model.learn_one(bad, "x")
    assert model.predict_one({"b": 1.0}) is None
    model.learn_one({"b": 1.0}, "x")
    model.learn_one({"b": -1.0}, "y")
    assert model.predict_one({"b": 0.9}) == "x"


def test_unknown_words_are_ignored():
    model = StreamClassifier(seed=0, sparse=True)
    for words, label in [("", "none"), ("river water", "river"), ("money loan", "money"), ("leaf root", "tree")]:
        model.learn_one(dict.fromkeys(words.split(), 1), label)
    with pytest.raises(InvalidKey, match="must be numbers"):
        model.learn_one({"branch": "green"}, "tree")
    assert model.predict_one({"leaf": 1, "unknown": 1}) == "tree"
    assert model.predict_one({"loan": 1, "water": 0}) == "money"


def test_river_checks_pass():
    from river.checks import yield_checks

    model = StreamClassifier(seed=0)
    for check in yield_checks(model):
        check(model.clone())


def test_river_pipeline_works():
    from river import datasets, evaluate, metrics, preprocessing

    model = preprocessing.StandardScaler() | StreamClassifier(seed=0)
    score = evaluate.progressive_val_score(datasets.Phishing().take(400), model, metrics.Accuracy())
    assert score.get() > 0.75


def test_wrong_number_of_columns_raises(rng):
    model = MemoryTreeClassifier(random_state=0)
    model.partial_fit(rng.normal(size=(5, 3)), np.arange(5))
    with pytest.raises(ValueError, match="features"):
        model.predict(rng.normal(size=(1, 4)))
