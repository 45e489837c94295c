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
COST = 2.0
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
    """Rewards of one query: {memory: reward}, and what `Experience` calls the other fields."""

    question: int
    receipt: bytes
    rewards: Mapping[int, float]
    first: int
    gap: float


class Evidence:
    """What experiences say about one memory: lists of (number of the experience, share of P or N)."""

    __slots__ = ("objections", "support")

    def __init__(self) -> None:
        self.support: list[tuple[int, float]] = []
        self.objections: list[tuple[int, float]] = []

    def parts(self, score: float, top: float, gap: float) -> tuple[float, float]:
        """What support adds to a score, and what objections take from it; sums are correctly rounded, in any order."""
        unit = gap / SHARPNESS
        gain = loss = 0.0
        if self.support:
            total = math.fsum(value for _, value in self.support)
            gain = unit * float(np.logaddexp(0.0, math.log(total) + (top - score) / unit))
        if self.objections:
            loss = unit * float(np.logaddexp(0.0, math.log(math.fsum(value for _, value in self.objections))))
        return gain, loss

    def shares(self, score: float, top: float, gap: float) -> dict[int, float]:
        """What each experience adds to a score, by its number."""
        shares: dict[int, float] = {}
        gain, loss = self.parts(score, top, gap)
        for change, values in ((gain, self.support), (-loss, self.objections)):
            total = math.fsum(value for _, value in values)
            for number, value in values:
                shares[number] = shares.get(number, 0.0) + change * value / total
        return shares


