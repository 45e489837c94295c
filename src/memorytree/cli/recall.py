"""The commands recall, reward and explain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from memorytree.cli import input
from memorytree.cli.options import DEFAULT_STORE, AsJson, FromJsonLines, MaxHits, Store, Where, examples, parse_filter
from memorytree.cli.output import (
    counted,
    format_metadata,
    status,
    write,
    write_json,
    write_message,
    write_table,
    write_unwrapped,
)
from memorytree.cli.stores import open_existing
from memorytree.errors import InvalidOption

if TYPE_CHECKING:
    from memorytree.text import TextHit
    from memorytree.text.learning import Rewards


@examples(
    'memorytree recall "What does Ada drink?"',
    'memorytree recall "open tasks" -k 10 --where user=ada --where kind=task --where kind=bug',
    'memorytree recall "flat tyre" --min-score 0.05 || echo "no text about this"',
    "memorytree recall --json \"What does Ada drink?\" | jq -r '.hits[].text'",
    "memorytree recall --json < questions.txt > answers.jsonl",
)
def recall(
    question: Annotated[
        str | None,
        typer.Argument(metavar="QUESTION", help="A text. Without it, questions are read from standard input, one per line."),
    ] = None,
    k: MaxHits = 5,
    where: Where = None,
    min_score: Annotated[
        float | None, typer.Option(metavar="SCORE", help="Leave out texts with a lower score; a text scores 1 for itself.")
    ] = None,
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Find the texts that answer a question best.

    The receipt below the texts is the argument of "memorytree reward". A larger score is a better fit. If fewer than K texts
    have a word in common with the question, the texts used last follow with score 0.
    """
    from memorytree import TextMemory

    questions = [question] if question is not None else [line for _, line in input.lines("a question")]
    with status("recalling"), open_existing(TextMemory, store, "r") as memory:
        answers = [memory.recall(question, k, where=parse_filter(where)) for question in questions]
    found = False
    for question, answer in zip(questions, answers, strict=True):
        hits = [hit for hit in answer if min_score is None or hit.score >= min_score]
        found |= bool(hits)
        if json:
            data = [{"id": hit.id, "text": hit.text, "score": hit.score, "metadata": hit.metadata} for hit in hits]
            write_json({"question": question, "receipt": str(answer.receipt), "hits": data})
            continue
        if len(questions) > 1:
            write(question)
        if hits:
            _write_hits(hits, str(answer.receipt))
    if not found:
        write_message("nothing found")
        raise typer.Exit(1)


def _write_hits(hits: list[TextHit], receipt: str) -> None:
    rows = ((hit.id, f"{hit.score:.3f}", hit.text, format_metadata(hit.metadata)) for hit in hits)
    write_table((">id", ">score", "text", "metadata"), rows)
    write_unwrapped("receipt", receipt)


