"""Workloads of `MemoryTree`: every routing and scorer, dense, sparse and named keys."""

from functools import partial

import numpy as np
import scipy.sparse

from memorytree import MemoryTree, TermLists

N, QUERIES, K = 600, 40, 5


def dense_keys(rng, n):
    centers = rng.normal(size=(12, 16)) * 2
    return (centers[rng.integers(12, size=n)] + rng.normal(size=(n, 16))).astype(np.float32)


def sparse_keys(rng, n):
    rows = scipy.sparse.random(n, 200, density=0.04, random_state=rng, dtype=np.float32, format="csr")
    return scipy.sparse.csr_matrix(rows + scipy.sparse.eye(n, 200, dtype=np.float32) * 0.5)


def named_keys(rng, n):
    def key():
        return zip(rng.integers(80, size=6), rng.integers(1, 4, size=6), strict=True)

    return [{f"w{word}": float(count) for word, count in key()} for _ in range(n)]


def hits_of(hits):
    return {"ids": list(hits.ids), "scores": list(hits.scores), "values": list(hits.values)}


def rounded(number, digits):
    """Explanations are rounded: they are sums over sets of features, whose order may differ from one process to the next."""
    return float(f"{number:.{digits}g}")


def explanation_of(explanation):
    hits = [(hit.hit, [[name, rounded(part, 5)] for name, part in hit.parts]) for hit in explanation.candidates]
    return {
        "steps": [[step.node, rounded(step.margin, 4), step.side, step.left, step.right] for step in explanation.steps],
        "leaf": explanation.leaf,
        "candidates": [[hit.id, hit.value, hit.score, parts] for hit, parts in hits],
    }


def workload(make_keys, explore=0.2, features=False, forest=0, beam=4, experiences=0, **options):
    """Insert, query, reward, remove, learn, sweep and replace; what each answered."""
    rng = np.random.default_rng(7)
    X, Q = make_keys(rng, N), make_keys(rng, QUERIES)
    tree = MemoryTree(seed=3, trees=forest or 1, experiences=experiences, **options)
    numbers = rng.normal(size=(N, 6)) if features else None
    extra = {} if numbers is None else {"features": numbers[:400]}
    labels = [f"label {i % 7}" for i in range(400)]
    tree.insert_many(X[:400], list(range(400)), labels=labels, **extra)
    for i in range(400, 440):
        more = {} if numbers is None else {"features": numbers[i]}
        tree.insert(X[i], i, **more)
    out = {"first": [hits_of(tree.query(Q[i], k=K, beam=beam)) for i in range(QUERIES)]}
    rewards = rng.integers(2, size=(QUERIES, K)).astype(float)
    learned = []
    for i in range(QUERIES):
        hits = tree.query(Q[i], k=K, explore=explore, exploration_seed=i)
        learned.append(list(tree.reward(hits, list(rewards[i, : len(hits)])))[:2])
    matrix = tree.query_many(Q, k=K, beam=beam)
    learned.append(list(tree.reward_many(matrix, np.where(matrix.ids >= 0, rewards, np.nan)))[:2])
    out |= {"learned": learned, "ids": matrix.ids, "scores": matrix.scores}
    for id in range(0, 400, 9):
        tree.remove(id)
    tree.refit()
    out["after learning"] = [hits_of(tree.query(Q[i], k=K, beam=beam, exclude=[1, 2, 3])) for i in range(QUERIES)]
    out["swept"] = tree.sweep()
    more = {} if numbers is None else {"features": numbers[440:]}
    tree.insert_many(X[440:], list(range(440, N)), ids=list(range(300, 460)), **more)
    tree.reroute(50)
    matrix = tree.query_many(Q, k=K)
    out |= {"last ids": matrix.ids, "last scores": matrix.scores}
    out["compared"] = tree.score(Q[0], list(range(280, 320)))
    out["explained"] = [explanation_of(tree.explain(Q[i], k=3)) for i in range(8)]
    stats = tree.stats()
    out["stats"] = [stats.memories, stats.leaves, stats.largest_leaf, stats.depth, stats.average_depth, stats.neighbours]
    out["order"] = list(tree)
    return out


def capacity(make_keys, **options):
    rng = np.random.default_rng(11)
    X = make_keys(rng, N)
    tree = MemoryTree(seed=5, capacity=100, experiences=0, **options)
    out = []
    for i in range(300):
        tree.insert(X[i], i)
        if i % 10 == 9:
            hits = tree.query(X[i - 5], k=3)
            tree.reward(hits, [1.0] + [0.0] * (len(hits) - 1))
            out.append(hits_of(hits))
    return {"hits": out, "left": list(tree)}


def overlap_scorer(x, keys, features):
    product = keys @ x.T if scipy.sparse.issparse(keys) else keys @ x
    return np.asarray(product.todense() if scipy.sparse.issparse(product) else product).reshape(-1)


CASES = {
    "dense principal": partial(workload, dense_keys),
    "dense experiences": partial(workload, dense_keys, explore=0.0, experiences=1000),
    "dense principal cosine": partial(workload, dense_keys, scorer="cosine"),
    "dense neighbours": partial(workload, dense_keys, routing="graph"),
    "dense paper": partial(workload, dense_keys, routing="paper", center=True),
    "dense paper linear": partial(workload, dense_keys, routing="paper", scorer="linear"),
    "dense metric": partial(workload, dense_keys, scorer="metric"),
    "dense metric neighbours": partial(workload, dense_keys, scorer="metric", routing="graph"),
    "dense values": partial(workload, dense_keys, scorer="values", features=True),
    "dense own scorer": partial(workload, dense_keys, scorer=overlap_scorer, beam=2),
    "dense forest": partial(workload, dense_keys, forest=3),
    "dense forest metric": partial(workload, dense_keys, forest=2, scorer="metric"),
    "sparse terms": partial(workload, sparse_keys, explore=0.0),
    "sparse terms tfidf": partial(workload, sparse_keys, explore=0.0, scorer="tfidf"),
    "sparse experiences": partial(workload, sparse_keys, explore=0.0, scorer="tfidf", experiences=1000),
    "sparse terms expansion": partial(workload, sparse_keys, explore=0.0, scorer="cosine", routing=TermLists(expansion=0.2)),
    "sparse metric": partial(workload, sparse_keys, explore=0.0, scorer="metric"),
    "sparse values": partial(workload, sparse_keys, explore=0.0, scorer="values", features=True),
    "sparse paper": partial(workload, sparse_keys, routing="paper"),
    "sparse paper linear": partial(workload, sparse_keys, routing="paper", scorer="linear"),
    "sparse principal": partial(workload, sparse_keys, routing="principal"),
    "sparse own scorer": partial(workload, sparse_keys, routing="principal", scorer=overlap_scorer),
    "named terms": partial(workload, named_keys, explore=0.0),
    "named forest": partial(workload, named_keys, forest=2),
    "capacity dense": partial(capacity, dense_keys),
    "capacity metric": partial(capacity, dense_keys, scorer="metric"),
    "capacity sparse": partial(capacity, sparse_keys),
}
