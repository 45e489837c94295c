"""Evidence for questions about long conversations (LoCoMo): `TextMemory` beside BM25 and TF-IDF, before and after feedback.

The turns of a conversation are remembered as "date, speaker: words, caption of the picture if there is one", and questions
are its queries. Recall at 10 is the share of the turns labelled as a question's evidence that are among the first ten.
All systems get the same texts. BM25 is bm25s at its defaults (English stop words), and once more with the words, word pairs
and word parts of `TextMemory` as tokens; TF-IDF is the cosine of scikit-learn's vectors (sublinear). Three conversations
were used to choose the features of keys and the learning rate; figures are of the other seven.

Feedback: half of the questions of a conversation, at random, are queried in turn; of the returned texts, those that are
evidence get the reward 1 and the others 0. Then the other half is queried, which had no feedback. Five random halves a
conversation; a question counts once, with the mean over the halves in which it was held out. "Shuffled" permutes the rewards
of a question among its texts. Many questions ask for the same turn in other words (most often the adversarial ones); those
whose evidence is shared with no question that had feedback are listed separately. Intervals are 95 %, by bootstrap over
questions; differences are taken question by question.
"""

from collections.abc import Callable
from itertools import pairwise

import numpy as np

from lab.benchmarks.report import Job, Report
from lab.datasets.conversations import LOCOMO_KINDS, Conversation, locomo
from lab.measuring import installed
from lab.tables import Table
from memorytree import TextMemory
from memorytree.text import words_of

TUNED_ON = 3  # the first conversations
FIRST = 10
HALVES = 5
FEEDBACK = {  # number of texts that are rewarded, and whether the rewards are shuffled
    f"after feedback on {FIRST} texts": (FIRST, False),
    "after feedback on 30 texts": (30, False),
    "after shuffled feedback on 30 texts": (30, True),
}
HELD_OUT, FRESH, AGAIN = "held-out questions", "held-out questions with evidence of their own", "questions with feedback"
BEFORE = "TextMemory, before feedback"
BM25 = "BM25"


def run(job: Job) -> Report:
    """Run the benchmark."""
    conversations = locomo(job.data, conversations=TUNED_ON + 1 if job.quick else None)[TUNED_ON:]
    report = Report("Evidence for questions about conversations", __doc__)
    job.step("starting", len(conversations) * (1 + len(FEEDBACK)))
    recalls: dict[str, list[float]] = {}
    learned: dict[str, dict[str, list[float]]] = {HELD_OUT: {}, FRESH: {}, AGAIN: {}}
    for place, conversation in enumerate(conversations):
        job.step(f"{conversation.name}, before feedback")
        for name, found in before(conversation, job.seed).items():
            recalls.setdefault(name, []).extend(evidence_recall(conversation, found))
        for name, (rewarded, shuffled) in FEEDBACK.items():
            job.step(f"{conversation.name}, {name}")
            halves = [
                after(conversation, rewarded, shuffled, np.random.default_rng([job.seed, place, half]))
                for half in range(1 if job.quick else HALVES)
            ]
            for part, of in learned.items():
                of.setdefault(name, []).extend(means(np.array([half[part] for half in halves])))
    add_tables(report, recalls, learned, list_of_kinds(conversations), job)
    return report


def list_of_kinds(conversations: list[Conversation]) -> list[tuple[str, str]]:
    """Return (conversation, kind) of every question."""
    return [(conversation.name, question.kind) for conversation in conversations for question in conversation.questions]


def means(halves: np.ndarray) -> list[float]:
    """Return the mean of every column over the rows in which it has a value, NaN if it has none."""
    counted = np.count_nonzero(~np.isnan(halves), axis=0)
    return np.where(counted > 0, np.nansum(halves, axis=0) / np.maximum(counted, 1), np.nan).tolist()


