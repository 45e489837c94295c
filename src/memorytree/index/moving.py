"""Move the memories of a flat index into an index of compiled kernels.

They are inserted in the order of their rows. Ids, the next id, labels, the order of use and what rewards have taught of terms
carry over, through the interface of every index as far as it goes.
"""

from __future__ import annotations

import numpy as np

from memorytree.engine.terms import lists as postings
from memorytree.index.base import Index, RewardBatch, blank_decisions
from memorytree.index.flat import FlatIndex
from memorytree.index.flat_terms import TermKeys
from memorytree.index.single import insert_all


def move_memories(flat: FlatIndex, larger: Index) -> None:
    """Move all memories into an empty index.

    A first memory that has every feature, and is removed again, gives features the numbers that they have in the flat index,
    and settles the next id.
    """
    first = np.array([flat.next_id - 1])
    insert_all(larger, flat.keys.every_feature(), first, 0, 1)
    larger.remove(first.item())
    ids, order = flat.stored_ids().copy(), flat.order_of_use()
    keys = flat.keys.rows_as_batch(np.arange(len(ids)))
    insert_all(larger, keys, ids, 0, len(ids))
    larger.set_labels(ids, flat.labels[: len(ids)].copy())
    # One hit for each query teaches nothing, but marks the hit as used.
    in_order, rewards = ids[order][:, None], np.ones((len(ids), 1))
    larger.reward(RewardBatch(flat.keys.rows_as_batch(order), in_order, rewards, blank_decisions(len(ids))))
    if isinstance(flat.keys, TermKeys):
        _move_learned(flat.keys, larger)


def _move_learned(keys: TermKeys, larger: Index) -> None:
    """Move what rewards have taught of terms, and enter the memories in the lists that follow from it."""
    state = larger.state_dict()
    state["lists.importance"] = keys.importance[: keys.n_terms].copy()
    state["lists.squares"] = keys.gradients[: keys.n_terms].copy()
    state["lists.given"] = keys.given[: keys.n].astype(np.int32)
    state["lists.counters"][postings.LEARNED] = keys.learned
    larger.load_state_dict(state, trusted=True)
    larger.sweep()
