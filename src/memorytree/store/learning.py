"""StoreLearner: the methods of a `MemoryStore` by which it learns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias, cast

import numpy as np

from memorytree.arguments import check_int, check_reward_matrix
from memorytree.errors import InvalidReceipt
from memorytree.receipts import Receipt
from memorytree.results import NO_ID, PastReward, RewardResult
from memorytree.store import changes
from memorytree.store.inputs import Key, check_key_bytes, key_bytes
from memorytree.store.reader import StoreReader
from memorytree.store.results import StoreHitMatrix, StoreHits
from memorytree.store.schema import Change

Rewards: TypeAlias = Mapping[int, float | None] | Sequence[float | None]


class StoreLearner(StoreReader):
    """What a store learns from. The examples begin with the store of the example of `MemoryStore`."""

    def rewards(self) -> list[PastReward]:
        """The rewards that are remembered, as `MemoryTree.rewards`.

        >>> store.rewards()
        []
        """
        return self._session.state().tree.rewards()

    def reward(self, receipt: StoreHits | Receipt | str | Key, rewards: Rewards) -> RewardResult:
        """Learn from how useful the hits of a query were, or which memories answer a question.

        Args:
            receipt: what `query` returned, its `receipt`, or `str` of that, in this process or another one; or the key of a
                question.
            rewards: a number from 0 to 1 for each hit, None where none was observed; or a mapping {id: number}. For a
                question a mapping of any ids.

        Returns:
            As `MemoryTree.reward`. A known reward counts for nothing; a different one for the same hit replaces it.

        Raises:
            InvalidReceipt: the receipt is damaged, or of another store.
            StaleReceipt: a rewarded memory has been removed or replaced since.
            InvalidReward: a reward is not such a number, or for no hit of the query.
            UnknownId: no memory has an id that is rewarded for a question.

        >>> hits = store.query([0.9, 0.2], k=2)
        >>> result = store.reward(str(hits.receipt), {0: 1.0})
        >>> store.verify().rewards
        1
        """
        if not isinstance(receipt, StoreHits | Receipt | str):
            return self._reward_question(receipt, rewards)
        receipt = self._receipt(receipt)
        given = changes.rewards_by_id(receipt.ids, rewards)
        with self._session.writing() as state:
            if given and state.keys is not None:
                check_key_bytes(state.keys, receipt.key)
            return changes.reward(self._session, [(receipt, given)])

    def _reward_question(self, x: Key, rewards: Rewards) -> RewardResult:
        """Learn which memories answer a question."""
        if not isinstance(rewards, Mapping):
            raise InvalidReceipt("reward takes hits, a receipt or its token, or a key and a mapping {id: number}")
        with self._session.writing() as state:
            for id in rewards:
                self._present(id)
            given = changes.rewards_by_id(list(rewards), rewards)
            _, [key] = key_bytes(state.tree, x)
            return changes.reward(self._session, [(changes.question(self._session, key), given)])

    def withdraw(self, id: int) -> None:
        """Take back a reward by its id, as `MemoryTree.withdraw`.

        Raises:
            UnknownReward: there is no such reward, or it was withdrawn or replaced.

        >>> result = store.reward(store.query([0.9, 0.2]), [0.0])
        >>> store.withdraw(1)
        >>> store.query([0.9, 0.2]).values
        ['east']
        """
        with self._session.writing():
            changes.withdraw(self._session, id)

    def reset_learning(self) -> None:
        """Forget what rewards have taught, as `MemoryTree.reset_learning`.

        >>> store.reset_learning()
        """
        with self._session.writing():
            changes.reset_learning(self._session)

    def _receipt(self, given: StoreHits | Receipt | str) -> Receipt:
        """The receipt of a query to this store."""
        receipt = given.receipt if isinstance(given, StoreHits) else given
        receipt = receipt if isinstance(receipt, Receipt) else Receipt.parse(receipt)
        if receipt.issuer != self._session.identity:
            raise InvalidReceipt("this receipt comes from another store")
        return receipt

    def reward_many(self, hits: StoreHitMatrix, rewards: object) -> RewardResult:
        """Learn from the hits of a batch of queries, as one operation.

        Args:
            hits: what `query_many` returned.
            rewards: an n x k array of numbers from 0 to 1, NaN where none was observed.

        Returns:
            As `reward`.

        Raises:
            InvalidReceipt, StaleReceipt, InvalidReward: as `reward`.

        >>> hits = store.query_many([[0.9, 0.2], [0.1, 0.8]])
        >>> result = store.reward_many(hits, [[1.0], [0.0]])
        """
        if not isinstance(hits, StoreHitMatrix):
            raise InvalidReceipt(f"reward_many takes what query_many returned, not {type(hits).__name__}")
        given = check_reward_matrix(hits.ids.shape, rewards)
        observed = (hits.ids != NO_ID) & ~np.isnan(given)
        rows = np.flatnonzero(observed.any(axis=1)).tolist()
        receipts = [self._receipt(hits[row]) for row in rows]
        by_id = [dict(zip(hits.ids[i, observed[i]].tolist(), given[i, observed[i]].tolist(), strict=True)) for i in rows]
        with self._session.writing():
            return changes.reward(self._session, zip(receipts, by_id, strict=True))

    def refit(self, passes: int = 1) -> None:
        """Train again on the memories, as `MemoryTree.refit`.

        Args:
            passes: how many passes.

        >>> store.refit()
        """
        with self._session.writing():
            self._session.commit(Change("refit", check_int("passes", passes, 1)))

    def sweep(self) -> int:
        """Move each memory to where the routers send it now, as `MemoryTree.sweep`.

        Returns:
            How many memories were moved.

        >>> store.sweep()
        0
        """
        with self._session.writing():
            return cast(int, self._session.commit(Change("sweep")))

    def reroute(self, times: int) -> None:
        """Remove random memories and insert them again, as `MemoryTree.reroute`.

        Args:
            times: how many memories.

        >>> store.reroute(3)
        """
        with self._session.writing():
            self._session.commit(Change("reroute", check_int("times", times, 0)))
