"""The workload of the table of desiderata, and what is measured of a peer on it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from memorytree.lab.datasets import Dataset, Source
from memorytree.lab.jobs import read_as, settled_bytes
from memorytree.lab.measuring import cpu_of_one, peak_bytes
from memorytree.lab.peers import Peer
from memorytree.lab.process import note
from memorytree.lab.trials.consistency import own_key_error

DIMS, TELLING, SPREAD = 64, 16, 0.6  # of 64 features 16 tell classes apart, the others only distract
ROWS_A_CLASS, WORDS = 10, 16
ASKED, OWN, MORE, REPEATS = 1000, 1000, 200, 3
KEY_BYTES = 4 * DIMS


def workload(n: int, seed: int) -> Dataset:
    """n memories with dense keys, ten for each value on average; the same keys as words, for who reads texts.

    A word names one of a key's sixteen largest features and its sign, so what is near shares words.
    """
    chance = np.random.default_rng(seed)
    classes = max(2, n // ROWS_A_CLASS)
    centres = chance.standard_normal((classes, TELLING), dtype=np.float32)

    def draw(rows: int) -> tuple[np.ndarray, np.ndarray]:
        labels = chance.integers(0, classes, rows)
        keys = chance.standard_normal((rows, DIMS), dtype=np.float32)
        keys[:, :TELLING] = centres[labels] + SPREAD * keys[:, :TELLING]
        return keys, labels.astype(np.int64)

    (train, truth), (test, test_truth) = draw(n), draw(ASKED)
    return Dataset(f"workload-{n}", "classes", train, truth, test, test_truth, words(train), words(test))


def words(keys: np.ndarray) -> list[str]:
    """Keys as texts."""
    largest = np.argpartition(-np.abs(keys), WORDS, axis=1)[:, :WORDS]
    return [
        " ".join(f"{'plus' if keys[row, place] > 0 else 'minus'}{place}" for place in places)
        for row, places in enumerate(largest.tolist())
    ]


def trial(kind: type[Peer], source: Source, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """All figures of one peer for each size in `sizes`; other options are the peer's."""
    sizes = options["sizes"]
    settings = {name: value for name, value in options.items() if name != "sizes"}
    found: list[dict[str, Any]] = []
    for n in sizes:
        found.append(_one(kind(seed, **settings), workload(n, seed), source.repeats(REPEATS)))
        note(sizes=found)
    return {"sizes": found, "peak_bytes": peak_bytes()}


def _one(peer: Peer, data: Dataset, repeats: int) -> dict[str, Any]:
    peer.prepare(data)
    before = settled_bytes()
    fit_s = max(_cpu_s(lambda: peer.fit(data)) - peer.uncounted_s, 0.0)
    held = peer.bytes()
    if held is None:
        held = max(settled_bytes() - before, 0)
    asked = peer.ready(read_as(peer, data.test_texts, data.test))
    query_s, answers = cpu_of_one(lambda: peer.predict(asked), repeats, 10)
    return {
        "n": data.rows,
        "query_us": query_s / ASKED * 1e6,
        "insert_us": fit_s / data.rows * 1e6,
        "beyond_key": _beyond_key(held / data.rows),
        "error": float(np.mean(answers != data.test_truth)),
        "own_key_error": _own(peer, data),
        **_one_more(peer, data, fit_s),
    }


def _cpu_s(work: Callable[[], Any]) -> float:
    """CPU seconds of some work: the clock of the process ticks coarsely, that of the thread misses what others do."""
    process, thread = time.process_time(), time.thread_time()
    work()
    return max(time.process_time() - process, time.thread_time() - thread)


def _beyond_key(held: float) -> float:
    """Bytes a memory without its key; who holds fewer bytes than a key reads keys where they are."""
    return held - KEY_BYTES if held >= KEY_BYTES else held


def _own(peer: Peer, data: Dataset) -> float:
    """Asked for stored keys: the share for which another memory comes back, or, from who keeps none, another value."""
    own = read_as(peer, data.texts, data.train)[:OWN]
    found = peer.memories(own)
    if found is not None:
        return own_key_error(data.train, found[:, 0])
    return float(np.mean(peer.predict(own) != data.truth[:OWN]))


def _one_more(peer: Peer, data: Dataset, fit_s: float) -> dict[str, Any]:
    """What one more memory costs now: learning it, or, for who cannot, learning everything again."""
    if not peer.grows:
        return {"more_us": fit_s * 1e6, "again": True}
    rows = read_as(peer, data.test_texts, data.test)
    more = [(rows[row : row + 1], int(data.test_truth[row])) for row in range(MORE)]

    def learn() -> None:
        for key, label in more:
            peer.learn_one(key, label)

    spent = _cpu_s(learn)
    return {"more_us": spent / MORE * 1e6, "again": False}
