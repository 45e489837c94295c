"""TextLearner: how a `TextMemory` learns from rewards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

import numpy as np

from memorytree.errors import InvalidReward
from memorytree.receipts import TOKEN, Receipt
from memorytree.results import PastReward, RewardResult
from memorytree.store import MemoryStore
from memorytree.text.encoders import KeyMaker, check_text
from memorytree.text.hits import TextHits

Rewards = int | AbstractSet[int] | Mapping[int, float | None] | Sequence[float | None]


class TextLearner:
    """The methods of a `TextMemory` about rewards.

    Args:
        keys: makes keys of texts.
        store: holds the texts.
    """

    def __init__(self, keys: KeyMaker, store: MemoryStore):
        self._keys, self._store = keys, store

    def reward(self, receipt: TextHits | Receipt | str, rewards: Rewards) -> RewardResult:
        """Report how useful recalled texts were, or which texts answer a question, so that later answers are better.

        The answers to the same question change at once, those to similar questions a little. A different reward for the same
        text and receipt replaces the former; the same reward again has no effect.

        Args:
            receipt: the hits that `recall` returned, their receipt, or `str(receipt)`; or a question.
            rewards: a list with one number in [0, 1] for each hit, None where the use is not known; or a mapping
                {id: number}; or the id of the text that was useful, or a set of such ids: these get 1, the other hits 0. For
                a question a mapping, an id or a set of ids, of any texts.

        Returns:
            How much was learned, see `MemoryTree.reward`.

        Raises:
            InvalidReceipt: the receipt is not from this memory.
            StaleReceipt: a rewarded text has been forgotten or replaced since.
            InvalidReward: a reward is outside [0, 1], or for a text that is not among the hits.
            UnknownId: no text has an id that is rewarded for a question.

        Example:
            >>> from memorytree import TextMemory
            >>> memory = TextMemory(seed=0)
            >>> _ = memory.remember_many(["The umbrella is behind the door", "The key is under the mat", "Rain on Monday"])
            >>> hits = memory.recall("What is behind what, against drizzle?", k=3)
            >>> memory.recall("drizzle")[0].score
            0.0
            >>> token = str(hits.receipt)  # can be stored
            >>> memory.reward(token, {0: 1.0, 1: 0.0})
            RewardResult(learned=1, skipped=0, experiences=2)
            >>> memory.recall("drizzle")[0].text
            'The umbrella is behind the door'
            >>> result = memory.reward("How do I get in?", 1)
            >>> memory.recall("How do I get in?", k=1).texts
            ['The key is under the mat']
        """
        if isinstance(receipt, TextHits):
            receipt = receipt.receipt
        if isinstance(rewards, bool):
            raise InvalidReward("rewards are numbers for the hits, or ids, not a bool")
        if isinstance(rewards, int | np.integer):
            rewards = {int(rewards)}
        if isinstance(receipt, str) and not TOKEN.fullmatch(receipt) and isinstance(rewards, AbstractSet | Mapping):
            given = dict.fromkeys(rewards, 1.0) if isinstance(rewards, AbstractSet) else rewards
            return self._store.reward(self._keys.key(check_text(receipt)), given)
        if isinstance(rewards, AbstractSet):
            receipt = receipt if isinstance(receipt, Receipt) else Receipt.parse(receipt)
            rewards = {**dict.fromkeys(receipt.ids, 0.0), **dict.fromkeys(rewards, 1.0)}
        return self._store.reward(receipt, rewards)

    def rewards(self) -> list[PastReward]:
        """The rewards that are remembered, in the order in which they were given; also those that were replaced.

        Returns:
            Their ids, the ids of the texts, the rewards, and whether they count.

        Example:
            >>> from memorytree import TextMemory
            >>> with TextMemory(seed=0) as memory:
            ...     _ = memory.remember("Ada likes tea")
            ...     _ = memory.reward(memory.recall("What does Ada drink?"), [1.0])
            ...     memory.rewards()
            [PastReward(id=1, memory=0, reward=1.0, active=True)]
        """
        return self._store.rewards()

    def withdraw(self, id: int) -> None:
        """Take back a reward: answers are as if it had never been given, but for what the importances of words, or the space
        of an encoder, have learned; `reset_learning` resets these.

        Args:
            id: the id of the reward, from `rewards`.

        Raises:
            UnknownReward: there is no such reward, or it was withdrawn or replaced.

        Example:
            >>> from memorytree import TextMemory
            >>> with TextMemory(seed=0) as memory:
            ...     _ = memory.remember("Ada likes tea")
            ...     _ = memory.reward(memory.recall("What does Ada drink?"), [0.0])
            ...     memory.withdraw(1)
            ...     memory.rewards()[0].active
            False
        """
        self._store.withdraw(id)

    def reset_learning(self) -> None:
        """Forget what rewards have taught.

        Example:
            >>> from memorytree import TextMemory
            >>> with TextMemory(seed=0) as memory:
            ...     _ = memory.remember("Ada likes tea")
            ...     _ = memory.reward("What does Ada drink?", 0)
            ...     memory.reset_learning()
            ...     memory.rewards()
            []
        """
        self._store.reset_learning()
