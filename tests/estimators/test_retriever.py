"""MemoryTreeRetriever: storing, retrieving, learning from rewards, errors."""

import pickle

import numpy as np
import pytest
import scipy.sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

from memorytree.errors import InvalidKey, InvalidOption, InvalidReward, MemoryTreeError
from memorytree.estimators import MemoryTreeRetriever
from memorytree.text.features import text_vectorizer

KINDS = ("dense", "sparse")


def planted(kind, seed, n, width=6):
    """(keys, features): keys depend weakly on the features of their values; most of a key is random."""
    rng = np.random.default_rng(seed)
    features = rng.normal(size=(n, width)).astype(np.float32)
    features /= np.linalg.norm(features, axis=1, keepdims=True)
    if kind == "dense":
        return np.concatenate([features, 0.6 * rng.normal(size=(n, 12))], axis=1).astype(np.float32), features
    # A word for the sign of each feature, and eight words that are independent of the features; all have weight 1.
    signs = 2 * np.arange(width) + (features > 0)
    others = 2 * width + np.argsort(rng.random((n, 40)), axis=1)[:, :8]
    columns = np.concatenate([signs, others], axis=1)
    rows = np.repeat(np.arange(n), columns.shape[1])
    return scipy.sparse.csr_matrix((np.ones(columns.size, np.float32), (rows, columns.ravel()))), features


def closeness(features, truth, ids):
    """Rewards of hits: cosines, mapped to [0, 1]."""
    return (1 + np.einsum("nkd,nd->nk", features[ids], truth)) / 2


@parametrize_with_checks([MemoryTreeRetriever(random_state=0)])
def test_scikit_learn_checks_pass(estimator, check):
    check(estimator)


def fitted(kind="dense", n=400, seed=0, **options):
    keys, features = planted(kind, seed, n)
    return MemoryTreeRetriever(random_state=seed, **options).fit(keys, features=features), keys, features


def table(features, asked):
    """The reward of every memory for every query."""
    return (1 + asked @ features.T) / 2


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(3))
def test_rewards_improve_answers_and_shuffled_rewards_do_not(kind, seed):
    keys, features = planted(kind, seed, 800)
    stored, asked = slice(0, 600), slice(600, None)
    rewards = np.clip(table(features[stored], features[stored]), 0, 1)
    own = np.arange(600)[:, None]

    def earned(rewards):
        retriever = MemoryTreeRetriever(random_state=seed).fit(keys[stored], features=features[stored])
        if rewards is not None:
            retriever.fit_rewards(keys[stored], rewards, exclude=own)
        return closeness(features, features[asked], retriever.retrieve(keys[asked]).ids).mean()

    nothing, learned = earned(None), earned(rewards)
    shuffled = earned(np.random.default_rng(seed).permuted(rewards, axis=1))
    assert learned > nothing + 0.04
    assert learned > shuffled + 0.04


def test_reward_function_and_matrix_are_equivalent():
    answers = []
    for form in ("function", "matrix", "sparse"):
        retriever, keys, features = fitted("sparse")
        rewards = np.clip(table(features, features), 0, 1)
        given = {
            "function": lambda i, hits, rewards=rewards: [rewards[i, hit.id] for hit in hits],
            "matrix": rewards,
            "sparse": scipy.sparse.csr_matrix(rewards),
        }[form]
        retriever.fit_rewards(keys, given, exclude=np.arange(400)[:, None])
        answers.append(retriever.retrieve(keys, k=4).ids)
    np.testing.assert_array_equal(answers[0], answers[1])
    np.testing.assert_array_equal(answers[0], answers[2])


def test_rewards_may_be_missing_or_exceed_one_by_rounding():
    answers = []
    for top in (1.0, 1.0 + 1e-7):
        for form in ("function", "matrix"):
            retriever, keys, features = fitted("sparse")
            rewards = np.where(table(features, features) > 0.6, top, top - 1)
            rewards[::3] = np.nan
            given = rewards if form == "matrix" else lambda i, hits, rewards=rewards: [rewards[i, hit.id] for hit in hits]
            answers.append(retriever.fit_rewards(keys, given).retrieve(keys, k=4).ids)
    for answer in answers[1:]:
        np.testing.assert_array_equal(answer, answers[0])
    with pytest.raises(InvalidReward, match="from 0 to 1"):
        retriever.fit_rewards(keys, lambda i, hits: [1.001] * len(hits))


@pytest.mark.parametrize("kind", KINDS)
def test_rows_can_be_added_at_any_time(kind):
    keys, features = planted(kind, 0, 300)
    names = [f"value {i}" for i in range(300)]
    whole = MemoryTreeRetriever(random_state=0).fit(keys, values=names, features=features)
    parts = MemoryTreeRetriever(random_state=0)
    for first in range(0, 300, 100):
        part = slice(first, first + 100)
        parts.partial_fit(keys[part], values=names[part], features=features[part])
    np.testing.assert_array_equal(whole.retrieve(keys, 3).ids, parts.retrieve(keys, 3).ids)
    assert parts.retrieve(keys[:1])[0][0].value == "value 0"
    # Fitting again replaces all rows.
    assert len(whole.fit(keys[:50], features=features[:50]).memory_) == 50


@pytest.mark.parametrize("kind", KINDS)
def test_rewards_change_the_comparison_of_keys_without_features(kind):
    keys, features = planted(kind, 1, 600)
    retriever = MemoryTreeRetriever(random_state=0).fit(keys)
    groups = (features[:, :3] > 0) @ [1, 2, 4]
    own = np.arange(600)[:, None]

    def error():
        return np.mean(groups[retriever.retrieve(keys, exclude=own).ids[:, 0]] != groups)

    before = error()
    retriever.fit_rewards(keys, (groups[:, None] == groups).astype(float), exclude=own)
    assert error() < before


