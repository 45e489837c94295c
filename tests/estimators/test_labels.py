"""The scores of labels, and what they learn, against the same in plain Python."""

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree.errors import InvalidOption
from memorytree.estimators.label_sets import LabelNames, SetsById, taken
from memorytree.estimators.labels import BINS, LabelModel
from memorytree.estimators.multilabel import halves
from memorytree.estimators.one_against_some import COST
from memorytree.estimators.votes import CANDIDATES

LABELS, MEMORIES, FEATURES = 7, 12, 9
VISITS = 300  # until the weights are those that fit best: whoever comes first


class PlainModel:
    """The weights of LabelModel with dictionaries, one label and one half after the other."""

    def __init__(self):
        self.weights = [{label: {} for label in range(LABELS)} for _ in range(2)]
        self.bias = [dict.fromkeys(range(LABELS), 0.0) for _ in range(2)]

    def linear(self, half, label, row):
        weights = self.weights[half][label]
        return self.bias[half][label] + sum(weights.get(f, 0.0) * v for f, v in row.items())

    def learn(self, half, label, rows):
        """Go over [(row, whether it has the label)] until nothing changes."""
        weights, slack = self.weights[half][label], 1 / (2 * COST)
        for row, right in rows:
            for f in row if right else ():
                weights.setdefault(f, 0.0)
        alphas = [0.0] * len(rows)
        for _ in range(VISITS):
            for q, (row, right) in enumerate(rows):
                side, length = 1 if right else -1, 1 + sum(v * v for f, v in row.items() if f in weights)
                better = alphas[q] - (side * self.linear(half, label, row) - 1 + alphas[q] * slack) / (length + slack)
                change, alphas[q] = max(better, 0.0) - alphas[q], max(better, 0.0)
                self.bias[half][label] += side * change
                for f, v in row.items():
                    if f in weights:
                        weights[f] += side * change * v


def figures(label, hits, sets, count, linear):
    """The figures of a label by the memories [(id, similarity)]."""
    shares = []
    for power in (1, 2, 4, 8):
        total = sum(max(s, 1e-3) ** power for _, s in hits)
        shares.append(sum(max(s, 1e-3) ** power for id, s in hits if label in sets[id]) / total)
    best = max(max(s, 1e-3) for id, s in hits if label in sets[id])
    return [linear, *shares, *(math.log(share + 0.01) for share in shares), best, math.log(count + 1), 1.0]


def unit(row):
    length = math.sqrt(sum(v * v for v in row.values()))
    return {f: v / length for f, v in row.items()}


label_sets = st.lists(st.integers(0, LABELS - 1), unique=True, max_size=4)
rows = st.dictionaries(st.integers(0, FEATURES - 1), st.floats(0.125, 4, width=32), min_size=1, max_size=5)
queries = st.lists(
    st.tuples(
        rows,
        label_sets,
        st.lists(
            st.tuples(st.integers(0, MEMORIES - 1), st.floats(0, 1, width=32)), unique_by=lambda hit: hit[0], max_size=5
        ),
    ),
    min_size=1,
    max_size=6,
)


def as_arrays(questions):
    X = scipy.sparse.lil_matrix((len(questions), FEATURES), dtype=np.float32)
    ids, scores = np.full((len(questions), 5), -1), np.full((len(questions), 5), -np.inf, np.float32)
    for i, (row, _, hits) in enumerate(questions):
        for feature, value in row.items():
            X[i, feature] = value
        for j, (id, similarity) in enumerate(hits):
            ids[i, j], scores[i, j] = id, similarity
    X = X.tocsr()
    bounds = np.cumsum([0, *(len(labels) for _, labels, _ in questions)])
    truth = bounds, np.array([label for _, labels, _ in questions for label in labels], np.int32)
    return ids, scores, truth, (X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data)


