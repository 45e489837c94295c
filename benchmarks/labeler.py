"""All that the benchmarks ask of `MemoryTreeMultilabelClassifier`; `measure` is run in a child."""

from contextlib import nullcontext
from unittest import mock

from benchmarks.learner import shuffled_rewards
from memorytree import MemoryTree
from memorytree.estimators import MemoryTreeMultilabelClassifier
from memorytree.estimators.metrics import hamming_loss, micro_f1, precision_at
from memorytree.lab.measuring import cpu_seconds, peak_bytes
from memorytree.lab.process import read as load

WARMING = 400


def read(spec: dict):
    return [load(spec["folder"], name) for name in ("train", "labels", "test", "truth")]


def judged(truth, predicted, ranked) -> dict:
    found = {f"p{k}": 100 * precision_at(k, truth, ranked) for k in (1, 3, 5)}
    return {"hl": hamming_loss(truth, predicted), "f1": micro_f1(truth, predicted), **found}


def controlled(spec: dict):
    if spec.get("silent"):
        return mock.patch.object(MemoryTree, "update_many", return_value=None)
    return shuffled_rewards(spec["seed"]) if spec.get("shuffled") else nullcontext()


def measure(spec: dict) -> dict:
    """Compile on a few rows, then fit and predict."""
    train, labels, test, truth = read(spec)
    learn = "partial_fit" if spec.get("once") else "fit"
    few = getattr(MemoryTreeMultilabelClassifier(random_state=0), learn)(train[:WARMING], labels[:WARMING])
    few.predict_topk(train[:WARMING], 5)
    model = MemoryTreeMultilabelClassifier(random_state=spec["seed"])
    with controlled(spec):
        fit_s, _ = cpu_seconds(lambda: getattr(model, learn)(train, labels))
    query_s, predicted = cpu_seconds(lambda: model.predict(test), spec["repeats"])
    times = {"query_us": query_s / test.shape[0] * 1e6, "fit_s": fit_s, "peak_gb": peak_bytes() / 2**30}
    return {**times, **judged(truth, predicted, model.predict_topk(test, 5)[0])}
