"""Every baseline learns a small data set and predicts in the documented form."""

import inspect
import re
import textwrap

import numpy as np
import pytest
import scipy.sparse as sp

from lab import jobs
from lab.baselines import BASELINES, Baseline, base, find_baseline, missing_modules
from lab.baselines.approximate import VectorBaseline
from lab.baselines.base import ColumnSubset, GrowableArray, top_columns
from memorytree.errors import InvalidOption
from memorytree.estimators.metrics import mean_reward, precision_at_k
from tests.lab import custom_baselines, small_datasets

DATA = {
    "dense": small_datasets.dense_classes(),
    "sparse": small_datasets.sparse_classes(),
    "labels": small_datasets.labels(),
    "retrieval": small_datasets.retrieval(),
}
# Learners with a high error after one pass over 300 rows.
SLOW_LEARNERS = {name for name in BASELINES if name.startswith("vw-") and name != "vw-emt"}


def fits(kind: type[Baseline], name: str) -> bool:
    data = DATA[name]
    return data.kind in kind.kinds and ("sparse" if data.sparse else "dense") in kind.keys


PAIRS = [(name, data) for name, kind in BASELINES.items() for data in DATA if fits(kind, data)]


def made(name: str) -> Baseline:
    kind = find_baseline(name)
    if missing_modules(kind):
        pytest.skip(f"{name} needs {', '.join(missing_modules(kind))}, which is not installed")
    return kind(seed=0)


@pytest.fixture(scope="module")
def fitted():
    """Fitted baselines by name and data set; tests must not change them."""
    cached: dict[tuple[str, str], Baseline] = {}

    def get(name: str, which: str) -> Baseline:
        if (name, which) not in cached:
            one = cached[name, which] = made(name)
            one.fit(DATA[which])
        return cached[name, which]

    yield get
    cached.clear()


def inputs(one: Baseline, data):
    return jobs.inputs_for(one, data.test_texts, data.test)


@pytest.mark.parametrize(("name", "which"), PAIRS)
def test_baseline_learns(fitted, name, which):
    one, data = fitted(name, which), DATA[which]
    rows = inputs(one, data)
    found = one.predict(one.encode(rows), 3)
    tests = data.test.shape[0]
    if data.kind == "classes":
        assert found.shape == (tests,)
        error = np.mean(found != data.test_truth)
        assert error < (0.75 if name in SLOW_LEARNERS else 0.2)
    elif data.kind == "labels":
        loss, sets = one.hamming(rows, data.test_truth), one.label_sets(rows)
        assert 0 <= loss < 2  # predicting nothing is wrong by 2 a row
        assert sets is None or (sp.issparse(sets) and sets.shape == data.test_truth.shape)
        if name != "vw-oas":
            assert found.shape == (tests, 3)
            assert found.min() >= -1
            assert precision_at_k(data.test_truth, found, 1) > 0.5
    else:
        assert found.shape == (tests, 3)
        assert 0 <= found.min() <= found.max() < data.rows
        chance = mean_reward(data.test_truth, data.truth[np.arange(tests)])
        assert mean_reward(data.test_truth, data.truth[found[:, 0]]) > chance + 0.3
    held = one.bytes()
    assert held is None or held > 0


@pytest.mark.parametrize(("name", "which"), PAIRS)
def test_single_rows_equal_a_batch(fitted, name, which):
    one, data = fitted(name, which), DATA[which]
    if name == "vw-oas":
        pytest.skip("it does not return its predictions")
    rows = inputs(one, data)[:8]
    many = one.predict(rows, 1)
    singly = [one.predict(one.encode(rows[row : row + 1]), 1)[0] for row in range(8)]
    assert np.array_equal(np.asarray(singly).ravel(), np.asarray(many).ravel())


@pytest.mark.parametrize("name", [name for name, kind in BASELINES.items() if kind.incremental and "classes" in kind.kinds])
@pytest.mark.parametrize("which", ["dense", "sparse"])
def test_incremental_baseline_learns_row_by_row(name, which):
    one, data = made(name), DATA[which]
    one.prepare(data)
    if which == "sparse" and isinstance(one, VectorBaseline):
        with pytest.raises(InvalidOption, match="needs a fit first"):
            one.learn_one(data.train[:1], 0)
        return
    for row in range(100):
        one.learn_one(data.train[row : row + 1], data.truth[row])
    found = one.predict(data.test[:20])
    assert found.shape == (20,)
    assert set(found.tolist()) <= set(range(5))
    if name not in SLOW_LEARNERS:
        assert np.mean(found != data.test_truth[:20]) < 0.35


