"""Fixed workloads of TextMemory and of the command line. Receipts, times and file sizes are left out: they always differ."""

import contextlib
import json
import os
import tempfile
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch
from zlib import crc32

import numpy as np
from typer.testing import CliRunner

from memorytree import TextMemory
from memorytree.cli import app
from memorytree.text.encoders import WordKeys
from memorytree.text.features import feature_names, text_rows, words_of

SUBJECTS = ["Ada", "Bob", "Cleo", "The plumber", "Our neighbour", "The old cat", "Grandmother", "Zoë"]
VERBS = ["likes", "takes", "repairs", "forgot", "has bought", "talks about", "is afraid of", "looks for"]
OBJECTS = [
    "green tea",
    "the early train",
    "a red bicycle",
    "the parking permit",
    "chess on Sundays",
    "geese",
    "東京タワー",
    "the cello",
]
PLACES = ["at home", "in Lisbon", "behind the door", "near the station", "in the blue folder"]
WORDS = ["drizzle", "commute", "beverage", "instrument", "paperwork", "birds", "game", "vehicle", "what", "who", "where"]


def sentences(n, seed):
    """Texts made of a few words, some of them equal."""
    rng = np.random.default_rng(seed)
    return [" ".join(str(rng.choice(words)) for words in (SUBJECTS, VERBS, OBJECTS, PLACES)) for _ in range(n)]


def questions(n, seed):
    """Questions: a few words of the texts, and some that no text has."""
    rng = np.random.default_rng(seed)
    return [f"{rng.choice(WORDS)} {rng.choice(SUBJECTS)} {rng.choice(OBJECTS)} {rng.choice(WORDS)}?" for _ in range(n)]


def encode(texts):
    """An encoder: the sum of vectors that are drawn from a seed for each word."""
    vectors = [
        [np.random.default_rng(crc32(word.encode())).normal(size=24) for word in text.lower().split()] for text in texts
    ]
    return np.array([np.sum(words, axis=0) for words in vectors])


def shown(hits):
    """Hits as plain data."""
    return [[hit.id, hit.text, hit.score, hit.metadata] for hit in hits]


def remember(memory, text, metadata, **more):
    """Remember one text with metadata."""
    return memory.remember(text, metadata, **more)


def explained(memory, question, k):
    """An explanation as plain data."""
    explanation = memory.explain(question, k)
    return {
        "scored": explanation.n_scored,
        "steps": [vars(step) for step in explanation.steps],
        "candidates": [[one.hit.id, one.hit.value, one.hit.score, one.parts] for one in explanation.candidates],
    }


def workload(memory, seed):
    """Remember, recall, reward and forget; the answers on the way."""
    texts, queries = sentences(160, seed), questions(50, seed + 1)
    rng = np.random.default_rng(seed + 2)
    answers = {
        "ids": memory.remember_many(texts[:120], metadata=[{"n": i, "kind": "odd" if i % 2 else "even"} for i in range(120)])
    }
    answers["added"] = [remember(memory, text, {"n": 120 + i}) for i, text in enumerate(texts[120:150])]
    answers["replaced"] = [remember(memory, text, {"kind": "new"}, id=7 * i) for i, text in enumerate(texts[150:])]
    answers["before"] = [shown(memory.recall(question, 4)) for question in queries[:20]]
    answers["learned"] = []
    for i, question in enumerate(queries):
        found = memory.recall(question, 5, explore=0.2 if i % 3 == 0 else 0.0)
        useful = int(found.ids[int(rng.integers(len(found)))])
        forms = [useful, {useful}, {id: float(id == useful) for id in found.ids}, [float(id == useful) for id in found.ids]]
        if i % 5 == 4:
            result = memory.reward(found, [None, 0.25] + [None] * (len(found) - 2))
        else:
            result = memory.reward(found if i % 2 else found.receipt, forms[i % 4])
        answers["learned"].append([useful, result.learned, result.skipped])
        if i % 6 == 5:
            gone = int(found.ids[0])
            memory.forget(gone)
            answers["learned"].append(gone)
    answers["after"] = final(memory, seed)
    return answers


def final(memory, seed):
    """What a memory answers and holds."""
    queries = questions(60, seed + 1)[40:]
    return {
        "ids": list(memory),
        "texts": [memory[id] for id in list(memory)[:10]],
        "metadata": [memory.metadata(id) for id in list(memory)[:10]],
        "recalled": [shown(memory.recall(question, 4)) for question in queries[:12]],
        "filtered": [shown(memory.recall(question, 3, where={"kind": "odd"})) for question in queries[:6]]
        + [
            shown(memory.recall(question, 3, where={"kind": ["new", "even"], "n": [2, 4, 6, 8, None]}))
            for question in queries[:3]
        ],
        "explained": [explained(memory, question, 2) for question in queries[:4]],
    }


