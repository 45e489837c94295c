"""What a peer is asked to do: learn and be asked (`batch`), or learn while it is asked (`online`).

A job is a function (peer class, source of the data, seed, options) -> figures, run in a process of its own (`process.py`).
Times are CPU times.
"""

from __future__ import annotations

import ctypes
import gc
import time
from typing import Any

import numpy as np

from memorytree.errors import InvalidOption
from memorytree.estimators.metrics import centered_reward, mean_reward, precision_at
from memorytree.estimators.progressive import Progress
from memorytree.lab.datasets import Dataset, Source
from memorytree.lab.measuring import cpu_of_one, cpu_seconds, peak_bytes, resident_bytes
from memorytree.lab.peers import Peer
from memorytree.lab.process import note

REPEATS, ENOUGH = 5, 10.0  # batches are repeated so often, but not after so many CPU seconds
SINGLY, FIRST, ENOUGH_SINGLY = 200, 5, 3.0
POINTS = 30  # of a curve
RANKED = 5  # labels that are ranked


class Unsuited(InvalidOption):
    """A data set that a peer cannot take."""


def batch(kind: type[Peer], source: Source, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """Learn from all training rows, then be asked about the test rows: many at once, and one at a time."""
    data = source.load()
    peer = suited(kind, data)(seed, **options)
    peer.prepare(data)
    before = settled_bytes()
    fit_s, _ = cpu_seconds(lambda: peer.fit(data))
    figures: dict[str, Any] = {"rows": data.rows, "fit_s": max(fit_s - peer.uncounted_s, 0.0)}
    figures["resident_bytes"] = max(settled_bytes() - before, 0)
    held = peer.bytes()
    figures["bytes"] = figures["resident_bytes"] if held is None else held
    note(**figures)
    k = RANKED if data.kind == "labels" else 1
    rows = read_as(peer, data.test_texts, data.test)
    asked, repeats = peer.ready(rows), source.repeats(REPEATS)
    query_s, found = cpu_of_one(lambda: peer.predict(asked, k), repeats, ENOUGH)
    figures["query_us"] = query_s / data.test.shape[0] * 1e6
    figures |= judged(peer, data, rows, found)
    note(**figures)
    figures["call_us"] = call_us(peer, rows, k, repeats) if peer.batches else figures["query_us"]
    return {**figures, "peak_bytes": peak_bytes()}


def suited(kind: type[Peer], data: Dataset) -> type[Peer]:
    """The peer, if it can take such data."""
    shape = "sparse" if data.sparse else "dense"
    if data.kind not in kind.kinds or shape not in kind.keys:
        raise Unsuited(
            f"{kind.name} takes {' or '.join(sorted(kind.keys))} keys for {' or '.join(sorted(kind.kinds))}; "
            f"{data.name} has {shape} keys for {data.kind}"
        )
    if kind.reads == "texts" and data.texts is None:
        raise Unsuited(f"{kind.name} reads texts; {data.name} has none")
    return kind


def read_as(peer: Peer, texts: Any, rows: Any) -> Any:
    """Texts or keys: what a peer reads."""
    return rows if peer.reads == "rows" or texts is None else texts


def settled_bytes() -> int:
    """The memory of this process after it has given back what it can."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):  # not this C library
        pass
    return resident_bytes()


def call_us(peer: Peer, rows: Any, k: int, repeats: int) -> float:
    """CPU µs of a call that asks about one row."""
    many = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    calls = [peer.ready(rows[row : row + 1]) for row in range(min(SINGLY, many))]
    first_s, _ = cpu_seconds(lambda: [peer.predict(call, k) for call in calls[:FIRST]])
    calls = calls[: max(FIRST, int(FIRST * ENOUGH_SINGLY / max(first_s, 1e-9)))]
    spent_s, _ = cpu_of_one(lambda: [peer.predict(call, k) for call in calls], repeats, ENOUGH_SINGLY)
    return spent_s / len(calls) * 1e6


def judged(peer: Peer, data: Dataset, rows: Any, found: Any) -> dict[str, Any]:
    """The scores of what a peer answered."""
    if data.kind == "classes":
        progress = Progress()
        for right, label in zip((found == data.test_truth).tolist(), data.test_truth.tolist(), strict=True):
            progress.note(right, label)
        return {"error": progress.error, "entropy_reduction": bits(progress)}
    if data.kind == "labels":
        ranked = {f"p{k}": None if found is None else precision_at(k, data.test_truth, found) for k in (1, 3, 5)}
        return {"hamming": peer.hamming(rows, data.test_truth), **ranked}
    returned = data.truth[found[:, 0]]
    centred = centered_reward(data.test_truth, returned, data.truth.mean(axis=0))
    return {"reward": mean_reward(data.test_truth, returned), "centred": centred}


def bits(progress: Progress) -> float | None:
    """Entropy reduction, or None while nothing was right."""
    return None if progress.mistakes == progress.rows else progress.entropy_reduction


def online(kind: type[Peer], source: Source, seed: int, options: dict[str, Any]) -> dict[str, Any]:
    """One pass over the training rows: each is predicted, then learned from."""
    data = source.load()
    peer = suited(kind, data)(seed, **options)
    if not peer.incremental or data.kind != "classes":
        raise InvalidOption(f"{peer.name} on {data.name}: only peers that learn row by row can be followed, on classes")
    peer.prepare(data)
    progress, curve = Progress(), []
    points = set(np.geomspace(1, data.rows, POINTS).round().astype(int).tolist())
    rows = read_as(peer, data.texts, data.train)
    start = time.process_time()
    for row, label in enumerate(data.truth.tolist()):
        key = rows[row : row + 1]
        # Before the first lesson nothing can be known.
        progress.note(bool(row) and int(peer.predict(key)[0]) == label, label)
        peer.learn_one(key, label)
        if progress.rows in points:
            curve.append([progress.rows, progress.error, bits(progress)])
            note(rows=progress.rows, curve=curve)
    figures = {"rows": data.rows, "cpu_s": time.process_time() - start, "curve": curve, "peak_bytes": peak_bytes()}
    return {**figures, "error": progress.error, "entropy_reduction": bits(progress)}
