"""Scores of labels, and what they learn, against the same in plain Python."""

import math

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st

from memorytree.estimators.kernels.label_features import BINS
from memorytree.estimators.kernels.one_against_some import COST
from memorytree.estimators.kernels.records import LabelHits, LabelLists
from memorytree.estimators.kernels.votes import MAX_CANDIDATES
from memorytree.estimators.label_scorer import LabelMixture, LabelScorer, halves
from memorytree.estimators.label_sets import LabelSetTable

LABELS, MEMORIES, COLUMNS = 7, 12, 9
PASSES = 300  # until the weights converge, so that the order of rows does not matter


class PlainScorer:
    """The weights of `LabelScorer` with dictionaries, one label and one half after the other."""

    def __init__(self):
        self.weights = [{label: {} for label in range(LABELS)} for _ in range(2)]
        self.bias = [dict.fromkeys(range(LABELS), 0.0) for _ in range(2)]

    def linear(self, half, label, row):
        weights = self.weights[half][label]
        return self.bias[half][label] + sum(weights.get(f, 0.0) * v for f, v in row.items())

    def learn(self, half, label, rows):
        """Pass over [(row, whether it has the label)] until the weights converge."""
        weights, slack = self.weights[half][label], 1 / (2 * COST)
        for row, right in rows:
            for f in row if right else ():
                weights.setdefault(f, 0.0)
        duals = [0.0] * len(rows)
        for _ in range(PASSES):
            for q, (row, right) in enumerate(rows):
                sign, length = 1 if right else -1, 1 + sum(v * v for f, v in row.items() if f in weights)
                better = duals[q] - (sign * self.linear(half, label, row) - 1 + duals[q] * slack) / (length + slack)
                change, duals[q] = max(better, 0.0) - duals[q], max(better, 0.0)
                self.bias[half][label] += sign * change
                for f, v in row.items():
                    if f in weights:
                        weights[f] += sign * change * v


def label_features(label, hits, sets, count, linear):
    """The features of a label by the memories [(id, similarity)]."""
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
memory_label_sets = st.lists(label_sets, min_size=MEMORIES, max_size=MEMORIES)
rows = st.dictionaries(st.integers(0, COLUMNS - 1), st.floats(0.125, 4, width=32), min_size=1, max_size=5)
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


def as_lists(sets):
    labels = [label for one in sets for label in one]
    return LabelLists(np.cumsum([0, *map(len, sets)]), np.array(labels, np.int32))


def table_of(sets):
    table = LabelSetTable()
    table.add(np.arange(len(sets)), as_lists(sets))
    return table


def as_arrays(queries, memories):
    """[(row, labels, hits)] as (hits, truth, rows)."""
    X = scipy.sparse.lil_matrix((len(queries), COLUMNS), dtype=np.float32)
    ids, scores = np.full((len(queries), 5), -1), np.full((len(queries), 5), -np.inf, np.float32)
    for i, (row, _, hits) in enumerate(queries):
        for column, value in row.items():
            X[i, column] = value
        for j, (id, similarity) in enumerate(hits):
            ids[i, j], scores[i, j] = id, similarity
    X = X.tocsr()
    truth = as_lists([labels for _, labels, _ in queries])
    return (
        LabelHits(table_of(memories).arrays, ids, scores),
        truth,
        (X.indptr.astype(np.int64), X.indices.astype(np.int32), X.data),
    )


@pytest.mark.boundscheck
@pytest.mark.parametrize("columns", [COLUMNS, 10_000])
@settings(max_examples=60)
@given(memories=memory_label_sets, queries=queries)
def test_learning_and_scoring_match_plain_python(columns, memories, queries):
    scorer, plain = LabelScorer(LABELS, columns), PlainScorer()
    scorer.join(as_lists(memories).labels)
    n = len(queries)
    half = halves(np.arange(n))
    mixture = scorer.mixture.weights.copy()
    for part in (slice(0, 2), slice(2, n)):  # the second part continues from the weights of the first
        hits, truth, X = as_arrays(queries[part], memories)
        training = scorer.prepare(hits, truth, X, half[part])
        scorer.learn_new(training, PASSES, 7)
        pairs = {}
        for i, (row, labels, found) in enumerate(queries[part], part.start):
            for label in dict.fromkeys([*(label for id, _ in found for label in memories[id]), *labels]):
                pairs.setdefault((half[i], label), []).append((unit(row), label in labels))
        for (side, label), examples in pairs.items():
            plain.learn(side, label, examples)
    hits, _, X = as_arrays(queries, memories)
    assert np.all(np.isfinite(scorer.mixture.weights))
    scorer.mixture.weights[:] = mixture
    scores = scorer.score(hits, X)
    for i, (row, _, found) in enumerate(queries):
        expected = {}
        for label in {label for id, _ in found for label in memories[id]}:
            linear = sum(plain.linear(side, label, unit(row)) for side in range(2)) / 2
            count = sum(label in one for one in memories)
            features = label_features(label, found, memories, count, linear)
            expected[label] = 1 / (1 + math.exp(-sum(a * b for a, b in zip(mixture, features, strict=True))))
        present = scores.labels[i] != -1
        labels, probabilities = scores.labels[i][present].tolist(), scores.probabilities[i]
        assert set(labels) == set(expected)
        np.testing.assert_allclose(probabilities[present], [expected[label] for label in labels], rtol=1e-3)
        assert np.all(np.diff(probabilities) <= 0)


@given(memories=memory_label_sets, queries=queries)
def test_reward_is_the_f1_score_of_two_label_sets(memories, queries):
    hits, truth, _ = as_arrays(queries, memories)
    rewards = LabelScorer(LABELS, COLUMNS).rewards(hits.sets, hits.ids, truth)
    for i, (_, labels, found) in enumerate(queries):
        for j, (id, _) in enumerate(found):
            sizes = len(labels) + len(memories[id])
            assert rewards[i, j] == pytest.approx(2 * len({*labels} & {*memories[id]}) / max(sizes, 1))
        assert np.all(np.isnan(rewards[i, len(found) :]))


def test_labels_with_the_fewest_votes_are_dropped():
    many = MAX_CANDIDATES + 10
    sets = table_of([range(many), [0, 1, many]])
    hits = LabelHits(sets.arrays, np.array([[0, 1]]), np.array([[0.5, 0.9]], np.float32))
    X = np.array([0, 1]), np.zeros(1, np.int32), np.ones(1, np.float32)
    found = set(LabelScorer(many + 1, 4).score(hits, X).labels[0].tolist())
    assert {0, 1, many} <= found
    assert len(found) == MAX_CANDIDATES


def test_threshold_maximises_f1():
    rng = np.random.default_rng(0)
    mixture = LabelMixture()
    probabilities = rng.random(2000)
    right = rng.random(2000) < probabilities**2
    for kind in (0, 1):
        mixture.outcomes[kind] = np.bincount((probabilities[right == kind] * BINS).astype(int), minlength=BINS)
    mixture.missed = 50

    def f1(threshold):
        taken = probabilities >= threshold
        return 2 * (taken & right).sum() / (taken.sum() + right.sum() + 50)

    assert f1(mixture.best_f1_threshold()) == pytest.approx(max(f1(t / BINS) for t in range(BINS)))
    mixture.reset_outcomes()
    assert mixture.best_f1_threshold() == 0.5
