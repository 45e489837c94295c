"""Which memories an insertion would remove."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]


class Evictions(NamedTuple):
    """What an insertion of some ids would remove.

    Attributes:
        stored: ids of memories that are stored now: replaced, or removed for lack of capacity.
        unstored: positions in the batch of those that would be removed by later ones of the same batch.
    """

    stored: list[int]
    unstored: list[int]


def plan_evictions(
    ids: Ids, capacity: int | None, count: int, holds: Callable[[int], bool], by_use: Iterator[int]
) -> Evictions:
    """What an insertion of these ids removes from an index with `count` memories.

    Args:
        ids: (n,) the ids, inserted in order.
        capacity: how many memories there may be; None or 0 for any number.
        count: how many there are.
        holds: whether an id is stored.
        by_use: the stored ids, the least recently used first.
    """
    stored, unstored = [], []
    staying: dict[int, int] = {}
    gone: set[int] = set()
    for position, id in enumerate(ids.tolist()):
        if id in staying:
            unstored.append(staying.pop(id))
        elif id not in gone and holds(id):
            gone.add(id)
            stored.append(id)
        elif not capacity or count < capacity:
            count += 1
        elif (oldest := next((id for id in by_use if id not in gone), None)) is not None:
            gone.add(oldest)
            stored.append(oldest)
        else:
            unstored.append(staying.pop(next(iter(staying))))
        staying[id] = position
    return Evictions(stored, unstored)