def test_rows_ordered_by_group_are_found():
    rng = np.random.default_rng(0)
    keys = np.zeros((2400, 12))
    keys[:1200, :6], keys[1200:, 6:] = rng.normal(size=(2, 1200, 6))
    asked = keys + 0.01 * rng.normal(size=keys.shape)
    found = MemoryTreeRetriever(random_state=0).fit(keys).retrieve(asked).ids[:, 0] == np.arange(2400)
    assert min(found[:1200].mean(), found[1200:].mean()) > 0.7
    few = MemoryTreeRetriever(capacity=1300, random_state=0).fit(keys, values=[f"row {i}" for i in range(2400)])
    assert sorted(few.memory_) == list(range(1100, 2400))
    assert few.memory_[1100] == "row 1100"


def test_capacity_holds_and_removed_memories_are_not_returned():
    retriever, keys, features = fitted("sparse", capacity=300)
    assert len(retriever.memory_) == 300
    gone = retriever.retrieve(keys[:1])[0][0].id
    retriever.memory_.remove(gone)
    retriever.fit_rewards(keys, np.clip(table(features, features), 0, 1))
    assert gone not in retriever.retrieve(keys, 20).ids


def test_verbose_shows_a_progress_bar(capsys):
    retriever, keys, features = fitted("sparse", n=70, verbose=1)
    retriever.fit_rewards(keys, np.clip(table(features, features), 0, 1))
    assert "learning" in capsys.readouterr().err


def test_same_seed_gives_the_same_answers():
    first, second = (fitted("sparse")[0] for _ in range(2))
    _, keys, features = fitted("sparse")
    rewards = np.clip(table(features, features), 0, 1)
    for one in (first, second):
        one.fit_rewards(keys, rewards)
    np.testing.assert_array_equal(first.retrieve(keys, 5).scores, second.retrieve(keys, 5).scores)


def test_pickled_retriever_continues_identically():
    retriever, keys, features = fitted("sparse")
    rewards = np.clip(table(features, features), 0, 1)
    retriever.fit_rewards(keys, rewards)
    twin = pickle.loads(pickle.dumps(retriever))
    for one in (retriever, twin):
        one.fit_rewards(keys, rewards)
    np.testing.assert_array_equal(retriever.retrieve(keys, 5).scores, twin.retrieve(keys, 5).scores)
    assert clone(retriever).get_params() == retriever.get_params()


def test_texts_are_retrieved_by_texts():
    texts = ["a dog runs in the snow", "two men in a boat", "a child with an ice cream", "dogs at the beach"]
    pipeline = make_pipeline(text_vectorizer(stop_words="english"), MemoryTreeRetriever(random_state=0)).fit(texts)
    found = pipeline[-1].retrieve(pipeline[0].transform(["the boat with men", "dog and snow"]))
    assert found.values == [[1], [0]]
    counts = text_vectorizer(tfidf=False).transform(["a a boat"])
    assert sorted(counts.data.tolist()) == [1.0]  # words of one letter are dropped
    assert counts.shape == (1, 2**20)


def test_invalid_arguments_raise_and_nothing_is_learned():
    retriever, keys, _ = fitted()
    before = retriever.retrieve(keys, 5).scores
    with pytest.raises(NotFittedError):
        MemoryTreeRetriever().retrieve(keys)
    with pytest.raises(InvalidReward, match=r"400 rows stored so far, not a matrix \(400, 3\)"):
        retriever.fit_rewards(keys, np.ones((400, 3)))
    with pytest.raises(InvalidReward, match="2 rewards for"):
        retriever.fit_rewards(keys, lambda i, hits: [1.0, 0.0])
    for wrong in (lambda i, hits: None, lambda i, hits: ["good"] * len(hits), np.full((400, 400), "good")):
        with pytest.raises(InvalidReward, match="number"):
            retriever.fit_rewards(keys, wrong)
    late = np.random.default_rng(0).random((400, 400))
    late[7] = 1.5
    with pytest.raises(InvalidReward, match="from 0 to 1"):
        retriever.fit_rewards(keys, late)
    with pytest.raises(InvalidReward, match="from 0 to 1"):
        retriever.fit_rewards(keys, np.full((400, 400), 1.5))
    with pytest.raises(InvalidOption, match="features: give all"):
        retriever.partial_fit(keys)
    with pytest.raises(InvalidOption, match="exclude needs a list"):
        retriever.fit_rewards(keys, np.ones((400, 400)), exclude=[[1]])
    np.testing.assert_array_equal(retriever.retrieve(keys, 5).scores, before)
    with pytest.raises(InvalidOption, match="400 memories need"):
        retriever.fit(keys, features=np.ones((3, 2)))
    with pytest.raises(InvalidKey):
        retriever.fit(1e16 * keys[:, :3])
    assert len(retriever.memory_) == 400  # unchanged
    assert retriever.retrieve(keys[:1]).ids.shape == (1, 1)
    with pytest.raises(InvalidOption, match="once"):
        retriever.fit(keys, range(400), values=range(400))
    with pytest.raises(ValueError, match="features"):
        retriever.retrieve(keys[:, :3])
    with pytest.raises(MemoryTreeError, match="max_iter"):
        MemoryTreeRetriever(max_iter=-1).fit(keys)
