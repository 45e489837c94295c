"""MemoryTreeClassifier: scikit-learn's checks, accuracy, labels, errors."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.datasets import load_digits, make_blobs, make_classification, make_gaussian_quantiles
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from memorytree.errors import InvalidKey, InvalidOption
from memorytree.estimators import MemoryTreeClassifier, MemoryTreeMultilabelClassifier
from memorytree.estimators.class_scorers import append_constant


def expected_failures(estimator):
    no_passes = {"check_non_transformer_estimators_n_iter": 'with supervision="none" there are no passes over the rows'}
    return no_passes if estimator.supervision == "none" else {}


@parametrize_with_checks(
    [MemoryTreeClassifier(max_iter=1), MemoryTreeClassifier(supervision="none")], expected_failed_checks=expected_failures
)
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order], y[order]


def texts(n, seed=0):
    """Short texts of three topics that share most of their words."""
    rng = np.random.default_rng(seed)
    topics = [("river", "water", "bank"), ("money", "loan", "bank"), ("tree", "leaf", "root")]
    common = [f"word{i}" for i in range(60)]
    labels = rng.integers(3, size=n)
    rows = [" ".join([*rng.choice(topics[label], 2), *rng.choice(common, 6)]) for label in labels]
    return TfidfVectorizer(dtype=np.float32).fit_transform(rows), np.array(["river", "money", "tree"])[labels]


def test_accuracy_is_close_to_the_better_of_two_baselines():
    hard = make_classification(900, 20, n_informative=8, n_classes=6, n_clusters_per_class=2, random_state=0)
    easy = make_blobs(900, centers=30, n_features=10, cluster_std=2.5, random_state=0)
    for X, y in (hard, easy):
        train, test = slice(0, 700), slice(700, None)
        baselines = KNeighborsClassifier(1), make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        best = max(baseline.fit(X[train], y[train]).score(X[test], y[test]) for baseline in baselines)
        ours = np.mean(
            [MemoryTreeClassifier(random_state=s).fit(X[train], y[train]).score(X[test], y[test]) for s in range(3)]
        )
        assert ours > best - 0.05


@pytest.mark.parametrize("supervision", ["none", "reward", "labels"])
def test_each_supervision_classifies_digits(digits, supervision):
    X, y = digits
    model = MemoryTreeClassifier(supervision=supervision, max_iter=2, random_state=0).fit(X[:1200], y[:1200])
    assert model.score(X[1200:], y[1200:]) > 0.93
    chances = model.predict_proba(X[1200:])
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[chances.argmax(axis=1)], model.predict(X[1200:]))


def test_kneighbors_returns_training_rows_with_their_labels(digits):
    X, y = digits
    model = MemoryTreeClassifier(max_iter=1, random_state=0).fit(X[:600], y[:600])
    [hits] = model.kneighbors(X[700:701])
    assert len(hits) == 20
    assert all(y[hit.id] == hit.value for hit in hits)
    [own] = model.kneighbors(X[5:6])
    assert own[0].id == 5


def test_removed_memory_has_no_vote(digits):
    X, y = digits
    model = MemoryTreeClassifier(max_iter=1, random_state=0).fit(X[:600], y[:600])
    while model.predict(X[:1])[0] == y[0]:
        for hit in model.kneighbors(X[:1])[0]:
            if hit.value == y[0]:
                model.memory_.remove(hit.id)
    assert all(hit.value != y[0] for hit in model.kneighbors(X[:1])[0][:5])


@pytest.mark.parametrize("supervision", ["none", "labels"])
@pytest.mark.parametrize("id", [None, 5000])
def test_memories_inserted_by_other_code_do_not_vote(digits, supervision, id):
    X, y = digits[0][:150], digits[1][:150]
    model = MemoryTreeClassifier(supervision=supervision, max_iter=1, random_state=0).fit(X, y)
    expected = model.predict(X[:1])
    model.memory_.insert(X[0], 11, id=id)
    assert model.predict(X[:1]) == expected
    assert all(hit.id < 150 for hit in model.kneighbors(X[:1])[0])
    model.partial_fit(X[:50] + 1, y[:50])
    assert set(model.predict(X).tolist()) <= set(y.tolist())
    for _ in range(20):
        model.memory_.insert(X[0], 11)
    np.testing.assert_allclose(model.predict_proba(X[:1]).sum(), 1)  # none of the estimator's own memories is found


def test_predicting_from_an_emptied_memory_raises():
    model = MemoryTreeClassifier(random_state=0).fit([[0.0], [1.0]], [0, 1])
    for id in model.memory_:
        model.memory_.remove(id)
    with pytest.raises(NotFittedError, match="removed"):
        model.predict([[0.0]])


def test_failed_call_leaves_the_model_unchanged(digits):
    X, y = digits[0][:200], digits[1][:200]
    model = MemoryTreeClassifier(max_iter=1, random_state=0).fit(X, y)
    before = model.predict_proba(X)
    late = np.concatenate([X[:150], X[:1] * 1e16])  # the last row is too large for a key
    with pytest.raises(InvalidKey):
        model.partial_fit(late, np.full(151, 77))
    with pytest.raises(InvalidKey):
        model.fit(X * 1e16, y)
    with pytest.raises(InvalidKey):
        model.partial_fit(scipy.sparse.csr_matrix(X), np.full(200, 77))
    with pytest.raises(InvalidOption):
        model.set_params(capacity=0).fit(X[:, :3], y)
    assert len(model.memory_) == 200
    assert model.n_features_in_ == 64
    assert model.classes_.tolist() == list(range(10))
    np.testing.assert_array_equal(model.predict_proba(X), before)


def test_failed_first_call_leaves_the_model_unfitted():
    X = np.eye(3)
    for model in (MemoryTreeClassifier(random_state=0), MemoryTreeMultilabelClassifier(random_state=0)):
        with pytest.raises(InvalidKey):
            model.partial_fit(X * 1e16, np.eye(3, dtype=int) if "Multi" in type(model).__name__ else [0, 1, 2])
        assert not hasattr(model, "n_features_in_")
        assert not hasattr(model, "memory_")


def test_one_class_per_row_gives_no_warning(digits):
    X, y = digits[0][:60], np.arange(60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MemoryTreeClassifier(random_state=0).fit(X, y)
        assert np.mean(model.predict(X) == y) > 0.9


def test_new_classes_can_be_added_at_any_time(digits):
    X, y = digits
    model = MemoryTreeClassifier(random_state=0)
    for label in range(10):
        model.partial_fit(X[:1000][y[:1000] == label], y[:1000][y[:1000] == label])
        assert model.classes_.tolist() == list(range(label + 1))
    assert model.score(X[1000:], y[1000:]) > 0.9


def test_rows_can_be_learned_one_by_one(digits):
    X, y = digits
    model = MemoryTreeClassifier(random_state=0)
    for i in range(300):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    assert model.score(X[1000:], y[1000:]) > 0.85


def test_memory_with_a_capacity_follows_drift():
    """Every class moves slowly, so that labels learned at the beginning are wrong at the end."""
    rng = np.random.default_rng(0)
    model = MemoryTreeClassifier(capacity=160, random_state=0)
    angles = np.arange(8) * np.pi / 4
    right = []
    for step in range(100):
        labels = rng.integers(8, size=20)
        turned = angles[labels] + np.pi * step / 100
        X = np.stack([np.cos(turned), np.sin(turned), np.cos(2 * turned), np.sin(2 * turned)], axis=1)
        X += 0.05 * rng.normal(size=X.shape)
        if step >= 20:
            right.append(model.score(X, labels))
        model.partial_fit(X, labels)
    assert len(model.memory_) == 160
    assert np.mean(right[:40]) > 0.8
    assert np.mean(right[40:]) > np.mean(right[:40]) - 0.05


@pytest.mark.parametrize("supervision", ["none", "reward", "labels"])
def test_stream_may_change_its_informative_features(supervision):
    """Columns that separate the classes first are zero later, and the other way round."""
    rng = np.random.default_rng(0)
    centers = 2 * rng.normal(size=(2, 5, 10))
    model = MemoryTreeClassifier(capacity=200, supervision=supervision, random_state=0)

    def rows(phase, n):
        labels, X = rng.integers(5, size=n), np.zeros((n, 20))
        X[:, 10 * phase : 10 * phase + 10] = centers[phase][labels] + rng.normal(size=(n, 10))
        return X, labels

    for phase in range(2):
        for _ in range(12):
            model.partial_fit(*rows(phase, 50))
        assert model.score(*rows(phase, 300)) > 0.9


@pytest.mark.parametrize("supervision", ["none", "reward", "labels"])
def test_sparse_rows_are_stored_sparse(supervision):
    X, y = texts(900)
    model = MemoryTreeClassifier(supervision=supervision, random_state=0).fit(X[:700], y[:700])
    assert model.score(X[700:], y[700:]) > 0.75
    assert scipy.sparse.issparse(model.memory_.key(0))


def test_filled_sparse_rows_are_treated_as_dense(digits):
    X, y = digits
    dense = MemoryTreeClassifier(max_iter=1, random_state=0).fit(X[:600], y[:600])
    sparse = MemoryTreeClassifier(max_iter=1, random_state=0).fit(scipy.sparse.csr_matrix(X[:600]), y[:600])
    for rows in (X[600:], scipy.sparse.csr_matrix(X[600:])):
        np.testing.assert_array_equal(sparse.predict_proba(rows), dense.predict_proba(X[600:]))
    sparse.partial_fit(scipy.sparse.csr_matrix(X[600:700]), y[600:700])
    assert isinstance(sparse.memory_.key(650), np.ndarray)


@pytest.mark.parametrize("seed", range(3))
def test_fine_patterns_in_few_features_are_learned(seed):
    """On a board of 10 x 10 squares all cosines are nearly equal, but the nearest memory has the right colour."""
    rng = np.random.default_rng(seed)
    X = rng.random((3000, 2))
    y = (np.floor(10 * X).sum(axis=1) % 2).astype(int)
    model = MemoryTreeClassifier(random_state=seed).fit(X[:2500], y[:2500])
    nearest = KNeighborsClassifier(1).fit(X[:2500], y[:2500])
    assert model.score(X[2500:], y[2500:]) > nearest.score(X[2500:], y[2500:]) - 0.02


def test_features_with_almost_no_variance_do_not_lower_accuracy(digits):
    X, y = digits
    usual = MemoryTreeClassifier(random_state=0).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:])
    rng = np.random.default_rng(0)
    for extra in (rng.random((len(X), 1)) * 1e-40, 1000 + 1e-4 * rng.random((len(X), 1))):
        wide = np.hstack([X, extra])
        model = MemoryTreeClassifier(random_state=0).fit(wide[:1000], y[:1000])
        assert np.isfinite(model.predict_proba(wide[1000:])).all()
        assert model.score(wide[1000:], y[1000:]) > usual - 0.03


def test_few_rows_have_weights_for_every_projected_column():
    X, y = np.eye(4), [0, 0, 0, 1]
    for model in (MemoryTreeClassifier(random_state=0).fit(X, y), MemoryTreeClassifier(random_state=0).partial_fit(X, y)):
        assert model.scorer_.weights.linear.shape[1] == append_constant(model.scorer_rows(X)).shape[1]


@pytest.mark.parametrize("seed", range(3))
def test_accuracy_hardly_depends_on_units(digits, seed):
    X, y = digits
    units = 10 ** np.random.default_rng(seed).uniform(-3, 3, X.shape[1])
    usual, scaled = (
        MemoryTreeClassifier(random_state=seed).fit(Z[:1000], y[:1000]).score(Z[1000:], y[1000:]) for Z in (X, X * units)
    )
    assert scaled > usual - 0.03


@pytest.mark.parametrize("seed", range(3))
def test_distance_from_the_mean_separates_classes(seed):
    X, y = make_gaussian_quantiles(n_samples=2000, n_features=6, n_classes=3, random_state=seed)
    nearest = KNeighborsClassifier(1).fit(X[:1500], y[:1500])
    model = MemoryTreeClassifier(random_state=seed).fit(X[:1500], y[:1500])
    assert model.score(X[1500:], y[1500:]) > nearest.score(X[1500:], y[1500:])


def test_probabilities_of_sparse_rows_are_calibrated():
    rng = np.random.default_rng(0)
    X = scipy.sparse.csr_matrix((rng.random((500, 150)) < 0.05).astype(float))
    coins = rng.integers(2, size=500)
    model = MemoryTreeClassifier(random_state=0)
    assert log_loss(coins[300:], model.fit(X[:300], coins[:300]).predict_proba(X[300:])) < 0.8
    X, y = texts(900)
    sure = model.fit(X[:700], y[:700]).predict_proba(X[700:]).max(axis=1).mean()
    assert abs(sure - model.score(X[700:], y[700:])) < 0.1


def test_clone_pickle_pipelines_and_grid_search_work(digits):
    X, y = digits[0][:400], digits[1][:400]
    model = MemoryTreeClassifier(max_iter=1, random_state=0).fit(X, y)
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))
    twin.partial_fit(X[:50] + 1, y[:50])
    model.partial_fit(X[:50] + 1, y[:50])
    np.testing.assert_array_equal(twin.predict_proba(X), model.predict_proba(X))
    assert not hasattr(clone(model), "memory_")
    pipeline = make_pipeline(StandardScaler(), MemoryTreeClassifier(max_iter=1, random_state=0))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.85
    grid = GridSearchCV(MemoryTreeClassifier(max_iter=1, random_state=0), {"n_neighbors": [1, 10]}, cv=2).fit(X, y)
    assert grid.best_score_ > 0.85


@pytest.mark.parametrize("labels", [["a", "b"], [True, False], [3, 70000], [np.float64(1), np.float64(2)]])
def test_labels_keep_their_type(labels):
    X, y = make_blobs(80, centers=2, cluster_std=0.3, random_state=0)
    names = np.array(labels)[y]
    model = MemoryTreeClassifier(random_state=0).fit(X, names)
    np.testing.assert_array_equal(model.predict(X), names)
    assert model.predict(X).dtype == names.dtype


def test_mixing_kinds_of_labels_raises():
    X, names = np.eye(3), np.array(["a", "b", "c"])
    model = MemoryTreeClassifier(random_state=0).partial_fit(X, [0, 1, 2])
    for more in ({"y": names}, {"y": [0, 1, 2], "classes": names}, {"y": [0, 1, 2], "classes": [[1, 2], [3, 4]]}):
        with pytest.raises(InvalidOption, match=r"kind|list of labels"):
            model.partial_fit(X, **more)
    assert model.partial_fit(X + 1, [1.0, 2.0, 3.0]).classes_.tolist() == [0, 1, 2, 3]
    words = MemoryTreeClassifier(random_state=0).partial_fit(X, names.astype(object), classes=["d"])
    assert words.partial_fit(X, names).classes_.tolist() == ["a", "b", "c", "d"]
    with pytest.raises(InvalidOption, match="numbers and texts"):
        words.partial_fit(X, [0, 1, 2])


def test_same_random_state_gives_the_same_model(digits):
    X, y = digits[0][:500], digits[1][:500]
    one, two = (MemoryTreeClassifier(max_iter=1, random_state=7).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(one.predict_proba(digits[0]), two.predict_proba(digits[0]))


def test_several_trees_work_and_invalid_options_raise(digits):
    X, y = digits[0][:500], digits[1][:500]
    assert MemoryTreeClassifier(n_trees=3, max_iter=1, random_state=0).fit(X, y).score(X, y) > 0.9
    bad = [{"supervision": "other"}, {"max_iter": -1}, {"n_neighbors": 0}, {"n_neighbors": None}, {"beam": 0}, {"beam": 2.5}]
    for options in [*bad, {"n_trees": 0}, {"n_trees": 1.5}, {"capacity": 0}]:
        with pytest.raises(InvalidOption, match=next(iter(options))):
            MemoryTreeClassifier(**{"supervision": "none", **options}).fit(X, y)
    with pytest.raises(InvalidOption, match="n_trees=1"):
        MemoryTreeClassifier(n_trees=2, supervision="reward").fit(*texts(50))
    with pytest.raises(InvalidOption, match="beam"):
        MemoryTreeClassifier(max_iter=0).fit(X[:20], y[:20]).set_params(beam=0).predict(X)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_matrix])
def test_short_path_without_checks_learns_the_same(form, rng):
    X = rng.normal(size=(120, 6)).astype(np.float32) * (rng.random((120, 6)) < 0.4)
    y = (X[:, 0] > 0).astype(int)
    plain, checked = (MemoryTreeClassifier(random_state=0).partial_fit(form(X[:40]), y[:40]) for _ in range(2))
    for row in range(40, 80):
        plain.partial_fit(form(X[[row]]), y[[row]])
        checked.partial_fit(form(X[[row]]).tolist() if form is np.asarray else form(X[[row]]).tocoo(), [y[row].item()])
    np.testing.assert_array_equal(plain.predict_proba(form(X[80:])), checked.predict_proba(form(X[80:])))
    broken = X[:2].copy()
    broken[1, 2] = np.nan
    for rows, labels in (
        (form(broken), y[:2]),
        (form(X[:2, :5]), y[:2]),
        (form(X[:2]), y[:3]),
        (form(X[:2]), np.array([0.5, 1.5])),
    ):
        with pytest.raises(ValueError):
            plain.partial_fit(rows, labels)
    with pytest.raises(ValueError):
        plain.predict(form(broken))
    with pytest.raises(ValueError):
        plain.partial_fit(form(X[:2]), "ab")
    assert len(plain.memory_) == 80
    assert plain.classes_.tolist() == [0, 1]
