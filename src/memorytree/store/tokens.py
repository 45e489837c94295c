"""Receipts of a store: all that learning needs of a query, as one string with a checksum.

A query therefore writes nothing; its reward may come later and from another process.
"""

from __future__ import annotations

import base64
import binascii
from dataclasses import astuple, dataclass
from hashlib import blake2b

import msgpack

from memorytree.errors import InvalidReceipt
from memorytree.store import tree_access

FORMAT = 1
CHECKSUM_BYTES, DIGEST_BYTES = 8, 16
LARGEST_ID = 2**62


@dataclass(frozen=True, slots=True)
class Receipt:
    """A query to a store and its answer, as far as learning needs them. `str` gives the token that `parse` reads.

    Attributes:
        store: the identity of the store.
        nonce: tells equal queries apart.
        key: the bytes of the key; none if the store held no memories.
        ids: the ids of the hits.
        decision: what exploration decided; see `tree_access.DECISION`.
        lineage: which tree decided. The nodes of a tree that was rebuilt since are other nodes.
    """

    store: bytes
    nonce: bytes
    key: bytes
    ids: list[int]
    decision: list[int]
    lineage: int

    def to_bytes(self) -> bytes:
        """The receipt as bytes."""
        return bytes(msgpack.packb([FORMAT, *astuple(self)]))

    @classmethod
    def from_bytes(cls, data: bytes) -> Receipt:
        """The receipt that `to_bytes` wrote. Raises `ValueError` or `TypeError` where it is not valid."""
        number, *fields = msgpack.unpackb(data)
        if number != FORMAT:
            raise ValueError(f"it has format {number}, this version reads {FORMAT}")
        receipt = cls(*fields)
        if not isinstance(receipt.ids, list) or any(type(id) is not int or not 0 <= id < LARGEST_ID for id in receipt.ids):
            raise ValueError("its ids are not valid")
        if not all(isinstance(data, bytes) for data in (receipt.store, receipt.nonce, receipt.key)):
            raise ValueError("it has no key")
        if type(receipt.lineage) is not int or not tree_access.is_decision(receipt.decision):
            raise ValueError("its decision is not valid")
        return receipt

    @property
    def digest(self) -> bytes:
        """Identifies the receipt in the database."""
        return blake2b(self.to_bytes(), digest_size=DIGEST_BYTES).digest()

    def __str__(self) -> str:
        data = self.to_bytes()
        return base64.urlsafe_b64encode(data + _checksum(data)).decode().rstrip("=")

    @classmethod
    def parse(cls, token: object) -> Receipt:
        """The receipt of a token.

        Raises:
            InvalidReceipt: the token was not made by `str` of a receipt, or was changed.
        """
        if not isinstance(token, str):
            raise InvalidReceipt(f"a receipt is what a query returned, or its token, not {type(token).__name__}")
        try:
            data = base64.b64decode(token + "=" * (-len(token) % 4), altchars=b"-_", validate=True)
            content, checksum = data[:-CHECKSUM_BYTES], data[-CHECKSUM_BYTES:]
            if checksum != _checksum(content):
                raise ValueError("its checksum does not match")
            return cls.from_bytes(content)
        except (ValueError, TypeError, OverflowError, binascii.Error, msgpack.UnpackException) as error:
            raise InvalidReceipt(f"not a receipt: {error}") from None


def _checksum(data: bytes) -> bytes:
    return blake2b(data, digest_size=CHECKSUM_BYTES).digest()
