"""LoCoMo: ten long conversations, and questions with the turns that answer them."""

import json
import lzma
import re
from dataclasses import dataclass
from pathlib import Path

from lab.datasets.base import require_file


@dataclass
class Question:
    """A question about a conversation: its text, the numbers of the turns that answer it, and its kind."""

    text: str
    evidence: list[int]
    kind: str


@dataclass
class Conversation:
    """The turns of a long conversation, as (speaker, date, text), and questions about them."""

    name: str
    turns: list[tuple[str, str, str]]
    questions: list[Question]


LOCOMO_KINDS = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}


def locomo(folder: Path | None, *, conversations: int | None = None) -> list[Conversation]:
    """Return conversations over many sessions, with the questions for which at least one turn is labelled as evidence.

    The caption of a picture is part of the text of its turn.
    """
    origin = "locomo10.json of LoCoMo, https://github.com/snap-research/locomo, packed with xz"
    with lzma.open(require_file(folder, "locomo/locomo10.json.xz", origin), "rt", encoding="utf8") as file:
        samples = json.load(file)[:conversations]
    found = []
    for sample in samples:
        sessions = sample["conversation"]
        places: dict[str, int] = {}
        turns: list[tuple[str, str, str]] = []
        for number in range(1, len(sessions)):
            for turn in sessions.get(f"session_{number}", []):
                places[turn["dia_id"]] = len(turns)
                words = " ".join([turn["text"], turn.get("blip_caption", "")]).strip()
                turns.append((turn["speaker"], sessions[f"session_{number}_date_time"], words))
        questions = []
        for question in sample["qa"]:
            # A few references are written "D:11:26", "D30:05", or several in one.
            labelled = re.findall(r"D:?(\d+):(\d+)", " ".join(question.get("evidence", [])))
            named = {f"D{int(session)}:{int(turn)}" for session, turn in labelled}
            evidence = sorted(places[name] for name in named if name in places)
            if evidence:
                questions.append(Question(question["question"], evidence, LOCOMO_KINDS[question["category"]]))
        found.append(Conversation(sample["sample_id"], turns, questions))
    return found
