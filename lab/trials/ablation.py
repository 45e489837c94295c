"""Jobs of the ablations: one setting of a memory takes a list of values, all other settings stay the same.

The prediction of a bare memory is the value of the best memory. Kernels are compiled on a few rows before anything is timed.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from lab.datasets import Dataset, Rows, Source
from lab.measuring import cpu_per_call, cpu_seconds
from lab.process import save_partial
from lab.tree_driver import WARM_UP_ROWS, class_error, filled_tree, nearest_ids, own_key_error
from memorytree import MemoryTree
from memorytree.estimators import MemoryTreeClassifier

REPEATS, LIMIT_S = 3, 10.0
EXPLORE = 0.1  # the paper's epsilon during training


def stored(data: Dataset, seed: int, **settings: Any) -> MemoryTree:
    """Return a memory of all training rows with their classes as values."""
    return filled_tree(data.train, data.truth.tolist(), seed=seed, **settings)


def best(tree: MemoryTree, keys: Rows, beam: int = 1) -> np.ndarray:
    """Return the row number of the best memory for each key."""
    return nearest_ids(tree, keys, beam=beam)[:, 0]


def few_rows(data: Dataset) -> Dataset:
    """Return some training rows to compile on."""
    return data.with_rows(np.arange(min(WARM_UP_ROWS, data.rows)))


def tree(kind: Any, source: Source, options: dict[str, Any]) -> dict[str, Any]:
    """Vary a setting of a bare memory or the beam of its queries: options `vary`, `values`; other options are fixed."""
    data, seed = source.load(), source.seed
    fixed = {name: value for name, value in options.items() if name not in ("vary", "values")}
    points: list[dict[str, Any]] = []
    for value in options["values"]:
        settings = {**fixed, options["vary"]: value}
        beam = settings.pop("beam", 1)
        best(stored(few_rows(data), seed, **settings), data.test, beam)
        insert_s, memory = cpu_seconds(partial(stored, data, seed, **settings))
        query_s, found = cpu_per_call(partial(best, memory, data.test, beam), source.repeats(REPEATS), LIMIT_S)
        points.append(
            {
                "value": value,
                "error": class_error(found, data.truth, data.test_truth),
                "query_us": query_s / data.test.shape[0] * 1e6,
                "insert_us": insert_s / data.rows * 1e6,
                "own_key_error": own_key_error(data.train, best(memory, data.train, beam)),
                "bytes": memory.stats().bytes / data.rows,
            }
        )
        save_partial(points=points)
    return {"points": points}


def reroutes(kind: Any, source: Source, options: dict[str, Any]) -> dict[str, Any]:
    """Return the self-consistency error of the paper's routing for several d, after each pass and after a sweep.

    A later pass inserts nothing: in an unsupervised memory it consists of d reroutes for each row.
    """
    data, seed = source.load(), source.seed
    points: list[dict[str, Any]] = []
    for d in options["values"]:
        memory = stored(data, seed, routing="paper", reroutes=d, center=options["center"])
        errors = [own_key_error(data.train, best(memory, data.train))]
        for _ in range(options["passes"] - 1):
            memory.reroute(d * data.rows)
            errors.append(own_key_error(data.train, best(memory, data.train)))
        memory.sweep()
        swept = own_key_error(data.train, best(memory, data.train))
        points.append({"value": d, "by_pass": errors, "own_key_error": errors[-1], "after_sweep": swept})
        save_partial(points=points)
    return {"points": points}


def passes(kind: Any, source: Source, options: dict[str, Any]) -> dict[str, Any]:
    """Return the errors of the paper's memory after each pass of Update, or without `updates` of reroutes only."""
    data, seed = source.load(), source.seed
    memory = stored(data, seed, routing="paper", reroutes=options["reroutes"], center=options["center"])
    labels = data.truth.tolist()
    points: list[dict[str, Any]] = []
    for number in range(options["passes"] + 1):
        if number and options["updates"]:
            for row, label in enumerate(labels):
                hits = memory.query(data.train[row], k=1, explore=EXPLORE)
                memory.reward(hits, [float(hit.value == label) for hit in hits])
        elif number:
            memory.reroute(options["reroutes"] * data.rows)
        trained, tested = best(memory, data.train), best(memory, data.test)
        points.append(
            {
                "value": number,
                "train_error": class_error(trained, data.truth, data.truth),
                "error": class_error(tested, data.truth, data.test_truth),
                "own_key_error": own_key_error(data.train, trained),
            }
        )
        save_partial(points=points)
    return {"points": points}


def classifier(kind: Any, source: Source, options: dict[str, Any]) -> dict[str, Any]:
    """Vary a setting of our classifier; a capacity is given as a share of the rows."""
    data, seed = source.load(), source.seed
    points: list[dict[str, Any]] = []
    for value in options["values"]:
        given = max(2, round(value * data.rows)) if options["vary"] == "capacity" else value
        settings = {options["vary"]: given, "random_state": seed}
        small = few_rows(data)
        MemoryTreeClassifier(**settings).fit(small.train, small.truth).predict(data.test)
        fit_s, model = cpu_seconds(partial(MemoryTreeClassifier(**settings).fit, data.train, data.truth))
        query_s, found = cpu_per_call(partial(model.predict, data.test), source.repeats(REPEATS), LIMIT_S)
        wrong = float(np.mean(found != data.test_truth))
        us = query_s / data.test.shape[0] * 1e6
        points.append({"value": value, "error": wrong, "query_us": us, "fit_s": fit_s, "memories": len(model.memory_)})
        save_partial(points=points)
    return {"points": points}


def scorer(kind: Any, source: Source, options: dict[str, Any]) -> dict[str, Any]:
    """Vary the scorer of a bare memory that learns from rewards: 1 for the right class, the query's own memory excluded."""
    data, seed = source.load(), source.seed
    points: list[dict[str, Any]] = []
    for value in options["values"]:
        memory = stored(data, seed, scorer=value)
        before = class_error(best(memory, data.test, options["beam"]), data.truth, data.test_truth)
        learn_s, _ = cpu_seconds(partial(learn_rewards, memory, data, options["beam"], options["k"]))
        query_s, found = cpu_per_call(partial(best, memory, data.test, options["beam"]), source.repeats(REPEATS), LIMIT_S)
        us = query_s / data.test.shape[0] * 1e6
        after = class_error(found, data.truth, data.test_truth)
        points.append({"value": value, "before": before, "error": after, "query_us": us, "learn_s": learn_s})
        save_partial(points=points)
    return {"points": points}


def learn_rewards(memory: MemoryTree, data: Dataset, beam: int, k: int, rows: int = 64) -> None:
    """Run one pass of queries and rewards over the training rows."""
    for first in range(0, data.rows, rows):
        batch = np.arange(first, min(first + rows, data.rows))
        hits = memory.query_many(data.train[batch], k=k, beam=beam, exclude=batch[:, None].tolist(), threads=1)
        ids = np.asarray(hits.ids)
        right = (data.truth[np.maximum(ids, 0)] == data.truth[batch][:, None]).astype(float)
        memory.reward_many(hits, np.where(ids < 0, np.nan, right))
