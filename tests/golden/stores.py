"""What stores answer: every kind of key, routing and scorer, with filters, expiry, rewards and reopening."""

import io
import shutil
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse

import memorytree
from memorytree import GraphRouting, TermLists
from tests.golden.recording import plain

N, DIMENSIONS, PROBES = 60, 6, 5
FAR = 7e9  # a lifetime in seconds that never ends
KINDS = ("fact", "task", "note")

KEYS = {
    "dense": lambda X: X,
    "sparse": lambda X: scipy.sparse.csr_matrix(np.where(np.abs(X) > 0.5, np.abs(X), 0).astype(np.float32) + _corner(X)),
    "named": lambda X: [{f"word {j}": float(abs(w)) for j, w in enumerate(row) if abs(w) > 0.5 or j == 0} for row in X],
}


def _corner(X):
    """A weight in the first column of each row, so that no sparse key is empty."""
    corner = np.zeros_like(X)
    corner[:, 0] = 0.25
    return corner


def rows(n, seed):
    """n keys as rows of numbers with few digits, so that every machine draws the same."""
    return np.random.default_rng(seed).normal(size=(n, DIMENSIONS)).round(2).astype(np.float32)


def answer(hits):
    """Hits as plain data."""
    return {"ids": list(hits.ids), "scores": list(hits.scores), "values": list(hits.values), "metadata": list(hits.metadata)}


def answers(store, key_of):
    """What a store holds, and what it answers to some probes."""
    probes = rows(PROBES, seed=99)
    matrix = store.query_many(key_of(probes), k=4, beam=2)
    filtered = store.query_many(key_of(probes), k=3, where={"kind": ["fact", "note"]})
    keys = [key_of(row[None])[0] for row in probes]
    found = {
        "version": store.version,
        "ids": list(store),
        "task ids": list(store.ids({"kind": "task"})),
        "plain": [answer(store.query(key, k=3)) for key in keys],
        "wide": [answer(store.query(key, k=5, beam=4, exclude=[3, 11])) for key in keys[:2]],
        "filtered": [answer(store.query(key, k=4, where={"kind": "fact", "even": True})) for key in keys],
        "explored": [answer(store.query(key, k=3, explore=0.9, exploration_seed=i)) for i, key in enumerate(keys)],
        "matrix": [matrix.ids, matrix.scores, filtered.ids, filtered.scores, filtered.values],
        "scores": store.score(keys[0], [0, 5, 12345]),
        "explanation": [(c.hit, _parts(c)) for c in store.explain(keys[0], 3, beam=2).candidates],
        "metadata": [store.metadata(id) for id in list(store)[:10]],
        "values": [store[id] for id in list(store)[:10]],
        "key": _plain_key(store.key(next(iter(store)))),
    }
    return as_plain(found)


def _parts(candidate):
    """Parts of a score. Their last digit depends on the order of a set of strings, and so on Python's hash seed."""
    return [(name, round(part, 9)) for name, part in candidate.parts]


def _plain_key(key):
    return key.toarray() if scipy.sparse.issparse(key) else key


