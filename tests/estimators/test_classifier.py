"""MemoryTreeClassifier as scikit-learn's own checks and a user would see it."""

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
from memorytree.estimators.classes import with_constant


@parametrize_with_checks([MemoryTreeClassifier(passes=1), MemoryTreeClassifier(supervision="none")])
def test_what_scikit_learn_asks_of_a_classifier(estimator, check):
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


def test_it_is_about_as_good_as_the_better_of_neighbours_and_a_linear_model():
    hard = make_classification(900, 20, n_informative=8, n_classes=6, n_clusters_per_class=2, random_state=0)
    easy = make_blobs(900, centers=30, n_features=10, cluster_std=2.5, random_state=0)
    for X, y in (hard, easy):
        train, test = slice(0, 700), slice(700, None)
        peers = KNeighborsClassifier(1), make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        best = max(peer.fit(X[train], y[train]).score(X[test], y[test]) for peer in peers)
        ours = np.mean(
            [MemoryTreeClassifier(random_state=s).fit(X[train], y[train]).score(X[test], y[test]) for s in range(3)]
        )
        assert ours > best - 0.05


@pytest.mark.parametrize("supervision", ["none", "reward", "labels"])
def test_each_supervision_reads_digits(digits, supervision):
    X, y = digits
    model = MemoryTreeClassifier(supervision=supervision, passes=2, random_state=0).fit(X[:1200], y[:1200])
    assert model.score(X[1200:], y[1200:]) > 0.93
    chances = model.predict_proba(X[1200:])
    np.testing.assert_allclose(chances.sum(axis=1), 1)
    np.testing.assert_array_equal(model.classes_[chances.argmax(axis=1)], model.predict(X[1200:]))


def test_the_memories_behind_a_prediction(digits):
    X, y = digits
    model = MemoryTreeClassifier(passes=1, random_state=0).fit(X[:600], y[:600])
    [hits] = model.recall(X[700:701])
    assert len(hits) == 20
    assert all(y[hit.id] == hit.value for hit in hits)
    [own] = model.recall(X[5:6])
    assert own[0].id == 5


def test_a_memory_that_is_removed_has_no_vote(digits):
    X, y = digits
    model = MemoryTreeClassifier(passes=1, random_state=0).fit(X[:600], y[:600])
    while model.predict(X[:1])[0] == y[0]:
        for hit in model.recall(X[:1])[0]:
            if hit.value == y[0]:
                model.memory_.remove(hit.id)
    assert all(hit.value != y[0] for hit in model.recall(X[:1])[0][:5])


@pytest.mark.parametrize("supervision", ["none", "labels"])
@pytest.mark.parametrize("id", [None, 5000])
def test_memories_that_others_put_in_have_no_say(digits, supervision, id):
    X, y = digits[0][:150], digits[1][:150]
    model = MemoryTreeClassifier(supervision=supervision, passes=1, random_state=0).fit(X, y)
    expected = model.predict(X[:1])
    model.memory_.insert(X[0], 11, id=id)
    assert model.predict(X[:1]) == expected
    assert all(hit.id < 150 for hit in model.recall(X[:1])[0])
    model.partial_fit(X[:50] + 1, y[:50])
    assert set(model.predict(X).tolist()) <= set(y.tolist())
    for _ in range(20):
        model.memory_.insert(X[0], 11)
    np.testing.assert_allclose(model.predict_proba(X[:1]).sum(), 1)  # of its own memories none is among those found


def test_nothing_left_to_predict_from():
    model = MemoryTreeClassifier(random_state=0).fit([[0.0], [1.0]], [0, 1])
    for id in model.memory_:
        model.memory_.remove(id)
    with pytest.raises(NotFittedError, match="removed"):
        model.predict([[0.0]])


def test_a_failed_call_leaves_the_model_as_it_was(digits):
    X, y = digits[0][:200], digits[1][:200]
    model = MemoryTreeClassifier(passes=1, random_state=0).fit(X, y)
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


def test_a_failed_first_call_settles_nothing():
    X = np.eye(3)
    for model in (MemoryTreeClassifier(random_state=0), MemoryTreeMultilabelClassifier(random_state=0)):
        with pytest.raises(InvalidKey):
            model.partial_fit(X * 1e16, np.eye(3, dtype=int) if "Multi" in type(model).__name__ else [0, 1, 2])
        assert not hasattr(model, "n_features_in_")
        assert not hasattr(model, "memory_")


