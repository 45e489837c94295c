"""The paper's theorems on trees of the engine, where their premises hold."""

import math

import numpy as np
import pytest
import scipy.sparse

from memorytree import MemoryTree
from memorytree.engine.arrays import COUNT, LEFT, MISTAKES, NODES, RIGHT, ROOT, UPDATES

BALANCES = [0.3, 0.9, 1.0]
ACTION_PROBABILITY = 0.5


def stream(kind, n=4000):
    rng = np.random.default_rng(7)
    if kind == "sparse":
        return scipy.sparse.random(n, 400, 0.03, format="csr", dtype=np.float32, random_state=7)
    X = rng.normal(size=(n, 8)).astype(np.float32)
    return np.sort(X, axis=0) if kind == "sorted" else X


def internal_nodes(tree):
    """(memories left, memories right, updates, mistakes, depth) of every internal node."""
    counters = tree.index.counters
    nodes = tree.index.arrays()["nodes"][: counters[NODES]]
    level, depth = np.array([counters[ROOT]]), 0
    while len(level):
        for node in level[nodes[level, LEFT] >= 0]:
            left, right = int(nodes[nodes[node, LEFT], COUNT]), int(nodes[nodes[node, RIGHT], COUNT])
            yield left, right, int(nodes[node, UPDATES]), int(nodes[node, MISTAKES]), depth
        inner = level[nodes[level, LEFT] >= 0]
        level, depth = np.concatenate([nodes[inner, LEFT], nodes[inner, RIGHT]]), depth + 1


def filled(kind, balance):
    tree = MemoryTree(routing="paper", balance=balance, reroutes=0, seed=0)
    X = stream(kind)
    tree.insert_many(X, range(X.shape[0]))
    return tree


@pytest.mark.parametrize("kind", ["random", "sorted", "sparse"])
@pytest.mark.parametrize("balance", BALANCES)
def test_every_router_keeps_the_bound_of_theorem_1(kind, balance):
    """p is the measured error of the router; insertions only, no reroutes."""
    tree = filled(kind, balance)
    checked = 0
    for left, right, updates, mistakes, _ in internal_nodes(tree):
        assert left + right == updates
        p = mistakes / updates
        share = (1 - p) / (1 + math.exp((1 - balance) / balance)) - 1 / updates
        assert min(left, right) / updates >= share - 1e-12
        checked += 1
    assert checked > 50


@pytest.mark.parametrize("kind", ["random", "sorted", "sparse"])
def test_depth_is_at_most_k_log_t(kind):
    """A tree whose nodes are all K-partitions has depth at most K log T."""
    tree = filled(kind, 0.9)
    nodes = list(internal_nodes(tree))
    k = max((left + right) / min(left, right) for left, right, *_ in nodes)
    assert max(depth for *_, depth in nodes) <= k * math.log(len(tree))


@pytest.mark.parametrize("routing", ["paper", "principal"])
@pytest.mark.parametrize("kind", ["random", "sparse"])
def test_memory_is_found_right_after_insertion(routing, kind):
    """The lemma of self-consistency, for unique keys without reroutes."""
    tree = MemoryTree(routing=routing, reroutes=0, seed=0)
    X = stream(kind, 1500)
    for i in range(X.shape[0]):
        id = tree.insert(X[i], i)
        hit = tree.query(X[i])[0]
        assert hit.id == id or hit.score == 0


@pytest.mark.parametrize("routing", ["paper", "principal"])
@pytest.mark.parametrize("kind", ["random", "sorted", "sparse"])
def test_every_memory_is_found_after_a_sweep(routing, kind):
    tree = MemoryTree(routing=routing, seed=0)
    X = stream(kind)
    tree.insert_many(X, range(X.shape[0]))
    tree.sweep()
    assert np.all(tree.query_many(X).scores == 0)


@pytest.mark.parametrize("routing", ["paper", "principal"])
def test_storage_is_linear_in_the_number_of_memories(routing, rng):
    tree = MemoryTree(routing=routing, seed=0)
    share = []
    for _ in range(5):
        n = max(len(tree), 1000)
        tree.insert_many(rng.normal(size=(n, 8)).astype(np.float32), range(n))
        stats = tree.stats()
        assert stats.leaves <= len(tree)
        share.append(stats.bytes / len(tree))
    assert max(share[1:]) <= 1.5 * share[0]


def test_reward_estimate_is_unbiased(rng):
    """Over the two equally likely actions, r / p * (1(right) - 1(left)) averages to the difference of the rewards."""
    tree = MemoryTree(routing="paper", reroutes=0, seed=3)
    X = rng.normal(size=(300, 4)).astype(np.float32)
    tree.insert_many(X, range(300))
    x = X[0]
    reward_of = {id: (id % 7) / 7 for id in range(300)}
    seen = {}
    for draw in range(4000):
        hits = tree.query(x, explore=1.0, exploration_seed=draw)
        receipt = hits.receipt
        if receipt.branch == "node":
            reward = reward_of[hits[0].id]
            sign = 1 if receipt.decision.action else -1
            seen.setdefault(receipt.decision.node, []).append((sign, reward, sign * reward / ACTION_PROBABILITY))
    assert len(seen) == len(tree.explain(x).steps)
    for draws in seen.values():
        rewards = {sign: {reward for s, reward, _ in draws if s == sign} for sign in (-1, 1)}
        assert len(rewards[-1]) == len(rewards[1]) == 1
        truth = rewards[1].pop() - rewards[-1].pop()
        estimates = [estimate for *_, estimate in draws]
        spread = np.std(estimates) / math.sqrt(len(estimates))
        assert abs(np.mean(estimates) - truth) <= 4 * spread + 1e-9
