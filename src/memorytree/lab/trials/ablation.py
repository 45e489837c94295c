"""Ablations: one setting of a memory varied over a list of values, everything else as it was.

The answer of a bare memory is the value of the best memory; rows are stored in their order, so a memory's id is the number
of its row. Everything is compiled on a few rows before a clock starts.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from memorytree import MemoryForest, MemoryTree
from memorytree.estimators import MemoryTreeClassifier
from memorytree.lab.datasets import Dataset, Source
from memorytree.lab.measuring import cpu_of_one, cpu_seconds
from memorytree.lab.process import note
from memorytree.lab.trials.consistency import own_key_error

WARMING, REPEATS, ENOUGH = 400, 3, 10.0
EXPLORE = 0.1  # the paper's epsilon while it learns


def memory(seed: int, trees: int = 1, **settings: Any) -> MemoryTree:
    """A tree, or a forest if there are to be several."""
    return MemoryTree(seed=seed, **settings) if trees == 1 else MemoryForest(trees, seed=seed, **settings)


def stored(data: Dataset, seed: int, **settings: Any) -> MemoryTree:
    """A memory of all training rows."""
    tree = memory(seed, **settings)
    tree.insert_many(data.train, data.truth.tolist())
    return tree


def best(tree: MemoryTree, keys: Any, beam: int = 1) -> np.ndarray:
    """The number of the row that fits each key best."""
    return np.asarray(tree.query_many(keys, k=1, beam=beam, threads=1).ids)[:, 0]


def error(data: Dataset, found: np.ndarray, truth: np.ndarray) -> float:
    """The share of answers with another class."""
    return float(np.mean((data.truth[np.maximum(found, 0)] != truth) | (found < 0)))


def few(data: Dataset) -> Dataset:
    """Some rows to compile on."""
    return data.ordered(np.arange(min(WARMING, data.rows)))


def tree(kind: Any, source: Source, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """Vary a setting of a bare memory, or how it is asked ("beam"): options `vary`, `values`; others are fixed."""
    data = source.load()
    fixed = {name: value for name, value in options.items() if name not in ("vary", "values")}
    points: list[dict[str, Any]] = []
    for value in options["values"]:
        settings = {**fixed, options["vary"]: value}
        beam = settings.pop("beam", 1)
        best(stored(few(data), seed, **settings), data.test, beam)
        insert_s, held = cpu_seconds(partial(stored, data, seed, **settings))
        query_s, found = cpu_of_one(partial(best, held, data.test, beam), source.repeats(REPEATS), ENOUGH)
        points.append(
            {
                "value": value,
                "error": error(data, found, data.test_truth),
                "query_us": query_s / data.test.shape[0] * 1e6,
                "insert_us": insert_s / data.rows * 1e6,
                "own_key_error": own_key_error(data.train, best(held, data.train, beam)),
                "bytes": held.stats().bytes / data.rows,
            }
        )
        note(points=points)
    return {"points": points}


def reroutes(kind: Any, source: Source, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """Self-consistency error of the paper's routing for several d, after each of some passes, then after a sweep.

    A later pass has nothing to insert: what it does to an unsupervised memory is d reroutes for each row.
    """
    data = source.load()
    points: list[dict[str, Any]] = []
    for d in options["values"]:
        held = stored(data, seed, routing="paper", reroutes=d, center=options["center"])
        errors = [own_key_error(data.train, best(held, data.train))]
        for _ in range(options["passes"] - 1):
            held.reroute(d * data.rows)
            errors.append(own_key_error(data.train, best(held, data.train)))
        held.sweep()
        swept = own_key_error(data.train, best(held, data.train))
        points.append({"value": d, "by_pass": errors, "own_key_error": errors[-1], "after_sweep": swept})
        note(points=points)
    return {"points": points}


def passes(kind: Any, source: Source, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """Training and test error of the paper's memory after more and more passes of Update; `updates` off: reroutes only."""
    data = source.load()
    held = stored(data, seed, routing="paper", reroutes=options["reroutes"], center=options["center"])
    labels = data.truth.tolist()
    points: list[dict[str, Any]] = []
    for number in range(options["passes"] + 1):
        if number and options["updates"]:
            for row, label in enumerate(labels):
                hits = held.query(data.train[row], k=1, explore=EXPLORE)
                held.update(hits, [float(hit.value == label) for hit in hits])
        elif number:
            held.reroute(options["reroutes"] * data.rows)
        trained, tested = best(held, data.train), best(held, data.test)
        points.append(
            {
                "value": number,
                "train_error": error(data, trained, data.truth),
                "error": error(data, tested, data.test_truth),
                "own_key_error": own_key_error(data.train, trained),
            }
        )
        note(points=points)
    return {"points": points}


def classifier(kind: Any, source: Source, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """Vary a setting of our classifier; a capacity is given as a share of the rows."""
    data = source.load()
    points: list[dict[str, Any]] = []
    for value in options["values"]:
        given = max(2, round(value * data.rows)) if options["vary"] == "capacity" else value
        settings = {options["vary"]: given, "random_state": seed}
        small = few(data)
        MemoryTreeClassifier(**settings).fit(small.train, small.truth).predict(data.test)
        fit_s, model = cpu_seconds(partial(MemoryTreeClassifier(**settings).fit, data.train, data.truth))
        query_s, found = cpu_of_one(partial(model.predict, data.test), source.repeats(REPEATS), ENOUGH)
        wrong = float(np.mean(found != data.test_truth))
        us = query_s / data.test.shape[0] * 1e6
        points.append({"value": value, "error": wrong, "query_us": us, "fit_s": fit_s, "memories": len(model.memory_)})
        note(points=points)
    return {"points": points}


def scorer(kind: Any, source: Source, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """Vary the scorer of a bare memory, and let it learn from rewards: right class or not, its own memory left out."""
    data = source.load()
    points: list[dict[str, Any]] = []
    for value in options["values"]:
        held = stored(data, seed, scorer=value)
        before = error(data, best(held, data.test, options["beam"]), data.test_truth)
        learn_s, _ = cpu_seconds(partial(taught, held, data, options["beam"], options["k"]))
        query_s, found = cpu_of_one(partial(best, held, data.test, options["beam"]), source.repeats(REPEATS), ENOUGH)
        us = query_s / data.test.shape[0] * 1e6
        after = error(data, found, data.test_truth)
        points.append({"value": value, "before": before, "error": after, "query_us": us, "learn_s": learn_s})
        note(points=points)
    return {"points": points}


def taught(held: MemoryTree, data: Dataset, beam: int, k: int, rows: int = 64) -> None:
    """One pass of lessons."""
    for first in range(0, data.rows, rows):
        asked = np.arange(first, min(first + rows, data.rows))
        hits = held.query_many(data.train[asked], k=k, beam=beam, exclude=asked[:, None].tolist(), threads=1)
        ids = np.asarray(hits.ids)
        right = (data.truth[np.maximum(ids, 0)] == data.truth[asked][:, None]).astype(float)
        held.update_many(hits, np.where(ids < 0, np.nan, right))
