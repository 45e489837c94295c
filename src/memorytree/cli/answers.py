"""Asking, learning from the answer, and why it was given: recall, reward, explain."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

import typer

from memorytree.cli import input
from memorytree.cli.options import DEFAULT_STORE, AsJson, HowMany, Lines, Store, Where, examples, filter_of
from memorytree.cli.output import described, say, working, write, write_json, write_long, write_table
from memorytree.cli.stores import existing
from memorytree.errors import InvalidOption


@examples(
    'memorytree recall "What does Ada drink?"',
    'memorytree recall "open tasks" -k 10 --where user=ada --where kind=task --where kind=bug',
    'memorytree recall "flat tyre" --min-score 0.05 || echo "never heard of it"',
    "memorytree recall --json \"What does Ada drink?\" | jq -r '.hits[].text'",
    "memorytree recall --json < questions.txt > answers.jsonl",
)
def recall(
    question: Annotated[
        str | None, typer.Argument(metavar="QUESTION", help="In plain words; without it, one a line of standard input.")
    ] = None,
    k: HowMany = 5,
    where: Where = None,
    min_score: Annotated[
        float | None, typer.Option(metavar="SCORE", help="Only texts that fit so well; 1 is what a text gets for itself.")
    ] = None,
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Recall the texts that answer a question best.

    The receipt below them is what "memorytree reward" takes to learn from it. The larger a score, the better a text fits;
    where fewer than K have a word in common with the question, those used last come behind them, with a score of 0.
    """
    from memorytree import TextMemory

    questions = [question] if question is not None else [line for _, line in input.lines("a question")]
    with working("recalling"), existing(TextMemory, store, "r") as memory:
        answers = [memory.recall(asked, k, where=filter_of(where)) for asked in questions]
    found = False
    for asked, answer in zip(questions, answers, strict=True):
        hits = [hit for hit in answer if min_score is None or hit.score >= min_score]
        found |= bool(hits)
        if json:
            write_json({"question": asked, "receipt": answer.receipt, "hits": [hit._asdict() for hit in hits]})
            continue
        if len(questions) > 1:
            write(asked)
        if hits:
            rows = ((hit.id, f"{hit.score:.3f}", hit.text, described(hit.metadata)) for hit in hits)
            write_table((">id", ">score", "text", "metadata"), rows)
            write_long("receipt", answer.receipt)
    if not found:
        say("nothing found")
        raise typer.Exit(1)


@examples(
    "memorytree reward RECEIPT 17=1 23=0.2 4=0",
    "memorytree reward RECEIPT 17",
    'memorytree recall --json "tea?" | jq -c \'{receipt, rewards: {"17": 1}}\' | memorytree reward --jsonl',
)
def reward(
    receipt: Annotated[str | None, typer.Argument(metavar="RECEIPT", help="What recall wrote below its texts.")] = None,
    rewards: Annotated[
        list[str] | None,
        typer.Argument(metavar="ID=REWARD...", help="From 0, no use, to 1; or only the ids that were useful."),
    ] = None,
    jsonl: Lines = False,
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Say how useful recalled texts were, so that the next answer is better.

    A bare ID was useful, and those that are not named were not. With --jsonl each line of standard input is an object with
    "receipt" and "rewards": {"ID": REWARD, ...}, or a list with one reward for each hit, null where none was observed. The
    first reward of a text for a receipt counts; the same again changes nothing.
    """
    from memorytree import TextMemory

    if jsonl and receipt is not None:
        raise InvalidOption("--jsonl reads receipts from standard input: give no other")
    if jsonl:
        told = input.objects("rewards", {"receipt", "rewards"}, set())
        given: list[tuple[str, Any]] = [(line["receipt"], _from_json(number, line["rewards"])) for number, line in told]
    elif receipt is None or not rewards:
        raise InvalidOption("give a receipt and for each text ID=REWARD, or --jsonl to read them from a pipe")
    else:
        given = [(receipt, _from_arguments(rewards))]
    learned = skipped = 0
    with working("learning"), existing(TextMemory, store) as memory:
        for one, of_one in given:
            outcome = memory.reward(one, of_one)
            learned, skipped = learned + outcome.learned, skipped + outcome.skipped
    if json:
        write_json({"receipts": len(given), "learned": learned, "skipped": skipped})
    else:
        write(f"rewards of {len(given):,} {'receipt' if len(given) == 1 else 'receipts'} noted")


def _from_arguments(given: Iterable[str]) -> dict[int, float] | set[int]:
    """Rewards from ID=REWARD..., or the set of useful ids from ID..."""
    told, useful = {}, set()
    for one in given:
        id, equals, number = one.partition("=")
        try:
            if equals:
                told[int(id)] = float(number)
            else:
                useful.add(int(id))
        except ValueError:
            raise InvalidOption(f"a reward is ID=REWARD, such as 17=1 or 17=0.5, not {one!r}") from None
    if told and useful:
        raise InvalidOption("give each text ID=REWARD, or only the ids of those that were useful")
    return told or useful


def _from_json(number: int, rewards: Any) -> dict[int, float] | list[float | None]:
    """The same from JSON, whose names are always text."""
    if isinstance(rewards, list):
        return rewards
    try:
        return {int(id): reward for id, reward in rewards.items() if reward is not None}
    except (ValueError, AttributeError):
        raise InvalidOption(f'line {number}: "rewards" is {{"ID": REWARD, ...}} or a list') from None


@examples(
    'memorytree explain "What does Ada drink?"',
    'memorytree explain "What does Ada drink?" -k 1 --json | jq .candidates[0].parts',
)
def explain(
    question: Annotated[str, typer.Argument(metavar="QUESTION", help="As you would give it to recall.")],
    k: HowMany = 5,
    store: Store = DEFAULT_STORE,
    json: AsJson = False,
) -> None:
    """Why does a question recall what it does?

    For each text the features it has in common with the question that count most, with what each adds to the score: words,
    pairs of words, and behind ~ parts of words, with _ for the edge of the word.
    """
    from memorytree import TextMemory

    with working("explaining"), existing(TextMemory, store, "r") as memory:
        told = memory.explain(question, k)
    if json:
        write_json(
            {
                "question": question,
                "looked_at": told.looked_at,
                "steps": [vars(step) for step in told.steps],
                "candidates": [
                    {
                        "id": candidate.hit.id,
                        "text": candidate.hit.value,
                        "score": candidate.hit.score,
                        "parts": [{"feature": feature, "adds": part} for feature, part in candidate.parts],
                    }
                    for candidate in told.candidates
                ],
            }
        )
    elif told.candidates:
        for step in told.steps:
            write(f"node {step.node}: margin {step.margin:+.4g}, {step.side} ({step.left:,} | {step.right:,})")
        rows = ((one.hit.id, f"{one.hit.score:.3f}", one.hit.value, _reasons(one.parts)) for one in told.candidates)
        write_table((">id", ">score", "text", "because of"), rows)
        write(f"{told.looked_at:,} entries were looked at")
    if not told.candidates:
        say("nothing found")
        raise typer.Exit(1)


def _reasons(parts: Iterable[tuple[Any, float]]) -> str:
    """The features that weigh most, as people read them."""
    names = ((str(name), part) for name, part in parts)
    return ", ".join(f"{name.replace(' ', '_') if name.startswith('~') else name} {part:+.3f}" for name, part in names)