def text_of(turn: tuple[str, str, str]) -> str:
    """Return a turn as the text that is remembered."""
    speaker, date, words = turn
    return f"{date}, {speaker}: {words}"


def memory_of(conversation: Conversation, seed: int) -> TextMemory:
    """Return a memory of all turns of a conversation."""
    memory = TextMemory(seed=seed)
    about = [{"speaker": speaker, "date": date} for speaker, date, _ in conversation.turns]
    memory.remember_many([text_of(turn) for turn in conversation.turns], metadata=about)
    return memory


def evidence_recall(conversation: Conversation, found: list[list[int]]) -> list[float]:
    """Return for each question the share of its evidence that was found."""
    pairs = zip(conversation.questions, found, strict=True)
    return [len(set(question.evidence) & set(turns)) / len(question.evidence) for question, turns in pairs]


def before(conversation: Conversation, seed: int) -> dict[str, list[list[int]]]:
    """Return the first turns that each system finds for every question."""
    texts, questions = [text_of(turn) for turn in conversation.turns], [question.text for question in conversation.questions]
    memory = memory_of(conversation, seed)
    found = {BEFORE: [memory.recall(question, FIRST).ids.tolist() for question in questions]}
    if installed("bm25s"):
        found |= {BM25: by_bm25(texts, questions), "BM25, our features": by_bm25(texts, questions, features)}
    return {**found, "TF-IDF cosine": by_tfidf(texts, questions)}


def features(text: str) -> list[str]:
    """Return words, word pairs and word parts, as often as they occur."""
    words = words_of(text)
    parts = [f"~ {word} "[i : i + 5] for word in words if len(word) > 2 for i in range(len(word) - 1)]
    return [*words, *(f"{word} {following}" for word, following in pairwise(words)), *parts]


def by_bm25(texts: list[str], questions: list[str], tokens: Callable | None = None) -> list[list[int]]:
    """Return the first texts for each question by BM25."""
    import bm25s

    def tokenize(some):
        return [tokens(text) for text in some] if tokens else bm25s.tokenize(some, stopwords="en", show_progress=False)

    index = bm25s.BM25()
    index.index(tokenize(texts), show_progress=False)
    return index.retrieve(tokenize(questions), k=FIRST, show_progress=False).documents.tolist()


