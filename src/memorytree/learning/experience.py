"""Experiences: rewards of questions, one by one, and what those near a query say about a memory.

The formula and its reasons are in `docs/internals/experiences.md`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from typing import NamedTuple, Self, TypeVar

import numpy as np

SHARPNESS = 6.0
"""Kappa: how fast evidence fades with distance."""
HEADROOM, SLOPE = 0.25, 1.75
"""Support at the same question puts a memory this many gaps above `top`, and falls by the slope with distance."""
COST = 1.25
"""An objection at the same question lowers a memory by so many gaps."""
REACH = 1.5
"""Experiences at this distance, in gaps, or farther say nothing."""
LONE_ACCEPTANCE = 0.2
"""The weight of a reward that only accepts the first hit."""
UNOBSERVED = 0.3
"""What slow learning assumes about hits without a reward; an acceptance is a reward above it."""
EXACT = 149
"""Multiples of 2**-149 hold every float32, so sums of them as integers are exact in any order."""
DIGEST = 16

K = TypeVar("K")


class Experience(NamedTuple):
    """One reward.

    Attributes:
        number: rewards are numbered in the order in which they were given.
        question: the number of the question's key.
        memory: the id of the memory.
        reward: in [0, 1].
        receipt: 16 bytes that identify the query.
        is_first: whether the memory was the first hit of that query.
        gap: from the question to the nearest memory that is not equal to it; 0: not known.
        active: whether it counts; otherwise it was replaced or withdrawn.
    """

    number: int
    question: int
    memory: int
    reward: float
    receipt: bytes
    is_first: bool
    gap: float
    active: bool = True


class Observed(NamedTuple):
    """Rewards of one query: {memory: reward}, their numbers if they have any, and what `Experience` calls the others."""

    question: int
    receipt: bytes
    rewards: Mapping[int, float]
    first: int
    gap: float
    numbers: Sequence[int] = ()


class Scale(NamedTuple):
    """The scores of one answer.

    Attributes:
        top: the score of a memory whose key is the query.
        gap: the typical gap.
        margin: the unit of objections, at least `gap`.
    """

    top: float
    gap: float
    margin: float


class Evidence:
    """What experiences say about one memory: lists of (number of the experience, share of P or N)."""

    __slots__ = ("objections", "support")

    def __init__(self) -> None:
        self.support: list[tuple[int, float]] = []
        self.objections: list[tuple[int, float]] = []

    def parts(self, score: float, scale: Scale) -> tuple[float, float]:
        """What support adds to a score, and what objections take from it; sums are correctly rounded, in any order."""
        gain = loss = 0.0
        if self.support:
            unit, total = scale.gap / SHARPNESS, math.fsum([value for _, value in self.support])
            gain = unit * _softplus(math.log(total) + (scale.top - score) / unit)
        if self.objections:
            unit, total = scale.margin / SHARPNESS, math.fsum([value for _, value in self.objections])
            loss = unit * _softplus(math.log(total))
        return gain, loss

    def shares(self, score: float, scale: Scale) -> dict[int, float]:
        """What each experience adds to a score, by its number."""
        shares: dict[int, float] = {}
        gain, loss = self.parts(score, scale)
        for change, values in ((gain, self.support), (-loss, self.objections)):
            total = math.fsum(value for _, value in values)
            for number, value in values:
                shares[number] = shares.get(number, 0.0) + change * value / total
        return shares


class Experiences:
    """All experiences, found by question, memory and receipt.

    Args:
        capacity: the most experiences; the oldest are forgotten.

    Attributes:
        rows: all experiences by number, in order.
        of_question, of_receipt: the numbers of active experiences; dictionaries serve as ordered sets.
        of_memory: the numbers of all experiences.
        unused: questions that may have no active experience any more.
        summaries: what was computed of questions since their experiences changed; readers add to it.
        gaps, n_gaps: the sum of the known gaps of active experiences, in units of 2**-149, and their number.
    """

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.next_number = 1
        self.rows: dict[int, Experience] = {}
        self.of_question: dict[int, dict[int, None]] = {}
        self.of_receipt: dict[bytes, dict[int, None]] = {}
        self.of_memory: dict[int, dict[int, None]] = {}
        self.unused: list[int] = []
        self.gaps = self.n_gaps = 0
        self.summaries: dict[int, list[tuple[int, int, float, float]]] = {}

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Experience]:
        return iter(self.rows.values())

    def __contains__(self, number: object) -> bool:
        return number in self.rows

    def __getitem__(self, number: int) -> Experience:
        return self.rows[number]

    def questions(self) -> list[int]:
        """The questions with active experiences."""
        return list(self.of_question)

    def has_question(self, question: int) -> bool:
        """Whether a question has active experiences."""
        return question in self.of_question

    def typical_gap(self) -> float:
        """The mean of the known gaps of active experiences; 0 if none is known."""
        return math.ldexp(self.gaps / self.n_gaps, -EXACT) if self.n_gaps else 0.0

    # ---- writing

    def known(self, receipt: bytes) -> dict[int, Experience]:
        """The active experiences of a receipt, by memory."""
        return {self.rows[number].memory: self.rows[number] for number in self.of_receipt.get(receipt, ())}

    def add(self, observed: Observed) -> list[int]:
        """Add the rewards of a query that are not known yet; another reward for the same memory is replaced.

        Returns:
            The numbers of the new experiences.
        """
        known, new = self.known(observed.receipt), []
        for i, (memory, reward) in enumerate(observed.rewards.items()):
            former = known.get(memory)
            if former is not None and former.reward == reward:
                continue
            if former is not None:
                self.deactivate(former.number)
            row = Experience(
                observed.numbers[i] if observed.numbers else self.next_number,
                observed.question,
                memory,
                reward,
                observed.receipt,
                memory == observed.first,
                float(np.float32(observed.gap)),
            )
            self.next_number = row.number + 1
            self.rows[row.number] = row
            self.of_memory.setdefault(memory, {})[row.number] = None
            self._activate(row)
            new.append(row.number)
        while len(self.rows) > self.capacity:
            self._delete(next(iter(self.rows)))
        return new

    def _activate(self, row: Experience) -> None:
        self.of_question.setdefault(row.question, {})[row.number] = None
        self.of_receipt.setdefault(row.receipt, {})[row.number] = None
        self._count(row, 1)

    def _count(self, row: Experience, sign: int) -> None:
        self.summaries.pop(row.question, None)
        if row.gap > 0:
            self.gaps += sign * int(math.ldexp(row.gap, EXACT))
            self.n_gaps += sign

    def deactivate(self, number: int) -> None:
        """Let an active experience no longer count."""
        row = self.rows[number]
        self.rows[number] = row._replace(active=False)
        _discard(self.of_question, row.question, number)
        if row.question not in self.of_question:
            self.unused.append(row.question)
        _discard(self.of_receipt, row.receipt, number)
        self._count(row, -1)

    def _delete(self, number: int) -> None:
        if self.rows[number].active:
            self.deactivate(number)
        _discard(self.of_memory, self.rows.pop(number).memory, number)

    def forget(self, memory: int) -> None:
        """Delete the experiences of a memory."""
        for number in list(self.of_memory.get(memory, ())):
            self._delete(number)

    def take_unused(self) -> list[int]:
        """The questions that have lost their last active experience since the last call."""
        unused = [question for question in dict.fromkeys(self.unused) if question not in self.of_question]
        self.unused.clear()
        return unused

    def clear(self) -> None:
        """Delete all experiences; later ones have new numbers."""
        self.unused += self.of_question
        for table in (self.rows, self.of_question, self.of_receipt, self.of_memory, self.summaries):
            table.clear()
        self.gaps = self.n_gaps = 0

    # ---- reading

    def evidence(self, near: Iterable[tuple[int, float]]) -> dict[int, Evidence]:
        """What questions near a query say, by memory; near are pairs (question, distance)."""
        found: dict[int, Evidence] = {}
        for question, distance in near:
            support = math.exp(SHARPNESS * (HEADROOM - SLOPE * distance))
            objection = math.exp(SHARPNESS * COST * (1 - 2 * distance))
            for number, memory, in_favour, against in self._summary(question):
                of_memory = found.get(memory)
                if of_memory is None:
                    of_memory = found[memory] = Evidence()
                if in_favour:
                    of_memory.support.append((number, in_favour * support))
                if against:
                    of_memory.objections.append((number, against * objection))
        return found

    def _summary(self, question: int) -> list[tuple[int, int, float, float]]:
        """(number, memory, weight in favour, weight against) of the experiences of a question."""
        summary = self.summaries.get(question)
        if summary is None:
            summary = []
            for number in self.of_question.get(question, ()):
                row = self.rows[number]
                weight = LONE_ACCEPTANCE if self.is_lone_acceptance(row.receipt) else 1.0
                summary.append((number, row.memory, weight * row.reward, weight * (1 - row.reward)))
            self.summaries[question] = summary
        return summary

    def is_lone_acceptance(self, receipt: bytes) -> bool:
        """Whether the only reward of a query accepts its first hit."""
        numbers = self.of_receipt.get(receipt, ())
        if len(numbers) != 1:
            return False
        row = self.rows[next(iter(numbers))]
        return row.is_first and row.reward > UNOBSERVED

    # ---- state

    def copy(self) -> Self:
        """An independent copy."""
        twin = copy(self)
        twin.rows, twin.unused = dict(self.rows), list(self.unused)
        twin.summaries = {}
        twin.of_question = _copies(self.of_question)
        twin.of_receipt = _copies(self.of_receipt)
        twin.of_memory = _copies(self.of_memory)
        return twin

    def state_dict(self) -> dict[str, np.ndarray]:
        """The experiences as arrays of n rows, and the next number."""
        rows = list(self.rows.values())
        return {
            "whole": np.array([row[:3] for row in rows], np.int64).reshape(-1, 3),
            "rewards": np.array([row.reward for row in rows], np.float64),
            "receipts": np.frombuffer(b"".join(row.receipt for row in rows), np.uint8).reshape(-1, DIGEST),
            "flags": np.array([(row.is_first, row.active) for row in rows], bool).reshape(-1, 2),
            "gaps": np.array([row.gap for row in rows], np.float32),
            "next_number": np.array([self.next_number]),
        }

    def load_state_dict(self, state: Mapping[str, np.ndarray]) -> None:
        """Replace the experiences; ValueError if shapes, types or numbers are impossible."""
        n = len(state["whole"])
        shapes = {
            "whole": (np.int64, (n, 3)), "rewards": (np.float64, (n,)), "receipts": (np.uint8, (n, DIGEST)),
            "flags": (np.bool_, (n, 2)), "gaps": (np.float32, (n,)), "next_number": (np.int64, (1,)),
        }  # fmt: skip
        for name, (kind, shape) in shapes.items():
            if state[name].dtype != kind or state[name].shape != shape:
                raise ValueError(f"{name} of the experiences has the wrong shape or type")
        whole, rewards, receipts, flags, gaps, following = (state[name] for name in shapes)
        numbers = np.concatenate([[0], whole[:, 0], following])
        if np.any(np.diff(numbers) <= 0):
            raise ValueError("the numbers of experiences are not in order")
        if not (np.all((rewards >= 0) & (rewards <= 1)) and np.all((gaps >= 0) & np.isfinite(gaps)) and np.all(whole >= 0)):
            raise ValueError("an experience has an impossible reward, gap or id")
        self.clear()
        self.unused.clear()
        self.next_number = int(following[0])
        columns = whole.tolist(), rewards.tolist(), receipts, flags.tolist(), gaps.tolist()
        for (number, question, memory), reward, receipt, (first, active), gap in zip(*columns, strict=True):
            one = Experience(number, question, memory, reward, receipt.tobytes(), first, gap, active)
            self.rows[one.number] = one
            self.of_memory.setdefault(one.memory, {})[one.number] = None
            if active:
                self._activate(one)

    def check(self, stored: Sequence[int]) -> None:
        """Raise ValueError unless experiences belong to these memories, and a receipt has one reward for each."""
        if not set(stored).issuperset(self.of_memory):
            raise ValueError("contradictory state: experiences of memories that are not stored")
        if any(len(self.known(receipt)) != len(numbers) for receipt, numbers in self.of_receipt.items()):
            raise ValueError("contradictory state: two rewards for one memory of a receipt")


def _softplus(x: float) -> float:
    """The logarithm of 1 + exp(x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def _copies(table: dict[K, dict[int, None]]) -> dict[K, dict[int, None]]:
    return {key: dict(numbers) for key, numbers in table.items()}


def _discard(table: dict[K, dict[int, None]], key: K, number: int) -> None:
    """Remove a number from a set of a table, and the set if it is then empty."""
    del table[key][number]
    if not table[key]:
        del table[key]
