"""ExperiencedIndex: another index finds and ranks memories, and past rewards of near questions change their scores.

The formula is in `learning/experience.py`, its reasons in `docs/internals/experiences.md`.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from hashlib import blake2b
from typing import Self

import numpy as np

from memorytree.engine.search import BRANCH, EXPLOIT
from memorytree.errors import UnknownReward
from memorytree.index.base import (
    NO_DECISIONS,
    Array,
    Ids,
    Index,
    InsertResult,
    KeyBatch,
    QueryRequest,
    QueryResult,
    RewardBatch,
    ScoredHit,
    Scores,
    rows_of,
    under,
    with_prefix,
)  # fmt: skip
from memorytree.index.contributions import pairs_of
from memorytree.index.single import insert_all, remove_now
from memorytree.index.wrapped import WrappedIndex
from memorytree.learning.experience import DIGEST, REACH, UNOBSERVED, Evidence, Experiences, Observed, Scale
from memorytree.results import NO_ID, PastReward, RewardResult, Stats

NEAREST = 8
"""How many questions near a query are looked at."""
SPREAD = 5
"""Where scores are no comparison of keys, a gap is the difference between the first hit and this one."""
HITS = 8
"""How many memories near a question are looked at for one that is not equal to it."""
EQUAL = 1e-3
"""Keys are as good as equal if their gap is this part of the largest one found."""
NEGLIGIBLE = 1e-6
"""The least gap, as a part of the scores."""
NEGLIGIBLE_SHARE = 1e-3
"""Experiences that change a score by less, as a part of it, are not explained."""
QUESTION_BITS = 60
UNKNOWN_UNIT = 0.25
"""Where no gap to a memory is known, the unit of distances is this part of the mean gap of the nearest questions."""


class ExperiencedIndex(WrappedIndex):
    """An index that remembers rewards.

    Args:
        inner: the index that finds and ranks memories.
        questions: an empty index that compares keys as `inner.geometry` does before it has learned anything.
        capacity: the most experiences.
    """

    def __init__(self, inner: Index, questions: Index, capacity: int):
        super().__init__(inner)
        self.questions, self.experiences = questions, Experiences(capacity)

    @property
    def min_beam(self) -> int:
        return self.inner.min_beam

    # ---- writing

    def insert(self, keys: KeyBatch, ids: Ids, start: int, stop: int) -> InsertResult:
        result = self.inner.insert(keys, ids, start, stop)
        for _, id in result.evicted:
            self._forget(id)
        return result

    def remove(self, id: int) -> bool:
        self._forget(id)
        return self.inner.remove(id)

    def _forget(self, id: int) -> None:
        if len(self.experiences):
            self.experiences.forget(id)
            self._remove_questions()

    def _remove_questions(self) -> None:
        """Remove the questions that have lost their last experience."""
        for question in self.experiences.take_unused():
            remove_now(self.questions, question)

    def reward(self, batch: RewardBatch) -> RewardResult:
        """Add experiences, and let the inner index learn from the same rewards; query by query, as a loop would."""
        results = [self._reward_query(batch.rows(i, i + 1)) for i in range(len(batch.ids))]
        return RewardResult(*np.sum(results, axis=0).tolist()) if results else RewardResult(0, 0)

    def _reward_query(self, batch: RewardBatch) -> RewardResult:
        ids, rewards = batch.ids[0], batch.rewards[0]
        stored = np.isfinite(self.inner.score(batch.keys, batch.ids)[0])
        given = np.flatnonzero(stored & ~np.isnan(rewards))
        if not len(given):
            return self.inner.reward(batch)
        question = question_number(batch.keys)
        receipt = batch.receipts[0] if batch.receipts else _digest(batch.keys, ids)
        by_id = dict(zip(ids[given].tolist(), rewards[given].tolist(), strict=True))
        numbers = () if batch.numbers is None else batch.numbers[0, given].tolist()
        first = ids.item(0) if batch.returned else NO_ID
        was_known = self.experiences.has_question(question)
        new = self.experiences.add(Observed(question, receipt, by_id, first, self._gap_of(batch.keys), numbers))
        if not new and batch.receipts:
            return RewardResult(0, 0)
        if not was_known:
            insert_all(self.questions, batch.keys, np.array([question]), 0, 1)
        self._remove_questions()
        if self.experiences.is_lone_acceptance(receipt):
            self.inner.mark_used(batch)
            return RewardResult(0, 0, len(new))
        learned, skipped, _ = self.inner.reward(self._lesson(batch, receipt))
        return RewardResult(learned, skipped, len(new))

    def _gap_of(self, key: KeyBatch) -> float:
        """The gap between a question and the nearest memory that is not equal to it; 0 if it cannot be known."""
        index = self.geometry
        top = index.top_score
        if top is None:
            return 0.0
        scores = index.query(QueryRequest(key, HITS)).scores[0]
        return _first_gap(top - scores[np.isfinite(scores)].astype(np.float64))

    def _lesson(self, batch: RewardBatch, receipt: bytes) -> RewardBatch:
        """What the inner index learns from: all rewards of a receipt, and an assumption about its other hits."""
        ids, rewards = batch.ids[0], batch.rewards[0]
        if not batch.returned:
            hits = self.inner.query(QueryRequest(batch.keys, SPREAD)).ids[0]
            hits = hits[~np.isin(hits, ids)]
            ids, rewards = np.concatenate([ids, hits]), np.concatenate([rewards, np.full(len(hits), np.nan)])
        known = self.experiences.known(receipt)
        rewards = np.array([known[id].reward if id in known else np.nan for id in ids.tolist()])
        return batch._replace(ids=ids[None], rewards=rewards[None], unobserved=UNOBSERVED)

    def past_rewards(self) -> list[PastReward]:
        return [PastReward(row.number, row.memory, row.reward, row.active) for row in self.experiences]

    def known_rewards(self, receipt: bytes) -> dict[int, float]:
        return {memory: row.reward for memory, row in self.experiences.known(receipt).items()}

    def withdraw(self, number: int) -> None:
        """Take back the reward of an experience. What slow learning has made of it stays."""
        if number not in self.experiences or not self.experiences[number].active:
            raise UnknownReward(f"no reward that counts has the id {number!r}; `rewards` lists them")
        self.experiences.deactivate(number)
        self._remove_questions()

    def withdraw_of(self, receipt: bytes, memory: int) -> None:
        row = self.experiences.known(receipt).get(memory)
        if row is not None:
            self.withdraw(row.number)

    def reset_learning(self) -> None:
        self.experiences.clear()
        self._remove_questions()
        self.inner.reset_learning()

    # ---- reading

    def query(self, request: QueryRequest) -> QueryResult:
        evidence = self._evidence(request)
        if not evidence:
            return self.inner.query(request)
        if request.stop - request.start == 1 and not request.explore:
            return QueryResult(*self._rank(request, request.start, evidence[request.start]), NO_DECISIONS)
        found = self.inner.query(request)
        for row, of_row in evidence.items():
            i = row - request.start
            if not len(found.decisions) or found.decisions[i, BRANCH] == EXPLOIT:
                found.ids[i], found.scores[i] = self._rank(request, row, of_row)
        return found

    def _evidence(self, request: QueryRequest) -> dict[int, dict[int, Evidence]]:
        """What experiences say about memories, for each row of a request near which there are any."""
        n = len(self.questions)
        if not n:
            return {}
        asked = QueryRequest(request.keys, min(NEAREST, n), request.start, request.stop)
        ids, scores, _ = self.questions.query(asked)
        typical = self.experiences.typical_gap()
        evidence = {}
        for i, row in enumerate(range(request.start, request.stop)):
            there = ids[i] != NO_ID
            near = self._near(rows_of(request.keys, row, row + 1), ids[i, there], scores[i, there], typical)
            if near and (of_row := self.experiences.evidence(near)):
                evidence[row] = of_row
        return evidence

    def _near(self, key: KeyBatch, questions: Ids, scores: Scores, typical: float) -> list[tuple[int, float]]:
        """(question, distance in gaps) of those questions that are near a key, by their scores in `questions`."""
        if self.geometry.learns_to_compare:
            gaps = self.geometry.key_gaps(key, self.questions.keys_of(questions)).astype(np.float64)
        else:
            gaps = np.maximum((self.questions.top_score or 0.0) - scores.astype(np.float64), 0.0)
        others = gaps[gaps > EQUAL * gaps.max(initial=0.0)]
        if typical:
            unit = min(typical, float(others.sum() + typical) / (len(others) + 1))
        else:
            unit = UNKNOWN_UNIT * float(others.mean()) if len(others) else 1.0
        near = gaps < REACH * unit
        return list(zip(questions[near].tolist(), (gaps[near] / unit).tolist(), strict=True))

    def _rank(self, request: QueryRequest, row: int, evidence: dict[int, Evidence]) -> tuple[Ids, Scores]:
        """The ids and scores (1, k) of one row, by experiences as well."""
        k, key = request.k, rows_of(request.keys, row, row + 1)
        lowered = sum(bool(of_memory.objections) for of_memory in evidence.values())
        wanted = max(k, SPREAD) + lowered
        found = self.inner.query(replace(request, k=wanted, start=row, stop=row + 1, explore=0.0))
        there = found.ids[0] != NO_ID
        ids, scores = found.ids[0, there], found.scores[0, there]
        scale = self._scale(ids, scores, evidence)
        bounds, excluded = request.excluded
        left_out = set(ids.tolist()) | set(excluded[bounds[row] : bounds[row + 1]].tolist())
        more = [id for id in sorted(evidence) if evidence[id].support and id not in left_out]
        if request.allowed is not None:
            more = np.intersect1d(more, request.allowed).astype(np.int64).tolist()
        if more:
            added = np.array(more, np.int64)
            ids, scores = np.concatenate([ids, added]), np.concatenate([scores, self.inner.score(key, added[None])[0]])
        scores = _with_experiences(ids, scores, scale, evidence)
        best = np.argsort(-scores, kind="stable")[:k]
        answer = np.full((1, k), NO_ID, np.int64), np.full((1, k), -np.inf, np.float32)
        answer[0][0, : len(best)], answer[1][0, : len(best)] = ids[best], scores[best]
        return answer

    def _scale(self, ids: Ids, scores: Scores, evidence: Mapping[int, Evidence]) -> Scale:
        """The scale of an answer, best first, without experiences. Objections cost enough to put another memory first."""
        best, top = float(scores[0]) if len(scores) else 0.0, self.inner.top_score
        gap = self.experiences.typical_gap()
        if top is None:
            top, gap = best, best - float(scores[:SPREAD].min(initial=best))
        top = max(top, best)
        gap = max(gap, NEGLIGIBLE * max(1.0, abs(top), abs(best)))
        unopposed = (i for i, id in enumerate(ids.tolist()) if id not in evidence or not evidence[id].objections)
        other = next(unopposed, None)
        return Scale(top, gap, gap if other is None else max(gap, best - float(scores[other])))

    def _scale_of(self, request: QueryRequest, evidence: Mapping[int, Evidence]) -> Scale:
        """The scale of the answer to the first row of a request."""
        found = self.inner.query(replace(request, k=SPREAD + len(evidence), stop=request.start + 1))
        there = found.ids[0] != NO_ID
        return self._scale(found.ids[0, there], found.scores[0, there], evidence)

    def score(self, keys: KeyBatch, ids: Ids) -> Scores:
        scores = self.inner.score(keys, ids)
        for row, evidence in self._evidence(QueryRequest(keys, 1, 0, len(ids))).items():
            scale = self._scale_of(QueryRequest(keys, 1, row), evidence)
            scores[row] = _with_experiences(ids[row], scores[row], scale, evidence)
        return scores

    def contributions(self, request: QueryRequest, found: QueryResult) -> list[ScoredHit]:
        """Those of the inner index, and of each experience."""
        evidence = self._evidence(replace(request, start=0, stop=1)).get(0)
        if evidence is None:
            return self.inner.contributions(request, found)
        scale, more = self._scale_of(request, evidence), replace(request, k=request.k + len(evidence))
        alone = {hit.id: hit for hit in self.inner.contributions(more, self.inner.query(more))}
        hits = []
        for id, score in pairs_of(found):
            before = float(self.inner.score(request.keys, np.array([[id]]))[0, 0])
            hit = alone.get(id, ScoredHit(id, before, {}, {"score without experiences": before}))
            shares = evidence[id].shares(before, scale) if id in evidence else {}
            least = NEGLIGIBLE_SHARE * abs(score)
            named = {f"experience {number}": share for number, share in shares.items() if abs(share) >= least}
            hits.append(ScoredHit(id, score, hit.contributions, {**hit.components, **named}))
        return hits

    def stats(self) -> Stats:
        stats, questions = self.inner.stats(), self.questions.stats()
        used, spare = stats.bytes + questions.bytes, stats.spare_bytes + questions.spare_bytes
        return stats.with_bytes(stats.key_bytes, used, used + spare)

    # ---- state

    def copy(self) -> Self:
        twin = self.copy_for_rebuild()
        twin.inner, twin.questions, twin.experiences = self.inner.copy(), self.questions.copy(), self.experiences.copy()
        return twin

    def copy_for_rebuild(self) -> Self:
        twin = copy(self)
        twin.inner = self.inner.copy_for_rebuild()
        return twin

    def state_dict(self) -> dict[str, Array]:
        state = with_prefix("inner", self.inner.state_dict())
        state |= with_prefix("questions", self.questions.state_dict())
        return state | with_prefix("experiences", self.experiences.state_dict())

    def load_state_dict(self, state: Mapping[str, Array], *, trusted: bool = False) -> None:
        self.inner.load_state_dict(under("inner", state), trusted=trusted)
        self.questions.load_state_dict(under("questions", state), trusted=trusted)
        self.experiences.load_state_dict(under("experiences", state))
        if not trusted:
            self.check()

    def check(self) -> None:
        super().check()
        self.questions.check()
        self.experiences.check(self.inner.stored_ids().tolist())
        if set(self.questions.stored_ids().tolist()) != set(self.experiences.questions()):
            raise ValueError("contradictory state: experiences and questions do not belong together")


def question_number(key: KeyBatch) -> int:
    """The number of a question, which depends on its key only; key is a batch of one."""
    return int.from_bytes(blake2b(_key_bytes(key), digest_size=8).digest(), "big") >> 64 - QUESTION_BITS


def _digest(key: KeyBatch, ids: Ids) -> bytes:
    """What stands for the receipt of a query that has none."""
    return blake2b(_key_bytes(key) + ids.tobytes(), digest_size=DIGEST).digest()


def _key_bytes(key: KeyBatch) -> bytes:
    if not isinstance(key, tuple):
        return bytes((key[0] + np.float32(0)).tobytes())  # without negative zeros
    (first, last), features, weights = key
    return bytes(features[first:last].tobytes() + weights[first:last].tobytes())


def _first_gap(gaps: Array) -> float:
    """The first of these gaps, smallest first, that is not negligible; 0 if there is none."""
    apart = gaps[gaps > EQUAL * gaps.max(initial=0.0)]
    return float(apart[0]) if len(apart) else 0.0


def _with_experiences(ids: Ids, scores: Scores, scale: Scale, evidence: Mapping[int, Evidence]) -> Scores:
    """Scores of memories, changed by what experiences say about them."""
    changed = scores.copy()
    for i, id in enumerate(ids.tolist()):
        of_memory = evidence.get(id)
        if of_memory is not None and scores[i] > -np.inf:
            gain, loss = of_memory.parts(float(scores[i]), scale)
            changed[i] = float(scores[i]) + gain - loss
    return changed