@pytest.mark.boundscheck
@pytest.mark.parametrize("dimension", [FEATURES, 10_000])
@settings(max_examples=60)
@given(memories=st.lists(label_sets, min_size=MEMORIES, max_size=MEMORIES), questions=queries)
def test_learning_and_scoring_are_those_of_plain_python(dimension, memories, questions):
    sets = SetsById()
    bounds = np.cumsum([0, *map(len, memories)])
    sets.add(np.arange(MEMORIES), bounds, np.array([label for labels in memories for label in labels], np.int32))
    model, plain = LabelModel(LABELS, dimension), PlainModel()
    model.join(np.array([label for labels in memories for label in labels], np.int64))
    n = len(questions)
    half = halves(np.arange(n))
    mixture = model.mixture.copy()
    for part in (slice(0, 2), slice(2, n)):  # what comes later builds upon what was learned before
        ids, scores, truth, X = as_arrays(questions[part])
        lesson = model.lesson(sets.arrays, ids, scores, truth, X, half[part])
        model.learn(lesson, (0, len(lesson.labels)), VISITS, 7)
        model.mix(model.tell(lesson, np.arange(len(ids)), stored=False), 0, len(ids))
        met = {}
        for i, (row, labels, hits) in enumerate(questions[part], part.start):
            for label in dict.fromkeys([*(label for id, _ in hits for label in memories[id]), *labels]):
                met.setdefault((half[i], label), []).append((unit(row), label in labels))
        for (side, label), pairs in met.items():
            plain.learn(side, label, pairs)
    ids, scores, _, X = as_arrays(questions)
    assert np.all(np.isfinite(model.mixture))
    model.mixture[:] = mixture
    found, chances = model.score(sets.arrays, ids, scores, X)
    for i, (row, _, hits) in enumerate(questions):
        expected = {}
        for label in {label for id, _ in hits for label in memories[id]}:
            linear = sum(plain.linear(side, label, unit(row)) for side in range(2)) / 2
            count = sum(label in one for one in memories)
            told = figures(label, hits, memories, count, linear)
            expected[label] = 1 / (1 + math.exp(-sum(a * b for a, b in zip(mixture, told, strict=True))))
        there = found[i] != -1
        assert set(found[i][there].tolist()) == set(expected)
        np.testing.assert_allclose(chances[i][there], [expected[label] for label in found[i][there].tolist()], rtol=1e-3)
        assert np.all(np.diff(chances[i]) <= 0)


@given(memories=st.lists(label_sets, min_size=MEMORIES, max_size=MEMORIES), questions=queries)
def test_the_reward_is_the_f1_score_of_two_label_sets(memories, questions):
    sets = SetsById()
    bounds = np.cumsum([0, *map(len, memories)])
    sets.add(np.arange(MEMORIES), bounds, np.array([label for labels in memories for label in labels], np.int32))
    ids, _, truth, _ = as_arrays(questions)
    rewards = LabelModel(LABELS, FEATURES).rewards(sets.arrays, ids, truth)
    for i, (_, labels, hits) in enumerate(questions):
        for j, (id, _) in enumerate(hits):
            sizes = len(labels) + len(memories[id])
            assert rewards[i, j] == pytest.approx(2 * len({*labels} & {*memories[id]}) / max(sizes, 1))
        assert np.all(np.isnan(rewards[i, len(hits) :]))


def test_a_label_with_fewer_votes_gives_way():
    sets = SetsById()
    many = CANDIDATES + 10
    sets.add(np.arange(2), np.array([0, many, many + 3]), np.array([*range(many), 0, 1, many], np.int32))
    model = LabelModel(many + 1, 4)
    X = np.array([0, 1]), np.zeros(1, np.int32), np.ones(1, np.float32)
    found, _ = model.score(sets.arrays, np.array([[0, 1]]), np.array([[0.5, 0.9]], np.float32), X)
    assert {0, 1, many} <= set(found[0].tolist())
    assert len(set(found[0].tolist())) == CANDIDATES


def test_the_threshold_is_the_best_for_f1():
    rng = np.random.default_rng(0)
    model = LabelModel(1, 1)
    chances = rng.random(2000)
    right = rng.random(2000) < chances**2
    for kind in (0, 1):
        model.outcomes[kind] = np.bincount((chances[right == kind] * BINS).astype(int), minlength=BINS)
    model.missed = 50

    def f1(threshold):
        taken = chances >= threshold
        return 2 * (taken & right).sum() / (taken.sum() + right.sum() + 50)

    assert f1(model.best_for_f1()) == pytest.approx(max(f1(t / BINS) for t in range(BINS)))
    model.forget_outcomes()
    assert model.best_for_f1() == 0.5


@given(st.lists(st.lists(st.integers(2, 9), unique=True, max_size=5), min_size=1, max_size=8), st.data())
def test_label_sets_come_back_as_they_were_written(written, data):
    names = LabelNames(written)
    sets = names.read(written)
    assert names.named(*sets) == written
    assert names.written(*sets) == written
    picked = np.array(data.draw(st.lists(st.integers(0, len(written) - 1), max_size=5)), np.int64)
    assert names.named(*taken(sets, picked)) == [written[i] for i in picked]
    dense = names.matrix(*sets, np.ones(len(sets[1]), np.int64)).toarray()
    again = LabelNames(dense)
    np.testing.assert_array_equal(again.written(*again.read(dense)), dense)
    assert names.sorted_names().tolist() == sorted({label for row in written for label in row})


def test_matrices_and_lists_do_not_mix():
    names = LabelNames([["a"]])
    with pytest.raises(InvalidOption, match="lists of labels before"):
        names.read(np.ones((1, 1)))
