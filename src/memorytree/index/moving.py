"""Move the memories of a flat index into an index of compiled kernels.

They are inserted in the order of their rows. Ids, the next id, labels, the order of use, and what rewards have taught of
terms carry over, through the interface of every index as far as it goes. Steps that would change nothing are left out,
because each of them uses kernels that may have to be compiled.
"""

from __future__ import annotations

import numpy as np

from memorytree.index.base import Index, RewardBatch, blank_decisions
from memorytree.index.flat import FlatIndex
from memorytree.index.flat_terms import FlatTerms
from memorytree.index.single import insert_all
from memorytree.index.terms import TermIndex
from memorytree.results import NO_ID


def move_memories(flat: FlatIndex, larger: Index) -> None:
    """Move all memories into an empty index."""
    ids, order = flat.stored_ids().copy(), flat.order_of_use()
    _reserve_numbers(flat, larger)
    insert_all(larger, flat.keys.rows_as_batch(np.arange(len(ids))), ids, 0, len(ids))
    labels = flat.labels[: len(ids)].copy()
    if np.any(labels != NO_ID):
        larger.set_labels(ids, labels)
    if np.any(order[1:] < order[:-1]):
        # A single hit with a reward teaches nothing, but is marked as used.
        rewards, keys = np.ones((len(ids), 1)), flat.keys.rows_as_batch(order)
        larger.reward(RewardBatch(keys, ids[order][:, None], rewards, blank_decisions(len(ids))))
    if isinstance(flat.keys, FlatTerms) and flat.keys.has_learned():
        _move_learned(flat.keys, larger)


def _reserve_numbers(flat: FlatIndex, larger: Index) -> None:
    """Give features the numbers that they have in the flat index, and settle the next id.

    A memory with every feature and the last id that was given is stored, and removed again.
    """
    last = flat.next_id - 1
    if flat.sparse or last not in flat.rows:
        insert_all(larger, flat.keys.every_feature(), np.array([last]), 0, 1)
        larger.remove(last)


def _move_learned(keys: FlatTerms, larger: Index) -> None:
    """Move what rewards have taught of terms."""
    assert isinstance(larger, TermIndex)
    state = larger.state_dict()
    state["lists.given"] = keys.given[: len(keys)].astype(np.int32)
    larger.load_state_dict(state, trusted=True)
    terms = slice(1, keys.n_terms)
    importance, squares = (array[terms].astype(np.float32) for array in (keys.importance, keys.gradients))
    larger.load_importance(keys.names[terms], importance, squares, int(keys.learned))