def reopened(seed, **options):
    """A workload in a directory, and the same answers after it is opened again."""
    with tempfile.TemporaryDirectory() as folder:
        with TextMemory(Path(folder) / "memory", seed=seed, durability="normal", **options) as memory:
            answers = workload(memory, seed)
        encoder = options.get("encoder")
        with TextMemory(Path(folder) / "memory", mode="r", encoder=encoder) as memory:
            assert final(memory, seed) == answers["after"]
        with TextMemory(Path(folder) / "memory", encoder=encoder) as memory:
            memory.remember_many(sentences(20, seed + 9))
            found = memory.recall("Who likes geese?", 5)
            memory.reward(found.receipt, found.ids[1])
            answers["continued"] = shown(memory.recall("Who likes geese?", 5))
    return answers


def in_memory():
    """Words, without a directory and with a capacity."""
    with TextMemory(seed=4, capacity=90) as memory:
        return workload(memory, 4)


def features():
    """What texts are split into, and the keys they get."""
    texts = ["Don't STOP_now, ﬁne Straße", "हिन्दी भाषा ข้าวผัด 한국어", "great🎉party 👍🏽 café", *sentences(10, 3)]
    rows = text_rows(texts)
    return {
        "words": [words_of(text) for text in texts],
        "columns": rows.indices,
        "bounds": rows.indptr,
        "weights": rows.data,
        "names": [sorted(feature_names(text).items()) for text in texts[:4]],
    }


def command_line():
    """A scripted session with the command line, read as JSON."""
    answers = []
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):

        def run(*arguments, input=None):
            ended = CliRunner().invoke(app, [*map(str, arguments), "--json"], input=input, prog_name="memorytree")
            assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
            read = [json.loads(line) for line in ended.stdout.split("\n") if line]
            answers.append([arguments[0], ended.exit_code, [neutral(one) for one in read]])
            return read

        os.environ.pop("MEMORYTREE_STORE", None)
        texts = sentences(40, 5)
        run("init", "--seed", 0)
        run("remember", "Ada likes green tea", "Bob takes the train", "--meta", "user=ada", "--meta", "n=7")
        lines = [json.dumps({"text": text, "metadata": {"n": i, "new": i > 20}}) for i, text in enumerate(texts)]
        run("remember", "--jsonl", "--meta", "kind=made", input="\n".join(lines))
        run("remember", "Zoë plays the cello", "--id", 3)
        for question in questions(6, 6):
            (answer,) = run("recall", question, "-k", 4)
            ids = [hit["id"] for hit in answer["hits"]]
            run("reward", answer["receipt"], f"{ids[1]}=1", f"{ids[0]}=0.25")
            (answer,) = run("recall", question, "-k", 3, "--where", "new=true", "--where", "kind=made")
            run("reward", answer["receipt"], answer["hits"][-1]["id"])
        answers_of = run("recall", "-k", 2, input="\n".join(questions(5, 7)))
        given = [{"receipt": one["receipt"], "rewards": [1, None]} for one in answers_of]
        run("reward", "--jsonl", input="\n".join(map(json.dumps, given)))
        run("recall", "quantum gravity", "--min-score", 0.9)
        run("forget", 5, 6)
        run("forget", 5)
        run("forget", "--where", "n=12", "--where", "n=13")
        run("forget", "--where", "user=zoe")
        for question in questions(6, 6):
            run("recall", question, "-k", 4)
            run("explain", question, "-k", 2)
        run("stats")
        exported = run("export")
        run("init", "--store", "copy", "--seed", 1)
        run("import", "--store", "copy", input="\n".join(map(json.dumps, exported)))
        run("recall", "Who likes geese?", "--store", "copy")
        run("verify")
        run("backup", "saved")
        run("recall", "Who likes geese?", "--store", "saved")
    return answers


def neutral(data):
    """One object that the command line wrote, without what differs from run to run and under names that last."""
    if "tree" in data:
        return {"memories": data["memories"], "tree": [data["tree"][name] for name in ("memories", "leaves", "depth")]}
    if "n_scored" in data:
        data |= {"scored": data.pop("n_scored"), "steps": []}  # term lists have no steps
    left_out = ("receipt", "created", "key")
    return {name: value for name, value in data.items() if name not in left_out}


def in_lists(case):
    """A workload whose words are found through term lists from the first text on."""
    lists = {"routing": replace(WordKeys.store_options["routing"], flat=0)}

    def run():
        with patch.dict(WordKeys.store_options, lists):
            return case()

    return run


CASES = {
    "words": in_lists(lambda: reopened(0)),
    "words_flat": lambda: reopened(0),
    "vectors": lambda: reopened(1, encoder=encode),
    "in_memory": in_lists(in_memory),
    "in_memory_flat": in_memory,
    "features": features,
    "command_line": in_lists(command_line),
    "command_line_flat": command_line,
}