class Experiences:
    """All experiences, found by question, memory and receipt.

    Args:
        capacity: the most experiences; the oldest are forgotten.
    """

    def __init__(self, capacity: int):
        self.capacity = capacity
        self.next_number = 1
        self._rows: dict[int, Experience] = {}  # in order of their numbers
        # The numbers of active experiences by question and receipt, and of all by memory; dictionaries serve as ordered sets.
        self._of_question: dict[int, dict[int, None]] = {}
        self._of_receipt: dict[bytes, dict[int, None]] = {}
        self._of_memory: dict[int, dict[int, None]] = {}
        self._unused: list[int] = []  # questions that may have no active experience any more
        self._gaps = self._n_gaps = 0

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[Experience]:
        return iter(self._rows.values())

    def __contains__(self, number: object) -> bool:
        return number in self._rows

    def __getitem__(self, number: int) -> Experience:
        return self._rows[number]

    def questions(self) -> list[int]:
        """The questions with active experiences."""
        return list(self._of_question)

    def has_question(self, question: int) -> bool:
        """Whether a question has active experiences."""
        return question in self._of_question

    def typical_gap(self) -> float:
        """The mean of the known gaps of active experiences; 0 if none is known."""
        return math.ldexp(self._gaps / self._n_gaps, -EXACT) if self._n_gaps else 0.0

    # ---- writing

    def known(self, receipt: bytes) -> dict[int, Experience]:
        """The active experiences of a receipt, by memory."""
        return {self._rows[number].memory: self._rows[number] for number in self._of_receipt.get(receipt, ())}

    def add(self, observed: Observed) -> list[int]:
        """Add the rewards of a query that are not known yet; another reward for the same memory is replaced.

        Returns:
            The numbers of the new experiences.
        """
        known, new = self.known(observed.receipt), []
        for memory, reward in observed.rewards.items():
            former = known.get(memory)
            if former is not None and former.reward == reward:
                continue
            if former is not None:
                self.deactivate(former.number)
            row = Experience(
                self.next_number,
                observed.question,
                memory,
                reward,
                observed.receipt,
                memory == observed.first,
                float(np.float32(observed.gap)),
            )
            self.next_number += 1
            self._rows[row.number] = row
            self._of_memory.setdefault(memory, {})[row.number] = None
            self._activate(row)
            new.append(row.number)
        while len(self._rows) > self.capacity:
            self._delete(next(iter(self._rows)))
        return new

    def _activate(self, row: Experience) -> None:
        self._of_question.setdefault(row.question, {})[row.number] = None
        self._of_receipt.setdefault(row.receipt, {})[row.number] = None
        self._count_gap(row, 1)

    def _count_gap(self, row: Experience, sign: int) -> None:
        if row.gap > 0:
            self._gaps += sign * int(math.ldexp(row.gap, EXACT))
            self._n_gaps += sign

    def deactivate(self, number: int) -> None:
        """Let an active experience no longer count."""
        row = self._rows[number]
        self._rows[number] = row._replace(active=False)
        _discard(self._of_question, row.question, number)
        if row.question not in self._of_question:
            self._unused.append(row.question)
        _discard(self._of_receipt, row.receipt, number)
        self._count_gap(row, -1)

    def _delete(self, number: int) -> None:
        if self._rows[number].active:
            self.deactivate(number)
        _discard(self._of_memory, self._rows.pop(number).memory, number)

    def forget(self, memory: int) -> None:
        """Delete the experiences of a memory."""
        for number in list(self._of_memory.get(memory, ())):
            self._delete(number)

    def take_unused(self) -> list[int]:
        """The questions that have lost their last active experience since the last call."""
        unused = [question for question in dict.fromkeys(self._unused) if question not in self._of_question]
        self._unused.clear()
        return unused

    def clear(self) -> None:
        """Delete all experiences; later ones have new numbers."""
        self._unused += self._of_question
        for table in (self._rows, self._of_question, self._of_receipt, self._of_memory):
            table.clear()
        self._gaps = self._n_gaps = 0

    # ---- reading

    def evidence(self, near: Iterable[tuple[int, float]]) -> dict[int, Evidence]:
        """What questions near a query say, by memory; near are pairs (question, distance)."""
        found: dict[int, Evidence] = {}
        for question, distance in near:
            support = math.exp(SHARPNESS * (HEADROOM - SLOPE * distance))
            objection = math.exp(SHARPNESS * COST * (1 - 2 * distance))
            for number in self._of_question.get(question, ()):
                row = self._rows[number]
                of_memory = found.setdefault(row.memory, Evidence())
                weight = self._weight(row)
                if row.reward > 0:
                    of_memory.support.append((number, weight * row.reward * support))
                if row.reward < 1:
                    of_memory.objections.append((number, weight * (1 - row.reward) * objection))
        return found

    def _weight(self, row: Experience) -> float:
        return LONE_ACCEPTANCE if self.is_lone_acceptance(row.receipt) else 1.0

    def is_lone_acceptance(self, receipt: bytes) -> bool:
        """Whether the only reward of a query accepts its first hit."""
        numbers = self._of_receipt.get(receipt, ())
        if len(numbers) != 1:
            return False
        row = self._rows[next(iter(numbers))]
        return row.is_first and row.reward > UNOBSERVED

    # ---- state

    def copy(self) -> Self:
        """An independent copy."""
        twin = copy(self)
        twin._rows, twin._unused = dict(self._rows), list(self._unused)
        twin._of_question = {question: dict(numbers) for question, numbers in self._of_question.items()}
        twin._of_receipt = {receipt: dict(numbers) for receipt, numbers in self._of_receipt.items()}
        twin._of_memory = {memory: dict(numbers) for memory, numbers in self._of_memory.items()}
        return twin

    def state_dict(self) -> dict[str, np.ndarray]:
        """The experiences as arrays of n rows, and the next number."""
        rows = list(self._rows.values())
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
        whole, rewards, receipts, flags, gaps, following = (
            state[name] for name in ("whole", "rewards", "receipts", "flags", "gaps", "next_number")
        )
        n = len(whole)
        types = (whole, np.int64, (n, 3)), (rewards, np.float64, (n,)), (receipts, np.uint8, (n, DIGEST))
        types += (flags, np.bool_, (n, 2)), (gaps, np.float32, (n,)), (following, np.int64, (1,))
        if any(array.dtype != kind or array.shape != shape for array, kind, shape in types):
            raise ValueError("the experiences have the wrong shape or type")
        numbers = whole[:, 0]
        if n and (np.any(np.diff(numbers) <= 0) or numbers[0] < 1 or numbers[-1] >= following[0]) or following[0] < 1:
            raise ValueError("the numbers of experiences are not in order")
        if not (np.all((rewards >= 0) & (rewards <= 1)) and np.all((gaps >= 0) & np.isfinite(gaps)) and np.all(whole >= 0)):
            raise ValueError("an experience has an impossible reward, gap or id")
        self.clear()
        self._unused.clear()
        self.next_number = int(following[0])
        for row, reward, receipt, (first, active), gap in zip(
            whole.tolist(), rewards.tolist(), receipts, flags.tolist(), gaps.tolist(), strict=True
        ):
            one = Experience(*row, reward, receipt.tobytes(), first, gap, active)
            self._rows[one.number] = one
            self._of_memory.setdefault(one.memory, {})[one.number] = None
            if active:
                self._activate(one)

    def check(self, stored: Sequence[int]) -> None:
        """Raise ValueError unless experiences belong to these memories, and a receipt has one reward for each."""
        if not set(stored).issuperset(self._of_memory):
            raise ValueError("contradictory state: experiences of memories that are not stored")
        if any(len(self.known(receipt)) != len(numbers) for receipt, numbers in self._of_receipt.items()):
            raise ValueError("contradictory state: two rewards for one memory of a receipt")


def _discard(table: dict[K, dict[int, None]], key: K, number: int) -> None:
    """Remove a number from a set of a table, and the set if it is then empty."""
    del table[key][number]
    if not table[key]:
        del table[key]
