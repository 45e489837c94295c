"""The weights of labels: who learns from which rows, and where they are kept."""

import numpy as np
import pytest

from memorytree.estimators.label_sets import SetsById
from memorytree.estimators.labels import LabelModel
from memorytree.estimators.multilabel import halves
from memorytree.estimators.one_against_some import KNOWN, WEIGHTS
from memorytree.estimators.tables import FIRST, SIZE, USED
from memorytree.estimators.votes import CANDIDATES


def questions(n, labels, features, seed, hits=6, nonzero=8):
    """Rows with features and labels drawn at random, and memories, as many as rows, that bring labels at random."""
    rng = np.random.default_rng(seed)
    sets = SetsById()
    owned = [rng.choice(labels, rng.integers(1, 5), replace=False) for _ in range(n)]
    bounds = np.cumsum([0, *map(len, owned)])
    sets.add(np.arange(n), bounds, np.concatenate(owned).astype(np.int32))
    ids = np.array([rng.choice(n, hits, replace=False) for _ in range(n)])
    true = [np.unique(rng.choice(labels, 3)) for _ in range(n)]
    truth = np.cumsum([0, *map(len, true)]), np.concatenate(true).astype(np.int32)
    places = np.concatenate([np.sort(rng.choice(features, nonzero, replace=False)) for _ in range(n)]).astype(np.int32)
    X = np.arange(n + 1) * nonzero, places, rng.random(n * nonzero).astype(np.float32) + 0.1
    scores = -np.sort(-rng.random((n, hits)).astype(np.float32), axis=1)
    return owned, true, (sets.arrays, ids, scores, truth, X, halves(np.arange(n)))


@pytest.mark.boundscheck
def test_a_lesson_holds_each_row_with_the_labels_that_memories_bring_or_miss():
    owned, true, asked = questions(200, 30, 50, seed=0)
    lesson = LabelModel(30, 50).lesson(*asked)
    assert sorted(lesson.labels.tolist()) == sorted({label for labels in [*owned, *true] for label in labels.tolist()})
    found = set()
    for number, label in enumerate(lesson.labels.tolist()):
        for pair in lesson.pairs[lesson.starts[number] : lesson.starts[number + 1]].tolist():
            row = pair // CANDIDATES if pair >= 0 else -1 - pair
            found.add((row, label, pair < 0, pair < 0 or bool(lesson.right[row, pair % CANDIDATES])))
    assert len(found) == len(lesson.pairs)
    expected = set()
    for row, ids in enumerate(asked[1].tolist()):
        brought = {label for id in ids for label in owned[id].tolist()}
        expected |= {(row, label, False, label in true[row]) for label in brought}
        expected |= {(row, label, True, True) for label in set(true[row].tolist()) - brought}
    assert found == expected
    assert lesson.misses.tolist() == [sum(one[0] == row and one[2] for one in found) for row in range(200)]


@pytest.mark.boundscheck
@pytest.mark.parametrize("features", [40, 3000])
def test_tables_lie_side_by_side_and_know_what_each_half_saw(features):
    _, true, asked = questions(300, 12, features, seed=1)
    model = LabelModel(12, features)
    model.lesson(*asked)
    bounds, words, _ = asked[4]
    table, numbers = model.words, model.words.view(np.float32)
    spans = sorted((int(model.places[label, FIRST]), int(model.places[label, SIZE])) for label in range(12))
    assert [first for first, _ in spans] == np.cumsum([0, *(size for _, size in spans)])[:-1].tolist()
    assert model.top[0] == sum(size for _, size in spans)
    for label in range(12):
        part = slice(model.places[label, FIRST], model.places[label, FIRST] + model.places[label, SIZE])
        for half in range(2):
            known = table[part, 0][numbers[part, WEIGHTS + half] != 0]
            rows = [i for i in range(300) if label in true[i] and asked[5][i] == half]
            assert set(known.tolist()) == {int(f) for i in rows for f in words[bounds[i] : bounds[i + 1]]}
        assert model.places[label, USED] == np.count_nonzero(table[part, 0] != -1)


