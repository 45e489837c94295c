"""The two general jobs: fit and predict (`batch`), or predict and learn row by row (`online`).

A job is a function (baseline class, source of the data, options) -> figures, run in a process of its own (`process.py`).
Times are CPU times.
"""

from __future__ import annotations

import ctypes
import gc
import time
from typing import Any

import numpy as np

from lab.baselines import Baseline
from lab.datasets import Dataset, Rows, Source
from lab.measuring import cpu_per_call, cpu_seconds, peak_bytes, resident_bytes
from lab.process import save_partial
from memorytree.errors import InvalidOption
from memorytree.estimators import ProgressiveResult
from memorytree.estimators.metrics import centered_reward, mean_reward, precision_at_k

BATCH_REPEATS, BATCH_LIMIT_S = 5, 10.0  # a batch is repeated this often, unless that exceeds these CPU seconds
SINGLE_CALLS, TRIAL_CALLS, SINGLE_LIMIT_S = 200, 5, 3.0
CURVE_POINTS = 30
RANKED_LABELS = 5


class UnsuitedData(InvalidOption):
    """A data set that a baseline cannot take."""


def batch(kind: type[Baseline], source: Source, options: dict[str, Any]) -> dict[str, Any]:
    """Fit all training rows, then predict the test rows: in one batch, and one at a time."""
    data = source.load()
    baseline = check_suited(kind, data)(source.seed, **options)
    baseline.prepare(data)
    before = settled_resident_bytes()
    fit_s, _ = cpu_seconds(lambda: baseline.fit(data))
    figures: dict[str, Any] = {"rows": data.rows, "fit_s": max(fit_s - baseline.excluded_s, 0.0)}
    figures["resident_bytes"] = max(settled_resident_bytes() - before, 0)
    held = baseline.bytes()
    figures["bytes"] = figures["resident_bytes"] if held is None else held
    save_partial(**figures)
    k = RANKED_LABELS if data.kind == "labels" else 1
    rows = inputs_for(baseline, data.test_texts, data.test)
    encoded, repeats = baseline.encode(rows), source.repeats(BATCH_REPEATS)
    query_s, found = cpu_per_call(lambda: baseline.predict(encoded, k), repeats, BATCH_LIMIT_S)
    figures["query_us"] = query_s / data.test.shape[0] * 1e6
    figures |= scores_of(baseline, data, rows, found)
    save_partial(**figures)
    figures["call_us"] = call_us(baseline, rows, k, repeats) if baseline.batches else figures["query_us"]
    return {**figures, "peak_bytes": peak_bytes()}


def check_suited(kind: type[Baseline], data: Dataset) -> type[Baseline]:
    """Return the baseline, or raise `UnsuitedData` if it cannot take this data set."""
    shape = "sparse" if data.sparse else "dense"
    if data.kind not in kind.kinds or shape not in kind.keys:
        raise UnsuitedData(
            f"{kind.name} takes {' or '.join(sorted(kind.keys))} keys for {' or '.join(sorted(kind.kinds))}; "
            f"{data.name} has {shape} keys for {data.kind}"
        )
    if kind.reads == "texts" and data.texts is None:
        raise UnsuitedData(f"{kind.name} reads texts; {data.name} has none")
    return kind


def inputs_for(baseline: Baseline, texts: Rows, rows: Rows) -> Rows:
    """Return texts or keys, whichever the baseline reads."""
    return rows if baseline.reads == "rows" or texts is None else texts


def settled_resident_bytes() -> int:
    """Return the resident memory of this process after unused memory was returned to the system."""
    gc.collect()
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (AttributeError, OSError):  # a C library other than glibc
        pass
    return resident_bytes()


def call_us(baseline: Baseline, rows: Rows, k: int, repeats: int) -> float:
    """Return CPU µs of a call that predicts one row."""
    many = rows.shape[0] if hasattr(rows, "shape") else len(rows)
    calls = [baseline.encode(rows[row : row + 1]) for row in range(min(SINGLE_CALLS, many))]
    first_s, _ = cpu_seconds(lambda: [baseline.predict(call, k) for call in calls[:TRIAL_CALLS]])
    calls = calls[: max(TRIAL_CALLS, int(TRIAL_CALLS * SINGLE_LIMIT_S / max(first_s, 1e-9)))]
    spent_s, _ = cpu_per_call(lambda: [baseline.predict(call, k) for call in calls], repeats, SINGLE_LIMIT_S)
    return spent_s / len(calls) * 1e6


def scores_of(baseline: Baseline, data: Dataset, rows: Rows, found: Any) -> dict[str, Any]:
    """Return the scores of predictions for the test rows."""
    if data.kind == "classes":
        progress = ProgressiveResult()
        for right, label in zip((found == data.test_truth).tolist(), data.test_truth.tolist(), strict=True):
            progress.add(right, label)
        return {"error": progress.error, "entropy_reduction": entropy_reduction(progress)}
    if data.kind == "labels":
        ranked = {f"p{k}": None if found is None else precision_at_k(data.test_truth, found, k) for k in (1, 3, 5)}
        return {"hamming": baseline.hamming(rows, data.test_truth), **ranked}
    returned = data.truth[found[:, 0]]
    centred = centered_reward(data.test_truth, returned, data.truth.mean(axis=0))
    return {"reward": mean_reward(data.test_truth, returned), "centred": centred}


def entropy_reduction(progress: ProgressiveResult) -> float | None:
    """Return the entropy reduction in bits, or None while no prediction was right."""
    return None if progress.mistakes == progress.rows else progress.entropy_reduction


def online(kind: type[Baseline], source: Source, options: dict[str, Any]) -> dict[str, Any]:
    """One pass over the training rows: each row is predicted, then learned."""
    data = source.load()
    baseline = check_suited(kind, data)(source.seed, **options)
    if not baseline.incremental or data.kind != "classes":
        raise InvalidOption(f"{baseline.name} on {data.name}: only incremental baselines run online, on classes")
    baseline.prepare(data)
    progress, curve = ProgressiveResult(), []
    points = set(np.geomspace(1, data.rows, CURVE_POINTS).round().astype(int).tolist())
    rows = inputs_for(baseline, data.texts, data.train)
    start = time.process_time()
    for row, label in enumerate(data.truth.tolist()):
        key = rows[row : row + 1]
        # The first row counts as wrong: there is no training row to predict it from.
        progress.add(bool(row) and int(baseline.predict(key)[0]) == label, label)
        baseline.learn_one(key, label)
        if progress.rows in points:
            curve.append([progress.rows, progress.error, entropy_reduction(progress)])
            save_partial(rows=progress.rows, curve=curve)
    figures = {"rows": data.rows, "cpu_s": time.process_time() - start, "curve": curve, "peak_bytes": peak_bytes()}
    return {**figures, "error": progress.error, "entropy_reduction": entropy_reduction(progress)}
