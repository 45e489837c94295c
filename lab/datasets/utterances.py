"""Utterances to assistants with their intents (CLINC150, HWU64), and stored embeddings that stand for a strong encoder."""

import json
import random
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from lab.datasets.base import require_file
from lab.datasets.formats import open_text

EMBEDDINGS = "embeddings of the texts by all-MiniLM-L6-v2, an array for each part"


@dataclass
class Utterances:
    """Texts, their intents and unit embeddings (float32), row by row."""

    texts: list[str]
    intents: np.ndarray
    vectors: np.ndarray

    def __len__(self) -> int:
        return len(self.texts)

    def rows(self, order: list[int]) -> "Utterances":
        """Return some rows."""
        return Utterances([self.texts[i] for i in order], self.intents[order], self.vectors[order])


def read_utterances(folder: Path | None, name: str) -> dict[str, Utterances]:
    """Return the parts of "clinc150" or "hwu64" by name: train, test and, for the first, val."""
    vectors = np.load(require_file(folder, f"{name}/minilm.npz", EMBEDDINGS))
    if name == "clinc150":
        origin = "data_full.json of CLINC150, https://github.com/clinc/oos-eval"
        with open_text(require_file(folder, "clinc150/data_full.json", origin)) as file:
            pairs = {part: [(intent, text) for text, intent in rows] for part, rows in json.load(file).items()}
    else:
        pairs = {}
        for part in ("train", "test"):
            with open_text(require_file(folder, f"{name}/{part}.tsv", "HWU64: intent, text")) as file:
                pairs[part] = [(line.split("\t")[0], line.rstrip("\n").split("\t")[1]) for line in file]
    return {
        part: Utterances(
            [text for _, text in pairs[part]], np.array([intent for intent, _ in pairs[part]]), _unit(vectors[part])
        )
        for part in ("train", "test", "val")
        if part in pairs
    }


def _unit(vectors: np.ndarray) -> np.ndarray:
    rows = vectors.astype(np.float32)
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def shuffled(parts: dict[str, Utterances], seed: int) -> dict[str, Utterances]:
    """Return every part in the order of a seed."""
    chance = random.Random(seed)
    found = {}
    for name, part in parts.items():
        order = list(range(len(part)))
        chance.shuffle(order)
        found[name] = part.rows(order)
    return found
