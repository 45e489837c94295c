"""Synthetic results, for tests of tables, plots and claims."""

import hashlib

from lab.parts import Part

# The error of each baseline.
ERRORS = {"ours": 0.2, "ours-best": 0.19, "cmt": 0.5, "cmt-u": 0.6, "exact-1nn": 0.3, "vw-oaa": 0.4, "linear": 0.1}


def result(part: Part, errors: dict[str, float] = ERRORS, **more) -> dict:
    """Return a result of a part: deterministic, and slightly different for each seed."""
    digest = hashlib.sha256(part.label.encode()).digest()
    error = errors.get(part.baseline, 0.8) + digest[0] / 1e5
    figures = {
        "status": "ok",
        "wall_s": 1.0,
        "error": error,
        "entropy_reduction": 10 * (1 - error),
        "query_us": 10.0 + digest[1],
        "call_us": 20.0 + digest[1],
        "fit_s": 1.5,
        "cpu_s": 2.0,
        "bytes": 2**20,
        "peak_bytes": 2**27,
        "hamming": 3 * error,
        "p1": 1 - error,
        "p3": 0.8 - error / 2,
        "p5": 0.6 - error / 2,
        "reward": 1 - error,
        "centred": 0.5 - error / 2,
        "curve": [[1, 1.0, None], [10, 0.9, 1.0], [100, error, 3.0]],
    }
    return {**figures, **own_figures(part, error), **more}


def own_figures(part: Part, error: float) -> dict:
    """Return the figures of the jobs of single experiments."""
    options = dict(part.options)
    if part.job.endswith(":grow"):
        n = options["n"]
        depth = {"average_depth": n.bit_length() + 0.5, "depth": n.bit_length() + 2, "leaf_limit": 40, "router_error": 0.1}
        return {**depth, "insert_us": 5.0, "query_us": float(n.bit_length()), "bytes": 700.0, "beyond_key": 188.0}
    if part.job.endswith(":trial"):
        return {"sizes": [size(part.baseline, n, error) for n in options["sizes"]]}
    if part.job.endswith(":passes"):
        values = range(options["passes"] + 1)
    elif "values" in options:
        values = options["values"]
    else:
        return {}
    return {"points": [point(value, place, error) for place, value in enumerate(values)]}


def size(baseline: str, n: int, error: float) -> dict:
    linear = baseline in ("bm25", "exact-1nn", "attention", "vw-oaa", "faiss-lsh", "nca")
    time = {"query_us": n / 100 if linear else 10.0, "insert_us": 3.0, "more_us": 12.0, "again": baseline in ("bm25", "nca")}
    return {"n": n, **time, "beyond_key": 50.0, "error": error, "own_key_error": 0.0}


def point(value, place: int, error: float) -> dict:
    falling = 0.8 / (1 + 10 * place)
    figures = {
        "error": error * falling,
        "before": error,
        "train_error": falling,
        "own_key_error": falling,
        "after_sweep": 0.0,
    }
    times = {"query_us": 2.0 + place, "insert_us": 3.0, "fit_s": 1.0, "learn_s": 1.0}
    return {"value": value, **figures, **times, "bytes": 800.0, "memories": 100}


def results(experiment, plan, **more) -> dict:
    """Return synthetic results of all parts of an experiment."""
    return {part: result(part, **more) for part in experiment.parts(plan)}
