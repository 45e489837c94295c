"""The linear weights of labels: which rows they learn from, and where they are stored."""

import numpy as np
import pytest

from memorytree.estimators.kernels.one_against_some import TINY, WEIGHTS
from memorytree.estimators.kernels.records import LabelHits, LabelLists
from memorytree.estimators.kernels.tables import FIRST, SIZE, USED
from memorytree.estimators.kernels.votes import MAX_CANDIDATES
from memorytree.estimators.label_scorer import LabelScorer, halves
from memorytree.estimators.label_sets import LabelSetTable


def table_of(sets):
    table = LabelSetTable()
    table.add(np.arange(len(sets)), as_lists(sets))
    return table.arrays


def as_lists(sets):
    return LabelLists(np.cumsum([0, *map(len, sets)]), np.array([label for one in sets for label in one], np.int32))


def random_rows(n, labels, columns, seed, hits=6, nonzero=8):
    """Random rows and as many memories with random labels: labels of memories, true labels, arguments of `prepare`."""
    rng = np.random.default_rng(seed)
    owned = [rng.choice(labels, rng.integers(1, 5), replace=False) for _ in range(n)]
    ids = np.array([rng.choice(n, hits, replace=False) for _ in range(n)])
    true = [np.unique(rng.choice(labels, 3)) for _ in range(n)]
    places = np.concatenate([np.sort(rng.choice(columns, nonzero, replace=False)) for _ in range(n)]).astype(np.int32)
    X = np.arange(n + 1) * nonzero, places, rng.random(n * nonzero).astype(np.float32) + 0.1
    scores = -np.sort(-rng.random((n, hits)).astype(np.float32), axis=1)
    return owned, true, (LabelHits(table_of(owned), ids, scores), as_lists(true), X, halves(np.arange(n)))


def taken_words(scorer):
    return scorer.tables.arrays.words[: scorer.tables.n_used]


def taken_weights(scorer):
    return scorer.tables.arrays.numbers[: scorer.tables.n_used, WEIGHTS:]


@pytest.mark.boundscheck
def test_pairs_are_candidates_and_missed_true_labels():
    owned, true, arguments = random_rows(200, 30, 50, seed=0)
    training = LabelScorer(30, 50).prepare(*arguments)
    pairs = training.pairs
    assert sorted(pairs.labels.tolist()) == sorted({label for labels in [*owned, *true] for label in labels.tolist()})
    found = set()
    for number, label in enumerate(pairs.labels.tolist()):
        for pair in pairs.pairs[pairs.starts[number] : pairs.starts[number + 1]].tolist():
            row = pair // MAX_CANDIDATES if pair >= 0 else -1 - pair
            found.add((row, label, pair < 0, pair < 0 or bool(pairs.right[row, pair % MAX_CANDIDATES])))
    assert len(found) == len(pairs.pairs)
    expected = set()
    for row, ids in enumerate(arguments[0].ids.tolist()):
        candidates = {label for id in ids for label in owned[id].tolist()}
        expected |= {(row, label, False, label in true[row]) for label in candidates}
        expected |= {(row, label, True, True) for label in set(true[row].tolist()) - candidates}
    assert found == expected
    assert training.misses.tolist() == [sum(one[0] == row and one[2] for one in found) for row in range(200)]


@pytest.mark.boundscheck
@pytest.mark.parametrize("columns", [40, 3000])
def test_tables_are_adjacent_and_hold_columns_of_each_half(columns):
    _, true, arguments = random_rows(300, 12, columns, seed=1)
    scorer = LabelScorer(12, columns)
    scorer.prepare(*arguments)
    bounds, places, _ = arguments[2]
    spans, words, numbers, _, _ = scorer.tables.arrays
    ranges = sorted((int(spans[label, FIRST]), int(spans[label, SIZE])) for label in range(12))
    assert [first for first, _ in ranges] == np.cumsum([0, *(size for _, size in ranges)])[:-1].tolist()
    assert scorer.tables.n_used == sum(size for _, size in ranges)
    for label in range(12):
        part = slice(spans[label, FIRST], spans[label, FIRST] + spans[label, SIZE])
        for half in range(2):
            known = words[part, 0][numbers[part, WEIGHTS + half] != 0]
            rows = [i for i in range(300) if label in true[i] and arguments[3][i] == half]
            assert set(known.tolist()) == {int(f) for i in rows for f in places[bounds[i] : bounds[i + 1]]}
        assert spans[label, USED] == np.count_nonzero(words[part, 0] != -1)