def test_a_class_of_its_own_for_every_row_is_nothing_to_warn_of(digits):
    X, y = digits[0][:60], np.arange(60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model = MemoryTreeClassifier(random_state=0).fit(X, y)
        assert np.mean(model.predict(X) == y) > 0.9


def test_new_classes_may_come_at_any_time(digits):
    X, y = digits
    model = MemoryTreeClassifier(random_state=0)
    for label in range(10):
        model.partial_fit(X[:1000][y[:1000] == label], y[:1000][y[:1000] == label])
        assert model.classes_.tolist() == list(range(label + 1))
    assert model.score(X[1000:], y[1000:]) > 0.9


def test_rows_one_by_one(digits):
    X, y = digits
    model = MemoryTreeClassifier(random_state=0)
    for i in range(300):
        model.partial_fit(X[i : i + 1], y[i : i + 1])
    assert model.score(X[1000:], y[1000:]) > 0.85


def test_a_drifting_stream_within_its_capacity():
    """Every class moves slowly; what was right at the beginning would be wrong at the end."""
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
def test_a_stream_that_moves_to_other_features(supervision):
    """What told the classes apart says nothing later on; what tells them apart then was always zero before."""
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
def test_sparse_rows(supervision):
    X, y = texts(900)
    model = MemoryTreeClassifier(supervision=supervision, random_state=0).fit(X[:700], y[:700])
    assert model.score(X[700:], y[700:]) > 0.75
    assert scipy.sparse.issparse(model.memory_.key(0))


def test_how_rows_are_stored_does_not_matter_where_they_hold_much(digits):
    X, y = digits
    dense = MemoryTreeClassifier(passes=1, random_state=0).fit(X[:600], y[:600])
    sparse = MemoryTreeClassifier(passes=1, random_state=0).fit(scipy.sparse.csr_matrix(X[:600]), y[:600])
    for rows in (X[600:], scipy.sparse.csr_matrix(X[600:])):
        np.testing.assert_array_equal(sparse.predict_proba(rows), dense.predict_proba(X[600:]))
    sparse.partial_fit(scipy.sparse.csr_matrix(X[600:700]), y[600:700])
    assert isinstance(sparse.memory_.key(650), np.ndarray)


@pytest.mark.parametrize("seed", range(3))
def test_fine_patterns_in_few_features_are_seen(seed):
    """On a board of 10 x 10 squares all memories look alike to a cosine; the nearest one knows the colour all the same."""
    rng = np.random.default_rng(seed)
    X = rng.random((3000, 2))
    y = (np.floor(10 * X).sum(axis=1) % 2).astype(int)
    model = MemoryTreeClassifier(random_state=seed).fit(X[:2500], y[:2500])
    nearest = KNeighborsClassifier(1).fit(X[:2500], y[:2500])
    assert model.score(X[2500:], y[2500:]) > nearest.score(X[2500:], y[2500:]) - 0.02


def test_features_that_reach_next_to_nowhere_do_no_harm(digits):
    X, y = digits
    usual = MemoryTreeClassifier(random_state=0).fit(X[:1000], y[:1000]).score(X[1000:], y[1000:])
    rng = np.random.default_rng(0)
    for extra in (rng.random((len(X), 1)) * 1e-40, 1000 + 1e-4 * rng.random((len(X), 1))):
        wide = np.hstack([X, extra])
        model = MemoryTreeClassifier(random_state=0).fit(wide[:1000], y[:1000])
        assert np.isfinite(model.predict_proba(wide[1000:])).all()
        assert model.score(wide[1000:], y[1000:]) > usual - 0.03


def test_a_few_rows_have_weights_for_all_that_is_seen_of_them():
    X, y = np.eye(4), [0, 0, 0, 1]
    for model in (MemoryTreeClassifier(random_state=0).fit(X, y), MemoryTreeClassifier(random_state=0).partial_fit(X, y)):
        assert model._model.linear.shape[1] == with_constant(model._view(X)).shape[1]


@pytest.mark.parametrize("seed", range(3))
def test_units_of_measurement_hardly_matter(digits, seed):
    X, y = digits
    units = 10 ** np.random.default_rng(seed).uniform(-3, 3, X.shape[1])
    usual, scaled = (
        MemoryTreeClassifier(random_state=seed).fit(Z[:1000], y[:1000]).score(Z[1000:], y[1000:]) for Z in (X, X * units)
    )
    assert scaled > usual - 0.03


@pytest.mark.parametrize("seed", range(3))
def test_how_far_a_row_lies_from_the_mean_can_tell_its_class(seed):
    X, y = make_gaussian_quantiles(n_samples=2000, n_features=6, n_classes=3, random_state=seed)
    nearest = KNeighborsClassifier(1).fit(X[:1500], y[:1500])
    model = MemoryTreeClassifier(random_state=seed).fit(X[:1500], y[:1500])
    assert model.score(X[1500:], y[1500:]) > nearest.score(X[1500:], y[1500:])


def test_probabilities_of_sparse_rows_are_no_surer_than_they_may_be():
    rng = np.random.default_rng(0)
    X = scipy.sparse.csr_matrix((rng.random((500, 150)) < 0.05).astype(float))
    coins = rng.integers(2, size=500)
    model = MemoryTreeClassifier(random_state=0)
    assert log_loss(coins[300:], model.fit(X[:300], coins[:300]).predict_proba(X[300:])) < 0.8
    X, y = texts(900)
    sure = model.fit(X[:700], y[:700]).predict_proba(X[700:]).max(axis=1).mean()
    assert abs(sure - model.score(X[700:], y[700:])) < 0.1


def test_clone_pickle_pipelines_and_grids(digits):
    X, y = digits[0][:400], digits[1][:400]
    model = MemoryTreeClassifier(passes=1, random_state=0).fit(X, y)
    twin = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(twin.predict(X), model.predict(X))
    twin.partial_fit(X[:50] + 1, y[:50])
    model.partial_fit(X[:50] + 1, y[:50])
    np.testing.assert_array_equal(twin.predict_proba(X), model.predict_proba(X))
    assert not hasattr(clone(model), "memory_")
    pipeline = make_pipeline(StandardScaler(), MemoryTreeClassifier(passes=1, random_state=0))
    assert cross_val_score(pipeline, X, y, cv=3).mean() > 0.85
    grid = GridSearchCV(MemoryTreeClassifier(passes=1, random_state=0), {"neighbors": [1, 10]}, cv=2).fit(X, y)
    assert grid.best_score_ > 0.85


@pytest.mark.parametrize("labels", [["a", "b"], [True, False], [3, 70000], [np.float64(1), np.float64(2)]])
def test_any_type_of_label(labels):
    X, y = make_blobs(80, centers=2, cluster_std=0.3, random_state=0)
    names = np.array(labels)[y]
    model = MemoryTreeClassifier(random_state=0).fit(X, names)
    np.testing.assert_array_equal(model.predict(X), names)
    assert model.predict(X).dtype == names.dtype


def test_labels_stay_of_the_kind_they_were():
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


def test_the_same_random_state_gives_the_same_model(digits):
    X, y = digits[0][:500], digits[1][:500]
    one, two = (MemoryTreeClassifier(passes=1, random_state=7).fit(X, y) for _ in range(2))
    np.testing.assert_array_equal(one.predict_proba(digits[0]), two.predict_proba(digits[0]))


def test_more_trees_and_bad_settings(digits):
    X, y = digits[0][:500], digits[1][:500]
    assert MemoryTreeClassifier(trees=3, passes=1, random_state=0).fit(X, y).score(X, y) > 0.9
    bad = [{"supervision": "teacher"}, {"passes": -1}, {"neighbors": 0}, {"neighbors": None}, {"beam": 0}, {"beam": 2.5}]
    for options in [*bad, {"trees": 0}, {"trees": 1.5}, {"capacity": 0}]:
        with pytest.raises(InvalidOption, match=next(iter(options))):
            MemoryTreeClassifier(**{"supervision": "none", **options}).fit(X, y)
    with pytest.raises(InvalidOption, match="trees=1"):
        MemoryTreeClassifier(trees=2, supervision="reward").fit(*texts(50))
    with pytest.raises(InvalidOption, match="beam"):
        MemoryTreeClassifier(passes=0).fit(X[:20], y[:20]).set_params(beam=0).predict(X)


@pytest.mark.parametrize("form", [np.asarray, scipy.sparse.csr_matrix])
def test_rows_that_need_no_checking_are_learned_as_checked_ones(form, rng):
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