@pytest.mark.parametrize("passes", [1, 3])
def test_what_a_label_learns_does_not_depend_on_its_company(passes):
    """All labels in one go, one by one in any order: the same to the bit."""
    _, _, asked = questions(300, 20, 500, seed=2)
    together, alone = LabelModel(20, 500), LabelModel(20, 500)
    lesson = together.lesson(*asked)
    together.learn(lesson, (0, 20), passes, 5)
    other = alone.lesson(*asked)
    for number in np.random.default_rng(0).permutation(20).tolist():
        alone.learn(other, (number, number + 1), passes, 5)
    np.testing.assert_array_equal(together.bias, alone.bias)
    np.testing.assert_array_equal(together.words[: together.top[0]], alone.words[: alone.top[0]])
    np.testing.assert_array_equal(lesson.others, other.others)


def test_a_row_is_judged_by_weights_that_it_never_touched():
    """One row, many times: the half that it teaches knows it by heart, the other half knows nothing."""
    sets = SetsById()
    sets.add(np.arange(2), np.array([0, 1, 2]), np.zeros(2, np.int32))
    model = LabelModel(1, 4)
    X = np.array([0, 2]), np.array([0, 3], np.int32), np.ones(2, np.float32)
    truth = np.array([0, 1]), np.zeros(1, np.int32)
    asked = sets.arrays, np.array([[0, 1]]), np.full((1, 2), 0.5, np.float32), truth, X, np.ones(1, np.int64)
    lesson = model.lesson(*asked)
    model.learn(lesson, (0, 1), 5, 0)
    assert model.bias[0, 1] > 0
    assert model.bias[0, 0] == 0
    assert lesson.others[0, 0] == 0
    weights = model.words.view(np.float32)[: model.top[0], WEIGHTS:]
    assert np.count_nonzero(weights[:, 1]) == 2
    assert not weights[:, 0].any()
    later = model.lesson(*asked[:5], np.zeros(1, np.int64))
    model.learn(later, (0, 1), 1, 0)
    assert later.others[0, 0] > 0.5


@pytest.mark.boundscheck
def test_only_rows_that_are_judged_are_scored_by_the_other_half():
    _, _, asked = questions(120, 20, 50, seed=3)
    every, some = LabelModel(20, 50), LabelModel(20, 50)
    judged = np.arange(0, 120, 3)
    lessons = every.lesson(*asked), some.lesson(*asked, judged)
    for model, lesson in zip((every, some), lessons, strict=True):
        model.learn(lesson, (0, len(lesson.labels)), 4, 0)
    assert np.array_equal(every.words[: every.top[0]], some.words[: some.top[0]])
    assert np.array_equal(lessons[0].others[judged], lessons[1].others[judged])
    assert np.count_nonzero(lessons[0].others) > 2 * np.count_nonzero(lessons[1].others) > 0
    assert not np.delete(lessons[1].others, judged, axis=0).any()


@pytest.mark.parametrize("seed", range(5))
def test_a_half_does_not_forget_what_it_knew(seed):
    """The first row turns out to be easy, so its own feature is unlearned again, and may still be learned later."""
    right = [{0: 3.0, 2: 1.0}, *[{0: 1.0, 1: 1.0}] * 20]
    rows = [*right, *[{1: 1.0}] * 20]
    sets = SetsById()
    sets.add(np.arange(1), np.array([0, 1]), np.zeros(1, np.int32))
    n = len(rows)
    X = (
        np.cumsum([0, *map(len, rows)]),
        np.array([feature for row in rows for feature in row], np.int32),
        np.array([value for row in rows for value in row.values()], np.float32),
    )
    truth = np.minimum(np.arange(n + 1), len(right)), np.zeros(len(right), np.int32)
    model = LabelModel(1, 3)
    lesson = model.lesson(
        sets.arrays, np.zeros((n, 1), np.int64), np.ones((n, 1), np.float32), truth, X, np.zeros(n, np.int64)
    )
    model.learn(lesson, (0, 1), 200, seed)
    assert model.words.view(np.float32)[model.places[0, FIRST] + 2, WEIGHTS] == KNOWN


def test_what_a_row_costs_does_not_depend_on_labels_that_it_does_not_meet():
    """Only the labels that occur in a lesson have a place in it."""
    owned, true, asked = questions(10, 30, 50, seed=4)
    few, many = LabelModel(30, 50).lesson(*asked), LabelModel(100_000, 50).lesson(*asked)
    np.testing.assert_array_equal(few.labels, many.labels)
    np.testing.assert_array_equal(few.starts, many.starts)
    assert len(many.labels) == len({label for labels in [*owned, *true] for label in labels.tolist()})
