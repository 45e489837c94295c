"""One tree's numbers: the Python side of the engine. It drives the kernels and knows nothing of values, locks or files."""

from __future__ import annotations

from typing import Any

import numpy as np

from memorytree.engine import arrays as tree_arrays
from memorytree.engine import building, kernels
from memorytree.engine.arrays import (
    COUNT,
    MEMORIES,
    NONE,
    ROOMS,
    ROOT,
    SLOTS,
    Settings,
)

NOBODY = np.empty(0, np.int64)
NO_TRACES = np.empty((0, 0), np.int64)
# With this leaf factor a leaf never splits.
ONE_LEAF = 1e6
# Regrowing more memories than this (and than a sixteenth of the tree) is done aside, while readers go on.
LONG_WORK = 16384


class AnyCore:
    """What stands behind a face: it holds keys by id, and finds them again.

    That is one tree (`Core`), several (`Grove`), lists by term (`TermsCore`), trees over a learned space (`LearnedCore`), or
    something that ranks what another core finds (`CoreAround`). Each has `settings`, `routing`, `parts`, `shown`, `copy`,
    `place_of`, `insert`, `fill`, `label`, `remove`, `reroute`, `relearn`, `sweep`, `update`, `query` and `compare` with the
    arguments that `Core` has. Here is what only some have anything to say to.
    """

    least_beam = 1

    def seen(self, X: Any) -> Any:
        """What the tree that is shown sees of a batch of keys."""
        return X

    def aside(self) -> Any:
        """A twin for `relearn`, `sweep` or `regrow` to work on while this one is read; it then takes the place of this."""
        return self.copy()  # type: ignore[attr-defined]

    def lore(self) -> dict[str, np.ndarray]:
        """What is known or has been learned beside the arrays of the parts."""
        return {}

    def recall(self, lore: dict[str, np.ndarray]) -> None:
        """Be what `lore` told; the parts are then still to be adopted."""

    def admit(self, features: np.ndarray) -> None:
        """Refuse features of values, before anything is written."""

    def describe(self, ids: np.ndarray) -> None:
        """These memories have got features."""

    def bytes_in_use(self) -> int:
        """Bytes beside the arrays of the parts."""
        return sum(array.nbytes for array in self.lore().values())

    def bytes_in_all(self) -> int:
        """The same with the room for growth."""
        return self.bytes_in_use()


