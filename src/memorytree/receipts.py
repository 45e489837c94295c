"""Receipts: what learning needs to know of a query, so that a reward can arrive later, also in another process."""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

import msgpack
import numpy as np

from memorytree.errors import InvalidReceipt

FORMAT = 1
TOKEN = re.compile("[A-Za-z0-9_-]{40,}")
"""Every token of a receipt matches this, and no question that has a space."""
BRANCHES = ("exploit", "node", "leaf")
"""The branches of Algorithm 2: routers followed to the end, one node explored, random memories of the leaf."""


class Decision(NamedTuple):
    """How a query was answered.

    Attributes:
        branch: the position in `BRANCHES`.
        node, generation: the node that was explored and how often its number had been reused; -1 where none was.
        action: 1 if the right side was explored, 0 for the left one, -1 where none was.
    """

    branch: int = 0
    node: int = -1
    generation: int = -1
    action: int = -1


EXPLOITED = Decision()
"""The routers were followed; nothing was explored."""


@dataclass(frozen=True)
class Receipt:
    """A query as `reward` needs it. `str(receipt)` is a token, `Receipt.parse(token)` the receipt again.

    Attributes:
        key: the key of the query, as bytes.
        ids: the ids of the hits.
        decision: how the query was answered.
        issuer: identifies the store; empty for a tree in memory.
        version: which tree of the store answered; a rebuilt tree has other nodes.
        nonce: distinguishes equal queries.
        inserted: memories with a larger number came after the query.

    Example:
        >>> from memorytree import MemoryTree, Receipt
        >>> tree = MemoryTree(seed=0)
        >>> id = tree.insert([0.0, 1.0], "up")
        >>> token = str(tree.query([0.1, 0.9]).receipt)
        >>> Receipt.parse(token).ids
        (0,)
        >>> tree.reward(token, [1.0])
        RewardResult(learned=0, skipped=0, experiences=1)
    """

    key: bytes
    ids: tuple[int, ...]
    decision: Decision = EXPLOITED
    issuer: bytes = b""
    version: int = 0
    nonce: bytes = b""
    inserted: int = 0

    @property
    def branch(self) -> str:
        """How the query was answered: "exploit", "node" (a node was explored) or "leaf" (random memories of the leaf)."""
        return BRANCHES[self.decision.branch]

    @property
    def digest(self) -> bytes:
        """16 bytes that identify this receipt."""
        return blake2b(self._body(), digest_size=16).digest()

    def _body(self) -> bytes:
        fields = [
            FORMAT,
            self.issuer,
            self.nonce,
            self.key,
            list(self.ids),
            list(self.decision),
            self.version,
            self.inserted,
        ]
        return bytes(msgpack.packb(fields))

    def __str__(self) -> str:
        body = self._body()
        return _token(body + _checksum(body))

    @classmethod
    def parse(cls, token: str) -> Receipt:
        """The receipt of a token.

        Raises:
            InvalidReceipt: the token was not made by `str(receipt)`, or has been changed.
        """
        if not isinstance(token, str):
            raise InvalidReceipt(f"the token of a receipt is a string, not {type(token).__name__}")
        try:
            data = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
            body, checksum = data[:-8], data[-8:]
            if checksum != _checksum(body) or _token(data) != token:  # the last letter has bits that stand for nothing
                raise ValueError("its checksum does not match")
            number, issuer, nonce, key, ids, decision, version, inserted = msgpack.unpackb(body)
            if number != FORMAT:
                raise ValueError(f"it has format {number}, this version reads {FORMAT}")
            receipt = cls(key, tuple(ids), Decision(*decision), issuer, version, nonce, inserted)
        except (ValueError, TypeError, binascii.Error, msgpack.UnpackException) as error:
            raise InvalidReceipt(f"not a receipt: {error}") from None
        receipt.check()
        return receipt

    def check(self) -> None:
        """Raise `InvalidReceipt` if a field cannot be that of a query."""
        if not all(isinstance(part, bytes) for part in (self.issuer, self.nonce, self.key)):
            raise InvalidReceipt("not a receipt: it has no key, or no issuer")
        if not _is_int64(self.version) or not _is_int64(self.inserted):
            raise InvalidReceipt("not a receipt: it has no version")
        if not isinstance(self.ids, tuple) or not all(_is_int64(id) and id >= 0 for id in self.ids):
            raise InvalidReceipt("not a receipt: it has no ids")
        if not isinstance(self.decision, Decision) or not all(map(_is_int64, self.decision)):
            raise InvalidReceipt("not a receipt: it has no decision")
        if not 0 <= self.decision.branch < len(BRANCHES) or not -1 <= self.decision.action <= 1:
            raise InvalidReceipt("not a receipt: its decision is unknown")


def _token(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def _is_int64(number: object) -> bool:
    return type(number) is int and -(2**62) < number < 2**62


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=8).digest()


def decision_rows(decisions: Sequence[Decision]) -> np.ndarray:
    """Decisions as an int64 array (n, 4)."""
    return np.array(decisions, np.int64).reshape(-1, 4)


class GivenIds:
    """Which ids were given to a memory again, so that receipts from before can be told from those from after.

    Attributes:
        last_number: how often an id was given that was, or may have been, in use before. Ids beyond all former ones are new,
            so nothing is stored for them.
    """

    def __init__(self) -> None:
        self.last_number = 0
        self._largest = -1
        self._numbers: dict[int, int] = {}

    def add(self, ids: np.ndarray) -> None:
        """Note the ids (n,) of memories that were inserted in this order."""
        if not len(ids):
            return
        before = np.maximum.accumulate(np.concatenate([[self._largest], ids]))
        again = ids[ids <= before[:-1]]
        for number, id in enumerate(again.tolist(), self.last_number + 1):
            self._numbers[id] = number
        self.last_number += len(again)
        self._largest = int(before[-1])

    def number(self, id: int) -> int:
        """`last_number` after an id was last given again; 0 if it was not."""
        return self._numbers.get(id, 0)

    def to_list(self) -> list[int]:
        """Everything as a list of integers."""
        return [self.last_number, self._largest, *(part for pair in self._numbers.items() for part in pair)]

    @classmethod
    def from_list(cls, numbers: Sequence[int]) -> GivenIds:
        """What `to_list` returned."""
        given = cls()
        given.last_number, given._largest, *rest = numbers
        given._numbers = dict(zip(rest[::2], rest[1::2], strict=True))
        return given