@pytest.mark.parametrize("max_iter", [1, 3])
def test_labels_learn_independently_of_each_other(max_iter):
    """All labels at once, or one by one in any order: the same to the bit."""
    _, _, arguments = random_rows(300, 20, 500, seed=2)
    together, alone = LabelScorer(20, 500), LabelScorer(20, 500)
    training, other = together.prepare(*arguments), alone.prepare(*arguments)
    together.learn_weights(training, (0, 20), max_iter, 5)
    for number in np.random.default_rng(0).permutation(20).tolist():
        alone.learn_weights(other, (number, number + 1), max_iter, 5)
    np.testing.assert_array_equal(together.bias, alone.bias)
    np.testing.assert_array_equal(taken_words(together), taken_words(alone))
    np.testing.assert_array_equal(training.other_scores, other.other_scores)


def test_row_is_scored_by_the_half_that_did_not_use_it():
    """One row, learned repeatedly: its half fits it, the other half stays at zero."""
    scorer = LabelScorer(1, 4)
    hits = LabelHits(table_of([[0], [0]]), np.array([[0, 1]]), np.full((1, 2), 0.5, np.float32))
    X = np.array([0, 2]), np.array([0, 3], np.int32), np.ones(2, np.float32)
    training = scorer.prepare(hits, as_lists([[0]]), X, np.ones(1, np.int64))
    scorer.learn_weights(training, (0, 1), 5, 0)
    assert scorer.bias[0, 1] > 0
    assert scorer.bias[0, 0] == 0
    assert training.other_scores[0, 0] == 0
    weights = taken_weights(scorer)
    assert np.count_nonzero(weights[:, 1]) == 2
    assert not weights[:, 0].any()
    later = scorer.prepare(hits, as_lists([[0]]), X, np.zeros(1, np.int64))
    scorer.learn_weights(later, (0, 1), 1, 0)
    assert later.other_scores[0, 0] > 0.5


@pytest.mark.boundscheck
def test_only_judged_rows_are_scored_by_the_other_half():
    _, _, arguments = random_rows(120, 20, 50, seed=3)
    every, some = LabelScorer(20, 50), LabelScorer(20, 50)
    judged = np.arange(0, 120, 3)
    trainings = every.prepare(*arguments), some.prepare(*arguments, judged)
    for scorer, training in zip((every, some), trainings, strict=True):
        scorer.learn_weights(training, (0, len(training.pairs.labels)), 4, 0)
    all_scores, some_scores = (training.other_scores for training in trainings)
    assert np.array_equal(taken_words(every), taken_words(some))
    assert np.array_equal(all_scores[judged], some_scores[judged])
    assert np.count_nonzero(all_scores) > 2 * np.count_nonzero(some_scores) > 0
    assert not np.delete(some_scores, judged, axis=0).any()


@pytest.mark.parametrize("seed", range(5))
def test_column_stays_allocated_when_its_weight_returns_to_zero(seed):
    """The first row becomes easy, so the weight of its own column returns to zero; it must stay marked as allocated."""
    right = [{0: 3.0, 2: 1.0}, *[{0: 1.0, 1: 1.0}] * 20]
    rows = [*right, *[{1: 1.0}] * 20]
    n = len(rows)
    X = (
        np.cumsum([0, *map(len, rows)]),
        np.array([column for row in rows for column in row], np.int32),
        np.array([value for row in rows for value in row.values()], np.float32),
    )
    truth = LabelLists(np.minimum(np.arange(n + 1), len(right)), np.zeros(len(right), np.int32))
    scorer = LabelScorer(1, 3)
    hits = LabelHits(table_of([[0]]), np.zeros((n, 1), np.int64), np.ones((n, 1), np.float32))
    scorer.learn_weights(scorer.prepare(hits, truth, X, np.zeros(n, np.int64)), (0, 1), 200, seed)
    first = scorer.tables.arrays.spans[0, FIRST]
    assert scorer.tables.arrays.numbers[first + 2, WEIGHTS] == TINY


def test_training_holds_only_labels_that_occur():
    owned, true, arguments = random_rows(10, 30, 50, seed=4)
    few, many = LabelScorer(30, 50).prepare(*arguments), LabelScorer(100_000, 50).prepare(*arguments)
    np.testing.assert_array_equal(few.pairs.labels, many.pairs.labels)
    np.testing.assert_array_equal(few.pairs.starts, many.pairs.starts)
    assert len(many.pairs.labels) == len({label for labels in [*owned, *true] for label in labels.tolist()})