class Core(AnyCore):
    """A tree over dense or sparse keys, with the routing and the scorer given.

    Batches of keys are what the kernels take: a float32 matrix, or (bounds, features, weights) for sparse keys.
    """

    def __init__(self, sparse: bool, dimension: int, settings: Settings, routing: Any, scorer: Any, arrays: Any = None):
        self.sparse = sparse
        self.settings = settings
        self.routing = routing
        self.scorer = scorer
        self.adopt(arrays or tree_arrays.empty(sparse, dimension, settings, routing))

    def adopt(self, arrays: dict[str, np.ndarray]) -> None:
        """Be the tree that these arrays are; it then owns them."""
        self.counters = arrays["counters"]
        self.tree = tree_arrays.make(self.sparse, self.settings, self.routing, self.scorer, arrays)

    @property
    def parts(self) -> dict[str, Core]:
        """The trees this consists of, by name."""
        return {"tree": self}

    @property
    def shown(self) -> Core:
        """The tree to look at when somebody asks for its shape."""
        return self

    def __len__(self) -> int:
        return int(self.counters[MEMORIES])

    @property
    def dimension(self) -> int:
        """Number of features of a dense key."""
        return int(self.counters[tree_arrays.DIMENSION])

    def arrays(self) -> dict[str, np.ndarray]:
        """Views of the arrays, valid until the next write."""
        return tree_arrays.arrays_of(self.tree)

    def arrays_in_use(self) -> dict[str, np.ndarray]:
        """The same without the room for growth."""
        used = {name: int(self.counters[counter]) for name, counter in tree_arrays.USED.items()}
        return {name: array[: used.get(name)] for name, array in self.arrays().items()}

    def place_of(self, id: int) -> tuple[dict[str, np.ndarray], int]:
        """The arrays that hold the key of a memory, and its slot there."""
        return self.arrays(), int(kernels.locate(self.tree, id)[1])

    def copy(self) -> Core:
        """A tree of its own with the same content."""
        arrays = {name: array.copy() for name, array in self.arrays().items()}
        return Core(self.sparse, self.dimension, self.settings, self.routing, self.scorer, arrays)

    def insert(self, X: Any, ids: np.ndarray, progress: np.ndarray, last: int, removed: list) -> int:
        """Insert rows from where `progress` stands up to last - 1; `removed` gains (row, id) for each memory that had to go.

        Returns NONE, or a node whose regrowing takes long: see to it and call again.
        """
        while True:
            what, which = kernels.insert_rows(self.tree, X, ids, progress, last)
            if what == kernels.DONE:
                self._tidy()
                return NONE
            if what == kernels.REGROW:
                if self._is_long_work(which):
                    return which
                self.regrow(which)
            elif what == kernels.CLOSE_GAPS:
                kernels.close_gaps(self.tree)
            else:
                removed.append((int(progress[0]) // (1 + self.settings.reroutes), which))
                node = self.remove(which)
                if node != NONE:
                    return node

    def _tidy(self) -> None:
        """Close the gaps between leaves once they make up a fifth of all slots; the changes that made them pay for it."""
        if 4 * self.counters.item(SLOTS) > 5 * self.counters.item(ROOMS) + 4096:
            kernels.close_gaps(self.tree)

    def _is_long_work(self, node: int) -> bool:
        """Whether regrowing a node would keep readers waiting for more than a moment."""
        if len(self) < LONG_WORK:
            return False
        return int(self.arrays()["nodes"][node, COUNT]) > max(LONG_WORK, len(self) // 16)

    def regrow(self, node: int) -> None:
        """Build the subtree below a node anew."""
        building.rebuild_subtree(self.tree, node, False)

    def label(self, ids: np.ndarray, labels: np.ndarray) -> None:
        """Give memories labels (numbers): cuts that are made from now on keep equal ones together."""
        kernels.label(self.tree, ids, labels)

    def fill(self, X: Any, ids: np.ndarray, labels: np.ndarray | None = None) -> None:
        """Put all rows into this empty tree and grow it top-down."""
        if tree_arrays.max_neighbours(self.routing):
            # Memories get to know each other as they come, while those that are there lie close together.
            progress = np.zeros(1, np.int64)
            while (node := self.insert(X, ids, progress, len(ids), [])) != NONE:
                self.regrow(node)
        else:
            kernels.fill(self.tree, X, ids)
        if labels is not None:
            self.label(ids, labels)
        building.rebuild_subtree(self.tree, self.counters[ROOT], True)

    def remove(self, id: int) -> int:
        """Remove a memory that is there. Returns NONE, or a node whose regrowing takes long and is left to the caller."""
        _, node = kernels.remove(self.tree, id)
        self._tidy()
        if node == NONE or self._is_long_work(node):
            return int(node)
        self.regrow(node)
        return NONE

    def replace(self, X: Any, ids: np.ndarray) -> None:
        """Give memories that are there new keys, and place them by those."""
        progress = np.zeros(1, np.int64)
        while (node := kernels.replace(self.tree, X, ids, progress)) != NONE:
            self.regrow(node)
        self._tidy()

    def reroute(self, times: int) -> None:
        """Take a random memory out and put it in again, `times` times."""
        progress = np.zeros(1, np.int64)
        while (node := kernels.reroute(self.tree, progress, times)) != NONE:
            self.regrow(node)
        self._tidy()

    def compare(self, X: Any, first: int, last: int, ids: np.ndarray) -> np.ndarray:
        """How well the keys of memories ids[i] fit each row i of a range; -inf for those that are not there."""
        scores = np.empty((last - first, ids.shape[1]), np.float32)
        kernels.compare_rows(self.tree, X, first, last, ids, scores)
        return scores

    def update(
        self, X: Any, traces: np.ndarray, ids: np.ndarray, rewards: np.ndarray, progress: np.ndarray, last: int
    ) -> Any:
        """Learn from rewards for queries from where `progress` stands up to last - 1: (learned, skipped)."""
        counts = np.zeros(2, np.int64)
        while (node := kernels.update_rows(self.tree, X, traces, ids, rewards, progress, counts, last)) != NONE:
            self.regrow(node)
        self._tidy()
        return counts

    def relearn(self, passes: int) -> None:
        """Cut everything anew; or, where routers train themselves, let all memories pass so often, and sweep."""
        if not len(self):
            return
        if self.routing.rebuilds:
            building.rebuild_subtree(self.tree, self.counters[ROOT], True)
        else:
            self.reroute(passes * len(self))
            self.sweep()

    def sweep(self) -> int:
        """Put every memory where today's routers send it; returns the number moved."""
        moved = kernels.sweep(self.tree)
        node = 0
        while (node := kernels.next_too_full(self.tree, node)) != NONE:
            building.rebuild_subtree(self.tree, node, True)
            node += 1
        self._tidy()
        return int(moved)

    def query(
        self,
        X: Any,
        rows: tuple[int, int],
        bounds: np.ndarray,
        excluded: np.ndarray,
        ids: np.ndarray,
        scores: np.ndarray,
        traces: np.ndarray,
        beam: int,
        explore: float,
        draw: int,
    ) -> None:
        """Answer a range of rows into the arrays given."""
        first, last = rows
        if explore > 0:
            kernels.explore_rows(self.tree, X, first, last, bounds, excluded, ids, scores, traces, beam, explore, draw)
        elif beam > 1 or tree_arrays.max_neighbours(self.routing):
            kernels.beam_rows(self.tree, X, first, last, bounds, excluded, ids, scores, traces, beam)
        else:
            kernels.query_rows(self.tree, X, first, last, bounds, excluded, ids, scores, traces)
