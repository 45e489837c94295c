"""MemoryTreeMultilabelClassifier: scikit-learn's checks, accuracy, kinds of labels, errors."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from memorytree import MemoryTree
from memorytree.errors import InvalidKey, InvalidOption
from memorytree.estimators import MemoryTreeMultilabelClassifier
from memorytree.estimators.metrics import hamming_loss, micro_f1, precision_at_k

TOPICS = 12


def planted(n, seed=0):
    """(X, Y): rows with two words of each of their topics and six words that are independent of topics."""
    rng = np.random.default_rng(seed)
    Y = rng.random((n, TOPICS)) < 0.17
    X = np.zeros((n, 4 * TOPICS + 60), np.float32)
    for i in range(n):
        for topic in np.flatnonzero(Y[i]):
            X[i, 4 * topic + rng.choice(4, 2, replace=False)] = 1
        X[i, 4 * TOPICS + rng.choice(60, 6, replace=False)] = 1
    return scipy.sparse.csr_matrix(X), Y.astype(np.int64)


@pytest.fixture(scope="module")
def rows():
    X, Y = planted(900)
    return X[:700], Y[:700], X[700:], Y[700:]


@pytest.fixture(scope="module")
def model(rows):
    return MemoryTreeMultilabelClassifier(random_state=0).fit(*rows[:2])


def lists(Y):
    return [[f"topic {label:02}" for label in np.flatnonzero(row)] for row in Y]


ONE_CLASS = "the check passes one class for each row; here labels are sets"
LISTS = "a list of lists holds labels here, not columns of an indicator matrix"
SPARSE = "decision_function is sparse: there may be 20,000 labels"
EXPECTED = {
    "check_estimators_dtypes": ONE_CLASS,
    "check_fit2d_1feature": ONE_CLASS,
    "check_classifier_data_not_an_array": ONE_CLASS,
    "check_classifiers_one_label": ONE_CLASS,
    "check_classifiers_classes": ONE_CLASS,
    "check_classifiers_train": ONE_CLASS,
    "check_classifiers_regression_target": ONE_CLASS,
    "check_classifier_not_supporting_multiclass": ONE_CLASS,
    "check_classifiers_multilabel_representation_invariance": LISTS,
    "check_classifiers_multilabel_output_format_decision_function": SPARSE,
    "check_classifier_multioutput": SPARSE,
}


@parametrize_with_checks([MemoryTreeMultilabelClassifier(max_iter=1)], expected_failed_checks=lambda estimator: EXPECTED)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


def test_planted_topics_are_learned(rows, model):
    X, Y, test, truth = rows
    predicted = model.predict(test)
    nothing = hamming_loss(truth, np.zeros_like(truth))
    assert hamming_loss(truth, predicted) < 0.3 * nothing
    assert precision_at_k(truth, model.predict_topk(test, 1)[0], 1) > 0.85
    shuffled = MemoryTreeMultilabelClassifier(random_state=0).fit(X, Y[np.random.default_rng(0).permutation(len(Y))])
    assert hamming_loss(truth, shuffled.predict(test)) > 0.8 * nothing


def test_rewards_improve_the_memories_found(rows, monkeypatch):
    X, Y, test, truth = rows
    agreement = {}
    learn = MemoryTree.reward_many
    chance = np.random.default_rng(0)

    def as_is(tree, hits, rewards):
        return learn(tree, hits, rewards)

    def shuffled(tree, hits, rewards):
        return learn(tree, hits, chance.permuted(rewards, axis=1))

    def never(tree, hits, rewards):
        return None

    for way in (as_is, shuffled, never):
        monkeypatch.setattr(MemoryTree, "reward_many", way)
        model = MemoryTreeMultilabelClassifier(max_iter=0, random_state=0).fit(X, Y)
        common = [len(set(hit.value) & set(np.flatnonzero(y))) for hits, y in zip(model.kneighbors(test), truth, strict=True)
                  for hit in hits[:5]]  # fmt: skip
        agreement[way.__name__] = np.mean(common)
    assert agreement["as_is"] > 1.1 * max(agreement["shuffled"], agreement["never"])


def test_scorer_rows_have_the_learned_column_weights(rows, model):
    X = rows[2]
    _, columns, weights = model.scorer_rows(X)
    importance = model.memory_.index.weights(columns)
    np.testing.assert_allclose(weights, X.data * np.sqrt(importance), rtol=1e-6)
    telling = columns < 4 * TOPICS
    assert importance[telling].mean() > 1.2 * importance[~telling].mean()


@pytest.mark.parametrize(("learn", "dense"), [("fit", False), ("partial_fit", False), ("fit", True)])
def test_memory_learns_in_fit_and_partial_fit(rows, learn, dense):
    X, Y = rows[:2]
    model = MemoryTreeMultilabelClassifier(random_state=0)
    getattr(model, learn)(X.toarray() if dense else X, Y)
    index = model.memory_.index
    assert index.is_refined if dense else np.ptp(index.weights(np.arange(X.shape[1], dtype=np.int32))) > 0.5


def test_every_format_of_labels_gives_the_same_model(rows, model):
    X, Y, test, _ = rows
    dense = model.predict(test)
    assert isinstance(dense, np.ndarray)
    assert dense.dtype == Y.dtype
    sparse = MemoryTreeMultilabelClassifier(random_state=0).fit(X, scipy.sparse.csr_matrix(Y)).predict(test)
    assert scipy.sparse.issparse(sparse)
    np.testing.assert_array_equal(sparse.toarray(), dense)
    quick = MemoryTreeMultilabelClassifier(max_iter=0, random_state=0)
    for kind in (scipy.sparse.csr_array, scipy.sparse.csr_matrix):
        assert type(quick.fit(X[:50], kind(Y[:50])).predict(test)) is kind
    listed = MemoryTreeMultilabelClassifier(random_state=0).fit(X, lists(Y))
    assert [sorted(row) for row in listed.predict(test)] == lists(dense)
    assert listed.classes_.tolist() == [f"topic {label:02}" for label in range(TOPICS)]
    np.testing.assert_allclose(listed.decision_function(test).toarray(), model.decision_function(test).toarray(), atol=1e-9)


def test_indicator_matrix_of_objects_is_accepted(rows):
    X, Y, test, _ = rows
    mixed = Y[:60].astype(object)
    mixed[:, 0] = mixed[:, 0].astype(bool)
    model = MemoryTreeMultilabelClassifier(max_iter=1, random_state=0)
    expected = clone(model).fit(X[:60], Y[:60]).predict(test)
    np.testing.assert_array_equal(clone(model).fit(X[:60], mixed).predict(test), expected)
    with pytest.raises(InvalidOption, match="as an array"):
        model.fit(X[:60], Y[:60].tolist())
    assert model.partial_fit(X[:1], [[0, 1]]).predict(X[:1]) == [[0, 1]]
    model.partial_fit(X[1:3], [[0, 1], [1, 0]])  # lists of labels since the first row


def test_predict_topk_agrees_with_decision_function(rows, model):
    test = rows[2]
    labels, scores = model.predict_topk(test, 30)
    assert labels.shape == scores.shape == (test.shape[0], 30)
    assert np.all(np.diff(scores, axis=1) <= 0)
    assert np.all((labels == -1) == (scores == 0))
    assert np.all(labels[:, TOPICS:] == -1)
    for row in labels:
        there = row[row >= 0]
        assert len(set(there.tolist())) == len(there)
    full = model.decision_function(test)
    assert full.format == "csr"
    assert full.shape == (test.shape[0], TOPICS)
    np.testing.assert_allclose(full[np.arange(test.shape[0]), labels[:, 0]].A1, scores[:, 0])
    np.testing.assert_array_equal(full.toarray() >= 0.5, model.predict(test))


def test_filler_of_topk_depends_on_the_labels():
    X = scipy.sparse.csr_matrix(np.eye(4, dtype=np.float32))
    words = MemoryTreeMultilabelClassifier(random_state=0).fit(X, [["a"], ["b"], [], ["a", "b"]])
    assert words.predict_topk(X, 3)[0][:, 2].tolist() == [None] * 4
    numbers = MemoryTreeMultilabelClassifier(random_state=0).fit(X, [[7], [np.int64(9)], [], [7, 9]])
    assert numbers.predict_topk(X, 3)[0][:, 2].tolist() == [-1] * 4


@pytest.mark.parametrize("labels", [[("a", 1), ("b", 2)], [1.5, 2.5], ["x", 3], [True, False]])
def test_any_hashable_label_is_accepted(labels):
    rng = np.random.default_rng(0)
    which = rng.integers(2, size=60)
    X = np.column_stack([which, 1 - which]) + 0.1 * rng.random((60, 2))
    model = MemoryTreeMultilabelClassifier(random_state=0).fit(X, [[labels[one]] for one in which])
    assert model.predict(X) == [[labels[one]] for one in which]
    assert set(model.classes_.tolist()) == set(labels)
    assert model.predict_topk(X, 1)[0][0, 0] == labels[which[0]]


def test_rows_without_labels_or_entries_are_accepted():
    X, Y = planted(200)
    Y[::4] = 0
    X[1] = 0
    X.eliminate_zeros()
    model = MemoryTreeMultilabelClassifier(random_state=0).fit(X, Y)
    assert model.predict(X).shape == Y.shape
    nothing = MemoryTreeMultilabelClassifier(random_state=0).fit(X, [[] for _ in range(200)])
    assert nothing.predict(X[:3]) == [[], [], []]
    assert nothing.predict_topk(X[:3], 2)[0].tolist() == [[-1, -1]] * 3
    assert nothing.decision_function(X[:3]).shape == (3, 0)


def test_new_labels_can_be_added_at_any_time(rows):
    X, Y, test, truth = rows
    model = MemoryTreeMultilabelClassifier(random_state=0)
    for label in range(TOPICS):
        mine = np.flatnonzero(Y[:, : label + 1].any(axis=1) & Y[:, label])
        model.partial_fit(X[mine], scipy.sparse.csr_matrix(Y[mine][:, : label + 1]))
        assert model.classes_.tolist() == list(range(label + 1))
    assert model.predict(test).shape == truth.shape
    assert micro_f1(truth, model.predict(test)) > 0.6
    named = MemoryTreeMultilabelClassifier(random_state=0).partial_fit(X[:300], lists(Y[:300]))
    named.partial_fit(X[300:310], [["new"]] * 10)
    assert "new" in named.classes_
    assert "new" in named.predict_topk(X[300:301], 3)[0]


def test_rows_can_be_learned_one_by_one(rows):
    X, Y, test, truth = rows
    model = MemoryTreeMultilabelClassifier(random_state=0)
    for i in range(250):
        model.partial_fit(X[i : i + 1], Y[i : i + 1])
    assert len(model.memory_) == 250
    assert precision_at_k(truth, model.predict_topk(test, 1)[0], 1) > 0.5


def test_f1_objective_raises_f1(rows):
    X, Y = planted(700, seed=1)
    blurred = X.copy()
    blurred.data[np.random.default_rng(0).random(X.nnz) < 0.5] = 0
    blurred.eliminate_zeros()
    f1 = {}
    for objective in ("hamming", "f1"):
        model = MemoryTreeMultilabelClassifier(objective=objective, random_state=0).fit(blurred[:500], Y[:500])
        f1[objective] = model.score(blurred[500:], Y[500:])
    assert f1["f1"] > f1["hamming"]


def test_dense_rows_are_learned():
    X, Y = make_multilabel_classification(800, 20, n_classes=6, random_state=0)
    model = MemoryTreeMultilabelClassifier(random_state=0).fit(X[:600], Y[:600])
    nothing = hamming_loss(Y[600:], np.tile(Y[:600].mean(axis=0) > 0.5, (200, 1)))
    assert hamming_loss(Y[600:], model.predict(X[600:])) < 0.75 * nothing
    stream = MemoryTreeMultilabelClassifier(random_state=0)
    for first in range(0, 600, 50):
        stream.partial_fit(X[first : first + 50], Y[first : first + 50])
    assert hamming_loss(Y[600:], stream.predict(X[600:])) < 0.8 * nothing


def test_row_without_known_columns_gets_no_label():
    rng = np.random.default_rng(0)
    topics = rng.integers(4, size=100)
    X = scipy.sparse.csr_matrix(np.concatenate([np.eye(4)[topics], np.zeros((100, 4))], axis=1))
    model = MemoryTreeMultilabelClassifier(random_state=0).fit(X, [[f"topic {topic}"] for topic in topics])
    strange = scipy.sparse.csr_matrix(np.eye(8)[[7]])
    for row in (strange, scipy.sparse.csr_matrix((1, 8))):
        assert model.predict(row) == [[]]
        labels, chances = model.predict_topk(row, 2)
        assert labels.tolist() == [[None, None]]
        assert chances.tolist() == [[0, 0]]
    assert model.predict(X[:4] + scipy.sparse.vstack([strange] * 4)) == [[f"topic {topic}"] for topic in topics[:4]]


@pytest.mark.parametrize("scale", [1e-3, 1.0, 1e3])
def test_four_dense_rows_suffice(scale):
    X = scale * np.array([[0.0, 0.0], [0.0, 1.0], [10.0, 10.0], [10.0, 11.0]])
    model = MemoryTreeMultilabelClassifier(random_state=0).partial_fit(X, [["low"], ["low"], ["high"], ["high"]])
    labels, chances = model.predict_topk(X, 2)
    assert labels[:, 0].tolist() == ["low", "low", "high", "high"]
    assert np.all(chances[:, 0] > chances[:, 1] + 0.2)


def test_kneighbors_returns_training_rows_with_their_labels(rows, model):
    X, Y = rows[:2]
    [hits] = model.kneighbors(X[5:6])
    assert len(hits) == model.n_neighbors
    assert hits[0].id == 5
    assert all(hit.value == np.flatnonzero(Y[hit.id]).tolist() for hit in hits)


def test_removed_memory_has_no_vote():
    X, Y = planted(300)
    model = MemoryTreeMultilabelClassifier(random_state=0).fit(X, Y)
    label = int(np.flatnonzero(Y.any(axis=0))[0])
    for id in np.flatnonzero(Y[:, label]).tolist():
        model.memory_.remove(id)
    assert not np.any(model.predict_topk(X, TOPICS)[0] == label)
    for id in list(model.memory_):
        model.memory_.remove(id)
    with pytest.raises(NotFittedError, match="removed"):
        model.predict(X)


def test_capacity_bounds_memories_and_label_sets():
    X, Y = planted(400)
    model = MemoryTreeMultilabelClassifier(capacity=100, random_state=0).fit(X, Y)
    assert len(model.memory_) == 100
    for _ in range(5):
        model.partial_fit(X, Y)
    assert len(model.memory_) == 100
    assert model.predict(X).shape == Y.shape
    assert model.label_sets_.used <= 3 * 100 * Y.sum(axis=1).max()


def test_clone_pickle_pipelines_and_grid_search_work(rows, model):
    X, Y, test, _ = rows
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict(test), model.predict(test))
    again = pickle.loads(pickle.dumps(model))
    for one in (twin, again):
        one.partial_fit(X[:50], Y[:50])
    np.testing.assert_array_equal(twin.decision_function(test).toarray(), again.decision_function(test).toarray())
    assert not hasattr(clone(model), "memory_")
    texts = ["river water", "money bank", "river bank", "money loan"] * 10
    subjects = [["nature"], ["trade"], ["nature", "trade"], ["trade"]] * 10
    pipeline = make_pipeline(TfidfVectorizer(), MemoryTreeMultilabelClassifier(random_state=0)).fit(texts, subjects)
    assert [sorted(row) for row in pipeline.predict(texts[:4])] == subjects[:4]
    assert pipeline.score(texts, subjects) > 0.95
    grid = GridSearchCV(MemoryTreeMultilabelClassifier(max_iter=1, random_state=0), {"n_neighbors": [5, 20]}, cv=2)
    assert grid.fit(X[:300], Y[:300]).best_score_ > 0.5


def test_same_random_state_gives_the_same_model(rows, model):
    twin = MemoryTreeMultilabelClassifier(random_state=0).fit(*rows[:2])
    np.testing.assert_array_equal(twin.decision_function(rows[2]).toarray(), model.decision_function(rows[2]).toarray())


def test_predicting_does_not_change_the_model(rows, model):
    before = model.decision_function(rows[2]).toarray()
    model.predict(rows[0])
    model.score(rows[0], rows[1])
    np.testing.assert_array_equal(model.decision_function(rows[2]).toarray(), before)


def test_verbose_shows_a_progress_bar(capsys):
    X, Y = planted(60)
    MemoryTreeMultilabelClassifier(verbose=1, random_state=0).fit(X, Y)
    assert "learning" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("Y", "what"),
    [
        (np.full((40, 3), 2), "only 0 and 1"),
        (np.zeros(40), "1-D"),
        (["topic"] * 40, "list of labels"),
        ([[["a"]]] * 40, "hashable"),
        ([[1]] * 39, "40 rows"),
        (np.zeros((39, 2)), "40 rows"),
        (7, "int"),
        (None, "y"),
    ],
)
def test_invalid_labels_raise(Y, what):
    X, _ = planted(40)
    with pytest.raises(InvalidOption, match=what):
        MemoryTreeMultilabelClassifier().fit(X, Y)


def test_invalid_options_raise():
    X, Y = planted(40)
    for bad in ({"objective": "other"}, {"max_iter": -1}, {"n_neighbors": 0}, {"capacity": 0}):
        with pytest.raises(InvalidOption):
            MemoryTreeMultilabelClassifier(**bad).fit(X, Y)
    model = MemoryTreeMultilabelClassifier(random_state=0).fit(X, Y)
    with pytest.raises(InvalidOption, match="before"):
        model.partial_fit(X, lists(Y))
    with pytest.raises(InvalidOption):
        model.predict_topk(X, 0)


def test_failed_call_leaves_the_model_unchanged(rows, model):
    X, Y, test, _ = rows
    lists = [np.flatnonzero(row).tolist() for row in np.asarray(Y)]
    twin = MemoryTreeMultilabelClassifier(max_iter=1, random_state=0).fit(X, lists)
    before = twin.predict(test)
    for wrong in (lists[:3], [["junk"]] * 3, [["a"], None], "junk"):
        with pytest.raises(InvalidOption):
            twin.fit(X, wrong)
        with pytest.raises(InvalidOption):
            twin.partial_fit(X[:2], wrong)
        assert twin.predict(test) == before
    with pytest.raises(InvalidKey):
        twin.partial_fit(1e16 * X[:2], [["junk"]] * 2)
    with pytest.raises(InvalidKey):
        twin.fit(1e16 * X[:, :5], lists)
    assert twin.predict(test) == before
    assert "junk" not in twin.classes_.tolist()
    with pytest.raises(InvalidOption, match="rows need"):
        twin.score(test, lists[:1])
    with pytest.raises(InvalidOption, match="beam"):
        clone(twin).set_params(beam=0).fit(X, lists)


def test_memories_inserted_by_other_code_do_not_vote(rows):
    X, Y, test, _ = rows
    model = MemoryTreeMultilabelClassifier(max_iter=1, random_state=0).fit(X, Y)
    expected = model.decision_function(test[:1]).toarray()
    wrong = int(expected.argmin())
    for id in (None, 10**10):
        model.memory_.insert(test[0], [wrong], id=id)
    assert model.predict(test).shape == (test.shape[0], Y.shape[1])
    np.testing.assert_allclose(model.decision_function(test[:1]).toarray(), expected, atol=0.01)
    [hits] = model.kneighbors(test[:1])
    assert len(hits) == model.n_neighbors - 2
    assert all(hit.id < X.shape[0] for hit in hits)


def test_weights_of_many_labels_take_little_space():
    rng = np.random.default_rng(0)
    n, labels, features = 3000, 20_000, 100_000
    topic = rng.integers(1000, size=n)
    columns = np.concatenate(
        [topic[:, None] * 100 + rng.integers(100, size=(n, 6)), rng.integers(features, size=(n, 2))], axis=1
    )
    X = scipy.sparse.csr_matrix((np.ones(columns.size), (np.repeat(np.arange(n), 8), columns.ravel())), (n, features))
    Y = scipy.sparse.csr_matrix(
        (np.ones(3 * n), (np.repeat(np.arange(n), 3), (topic[:, None] * 20 + [0, 1, 2]).ravel())), (n, labels)
    )
    model = MemoryTreeMultilabelClassifier(max_iter=2, random_state=0).fit(X, Y)
    found, chances = model.predict_topk(X[:200], 3)
    assert found.shape == chances.shape == (200, 3)
    assert model.scorer_.weights.tables.words.nbytes < 50e6  # instead of 16 GB for all pairs


def test_large_and_negative_integers_are_labels():
    X = scipy.sparse.csr_matrix(np.eye(4)[[0, 1, 2, 3] * 10])
    labels = [[2**70], [-1], [5], ["word"]] * 10
    found, _ = MemoryTreeMultilabelClassifier(max_iter=1, random_state=0).fit(X, labels).predict_topk(X[:4], 1)
    assert found[:, 0].tolist() == [2**70, -1, 5, "word"]


@pytest.mark.parametrize("tiny", [1e-41, 1e-37])
def test_tiny_row_does_not_lower_the_score(rows, model, tiny):
    X, Y, test, truth = rows
    X = X.copy()
    X.data[: X.indptr[1]] *= np.float32(tiny)
    other = MemoryTreeMultilabelClassifier(random_state=0).fit(X, Y)
    assert np.all(np.isfinite(other.scorer_.mixture.weights))
    assert other.score(test, truth) == pytest.approx(model.score(test, truth), abs=0.01)
