"""All that the benchmarks ask of `MemoryTreeClassifier`, at its default settings; each function is run in a child."""

from contextlib import nullcontext
from unittest import mock

import numpy as np

from memorytree import MemoryTree
from memorytree.estimators import MemoryTreeClassifier
from memorytree.lab.datasets import TEST_ROWS
from memorytree.lab.measuring import cpu_seconds
from memorytree.lab.process import read as load

WARMING = 400


def read(spec: dict):
    return [load(spec["folder"], name) for name in ("train", "labels", "test", "answers")]


def classifier(spec: dict) -> MemoryTreeClassifier:
    return MemoryTreeClassifier(supervision=spec.get("supervision", "labels"), random_state=spec["seed"])


def shuffled_rewards(seed: int):
    """Within this context every update deals the rewards of a query out to its memories at random."""
    chance = np.random.default_rng(seed)
    learn = MemoryTree.update_many

    def update_many(tree, hits, rewards):
        rewards = np.array(rewards)
        for row in rewards:
            seen = np.flatnonzero(~np.isnan(row))
            row[seen] = row[chance.permutation(seen)]
        return learn(tree, hits, rewards)

    return mock.patch.object(MemoryTree, "update_many", update_many)


def fit(spec: dict, train, labels):
    """Compile on a few rows, then fit; returns CPU seconds and the model."""
    classifier(spec).fit(train[:WARMING], labels[:WARMING]).predict(train[:WARMING])
    with shuffled_rewards(spec["seed"]) if spec.get("shuffled") else nullcontext():
        return cpu_seconds(lambda: classifier(spec).fit(train, labels))


def measure(spec: dict) -> dict:
    """Fit and predict: the error and the times on the standing test rows, and which of all test rows are wrong."""
    train, labels, test, answers = read(spec)
    fit_s, model = fit(spec, train, labels)
    standing = test[:TEST_ROWS]
    query_s, _ = cpu_seconds(lambda: model.predict(standing), spec["repeats"])
    wrong = model.predict(test) != answers
    return {
        "error": float(wrong[:TEST_ROWS].mean()),
        "query_us": query_s / standing.shape[0] * 1e6,
        "fit_s": fit_s,
        "wrong": wrong.astype(int).tolist(),
    }