@pytest.mark.parametrize("name", [name for name, kind in BASELINES.items() if kind.grows and "classes" in kind.kinds])
def test_row_added_after_fit_is_found(name):
    one, data = made(name), DATA["dense"]
    one.fit(data)
    far = np.full((1, data.train.shape[1]), 9, np.float32) * np.sign(data.train[:1])
    found = one.nearest_ids(far)
    one.learn_one(far, 3)
    if found is not None and name not in ("ours", "ours-best", "ours-u", "nca", "cmt"):
        assert one.nearest_ids(far)[0, 0] == data.rows


@pytest.mark.parametrize("name", ["cmt-u", "ours", "ours-u"])
def test_removed_row_is_not_found(name):
    one, data = made(name), DATA["dense"]
    one.fit(data)
    first = int(one.nearest_ids(data.train[:1])[0, 0])
    one.remove(first)
    assert one.nearest_ids(data.train[:1])[0, 0] != first


def test_same_seed_same_predictions():
    for name in ("ours", "nca", "kd-tree"):
        answers = []
        for _ in range(2):
            one = made(name)
            one.fit(DATA["sparse"])
            answers.append(one.predict(DATA["sparse"].test))
        assert np.array_equal(*answers)


def test_exact_search_is_exact(rng):
    keys, queries = rng.standard_normal((50, 6)).astype(np.float32), rng.standard_normal((9, 6)).astype(np.float32)
    data = small_datasets.Dataset("d", "classes", keys, np.arange(50), queries, np.zeros(9, np.int64))
    one = made("exact-1nn")
    one.fit(data)
    distance = ((queries[:, None] - keys[None]) ** 2).sum(axis=2)
    assert np.array_equal(one.nearest(queries, 5)[0], np.argsort(distance, axis=1)[:, :5])
    rows = sp.csr_matrix(np.abs(keys))
    one.fit(small_datasets.Dataset("d", "classes", rows, np.arange(50), rows[:9], np.zeros(9, np.int64)))
    cosine = (rows[:9] @ rows.T).toarray() / np.linalg.norm(rows.toarray(), axis=1)
    assert np.array_equal(one.nearest(rows[:9], 5)[0], np.argsort(-cosine, axis=1)[:, :5])


# ---- a user's baseline


def test_documented_example_is_the_tested_one():
    shown = re.search(r"( {4}class NearestMean.*?)\n\n`measure", base.__doc__, re.S).group(1)
    source = inspect.getsource(custom_baselines.NearestMean).replace(
        f'    """{custom_baselines.NearestMean.__doc__}"""\n\n', ""
    )
    assert textwrap.dedent(shown) == source.strip()
    assert len(shown.splitlines()) <= 30


def test_documented_example_works():
    data, one = DATA["dense"], find_baseline("tests.lab.custom_baselines:NearestMean")()
    one.fit(data)
    assert np.mean(one.predict(data.test) != data.test_truth) < 0.05


def test_baseline_attributes_are_valid():
    for name, kind in BASELINES.items():
        assert kind.name == name
        assert kind.title
        assert kind.kinds <= base.ALL_KINDS
        assert kind.reads in ("rows", "texts", "either")
        assert not (kind.linear and kind.logarithmic)


def test_unknown_baseline_is_refused():
    with pytest.raises(InvalidOption, match="no baseline 'hnsw'; there are cmt-u"):
        find_baseline("hnsw")
    with pytest.raises(InvalidOption, match="is not a Baseline"):
        find_baseline("tests.lab.custom_baselines:double")
    with pytest.raises(InvalidOption, match="kd-tree has no option leaves; it has voters"):
        find_baseline("kd-tree")(leaves=3)


def test_unsuited_data_is_refused():
    with pytest.raises(InvalidOption, match="bm25 takes sparse keys"):
        jobs.check_suited(find_baseline("bm25"), DATA["dense"])
    with pytest.raises(InvalidOption, match="nca takes dense or sparse keys for classes; tiny has sparse keys for labels"):
        jobs.check_suited(find_baseline("nca"), DATA["labels"])


# ---- helpers


def test_column_subset_keeps_products(rng):
    rows = sp.random(20, 1000, 0.01, "csr", random_state=0)
    queries = sp.random(5, 1000, 0.05, "csr", random_state=1)
    narrow = ColumnSubset(rows)
    assert narrow(rows).shape[1] == len(np.unique(rows.indices))
    assert np.allclose((queries @ rows.T).toarray(), (narrow(queries) @ narrow(rows).T).toarray())


def test_growable_array_does_not_change_its_input():
    given = np.arange(6).reshape(3, 2)
    growing = GrowableArray(given)
    for number in range(100):
        growing.append([number, number])
    assert growing.rows.shape == (103, 2)
    assert growing.rows[-1].tolist() == [99, 99]
    assert given.tolist() == [[0, 1], [2, 3], [4, 5]]


def test_top_columns_are_sorted():
    chances = sp.csr_matrix([[0.1, 0, 0.5, 0.2], [0, 0, 0, 0.3]])
    assert top_columns(chances, 3).tolist() == [[2, 3, 0], [3, -1, -1]]
