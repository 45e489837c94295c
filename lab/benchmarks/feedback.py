"""Feedback as applications give it: answers to questions before and after rewards, by kind of feedback.

Utterances to assistants (CLINC150, HWU64): 2,000 training utterances are remembered, with the intent as metadata; 500
test utterances are recalled, and an answer is right if its intent is. Feedback is for other training utterances: 1 for
a text with the right intent, 0 otherwise. Kinds: "all" five hits, "positives" and "negatives" among them, the "first"
only, a "click" on the first right one, "one call each" for the five, "wrong" (all five, a fifth of the rewards
inverted), and "accepts" (the first hit gets 1, whether right or not). `TextMemory` works by words, or by stored
embeddings of MiniLM (`encoder=`).

"Changed": of the questions whose first answer got the reward 0, the share that have another first answer when asked
again at once; "first": the share of clicked texts that are then first. BM25 is bm25s at its defaults; ridge regression
learns from the intents of the 2,000 texts, or of these and those that had feedback, by words and embeddings together.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import mean

import numpy as np

from lab.benchmarks.report import Job, Report
from lab.datasets.utterances import Utterances, read_utterances, shuffled
from lab.measuring import installed
from lab.tables import Table
from memorytree import TextMemory

DATA = ("clinc150", "hwu64")
KINDS = ("all", "positives", "negatives", "first", "click", "one call each", "wrong", "accepts")
WORDS, ENCODER = "words", "MiniLM"
FEW, MANY = 500, 5000
MEMORIES, QUESTIONS, K = 2000, 500, 5
INVERTED = 0.2
GAINS = {WORDS: {"all": 0.045, "negatives": 0.03, "wrong": 0.015}, ENCODER: {"all": 0.02}}


@dataclass
class Split:
    """What is remembered, asked, and had feedback; the seed also decides which rewards are inverted."""

    memories: Utterances
    questions: Utterances
    feedback: Utterances
    seed: int


@dataclass
class Outcome:
    """Accuracy after feedback, and what changed at once."""

    first: float
    five: float
    changed: float | None = None
    clicked: float | None = None


def run(job: Job) -> Report:
    """Run the benchmark."""
    report = Report("Feedback as applications give it", __doc__)
    seeds, data = job.seeds(), DATA[:1] if job.quick else DATA
    job.step("starting", len(data) * len(seeds) * 2 * (len(KINDS) + 2))
    for name in data:
        parts = read_utterances(job.data, name)
        splits = [split(parts, seed, questions=200 if job.quick else QUESTIONS) for seed in seeds]
        table = Table(
            f"{name}, {len(seeds)} seeds",
            ["system", "feedback", "top-1", "gain", "worst", "top-5", "changed", "first"],
        )
        add_baselines(table, name, splits, report)
        for mode in (WORDS, ENCODER):
            measure(table, name, mode, splits, job, report)
        report.tables.append(table)
    return report


def split(parts: dict[str, Utterances], seed: int, *, asked: str = "test", questions: int = QUESTIONS) -> Split:
    """Return the rows of a seed. Constants are chosen with `asked="val"`."""
    rows = shuffled(parts, seed)
    train = rows["train"]
    memories, feedback = (train.rows(list(range(*part))) for part in ((0, MEMORIES), (MEMORIES, len(train))))
    return Split(memories, rows[asked].rows(list(range(questions))), feedback, seed)


def measure(table: Table, name: str, mode: str, splits: list[Split], job: Job, report: Report) -> None:
    """Add the rows of one mode: before, after 500 of each kind, and after 5,000."""
    before = [accuracy(memory_of(mode, one), one.questions) for one in splits]
    table.add(mode, "none", mean(x.first for x in before), None, None, mean(x.five for x in before), None, None)
    plans = [(kind, FEW) for kind in KINDS] + ([] if job.quick else [("all", MANY), ("wrong", MANY)])
    for kind, n in plans:
        after = []
        for one in splits:
            job.step(f"{name}, {mode}, {n} x {kind}, seed {one.seed}")
            after.append(learn(memory_of(mode, one), one, kind, n))
        add_outcomes(table, report, (name, mode, kind, n), before, after)


def add_outcomes(
    table: Table, report: Report, what: tuple[str, str, str, int], before: list[Outcome], after: list[Outcome]
) -> None:
    """Add a row, and its targets."""
    name, mode, kind, n = what
    gains = [one.first - other.first for one, other in zip(after, before, strict=True)]
    changed = [one.changed for one in after if one.changed is not None]
    clicked = [one.clicked for one in after if one.clicked is not None]
    shares = mean(changed) if changed else None, mean(clicked) if clicked else None
    table.add(
        mode, f"{n} x {kind}", mean(x.first for x in after), mean(gains), min(gains), mean(x.five for x in after), *shares
    )
    report.runs[f"{name}, {mode}, {n} x {kind}"] = [vars(one) for one in after]
    label = f"{name}, {mode}, {n} x {kind}"
    report.at_least(f"{label}: gain, worst seed", -0.005, round(min(gains), 6))
    if n == FEW and kind in GAINS[mode]:
        report.at_least(f"{label}: gain", GAINS[mode][kind], mean(gains))
    if changed and kind in ("negatives", "all", "first"):
        report.at_least(f"{label}: changed", 0.98, shares[0])
    if clicked:
        report.at_least(f"{label}: first", 1.0, shares[1])


def memory_of(mode: str, rows: Split) -> TextMemory:
    """Return a memory of the texts to remember."""
    encoder = None if mode == WORDS else encoder_of([rows.memories, rows.questions, rows.feedback])
    memory = TextMemory(encoder=encoder, seed=rows.seed)
    memory.remember_many(rows.memories.texts, [{"intent": str(intent)} for intent in rows.memories.intents])
    return memory


def encoder_of(known: list[Utterances]) -> Callable[[list[str]], np.ndarray]:
    """Return a function that looks embeddings up."""
    vectors = {text: vector for part in known for text, vector in zip(part.texts, part.vectors, strict=True)}
    other = np.full_like(next(iter(vectors.values())), 0.01)

    def encode(texts: list[str]) -> np.ndarray:
        return np.stack([vectors.get(text, other) for text in texts])

    return encode


def accuracy(memory: TextMemory, questions: Utterances) -> Outcome:
    """Return the share of questions whose first answer is right, and that have a right one among five."""
    right = [intents_of(memory, text) == intent for text, intent in zip(questions.texts, questions.intents, strict=True)]
    return Outcome(float(np.mean([one[0] for one in right])), float(np.mean([one.any() for one in right])))


def intents_of(memory: TextMemory, text: str) -> np.ndarray:
    """Return the intents of the answers to a question."""
    return np.array([about["intent"] for about in memory.recall(text, K).metadata])


def rewards_of(kind: str, right: np.ndarray, chance: np.random.Generator) -> list[list[float | None]]:
    """Return the rewards of one question, a list for each call."""
    given: Sequence[float] = right.astype(float).tolist()
    none: list[float | None] = [None] * len(right)
    match kind:
        case "positives":
            return [[reward or None for reward in given]]
        case "negatives":
            return [[None if reward else 0.0 for reward in given]]
        case "first":
            return [[given[0], *none[1:]]]
        case "click":
            return [[1.0 if i == int(right.argmax()) else None for i in range(len(right))]] if right.any() else []
        case "one call each":
            return [[reward if i == j else None for j in range(len(given))] for i, reward in enumerate(given)]
        case "wrong":
            inverted = chance.random(len(right)) < INVERTED
            return [np.where(inverted, ~right, right).astype(float).tolist()]
        case "accepts":
            return [[1.0, *none[1:]]]
    return [list(given)]


def learn(memory: TextMemory, rows: Split, kind: str, n: int) -> Outcome:
    """Give feedback for n questions; accuracy afterwards, and what changed at once."""
    chance = np.random.default_rng(rows.seed)
    changed, clicked = [], []
    asked = rows.feedback.rows(list(range(min(n, len(rows.feedback)))))
    for text, intent in zip(asked.texts, asked.intents, strict=True):
        hits = memory.recall(text, K)
        right = np.array([about["intent"] == intent for about in hits.metadata])
        calls = rewards_of(kind, right, chance)
        for rewards in calls:
            if any(reward is not None for reward in rewards):
                memory.reward(hits, rewards)
        if not calls or n > FEW:
            continue
        again = memory.recall(text, 1).ids[0]
        if calls[0][0] == 0.0:
            changed.append(again != hits.ids[0])
        if kind == "click":
            clicked.append(again == hits.ids[int(right.argmax())])
    found = accuracy(memory, rows.questions)
    found.changed = float(np.mean(changed)) if changed else None
    found.clicked = float(np.mean(clicked)) if clicked else None
    return found


# ---- baselines


def add_baselines(table: Table, name: str, splits: list[Split], report: Report) -> None:
    """Add the rows of systems that have no feedback, or the intents."""
    systems: dict[str, Callable[[Split], tuple[float, float | None]]] = {"exact cosine, MiniLM": by_cosine}
    if installed("bm25s"):
        systems["BM25"] = by_bm25
    else:
        report.missing.append("bm25s is not installed, so nothing was compared with it")
    systems |= {f"ridge, intents of {MEMORIES + n} texts": lambda one, n=n: by_ridge(one, n) for n in (0, FEW, MANY)}
    for system, answers in systems.items():
        found = [answers(one) for one in splits]
        five = [value for _, value in found if value is not None]
        table.add(system, None, mean(first for first, _ in found), None, None, mean(five) if five else None, None, None)
        report.runs[f"{name}, {system}"] = found


def right_among(rows: Split, order: np.ndarray) -> tuple[float, float]:
    """Return top-1 and top-5 of answers (questions x 5) by row of memories."""
    right = rows.memories.intents[order] == rows.questions.intents[:, None]
    return float(right[:, 0].mean()), float(right.any(axis=1).mean())


def by_cosine(rows: Split) -> tuple[float, float]:
    """Return top-1 and top-5 of exact search."""
    return right_among(rows, np.argsort(-rows.questions.vectors @ rows.memories.vectors.T, axis=1)[:, :K])


def by_bm25(rows: Split) -> tuple[float, float]:
    """Return top-1 and top-5 of BM25."""
    import bm25s

    index = bm25s.BM25()
    index.index(bm25s.tokenize(rows.memories.texts, show_progress=False), show_progress=False)
    found, _ = index.retrieve(bm25s.tokenize(rows.questions.texts, show_progress=False), k=K, show_progress=False)
    return right_among(rows, np.asarray(found, np.int64))


def by_ridge(rows: Split, n: int) -> tuple[float, None]:
    """Return top-1 of ridge regression that learns from the intents of the memories and of n other texts."""
    import scipy.sparse
    from sklearn.feature_extraction.text import TfidfVectorizer
    from sklearn.linear_model import RidgeClassifier

    told = rows.feedback.rows(list(range(min(n, len(rows.feedback)))))
    texts, vectors = rows.memories.texts + told.texts, np.concatenate([rows.memories.vectors, told.vectors])
    intents = np.concatenate([rows.memories.intents, told.intents])
    words = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True).fit(texts)
    model = RidgeClassifier().fit(scipy.sparse.hstack([words.transform(texts), vectors]).tocsr(), intents)
    asked = scipy.sparse.hstack([words.transform(rows.questions.texts), rows.questions.vectors]).tocsr()
    return float(np.mean(model.predict(asked) == rows.questions.intents)), None
