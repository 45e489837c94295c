"""The rows of a store's database. Each carries a seal, a checksum of all that is in it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from typing import Any, NamedTuple

from memorytree.packing import packed_plain

DIGEST_RANGE = 2**64
_NOTHING_SEALED = blake2b(digest_size=8)


class State(NamedTuple):
    """What the whole amounts to after an event."""

    memories: int = 0
    rewards: int = 0
    digest: bytes = bytes(8)
    next_id: int = 0
    next_record: int = 1
    next_lesson: int = 1
    next_reward: int = 1

    def after(self, memories: Sequence[Memory]) -> State:
        """The same after memories have come by themselves, whose ids nobody ever had."""
        return self._replace(
            memories=self.memories + len(memories),
            digest=shifted(self.digest, (memory.seal for memory in memories)),
            next_id=max([self.next_id, *(memory.id + 1 for memory in memories[-1:])]),
            next_record=self.next_record + len(memories),
        )


class Event(NamedTuple):
    """One operation: its number, what was done, and what the whole then amounts to."""

    at: int
    kind: str
    body: bytes
    time: float
    state: State


def event_of(row: Sequence[Any]) -> Event:
    """The event in a row of events."""
    at, kind, body, time, *state, _ = row
    return Event(at, kind, body, time, State(*state))


class Memory(NamedTuple):
    """One row of memories; `seal` is over all that stands before it."""

    record: int
    id: int
    key: bytes
    value: bytes
    metadata: bytes | None
    label: str | int | None
    features: bytes | None
    created: float
    expires: float | None
    added: int
    seal: bytes


class Lesson(NamedTuple):
    """What a query was and returned, kept once somebody has rewarded it."""

    lesson: int
    receipt: bytes
    body: bytes
    added: int
    seal: bytes


class Reward(NamedTuple):
    """The reward of one memory of a lesson."""

    number: int
    lesson: int
    memory: int
    reward: float
    time: float
    added: int
    seal: bytes


def seal_of(*fields: Any) -> bytes:
    """The checksum of a row: eight bytes that depend on every bit of it."""
    sealing = _NOTHING_SEALED.copy()  # takes less time than to make one
    sealing.update(packed_plain(fields))
    return sealing.digest()


def sealed(kind: Any, *fields: Any) -> Any:
    """A row of a kind with its seal: as `seal_of`, which each lone insertion would have to wait for."""
    sealing = _NOTHING_SEALED.copy()
    sealing.update(packed_plain(fields))
    return tuple.__new__(kind, (*fields, sealing.digest()))


def is_whole(row: Sequence[Any]) -> bool:
    """Whether a row is what was written: its last field is the seal of the others."""
    try:
        return bool(seal_of(*row[:-1]) == row[-1])
    except (TypeError, ValueError, OverflowError):
        return False


def shifted(digest: bytes, gained: Iterable[bytes] = (), lost: Iterable[bytes] = ()) -> bytes:
    """A digest after some seals have come and others gone."""
    total = int.from_bytes(digest, "big")
    for seal in gained:
        total += int.from_bytes(seal, "big")
    for seal in lost:
        total -= int.from_bytes(seal, "big")
    return (total % DIGEST_RANGE).to_bytes(8, "big")
