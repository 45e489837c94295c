"""Operations of a store as changes: the rows that they write, with their numbers and seals."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from typing import cast

import numpy as np

from memorytree.arguments import LARGEST_ID, check_rewards
from memorytree.errors import InvalidKey, InvalidOption, StaleReceipt, UnknownReward
from memorytree.receipts import Receipt
from memorytree.results import NO_ID, RewardResult
from memorytree.store.inputs import NewMemories, check_metadata, pack_metadata
from memorytree.store.schema import Change, Facts, Memory, Observation, Reward, RewardedQuery
from memorytree.store.session import Session


def insert(session: Session, new: NewMemories) -> list[int]:
    """Insert memories and return their ids. The caller is in `session.writing`, as for all functions here."""
    state, event, totals = session.state(), session.next_event, session.totals
    kind, dimension = session.facts.get("keys", new.kind)
    if (kind, dimension) != new.kind:
        raise InvalidKey(f"this store holds {kind} keys of dimension {dimension}, not {new.kind[0]} of {new.kind[1]}")
    ids, next_id = _assign_ids(new.ids, totals.next_id)
    evictions = state.tree.plan_evictions(np.array(ids, np.int64))
    first = totals.next_record
    columns = (new.keys, new.values, new.metadata, new.labels, new.features, new.times)
    rows = [
        Memory.sealed(first + i, id, *fields, *times, event)
        for i, (id, *fields, times) in enumerate(zip(ids, *columns, strict=True))
    ]
    ended = state.ended(evictions.stored)
    ended += [rows[position].ended() for position in evictions.unstored]
    facts: Facts = {} if "keys" in session.facts else {"keys": new.kind}
    session.commit(Change("insert", [first, first + len(ids) - 1], memories=rows, ended=ended, next_id=next_id, facts=facts))
    return ids


def _assign_ids(ids: Sequence[int], next_id: int) -> tuple[list[int], int]:
    """The ids of new memories, the next free ones in place of NO_ID; and the next free id after them."""
    assigned = []
    for id in ids:
        assigned.append(next_id if id == NO_ID else id)
        next_id = max(next_id, assigned[-1] + 1)
    if next_id - 1 > LARGEST_ID:
        raise InvalidOption("ids go up to 2**61, which a memory has or had: give the next ones an id that is free")
    return assigned, next_id


def update_metadata(session: Session, id: int, metadata: object, *, replace: bool) -> None:
    """Set metadata of a present memory."""
    state = session.state()
    place = state.tree.get(id)
    changed = check_metadata(metadata)
    if not replace:
        changed = {**state.records.metadata(place), **changed}
    old = state.records.ended(place)
    [row] = session.database.memories(old.record, old.record)
    rewritten = [row.with_metadata(pack_metadata(changed))]
    session.commit(Change("update_metadata", [old.record], rewritten=rewritten, replaced_seals=[old.seal]))


def rewards_by_id(ids: Sequence[int], rewards: object) -> dict[int, float]:
    """The observed rewards of hits by id, from a list with one for each hit or from a mapping by id.

    >>> rewards_by_id([4, 7], [1.0, None]), rewards_by_id([4, 7], {7: 0.5})
    ({4: 1.0}, {7: 0.5})
    """
    given = check_rewards(np.array(ids, np.int64), rewards).tolist()
    return {id: reward for id, reward in zip(ids, given, strict=True) if not math.isnan(reward)}


def reward(session: Session, given: Iterable[tuple[Receipt, dict[int, float]]]) -> RewardResult:
    """Store rewards of queries, and learn from those that are new."""
    now, event, totals = time.time(), session.next_event, session.totals
    queries: list[RewardedQuery] = []
    rewards: list[Reward] = []
    observations = []
    for receipt, observed in given:
        digest = receipt.digest
        number = session.database.query_of(digest)
        new = _new_rewards(session, receipt, number, observed)
        if not new:
            continue
        if number is None:
            number = totals.next_query + len(queries)
            queries.append(RewardedQuery.sealed(number, digest, str(receipt), event))
        first = totals.next_reward + len(rewards)
        rows = [Reward.sealed(first + i, number, id, r + 0.0, now, event) for i, (id, r) in enumerate(new.items())]
        observations.append(Observation(receipt, [(row.number, row.memory, row.reward) for row in rows]))
        rewards += rows
    if not observations:
        return RewardResult(0, 0)
    body = [totals.next_reward, totals.next_reward + len(rewards) - 1]
    change = Change("reward", body, queries=queries, rewards=rewards, observations=observations)
    return cast(RewardResult, session.commit(change))


def _new_rewards(session: Session, receipt: Receipt, query: int | None, observed: dict[int, float]) -> dict[int, float]:
    """The rewards that are not known yet. Raises `StaleReceipt` for memories that were removed or replaced."""
    state = session.state()
    stale = [id for id in observed if not state.is_current(id, receipt)]
    if stale:
        raise StaleReceipt(f"removed or replaced since this query, so not rewarded: {', '.join(map(str, stale[:5]))}")
    known: dict[int, float] = {}
    if query is not None:
        remembers = state.tree.config.n_experiences > 0
        known = state.tree.known_rewards(receipt) if remembers else session.database.rewards_of(query)
    return {id: reward for id, reward in observed.items() if known.get(id) != reward}


def question(session: Session, key: bytes) -> Receipt:
    """What stands for a receipt where a question is rewarded that was not asked: it has no hits, and is always the same."""
    return Receipt(key, (), issuer=session.identity)


def withdraw(session: Session, number: int) -> None:
    """Take back a reward that counts."""
    totals = session.totals
    past = next((past for past in session.state().tree.rewards() if past.id == number and past.active), None)
    if past is None:
        raise UnknownReward(f"no reward that counts has the id {number!r}; `rewards` lists them")
    query = session.database.query_of_reward(number)
    row = Reward.sealed(totals.next_reward, query, past.memory, None, time.time(), session.next_event)
    [observation] = session.database.observations([row])
    session.commit(Change("withdraw", [row.number, row.number], rewards=[row], observations=[observation]))


def reset_learning(session: Session) -> None:
    """Forget what rewards have taught."""
    session.commit(Change("reset_learning", facts={"reset": session.totals.next_reward - 1}))