def by_tfidf(texts: list[str], questions: list[str]) -> list[list[int]]:
    """Return the first texts for each question by the cosine of TF-IDF vectors."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(sublinear_tf=True)
    keys = vectorizer.fit_transform(texts)
    return np.argsort(-(vectorizer.transform(questions) @ keys.T).toarray(), axis=1, kind="stable")[:, :FIRST].tolist()


def after(conversation: Conversation, rewarded: int, shuffled: bool, rng) -> dict[str, np.ndarray]:
    """Return the recall of every question after half of them had feedback, by group; NaN outside the group."""
    questions = conversation.questions
    with_feedback = np.zeros(len(questions), bool)
    with_feedback[rng.permutation(len(questions))[: len(questions) // 2]] = True
    rewarded_turns = {turn for i in np.flatnonzero(with_feedback) for turn in questions[i].evidence}
    shared = np.array([not rewarded_turns.isdisjoint(question.evidence) for question in questions])
    memory = memory_of(conversation, int(rng.integers(2**32)))
    for i in rng.permutation(np.flatnonzero(with_feedback)).tolist():
        found = memory.recall(questions[i].text, rewarded)
        rewards = [float(id in questions[i].evidence) for id in found.ids.tolist()]
        memory.reward(found, rng.permutation(rewards).tolist() if shuffled else rewards)
    recall = np.array(
        evidence_recall(conversation, [memory.recall(question.text, FIRST).ids.tolist() for question in questions])
    )
    parts = {HELD_OUT: ~with_feedback, FRESH: ~with_feedback & ~shared, AGAIN: with_feedback}
    return {name: np.where(part, recall, np.nan) for name, part in parts.items()}


def interval(values: np.ndarray, seed: int) -> tuple[float, float, float]:
    """Return the mean of some values and the ends of its 95 % interval by bootstrap."""
    values = values[~np.isnan(values)]
    draws = np.random.default_rng(seed).integers(0, len(values), (5000, len(values)))
    low, high = np.quantile(values[draws].mean(axis=1), [0.025, 0.975])
    return float(values.mean()), float(low), float(high)


def add_tables(report: Report, recalls: dict, learned: dict, kinds: list[tuple[str, str]], job: Job) -> None:
    """Add tables, targets and the plot."""
    base, with_feedback = np.array(recalls[BEFORE]), learned[HELD_OUT]
    names, kind_of = np.array(kinds).T
    for part, of in {"questions, before feedback": recalls, **learned}.items():
        counted = np.count_nonzero(~np.isnan(next(reversed(of.values()))))
        table = Table(
            f"{counted:,} {part}", ["system", "recall at 10", "from", "to", "more than before feedback", "from", "to"]
        )
        for name, values in of.items():
            gain = [None] * 3 if name == BEFORE else interval(np.array(values) - base, job.seed)
            table.add(name, *interval(np.array(values), job.seed), *gain)
        report.tables.append(table)
    report.tables.append(by_kind(recalls, with_feedback, kind_of))
    for name in [BM25, "TF-IDF cosine"]:
        beside = None if name not in recalls else float(np.mean(base - recalls[name]))
        report.at_least(f"before feedback: recall above that of {name}", 0, beside)
    shuffled = next(name for name, (_, shuffled) in FEEDBACK.items() if shuffled)
    for part in (HELD_OUT, FRESH):
        for name in FEEDBACK:
            if name != shuffled:
                gain = float(np.nanmean(np.array(learned[part][name]) - base))
                report.at_least(f"{name}: gain on {part}", 0, gain)
    report.at_least(
        "feedback on 30 texts: recall above that with shuffled rewards",
        0,
        float(np.nanmean(np.array(with_feedback["after feedback on 30 texts"]) - np.array(with_feedback[shuffled]))),
    )
    if not installed("bm25s"):
        report.missing.append("bm25s")
    report.runs = {
        conversation: {
            part: {name: float(np.nanmean(np.array(values)[names == conversation])) for name, values in of.items()}
            for part, of in {"before feedback": recalls, **learned}.items()
        }
        for conversation in dict.fromkeys(names.tolist())
    }
    if installed("matplotlib"):
        report.figure = plot(recalls, with_feedback, job.seed)


def by_kind(recalls: dict, with_feedback: dict, kinds: np.ndarray) -> Table:
    """Return the recall by kind of question."""
    table = Table("Recall at 10 by kind of question", ["kind", "questions", *recalls, *with_feedback])
    for kind in LOCOMO_KINDS.values():
        of_kind = kinds == kind
        every = [*recalls.values(), *with_feedback.values()]
        table.add(kind, int(of_kind.sum()), *(float(np.nanmean(np.array(values)[of_kind])) for values in every))
    return table


def plot(recalls: dict, with_feedback: dict, seed: int):
    """Return bars of recall with their intervals."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 3.6))
    axes = figure.subplots()
    shown = {**recalls, **{f"TextMemory, {name}": values for name, values in with_feedback.items()}}
    for place, (name, values) in enumerate(shown.items()):
        mean, low, high = interval(np.array(values), seed)
        colour = "#1f6f8b" if name.startswith("TextMemory") else "#aaaaaa"
        axes.barh(place, mean, color=colour, xerr=[[mean - low], [high - mean]], ecolor="#333333", capsize=3)
    axes.set_yticks(range(len(shown)), shown)
    axes.invert_yaxis()
    axes.set(xlabel="recall at 10 (95 % interval)", title="Evidence for questions about conversations")
    axes.grid(axis="x", alpha=0.3)
    return figure
