"""Ask notes in words of your own: the meaning of a note is what a small model makes of it, not the letters it is written in.

    python examples/ask_notes.py notes.txt "How does Bob commute?" --memory notes.memory

notes.txt holds one note a line. They are remembered in the directory notes.memory (a new one for each model), so a second
question starts at once. With --useful ID the answer with that id is rewarded, and the memory learns from it. --words leaves
the model out. The model is WordLlama's, 256 numbers a text; it comes inside its package: pip install memorytree[encoder].
"""

import argparse
from pathlib import Path

from memorytree import TextMemory


def word_llama():
    """The function from texts to vectors that a memory takes; its files lie in the package, nothing is downloaded."""
    import wordllama

    model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
    return model.embed


def main() -> None:
    """Answer one question."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notes", type=Path, help="a text file, one note a line")
    parser.add_argument("question", help="in plain words")
    parser.add_argument("--memory", type=Path, help="the directory to remember in (default: none, all is forgotten)")
    parser.add_argument("--useful", type=int, metavar="ID", help="the answer that helped")
    parser.add_argument("--words", action="store_true", help="know notes by their words, without a model")
    asked = parser.parse_args()
    encoder = None if asked.words else word_llama()
    with TextMemory(asked.memory, encoder=encoder, seed=0) as memory:
        if not len(memory):
            memory.remember_many(line for line in asked.notes.read_text(encoding="utf8").splitlines() if line.strip())
        found = memory.recall(asked.question, k=3)
        for hit in found:
            print(f"{hit.score:5.2f}  {hit.id:3}  {hit.text}")
        if asked.useful is not None:
            print(f"learned from {memory.reward(found, asked.useful).learned} reward")


if __name__ == "__main__":
    main()
