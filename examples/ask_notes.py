"""Search notes by meaning: a small model turns notes and questions into vectors.

    python examples/ask_notes.py notes.txt "How does Bob commute?" --memory notes.memory

notes.txt holds one note a line. They are stored in the directory notes.memory (a new one for each model), so a second
question starts at once. With --useful ID the answer with that id is rewarded, and the memory learns from it. --words uses
words instead of the model. The model is WordLlama's, 256 numbers a text, part of its package: pip install
memorytree[encoder].
"""

import argparse
from pathlib import Path

from memorytree import TextMemory


def word_llama():
    """Return the function from texts to vectors; its files are in the package, so nothing is downloaded."""
    import wordllama

    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return model.embed


def main() -> None:
    """Answer one question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notes", type=Path, help="a text file, one note a line")
    parser.add_argument("question", help="in plain words")
    parser.add_argument("--memory", type=Path, help="the directory of the memory (default: none, in memory only)")
    parser.add_argument("--useful", type=int, metavar="ID", help="the answer that helped")
    parser.add_argument("--words", action="store_true", help="use the words of notes, without a model")
    chosen = parser.parse_args()
    encoder = None if chosen.words else word_llama()
    with TextMemory(chosen.memory, encoder=encoder, seed=0) as memory:
        if not len(memory):
            memory.remember_many(line for line in chosen.notes.read_text(encoding="utf8").splitlines() if line.strip())
        found = memory.recall(chosen.question, k=3)
        for hit in found:
            print(f"{hit.score:5.2f}  {hit.id:3}  {hit.text}")
        if chosen.useful is not None:
            print(f"learned from {memory.reward(found, chosen.useful).learned} reward")


if __name__ == "__main__":
    main()
