"""Receipts as tokens: all that learning needs to know of a query, in one string with a checksum.

A query therefore writes nothing; the reward may come back tomorrow, from another process, and brings what is needed along.
"""

from __future__ import annotations

import base64
import binascii
from hashlib import blake2b
from typing import Any, NamedTuple

import msgpack
import numpy as np

from memorytree.engine.search import ACTION, BRANCH, EXPLORED, EXPLORED_GENERATION
from memorytree.errors import InvalidReceipt
from memorytree.hits import blank_trace

FORMAT = 1
DECISION = (BRANCH, EXPLORED, EXPLORED_GENERATION, ACTION)  # as much of the engine's trace as learning needs


class Question(NamedTuple):
    """A query as learning sees it: key, hits, and what was decided by chance."""

    key: bytes
    ids: list[int]
    decision: list[int]
    lineage: int  # which tree decided: nodes of one that was rebuilt since mean nothing

    def trace(self, lineage: int) -> np.ndarray:
        """The engine's trace, or a blank one if the tree has been rebuilt since."""
        trace = blank_trace(0)
        if lineage == self.lineage:
            trace[list(DECISION)] = self.decision
        return trace

    def packed(self) -> bytes:
        """As bytes."""
        return bytes(msgpack.packb(list(self)))

    @classmethod
    def unpacked(cls, data: bytes) -> Question:
        """What `packed` made."""
        return cls(*msgpack.unpackb(data))


def issue(store: bytes, nonce: bytes, question: Question) -> str:
    """The token of a question to a store. The nonce tells equal questions apart."""
    body = msgpack.packb([FORMAT, store, nonce, question.packed()])
    return base64.urlsafe_b64encode(body + _checksum(body)).decode().rstrip("=")


def read(token: Any, store: bytes) -> tuple[bytes, Question]:
    """(receipt, question) of a token, `receipt` being what it is known by; `InvalidReceipt` if it is not of this store."""
    if not isinstance(token, str):
        raise InvalidReceipt(f"a receipt id is a string, not {type(token).__name__}")
    try:
        data = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
        body, checksum = data[:-8], data[-8:]
        if checksum != _checksum(body):
            raise ValueError("its checksum does not fit")
        number, issuer, _, inner = msgpack.unpackb(body)
        if number != FORMAT:
            raise ValueError(f"it has format {number}, this version reads {FORMAT}")
        question = Question.unpacked(inner)
        decision = np.array(question.decision, np.int64)
        if not isinstance(question.ids, list) or any(type(id) is not int or not 0 <= id < 2**62 for id in question.ids):
            raise ValueError("its ids are none")
        if not isinstance(question.key, bytes) or type(question.lineage) is not int:
            raise ValueError("it has no key")
        if decision.shape != (len(DECISION),) or decision[0] not in (0, 1, 2):
            raise ValueError("its decision is none")
    except (ValueError, TypeError, OverflowError, binascii.Error, msgpack.UnpackException) as error:
        raise InvalidReceipt(f"not a receipt id: {error}") from None
    if issuer != store:
        raise InvalidReceipt("this receipt id comes from another store")
    return blake2b(body, digest_size=16).digest(), question


def _checksum(body: bytes) -> bytes:
    return blake2b(body, digest_size=8).digest()
