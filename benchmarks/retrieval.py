"""Images by captions: `MemoryTreeRetriever` on Flickr8k, beside exact search and a ridge map.

A memory's key is the five captions of an image together (`text_keys`: hashed words, TF-IDF), its value's features what a
network sees in the image; a query is the captions of an image that is not stored, and the reward is the cosine of the image
returned and the true one. Five random 90/10 splits. "unsupervised" only stores; "supervised" then learns from the rewards of
the 8 log2 n memories returned for each stored caption, its own left out, at the defaults; "shuffled" deals the rewards of
every query out to its memories at random. Exact search: Euclidean on counts (the paper's) by scikit-learn's linear scan, and
by the leanest scan that we could write with scipy; cosine of TF-IDF by an inverted index (scipy's product). Ridge: from
captions to image features, then the stored image with the largest cosine (its penalty chosen on a tenth of the training
rows), which reads all images for every query and is given the true image in training, not rewards. Centred: the same after
the mean image was taken from both, so that an image that is a little like all others earns nothing by that. CPU time on one
thread, one query at a time and all at once; growth is measured with single captions as keys, so that there are more of them.
"""

import time
from statistics import mean, stdev

import numpy as np
import scipy.sparse as sp

from benchmarks import child, data
from benchmarks.child import load
from benchmarks.report import Job, Report, Table
from memorytree.estimators import MemoryTreeRetriever, metrics, text_keys
from memorytree.lab.measuring import cpu_seconds, peak_bytes

OURS = ("unsupervised", "supervised", "shuffled")
SCAN, LEAN, INDEX, RIDGE = EXACT = (
    "counts, scikit-learn's scan",
    "counts, leanest scan",
    "TF-IDF, inverted index",
    "ridge map, all images",
)
PENALTIES = (1.0, 3.0, 10.0)
SINGLY = 200  # queries that are asked one at a time
COLUMNS = ["", "reward", "± over splits", "centred", "µs singly", "µs in a batch", "training CPU s"]


def run(job: Job) -> Report:
    report = Report("Images by captions", __doc__)
    seeds = job.seeds()
    sizes = [500, 1000] if job.quick else [1000, 2000, 4000, 8000, 16000, 32000]
    job.step("starting", len(seeds) * (len(OURS) + 1) + len(sizes))
    runs: dict[str, list[dict]] = {name: [] for name in (*OURS, *EXACT)}
    for seed in seeds:
        texts, images, asked, truth = data.flickr(job.data, seed, images=1000 if job.quick else None)
        counts, keys = text_keys(tfidf=False), text_keys().fit(texts)
        arrays = {
            "keys": keys.transform(texts).astype(np.float32),
            "asked": keys.transform(asked).astype(np.float32),
            "counts": counts.transform(texts).astype(np.float32),
            "asked_counts": counts.transform(asked).astype(np.float32),
            "images": images,
            "truth": truth,
        }
        with child.Arrays(**arrays) as folder:
            for name in OURS:
                job.step(f"split {seed}, {name}")
                runs[name].append(child.call("benchmarks.retrieval:ours", {"folder": folder, "seed": seed, "kind": name}))
            job.step(f"split {seed}, exact search")
            for name, found in child.call("benchmarks.retrieval:exact", {"folder": folder, "seed": seed}).items():
                runs[name].append(found)
    report.runs = {"splits": runs, "growth": growth(job, sizes)}
    table = Table(f"{len(seeds)} splits", COLUMNS)
    for name, found in runs.items():
        rewards = [one["reward"] for one in found]
        best = [min(one[figure] for one in found) for figure in ("singly_us", "batch_us", "train_s")]
        spread = stdev(rewards) if len(rewards) > 1 else None
        table.add(name, mean(rewards), spread, mean(one["centred"] for one in found), *best)
    report.tables.append(table)
    columns = ["memories", "µs singly", "scikit-learn's scan", "leanest scan", "bytes a memory"]
    times = Table("Growth: memories with single captions as keys", columns)
    for one in report.runs["growth"]:
        times.add(one["memories"], one["singly_us"], one["scan_us"], one["lean_us"], one["bytes"])
    report.tables.append(times)
    judge(report, runs)
    report.figure = plot(runs, report.runs["growth"])
    return report


