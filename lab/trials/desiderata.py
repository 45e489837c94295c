"""The workload of the table of desiderata, and the figures of a baseline on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from lab.baselines import Baseline
from lab.datasets import Dataset, Source
from lab.jobs import inputs_for, settled_resident_bytes
from lab.measuring import cpu_per_call, peak_bytes
from lab.process import save_partial
from lab.tree_driver import own_key_error

DIMS, INFORMATIVE, SPREAD = 64, 16, 0.6  # of 64 features 16 separate the classes, the others are noise
ROWS_A_CLASS, WORDS = 10, 16
TESTS, OWN_KEYS, ADDED, REPEATS = 1000, 1000, 200, 3
KEY_BYTES = 4 * DIMS


def workload(n: int, seed: int) -> Dataset:
    """Return n memories with dense keys, ten for each value on average, and the same keys as texts.

    A word names one of a key's sixteen largest features and its sign, so near keys share words.
    """
    chance = np.random.default_rng(seed)
    classes = max(2, n // ROWS_A_CLASS)
    centres = chance.standard_normal((classes, INFORMATIVE), dtype=np.float32)

    def draw(rows: int) -> tuple[np.ndarray, np.ndarray]:
        labels = chance.integers(0, classes, rows)
        keys = chance.standard_normal((rows, DIMS), dtype=np.float32)
        keys[:, :INFORMATIVE] = centres[labels] + SPREAD * keys[:, :INFORMATIVE]
        return keys, labels.astype(np.int64)

    (train, truth), (test, test_truth) = draw(n), draw(TESTS)
    return Dataset(f"workload-{n}", "classes", train, truth, test, test_truth, words(train), words(test))


def words(keys: np.ndarray) -> list[str]:
    """Return keys as texts."""
    largest = np.argpartition(-np.abs(keys), WORDS, axis=1)[:, :WORDS]
    return [
        " ".join(f"{'plus' if keys[row, place] > 0 else 'minus'}{place}" for place in places)
        for row, places in enumerate(largest.tolist())
    ]


def trial(kind: type[Baseline], source: Source, options: dict[str, Any]) -> dict[str, Any]:
    """Return all figures of one baseline for each size in `sizes`; other options are the baseline's."""
    seed = source.seed
    sizes = options["sizes"]
    settings = {name: value for name, value in options.items() if name != "sizes"}
    found: list[dict[str, Any]] = []
    for n in sizes:
        found.append(_measure_size(kind(seed, **settings), workload(n, seed), source.repeats(REPEATS)))
        save_partial(sizes=found)
    return {"sizes": found, "peak_bytes": peak_bytes()}


def _measure_size(baseline: Baseline, data: Dataset, repeats: int) -> dict[str, Any]:
    baseline.prepare(data)
    before = settled_resident_bytes()
    fit_s = max(_cpu_s(lambda: baseline.fit(data)) - baseline.excluded_s, 0.0)
    held = baseline.bytes()
    if held is None:
        held = max(settled_resident_bytes() - before, 0)
    queries = baseline.encode(inputs_for(baseline, data.test_texts, data.test))
    query_s, predictions = cpu_per_call(lambda: baseline.predict(queries), repeats, 10)
    return {
        "n": data.rows,
        "query_us": query_s / TESTS * 1e6,
        "insert_us": fit_s / data.rows * 1e6,
        "beyond_key": _beyond_key(held / data.rows),
        "error": float(np.mean(predictions != data.test_truth)),
        "own_key_error": _own_key_error(baseline, data),
        **_one_more_row(baseline, data, fit_s),
    }


def _cpu_s(work: Callable[[], Any]) -> float:
    """Return the CPU seconds of some work: the process clock is coarse, and the thread clock misses other threads."""
    process, thread = time.process_time(), time.thread_time()
    work()
    return max(time.process_time() - process, time.thread_time() - thread)


def _beyond_key(held: float) -> float:
    """Return bytes a memory without its key; a system with fewer bytes than a key does not copy the keys."""
    return held - KEY_BYTES if held >= KEY_BYTES else held


def _own_key_error(baseline: Baseline, data: Dataset) -> float:
    """Return the share of stored keys that return another memory, or another value if the system stores no memories."""
    own = inputs_for(baseline, data.texts, data.train)[:OWN_KEYS]
    found = baseline.nearest_ids(own)
    if found is not None:
        return own_key_error(data.train, found[:, 0])
    return float(np.mean(baseline.predict(own) != data.truth[:OWN_KEYS]))


def _one_more_row(baseline: Baseline, data: Dataset, fit_s: float) -> dict[str, Any]:
    """Return the time to learn one more memory, or to learn everything again if the system cannot add one."""
    if not baseline.grows:
        return {"more_us": fit_s * 1e6, "again": True}
    rows = inputs_for(baseline, data.test_texts, data.test)
    more = [(rows[row : row + 1], int(data.test_truth[row])) for row in range(ADDED)]

    def learn() -> None:
        for key, label in more:
            baseline.learn_one(key, label)

    spent = _cpu_s(learn)
    return {"more_us": spent / ADDED * 1e6, "again": False}