def workload(keys, **options):
    """A case: a store that grows, learns, forgets, and is opened again from its log, from a snapshot, and without one."""
    key_of = KEYS[keys]

    def case():
        found = {}
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "store"
            store = memorytree.open(path, seed=7, durability="normal", **options)
            X = rows(N + 20, seed=1)
            single = [key_of(row[None])[0] for row in X]
            features = {"features": X[:N, :2]} if options.get("scorer") == "values" else {}
            metadata = [{"kind": KINDS[i % 3], "even": i % 2 == 0} if i % 5 else None for i in range(N)]
            ttl = [0 if i % 17 == 16 else FAR if i % 3 else None for i in range(N)]
            labels = [f"label {i % 4}" if i % 3 else None for i in range(N)]
            ids = store.insert_many(
                key_of(X[:N]), [f"value {i}" for i in range(N)], metadata=metadata, ttl=ttl, labels=labels, **features
            )
            found["inserted"] = ids
            for i in range(N, N + 10):
                store.insert(single[i], {"number": i}, metadata={"kind": "single"})
            found["replaced"] = store.insert(single[N + 10], b"bytes", id=5, metadata={"kind": "fact"}, ttl=3600)
            found["labelled"] = store.insert(single[N + 11], [1, 2.5, None], label="label 1")
            found["grown"] = answers(store, key_of)
            learned, tokens = [], []
            for i in range(12):
                hits = store.query(single[i], k=3, explore=0.5, exploration_seed=i)
                tokens.append((str(hits.receipt), list(hits.ids)))
                learned.append(store.reward(hits, [1.0, 0.0, None][: len(hits)]))
            token, rewarded = tokens[0]
            learned.append(store.reward(token, {rewarded[0]: 1.0}))
            matrix = store.query_many(key_of(X[20:26]), k=3)
            learned.append(store.reward_many(matrix, np.where(matrix.ids % 2 == 0, 1.0, np.nan)))
            found["learned"] = [list(each) for each in learned]
            found["rewarded"] = answers(store, key_of)
            store.remove(list(store)[2])
            store.remove_many([int(id) for id in ids[20:24] if id in store])
            store.refit()
            found["swept"] = store.sweep()
            store.reroute(3)
            found["tidied"] = answers(store, key_of)
            lines = io.StringIO()
            found["exported"] = store.export_jsonl(lines)
            close_without_snapshot(store)
            store = memorytree.open(path, durability="normal")
            found["the same from the log"] = answers(store, key_of) == found["tidied"]
            store.checkpoint()
            store.insert(single[N + 12], "after the snapshot")
            before = answers(store, key_of)
            store.close()
            store = memorytree.open(path, durability="normal")
            found["the same from the snapshot"] = answers(store, key_of) == before
            store.close()
            shutil.rmtree(path / "snapshots")
            with memorytree.open(path, durability="normal") as store:
                found["rebuilt"] = answers(store, key_of)
            with memorytree.open(Path(folder) / "copy", seed=7, **options) as copy:
                lines.seek(0)
                found["imported"] = copy.import_jsonl(lines)
                found["copied"] = [list(copy), [answer(copy.query(key, k=3)) for key in single[:3]]]
        return as_plain(found)

    return case


def as_plain(data):
    """Data that JSON can hold, bytes included."""
    data = plain(data)
    if isinstance(data, dict):
        return {name: as_plain(item) for name, item in data.items()}
    if isinstance(data, list):
        return [as_plain(item) for item in data]
    return {"bytes": data.hex()} if isinstance(data, bytes) else data


def close_without_snapshot(store):
    """Leave the last events to the log: what a killed process leaves behind."""
    from tests.faults.damage import leave_without_closing

    leave_without_closing(store)


CASES = {
    "dense": workload("dense", routing="principal"),
    "dense_flat": workload("dense"),
    "dense_growing": workload("dense", routing=GraphRouting(flat=50)),
    "dense_paper": workload("dense", routing="paper", leaf_factor=1),
    "dense_neighbours": workload("dense", routing=GraphRouting(flat=0)),
    "dense_capacity": workload("dense", routing="paper", capacity=40),
    "dense_metric": workload("dense", scorer="metric"),
    "dense_values": workload("dense", scorer="values"),
    "sparse_terms": workload("sparse", routing=TermLists(flat=0), scorer="cosine"),
    "sparse_flat": workload("sparse", scorer="cosine"),
    "sparse_paper": workload("sparse", routing="paper"),
    "named": workload("named", routing=TermLists(flat=0), scorer="tfidf"),
    "named_growing": workload("named", routing=TermLists(flat=50), scorer="tfidf"),
    "named_capacity": workload("named", routing=TermLists(flat=0), capacity=40),
    "forest": workload("dense", trees=3),
}
