"""TextHits: a sequence of hits, with columns."""

import numpy as np

from memorytree import TextHit, TextMemory


def test_hits_are_ordered_by_score(memory):
    hits = memory.recall("Who lives in Lisbon?", 7)
    assert hits.scores.tolist() == sorted(hits.scores.tolist(), reverse=True)
    assert len(hits) == 7


def test_columns_agree_with_rows(memory, facts):
    hits = memory.recall("How does Bob go to work?", 3)
    columns = hits.ids.tolist(), hits.texts, hits.scores.tolist(), hits.metadata
    assert [TextHit(*row) for row in zip(*columns, strict=True)] == list(hits)
    assert hits[0].text == facts[1]
    assert hits[0].metadata == {"number": 1, "name": "Bob"}
    assert hits.ids.dtype == np.int64
    assert hits[1:] == list(hits)[1:]
    assert repr(hits).startswith("TextHits([TextHit(id=1, text='Bob takes")


def test_hits_stay_after_forgetting_and_closing(facts):
    with TextMemory(seed=0) as memory:
        memory.remember_many(facts)
        hits = memory.recall("Lisbon", 2)
        expected = list(hits)
        memory.forget(int(hits.ids[0]))
    assert list(hits) == expected


def test_no_hits(memory):
    hits = memory.recall("Lisbon", where={"name": "Zoe"})
    assert (len(hits), hits.texts, hits.ids.tolist(), hits.metadata) == (0, [], [], [])
