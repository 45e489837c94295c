"""Images by captions: `MemoryTreeRetriever` on Flickr8k, beside exact search and a ridge map.

A memory's key is the five captions of an image together (`text_vectorizer`: hashed words, TF-IDF), the features of its value
are the image features of a network; a query is the captions of an image that is not stored, and the reward is the cosine of
the returned image and the true one. Five random 90/10 splits. "unsupervised" only stores; "supervised" then learns, at the
defaults, from the rewards of the 8 log2 n memories returned for each stored caption, its own excluded; "shuffled" permutes
the rewards of every query among its memories. Exact search: Euclidean on counts (the paper's) by scikit-learn's linear scan,
and by the leanest scan that we could write with scipy; cosine of TF-IDF by an inverted index (scipy's product). Ridge: a map
from captions to image features, then the stored image with the largest cosine (its penalty chosen on a tenth of the training
rows); it reads all images for every query and is trained on the true images, not on rewards. Centred: the same reward after
the mean image was subtracted from both, so that an image that is similar to all others gains nothing by that. CPU time on
one thread, one query at a time and all at once; growth is measured with single captions as keys, of which there are more.
"""

from statistics import mean

import numpy as np

from lab import process
from lab.baselines.base import ColumnSubset
from lab.baselines.exact import CountScan
from lab.benchmarks.report import Job, Report, spread
from lab.datasets.standard import flickr_captions
from lab.measuring import cpu_seconds, peak_bytes
from lab.process import read_arrays
from lab.tables import Table
from memorytree.estimators import MemoryTreeRetriever, metrics
from memorytree.text.features import text_vectorizer

OURS = ("unsupervised", "supervised", "shuffled")
SCAN, LEAN, INDEX, RIDGE = EXACT = (
    "counts, scikit-learn's scan",
    "counts, leanest scan",
    "TF-IDF, inverted index",
    "ridge map, all images",
)
BASELINES = {LEAN: "exact-1nn-counts", INDEX: "exact-1nn", RIDGE: "linear"}
SINGLE_CALLS = 200
COLUMNS = ["system", "reward", "± over splits", "centred", "µs singly", "µs in a batch", "training CPU s"]


def run(job: Job) -> Report:
    """Run the benchmark."""
    report = Report("Images by captions", __doc__)
    seeds = job.seeds()
    sizes = [500, 1000] if job.quick else [1000, 2000, 4000, 8000, 16000, 32000]
    job.step("starting", len(seeds) * (len(OURS) + 1) + len(sizes))
    runs: dict[str, list[dict]] = {name: [] for name in (*OURS, *EXACT)}
    for seed in seeds:
        split, counts = job.load("flickr8k", seed=seed), text_vectorizer(tfidf=False)
        arrays = {
            "keys": split.train,
            "queries": split.test,
            "counts": counts.transform(split.texts).astype(np.float32),
            "query_counts": counts.transform(split.test_texts).astype(np.float32),
            "images": split.truth,
            "truth": split.test_truth,
        }
        with process.SharedArrays(**arrays) as folder:
            for name in OURS:
                job.step(f"split {seed}, {name}")
                runs[name].append(
                    process.call(
                        "lab.benchmarks.retrieval:measure_retriever", {"folder": folder, "seed": seed, "kind": name}
                    )
                )
            job.step(f"split {seed}, exact search")
            runs[SCAN].append(process.call("lab.benchmarks.retrieval:measure_scan", {"folder": folder}))
            for name, baseline in BASELINES.items():
                runs[name].append(run_baseline(baseline, seed, job))
    report.runs = {"splits": runs, "growth": growth(job, sizes)}
    table = Table(f"{len(seeds)} splits", COLUMNS)
    for name, found in runs.items():
        rewards = [one["reward"] for one in found]
        best = [min(one[figure] for one in found) for figure in ("singly_us", "batch_us", "train_s")]
        table.add(name, mean(rewards), spread(rewards), mean(one["centred"] for one in found), *best)
    report.tables.append(table)
    columns = ["memories", "µs singly", "scikit-learn's scan", "leanest scan", "bytes a memory"]
    times = Table("Growth: memories with single captions as keys", columns)
    for one in report.runs["growth"]:
        times.add(one["memories"], one["singly_us"], one["scan_us"], one["lean_us"], one["bytes"])
    report.tables.append(times)
    add_targets(report, runs)
    report.figure = plot(runs, report.runs["growth"])
    return report


def add_targets(report: Report, runs: dict[str, list[dict]]) -> None:
    """Add the targets of rewards, speed and growth."""
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


# ---- in the child processes


def one_by_one(answer, queries) -> float:
    """Return CPU µs a query, the least of three."""
    rows = [queries[i : i + 1] for i in range(min(SINGLE_CALLS, queries.shape[0]))]
    spent, _ = cpu_seconds(lambda: [answer(row) for row in rows], 3)
    return spent / len(rows) * 1e6