@examples(
    "memorytree reward RECEIPT 17=1 23=0.2 4=0",
    "memorytree reward RECEIPT 17",
    'memorytree recall --json "tea?" | jq -c \'{receipt, rewards: {"17": 1}}\' | memorytree reward --jsonl',
)
def reward(
    receipt: Annotated[str | None, typer.Argument(metavar="RECEIPT", help="The receipt that recall wrote.")] = None,
    rewards: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID=REWARD...", help="Numbers from 0 (useless) to 1, or only the ids of the useful texts."),
    ] = None,
    jsonl: FromJsonLines = False,
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Report how useful recalled texts were, so that later answers are better.

    IDs without a number get the reward 1, and then the other texts of the receipt get 0. With --jsonl each line of standard
    input is an object with "receipt" and "rewards": {"ID": REWARD, ...}, or a list with one reward for each hit, null if it
    is not known. The last reward for a text of a receipt counts; the same reward again has no effect.
    """
    from memorytree import Receipt, RewardResult, TextMemory

    if jsonl and receipt is not None:
        raise InvalidOption("--jsonl reads receipts from standard input: give none as an argument")
    if jsonl:
        given = _read_rewards()
    elif receipt is None or not rewards:
        raise InvalidOption("give a receipt and ID=REWARD for each text, or --jsonl to read them from standard input")
    else:
        given = [(receipt, _parse_rewards(rewards))]
    total = RewardResult(0, 0)
    with status("learning"), open_existing(TextMemory, store) as memory:
        for token, of_receipt in given:
            result = memory.reward(Receipt.parse(token), of_receipt)
            total = RewardResult(*map(sum, zip(total, result, strict=True)))
    if json:
        write_json({"receipts": len(given), **total._asdict()})
    else:
        write(f"recorded rewards for {counted(len(given), 'receipt', 'receipts')}")


def _parse_rewards(arguments: Iterable[str]) -> dict[int, float | None] | set[int]:
    """Rewards by id from ID=REWARD arguments, or the useful ids from ID arguments."""
    rewards: dict[int, float | None] = {}
    useful = set()
    for argument in arguments:
        id, equals, number = argument.partition("=")
        try:
            if equals:
                rewards[int(id)] = float(number)
            else:
                useful.add(int(id))
        except ValueError:
            raise InvalidOption(f"a reward is ID=REWARD, such as 17=1 or 17=0.5, not {argument!r}") from None
    if rewards and useful:
        raise InvalidOption("give ID=REWARD for each text, or only the ids of the useful texts, not both")
    return rewards or useful


def _read_rewards() -> list[tuple[str, Rewards]]:
    """Receipts and rewards from JSON Lines on standard input."""
    given: list[tuple[str, Rewards]] = []
    for number, line in input.json_objects("rewards", {"receipt", "rewards"}, set()):
        receipt, rewards = line["receipt"], line["rewards"]
        if not isinstance(receipt, str):
            raise InvalidOption(f'line {number}: "receipt" is text')
        try:
            if isinstance(rewards, dict):
                given.append((receipt, {int(id): reward for id, reward in rewards.items() if reward is not None}))
            elif isinstance(rewards, list):
                given.append((receipt, rewards))
            else:
                raise ValueError
        except ValueError:
            raise InvalidOption(f'line {number}: "rewards" is {{"ID": REWARD, ...}} or a list') from None
    return given


@examples(
    'memorytree explain "What does Ada drink?"',
    'memorytree explain "What does Ada drink?" -k 1 --json | jq .candidates[0].parts',
)
def explain(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="A question, as for recall.")],
    k: MaxHits = 5,
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Show why a question finds the texts it does.

    For each text, the features shared with the question that contribute most to the score, with their contributions: words,
    pairs of words, and, after ~, runs of four characters within a word, with _ for the start or end of the word.
    """
    from memorytree import TextMemory

    with status("explaining"), open_existing(TextMemory, store, "r") as memory:
        explanation = memory.explain(question, k)
    candidates = explanation.candidates
    if json:
        found = [
            {
                "id": candidate.hit.id,
                "text": candidate.hit.value,
                "score": candidate.hit.score,
                "parts": [{"feature": feature, "adds": part} for feature, part in candidate.parts],
            }
            for candidate in candidates
        ]
        write_json({"question": question, "n_scored": explanation.n_scored, "candidates": found})
    elif candidates:
        rows = ((one.hit.id, f"{one.hit.score:.3f}", one.hit.value, _format_parts(one.parts)) for one in candidates)
        write_table((">id", ">score", "text", "because of"), rows)
        write(f"{counted(explanation.n_scored, 'list entry was', 'list entries were')} read")
    if not candidates:
        write_message("nothing found")
        raise typer.Exit(1)


def _format_parts(parts: Iterable[tuple[object, float]]) -> str:
    """Features and their contributions to a score."""
    named = ((str(feature), part) for feature, part in parts)
    return ", ".join(
        f"{feature.replace(' ', '_') if feature.startswith('~') else feature} {part:+.3f}" for feature, part in named
    )
