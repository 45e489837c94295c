"""Self-consistency: whether a memory comes back when it is asked for by its own key."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp


def own_key_error(keys: Any, found: np.ndarray) -> float:
    """Return the share of keys for which another memory came back; one with an equal key will do.

    Args:
        keys: the keys asked for, a row each; row i is the key of memory i.
        found: the numbers of the memories that came back; -1 for none.

    >>> own_key_error(np.array([[1.0], [2.0], [2.0]]), np.array([0, 2, 0]))
    0.3333333333333333
    """
    wrong = 0
    for row in np.flatnonzero(found != np.arange(len(found))).tolist():
        if found[row] < 0:
            wrong += 1
            continue
        difference = keys[row] - keys[found[row]]
        wrong += bool(difference.nnz if sp.issparse(difference) else np.any(difference))
    return wrong / len(found)