def judge(report: Report, runs: dict[str, list[dict]]) -> None:
    reward = {name: mean(one["reward"] for one in found) for name, found in runs.items()}
    report.at_least("unsupervised: mean reward", 0.465, reward["unsupervised"])
    report.at_least("supervised: mean reward", 0.515, reward["supervised"])
    report.at_most("supervised: mean reward less than the ridge map's", 0.01, reward[RIDGE] - reward["supervised"])
    report.at_least("supervised: above no reward", 0.0, reward["supervised"] - reward["unsupervised"])
    report.at_least("supervised: above shuffled rewards", 0.0, reward["supervised"] - reward["shuffled"])
    for name in OURS[:2]:
        ratios = [other["singly_us"] / one["singly_us"] for one, other in zip(runs[name], runs[SCAN], strict=True)]
        report.at_least(f"{name}: times faster than scikit-learn's scan, both one by one", 20, mean(ratios), "x")
    first, *_, last = report.runs["growth"]
    rows, spent = last["memories"] / first["memories"], last["singly_us"] / first["singly_us"]
    logs = np.log(last["memories"]) / np.log(first["memories"])
    report.at_most(f"query time, memories times {rows:g} (log n times {logs:.2f})", 2 * logs, spent, "x")


# ---- what the children do


def one_by_one(answer, queries) -> float:
    """Return CPU µs a query, the least of three."""
    rows = [queries[i : i + 1] for i in range(min(SINGLY, queries.shape[0]))]
    spent, _ = cpu_seconds(lambda: [answer(row) for row in rows], 3)
    return spent / len(rows) * 1e6


def judged(images, truth, found) -> dict:
    center = images.mean(axis=0)
    answers = images[found]
    return {"reward": metrics.mean_reward(truth, answers), "centred": metrics.centered_reward(truth, answers, center)}


def ours(spec: dict) -> dict:
    """Store, learn, and answer."""
    keys, asked, images, truth = (load(spec["folder"], name) for name in ("keys", "asked", "images", "truth"))
    own, chance = np.arange(keys.shape[0])[:, None], np.random.default_rng(spec["seed"])

    def reward(row, hits):
        rewards = np.clip(images[hits.ids] @ images[row], 0, 1)
        return (chance.permutation(rewards) if spec["kind"] == "shuffled" else rewards).tolist()

    def fit(rows):
        retriever = MemoryTreeRetriever(random_state=spec["seed"])
        retriever.fit(keys[:rows], features=images[:rows])
        if spec["kind"] != "unsupervised":
            retriever.learn(keys[:rows], reward, exclude=own[:rows])
        return retriever

    fit(200).retrieve(asked)  # compiles
    train_s, retriever = cpu_seconds(lambda: fit(keys.shape[0]))
    batch_s, found = cpu_seconds(lambda: retriever.retrieve(asked), 5)
    memory = retriever.memory_
    memory.query(asked[:1])
    return {
        **judged(images, truth, found.ids[:, 0]),
        "batch_us": batch_s / asked.shape[0] * 1e6,
        "singly_us": one_by_one(memory.query, asked),
        "train_s": train_s,
        "peak_mb": peak_bytes() / 2**20,
    }


def occurring(counts):
    """Return rows with only the columns that occur, and a function that makes the same of a query."""
    used, places = np.unique(counts.indices, return_inverse=True)
    rows = sp.csr_matrix((counts.data, places.astype(np.int32), counts.indptr), shape=(counts.shape[0], len(used)))
    column = np.full(counts.shape[1], -1)
    column[used] = np.arange(len(used))

    def narrowed(query):
        at = column[query.indices]
        return at[at >= 0], query.data[at >= 0]

    return rows, narrowed


def scan_of(counts):
    """Return exact Euclidean search among sparse rows as scikit-learn has it."""
    from sklearn.neighbors import NearestNeighbors

    rows, narrowed = occurring(counts)
    scan = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(rows)

    def answer(query):
        at, weights = narrowed(query)
        query = sp.csr_matrix((weights, at, [0, len(at)]), shape=(1, rows.shape[1]))
        return int(scan.kneighbors(query, return_distance=False)[0, 0])

    return answer


def lean_scan_of(counts):
    """Return the same with as little around it as can be: one product with a dense query."""
    rows, narrowed = occurring(counts)
    lengths = np.asarray(counts.multiply(counts).sum(axis=1)).ravel()

    def answer(query):
        at, weights = narrowed(query)
        dense = np.zeros(rows.shape[1], np.float32)
        dense[at] = weights
        return int((lengths - 2 * (rows @ dense)).argmin())

    return answer