def rewards_of(images, truth, found) -> dict:
    """Return the mean rewards of the images that were found."""
    center = images.mean(axis=0)
    answers = images[found]
    return {"reward": metrics.mean_reward(truth, answers), "centred": metrics.centered_reward(truth, answers, center)}


def measure_retriever(spec: dict) -> dict:
    """Fit a retriever and query it."""
    keys, queries, images, truth = read_arrays(spec["folder"], "keys", "queries", "images", "truth")
    own, chance = np.arange(keys.shape[0])[:, None], np.random.default_rng(spec["seed"])

    def reward(row, hits):
        rewards = np.clip(images[hits.ids] @ images[row], 0, 1)
        return (chance.permutation(rewards) if spec["kind"] == "shuffled" else rewards).tolist()

    def fit(rows):
        retriever = MemoryTreeRetriever(random_state=spec["seed"])
        retriever.fit(keys[:rows], features=images[:rows])
        if spec["kind"] != "unsupervised":
            retriever.fit_rewards(keys[:rows], reward, exclude=own[:rows])
        return retriever

    fit(200).retrieve(queries)  # compiles
    train_s, retriever = cpu_seconds(lambda: fit(keys.shape[0]))
    batch_s, found = cpu_seconds(lambda: retriever.retrieve(queries), 5)
    memory = retriever.memory_
    memory.query(queries[:1])
    return {
        **rewards_of(images, truth, found.ids[:, 0]),
        "batch_us": batch_s / queries.shape[0] * 1e6,
        "singly_us": one_by_one(memory.query, queries),
        "train_s": train_s,
        "peak_mb": peak_bytes() / 2**20,
    }


def scan_of(counts):
    """Return scikit-learn's exact Euclidean search among sparse rows."""
    from sklearn.neighbors import NearestNeighbors

    narrow = ColumnSubset(counts)
    scan = NearestNeighbors(n_neighbors=1, algorithm="brute").fit(narrow(counts))
    return lambda query: int(scan.kneighbors(narrow(query), return_distance=False)[0, 0])


def lean_scan_of(counts):
    """Return the same search with the least overhead."""
    scan = CountScan(counts)
    return lambda query: int(scan.distances(scan.narrow(query)).argmin())


def measure_scan(spec: dict) -> dict:
    """Search all memories exactly with scikit-learn."""
    counts, queries, images, truth = read_arrays(spec["folder"], "counts", "query_counts", "images", "truth")
    answer = scan_of(counts)
    answers = [answer(queries[i : i + 1]) for i in range(queries.shape[0])]
    singly = one_by_one(answer, queries)
    return {**rewards_of(images, truth, answers), "singly_us": singly, "batch_us": singly, "train_s": 0.0}


def run_baseline(baseline: str, seed: int, job: Job) -> dict:
    """Return the figures of one of the lab's baselines under the names of this benchmark."""
    found = process.measure(baseline, job.source("flickr8k", seed))
    if found["status"] != "ok":
        raise process.ChildError(f"{baseline}: {found['status']} {found.get('why', '')}")
    names = {"reward": "reward", "centred": "centred", "singly_us": "call_us", "batch_us": "query_us", "train_s": "fit_s"}
    return {here: found[there] for here, there in names.items()}


def growth(job: Job, sizes: list[int]) -> list[dict]:
    """Return the time of a query at each number of memories, whose keys are single captions."""
    texts, images = flickr_captions(job.data)
    order = np.random.default_rng(job.seed).permutation(len(texts))[: sizes[-1] + 500]
    chosen = [texts[i] for i in order]
    keys = text_vectorizer().fit(chosen[: sizes[-1]])
    arrays = {
        "keys": keys.transform(chosen).astype(np.float32),
        "counts": text_vectorizer(tfidf=False).transform(chosen).astype(np.float32),
        "images": images[order],
    }
    found = []
    with process.SharedArrays(**arrays) as folder:
        for size in sizes:
            job.step(f"growth, {size:,} memories")
            found.append(
                process.call(
                    "lab.benchmarks.retrieval:measure_growth", {"folder": folder, "seed": job.seed, "memories": size}
                )
            )
    return found


def measure_growth(spec: dict) -> dict:
    """Return the time of a query and the bytes at one size."""
    keys, counts, images = read_arrays(spec["folder"], "keys", "counts", "images")
    n = spec["memories"]
    retriever = MemoryTreeRetriever(max_iter=1, random_state=spec["seed"]).fit(keys[:n], features=images[:n])
    some = np.arange(0, n, max(1, n // 500))
    retriever.fit_rewards(
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
    """Return the plots of reward against time, and of time against memories."""
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