def exact(spec: dict) -> dict:
    """Exact search among all memories, by counts, by TF-IDF and by a ridge map."""
    from sklearn.kernel_ridge import KernelRidge

    names = ("keys", "asked", "counts", "asked_counts", "images", "truth")
    keys, asked, counts, asked_counts, images, truth = (load(spec["folder"], name) for name in names)
    columns = keys.T.tocsr()
    held_out = keys.shape[0] // 10

    def map_of(penalty, rows):
        return KernelRidge(alpha=penalty).fit(keys[rows], images[rows])

    def ridge_answers(model, queries, choices):
        return (model.predict(queries) @ choices.T).argmax(axis=1)

    def merit(penalty):
        rest = slice(held_out, None)
        found = ridge_answers(map_of(penalty, rest), keys[:held_out], images[rest])
        return metrics.mean_reward(images[:held_out], images[rest][found])

    start = time.process_time()
    best = max(PENALTIES, key=merit)
    ridge = map_of(best, slice(None))
    spent = time.process_time() - start
    weights = keys.T @ ridge.dual_coef_  # the same map, without going over all training rows
    systems = {
        SCAN: (scan_of(counts), asked_counts, 0.0),
        LEAN: (lean_scan_of(counts), asked_counts, 0.0),
        INDEX: (lambda query: int((query @ columns).toarray().argmax()), asked, 0.0),
        RIDGE: (lambda query: int((images @ (query @ weights).T).argmax()), asked, spent),
    }
    batches = {
        SCAN: None,
        LEAN: None,
        INDEX: lambda: (asked @ columns).toarray().argmax(axis=1),
        RIDGE: lambda: ((asked @ weights) @ images.T).argmax(axis=1),
    }
    found = {}
    for name, (answer, queries, train_s) in systems.items():
        answers = [answer(queries[i : i + 1]) for i in range(queries.shape[0])]
        singly = one_by_one(answer, queries)
        spent = cpu_seconds(batches[name], 3)[0] / asked.shape[0] * 1e6 if batches[name] else singly
        found[name] = {**judged(images, truth, answers), "singly_us": singly, "batch_us": spent, "train_s": train_s}
    return found


def growth(job: Job, sizes: list[int]) -> list[dict]:
    """Return the time of a query as memories come; their keys are single captions."""
    texts, images = data.flickr_captions(job.data)
    order = np.random.default_rng(job.seed).permutation(len(texts))[: sizes[-1] + 500]
    chosen = [texts[i] for i in order]
    keys = text_keys().fit(chosen[: sizes[-1]])
    arrays = {
        "keys": keys.transform(chosen).astype(np.float32),
        "counts": text_keys(tfidf=False).transform(chosen).astype(np.float32),
        "images": images[order],
    }
    found = []
    with child.Arrays(**arrays) as folder:
        for size in sizes:
            job.step(f"growth, {size:,} memories")
            found.append(child.call("benchmarks.retrieval:grown", {"folder": folder, "seed": job.seed, "memories": size}))
    return found


def grown(spec: dict) -> dict:
    """The time of a query, and the bytes, at one size."""
    keys, counts, images = (load(spec["folder"], name) for name in ("keys", "counts", "images"))
    n = spec["memories"]
    retriever = MemoryTreeRetriever(passes=1, random_state=spec["seed"]).fit(keys[:n], features=images[:n])
    some = np.arange(0, n, max(1, n // 500))
    retriever.learn(
        keys[some],
        lambda i, hits: np.clip(images[hits.ids] @ images[some[i]], 0, 1).tolist(),
        exclude=some[:, None],
    )
    memory = retriever.memory_
    memory.query(keys[-1])
    singly = one_by_one(memory.query, keys[n:])
    return {
        "memories": n,
        "singly_us": singly,
        "scan_us": one_by_one(scan_of(counts[:n]), counts[n:]),
        "lean_us": one_by_one(lean_scan_of(counts[:n]), counts[n:]),
        "bytes": memory.stats().bytes / n,
    }


def plot(runs: dict[str, list[dict]], grown: list[dict]):
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4.2))
    left, right = figure.subplots(1, 2)
    for (name, found), marker in zip(runs.items(), "os^DvP*", strict=True):
        spent = min(one["singly_us"] for one in found)
        left.plot([spent], [mean(one["reward"] for one in found)], marker, markersize=9, label=name)
    left.set(xscale="log", xlabel="CPU µs a query, one by one", ylabel="mean reward", title="Images by captions")
    left.legend(fontsize=7)
    sizes = [one["memories"] for one in grown]
    right.plot(sizes, [one["singly_us"] for one in grown], "o-", label="memorytree, supervised")
    right.plot(sizes, [one["scan_us"] for one in grown], "s-", label="scikit-learn's scan")
    right.plot(sizes, [one["lean_us"] for one in grown], "^-", label="leanest scan")
    right.set(xscale="log", yscale="log", xlabel="memories", ylabel="CPU µs a query, one by one", title="Growth")
    right.legend(fontsize=8)
    for axes in (left, right):
        axes.grid(alpha=0.3)
    return figure
