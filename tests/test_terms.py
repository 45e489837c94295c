"""Term lists: every memory stays within reach, answers are right, rewards teach which terms tell."""

import numpy as np
import pytest
import scipy.sparse
from hypothesis import given, settings
from hypothesis import strategies as st
from memorytree.routing import terms

from memorytree import MemoryForest, MemoryTree
from memorytree.checks import check_tree
from memorytree.errors import DamagedFile, InvalidKey, InvalidOption
from tests.trees import state

NARROW = terms(breadth=1, reads=2, scored=2, homes=2)
WIDE = terms(breadth=1e6, reads=1e6, scored=10**6)
SCORERS = ["distance", "cosine"]

WEIGHTS = st.sampled_from([-2.0, -1.0, 0.5, 1.0, 1.5, 3.0])
KEYS = st.dictionaries(st.sampled_from("abcdefgh"), WEIGHTS, max_size=5)


def documents(n, columns=40, density=0.15, seed=0):
    """n sparse rows; every tenth is empty, every seventh repeats its predecessor."""
    rows = scipy.sparse.random(n, columns, density, format="lil", random_state=seed, dtype=np.float32)
    rows[::10] = 0
    for i in range(7, n, 7):
        rows[i] = rows[i - 1]
    return scipy.sparse.csr_matrix(rows)


def brute_force(Q, X, scorer):
    """All scores, a matrix."""
    Q, X = Q.toarray().astype(np.float64), X.toarray().astype(np.float64)
    if scorer == "distance":
        return -np.sqrt(((Q[:, None] - X[None]) ** 2).sum(axis=2))
    lengths = np.outer(np.linalg.norm(Q, axis=1), np.linalg.norm(X, axis=1))
    return np.divide(Q @ X.T, lengths, out=np.zeros(lengths.shape), where=lengths > 0)


def importance(tree):
    return tree._core.lore()["importance"]


def content(tree):
    """Everything but where in the pool the keys lie, which depends on the room they had."""
    lore = {name: array.tolist() for name, array in tree._core.lore().items()}
    arrays = tree._core.raw.arrays_in_use()
    return lore, arrays["rows"].tolist(), [(id, tree[id], tree.key(id).toarray().tolist()) for id in tree]


STEPS = st.one_of(
    st.tuples(st.just("insert"), KEYS),
    st.tuples(st.just("upsert"), KEYS, st.integers(0, 12)),
    st.tuples(st.just("remove"), st.integers(0, 30)),
    st.tuples(st.just("update"), KEYS, st.lists(st.sampled_from([0.0, 0.5, 1.0, None]), min_size=3, max_size=3)),
    st.tuples(st.just("reroute"), st.integers(0, 5)),
    st.tuples(st.just("sweep")),
    st.tuples(st.just("learn")),
)


@pytest.mark.parametrize("capacity", [None, 6])
@pytest.mark.parametrize("scorer", SCORERS)
def test_whatever_is_written_the_lists_hold_what_a_dictionary_holds(scorer, capacity):
    @given(steps=st.lists(STEPS, max_size=40))
    @settings(max_examples=40)
    def walk(steps):
        tree, model = MemoryTree(routing=NARROW, scorer=scorer, capacity=capacity, seed=0), {}
        for name, *what in steps:
            if name in ("insert", "upsert"):
                id = what[1] if name == "upsert" else None
                model.pop(id, None)  # it is then the newest
                if capacity and len(model) == capacity:
                    del model[next(iter(model))]
                model[tree.insert(what[0], str(what[0]), id=id)] = what[0]
            elif name == "remove" and model:
                id = list(model)[what[0] % len(model)]
                tree.remove(id)
                del model[id]
            elif name == "update" and model:
                hits = tree.query(what[0], 3)
                rewards = what[1][: len(hits)]
                tree.update(hits, rewards)
                for hit, reward in zip(hits, rewards, strict=True):
                    if reward:
                        model[hit.id] = model.pop(hit.id)
            elif name == "reroute":
                tree.reroute(what[0])
            elif name == "sweep":
                tree.sweep()
                assert tree.sweep() == 0
            elif name == "learn":
                tree.learn()
            check_tree(tree)
            assert {id: tree.key(id) for id in tree} == model
            for id, x in model.items():
                found = tree.query(x, len(model), beam=100)
                assert set(found.ids) == set(model)
                if x or scorer == "distance":
                    assert found.scores[0] == pytest.approx(1.0 if scorer == "cosine" else 0.0)
                    assert dict(zip(found.ids, found.scores, strict=True))[id] == found.scores[0]

    walk()


@pytest.mark.parametrize("scorer", SCORERS)
def test_lists_without_limit_answer_like_brute_force(scorer):
    X, Q = documents(200), documents(60, seed=1)
    tree = MemoryTree(routing=WIDE, scorer=scorer, seed=0)
    tree.insert_many(X, range(200))
    scores, shared = brute_force(Q, X, scorer), (abs(Q) @ abs(X).T).toarray() > 0
    answers = tree.query_many(Q, 5, beam=10)
    for i in range(60):
        if shared[i].sum() >= 5:
            best = np.sort(scores[i][shared[i]])[::-1][:5]
            np.testing.assert_allclose(answers.scores[i], best, atol=1e-6)
            np.testing.assert_allclose(scores[i, answers.ids[i]], answers.scores[i], atol=1e-6)
    # Where all memories are asked for, those without a shared term are there too.
    everything = tree.query_many(Q, 200)
    np.testing.assert_allclose(everything.scores, np.sort(scores)[:, ::-1], atol=1e-6)


@pytest.mark.parametrize("build", [False, True])
@pytest.mark.parametrize("scorer", SCORERS)
def test_every_memory_is_found_by_its_own_key(scorer, build):
    X = documents(1500, 200, 0.04)
    if build:
        tree = MemoryTree.build(X, range(1500), scorer=scorer, seed=0)
    else:
        tree = MemoryTree(scorer=scorer, seed=0)
        tree.insert_many(X, range(1500))
    check_tree(tree)
    answers = tree.query_many(X)
    for i, id in enumerate(answers.ids[:, 0].tolist()):
        assert (X[id] != X[i]).nnz == 0


def test_a_key_without_features_is_found_by_its_own_query():
    tree = MemoryTree(seed=0)
    tree.insert_many([{"a": 1.0}, {}, {"b": 1.0}], ["a", "nothing", "b"])
    for i in range(100):
        tree.insert({f"w{i}": 1.0}, i)
    assert tree.query({}).values == ["nothing"]
    assert tree.query({})[0].score == 0
    tree.remove(1)
    check_tree(tree)
    assert len(tree.query({})) == 1


def test_a_query_that_shares_no_term_is_answered_by_the_memories_used_last():
    tree = MemoryTree(seed=0)
    ids = tree.insert_many([{"a": 1.0}, {"b": 1.0}, {"c": 2.0}], "abc")
    assert set(tree.query({"new": 1.0}, 2).values) == {"b", "c"}
    tree.update(tree.query({"a": 1.0}), [1.0])
    assert set(tree.query({"new": 1.0}, 2).values) == {"a", "c"}
    assert set(tree.query({"new": 1.0}, 3, exclude=[int(ids[2])]).values) == {"a", "b"}


def test_lists_keep_to_their_limit_and_a_removal_makes_room_again():
    tree = MemoryTree(routing=terms(breadth=1, homes=8), seed=0)
    ids = [tree.insert({"common": 1.0 + i / 100, f"own{i}": 5.0}, i) for i in range(100)]
    lists = tree._core.lore()["lists"]
    assert lists[:, 2].max() == 6  # log2 102, and nobody is pinned: each memory has a term of its own
    for id in ids[90:]:
        tree.remove(id)
    assert tree._core.lore()["lists"][1, 2] == 0
    tree.reroute(90)
    check_tree(tree)
    assert tree._core.lore()["lists"][1, 2] == 6
    assert tree.query({"common": 1.0}).values == [84]


@pytest.mark.boundscheck
@pytest.mark.parametrize("breadth", [1, 2, 100])
def test_lists_that_are_made_at_once_hold_the_heaviest_and_those_who_have_no_other_home(breadth):
    X = documents(300)
    X.data = np.ceil(X.data * 4) / 4  # many weigh the same
    tree = MemoryTree.build(X, range(300), routing=terms(breadth=breadth, homes=3), scorer="cosine", seed=0)
    lore, columns = tree._core.lore(), X.toarray()
    most = int(breadth * np.log2(302))
    pinned = []
    for term, (begin, _, length, _) in enumerate(lore["lists"].tolist()):
        members = lore["members"][begin : begin + length]
        rows = (members >> 2)[members & 2 == 0].tolist()
        pinned += (members >> 2)[members & 2 > 0].tolist()
        if term:
            weights = columns[:, lore["names"][term]]
            order = [row for row in np.argsort(-weights, kind="stable").tolist() if weights[row]]
            assert sorted(rows) == sorted(order[:most])
    empty = np.flatnonzero(~columns.any(axis=1)).tolist()
    assert len(set(pinned)) == len(pinned)
    assert set(empty) <= set(pinned)
    assert (breadth < 100) == (len(pinned) > len(empty))
    check_tree(tree)


def test_equal_keys_are_all_kept_and_all_returned():
    tree = MemoryTree(routing=NARROW, seed=0)
    tree.insert_many([{"a": 1.0, "b": 2.0}] * 50, range(50))
    check_tree(tree)
    assert sorted(tree.query({"a": 1.0, "b": 2.0}, 50).ids) == list(range(50))
    assert set(tree.query({"a": 1.0, "b": 2.0}, 50).scores) == {0.0}


@pytest.mark.parametrize("capacity", [None, 70])
def test_a_batch_is_a_loop(capacity):
    X, Q = documents(150), documents(40, seed=1)
    whole, loop = (MemoryTree(routing=terms(breadth=2, scored=8), scorer="cosine", capacity=capacity, seed=3) for _ in "ab")
    ids = np.random.default_rng(0).integers(0, 100, 150)
    whole.insert_many(X, range(150), ids=ids)
    for i in range(150):
        loop.insert(X[i], i, id=int(ids[i]))
    assert state(whole) == state(loop)
    for how in ({}, {"beam": 3}, {"explore": 0.5, "draw": 7}):
        batch = whole.query_many(Q, 4, **how)
        draw = how.get("draw", 0)
        rows = [loop.query(Q[i], 4, **how | ({"draw": draw + i} if draw else {})) for i in range(40)]
        assert [row.ids for row in batch] == [row.ids for row in rows]
        assert [row.scores for row in batch] == [row.scores for row in rows]
        if draw:
            assert [row.receipt for row in batch] == [row.receipt for row in rows]
    rewards = (batch.ids % 2).astype(float)
    learned = [loop.update(row, given[: len(row)]) for row, given in zip(rows, rewards, strict=True)]
    assert whole.update_many(batch, rewards).learned == sum(one.learned for one in learned) > 0
    assert state(whole) == state(loop)
    threads = whole.query_many(Q, 4, threads=3)
    np.testing.assert_array_equal(threads.ids, whole.query_many(Q, 4).ids)


def test_exploration_swaps_a_list_and_says_so():
    tree = MemoryTree(routing=terms(breadth=1, reads=1, homes=1), scorer="cosine", seed=0)
    for i in range(60):
        tree.insert({f"w{i % 7}": 1.0, f"v{i % 5}": 1.0, f"u{i}": 0.5}, i)
    x = {"w1": 3.0, "v2": 2.0, "u9": 1.0}
    usual = tree.query(x, 2)
    assert usual.receipt.branch == "exploit"
    explored = [tree.query(x, 2, explore=1.0, draw=draw) for draw in range(10)]
    assert {hits.receipt.branch for hits in explored} == {"leaf"}
    assert any(hits.ids != usual.ids for hits in explored)
    assert [tree.query(x, 2, explore=1.0, draw=draw).ids for draw in range(10)] == [hits.ids for hits in explored]
    assert tree.update(explored[0].receipt.to_dict(), [1.0, 0.0]).learned == 1
    assert np.any(importance(tree) != 1)


def planted(rng, n, kinds=4, words=50):
    """Rows of four words, one of each kind; the first is the row's class, the others tell nothing.

    All kinds have as many words, as frequent and as heavy as each other. Otherwise rewards at random would seem to teach:
    they take from all that makes scores high, and so from whichever words are the heavier and more frequent ones.
    """
    columns = rng.integers(0, words, (n, kinds)) + words * np.arange(kinds)
    bounds = np.arange(0, kinds * n + 1, kinds)
    weights = rng.uniform(1.0, 1.3, kinds * n)
    return scipy.sparse.csr_matrix((weights, columns.ravel(), bounds), (n, kinds * words)), columns[:, 0]


@pytest.mark.parametrize("scorer", SCORERS)
def test_rewards_teach_which_terms_tell_and_shuffled_ones_do_not(scorer):
    X, labels = planted(np.random.default_rng(0), 2000)
    T, wanted = planted(np.random.default_rng(1), 1000)
    errors = {}
    for name, told in (("true", labels), ("shuffled", np.random.default_rng(2).permutation(labels))):
        tree = MemoryTree.build(X, range(2000), scorer=scorer, seed=0)
        before = np.mean(labels[tree.query_many(T).ids[:, 0]] != wanted)
        for _ in range(3):
            hits = tree.query_many(X, 10, exclude=[[i] for i in range(2000)])
            tree.update_many(hits, (labels[hits.ids] == told[:, None]).astype(float))
            tree.sweep()
        check_tree(tree)
        errors[name] = np.mean(labels[tree.query_many(T).ids[:, 0]] != wanted)
    assert before > 0.3
    assert errors["true"] < 0.03
    assert errors["shuffled"] >= before


def test_what_was_learned_does_not_take_from_a_key_that_it_ranks_itself_highest():
    X, labels = planted(np.random.default_rng(0), 300)
    tree = MemoryTree.build(X, range(300), scorer="cosine", seed=0)
    hits = tree.query_many(X, 5, exclude=[[i] for i in range(300)])
    assert tree.update_many(hits, (labels[hits.ids] == labels[:, None]).astype(float)).learned > 0
    answers = tree.query_many(X)
    assert answers.ids[:, 0].tolist() == list(range(300))
    assert set(answers.scores[:, 0].tolist()) == {1.0}


@pytest.mark.parametrize("scale", [1e-44, 1e-36, 1e-20, 1e14])
def test_what_is_learned_does_not_depend_on_how_long_keys_are(scale):
    X, labels = planted(np.random.default_rng(0), 300)
    ids = MemoryTree.build(X, range(300), scorer="cosine", seed=0).query_many(X, 5, exclude=np.arange(300)[:, None]).ids
    learned = []
    for factor in (1.0, scale):
        tree = MemoryTree.build(X * factor, range(300), scorer="cosine", seed=0)
        hits = tree.query_many(X * factor, 5)
        hits.ids[:] = ids
        tree.update_many(hits, (labels[ids] == labels[:, None]).astype(float))
        learned.append(importance(tree))
        check_tree(tree)
    assert np.ptp(learned[0]) > 0.1
    # The shortest keys have few digits.
    np.testing.assert_allclose(learned[1], learned[0], rtol=1e-3 if scale > 1e-40 else 0.2)


@pytest.mark.parametrize("rate", [0.1, 2.0, 10.0, 1e6])
def test_however_long_the_steps_are_they_go_the_right_way(rate):
    X = scipy.sparse.csr_matrix([[1.0, 0, 1, 0], [0, 1, 0, 1]])
    tree = MemoryTree.build(X, ["right", "wrong"], routing=terms(rate=rate), scorer="cosine", seed=0)
    hits = tree.query(scipy.sparse.csr_matrix([[1.0, 1, 0, 0]]), 2)
    tree.update(hits, [float(value == "right") for value in hits.values])
    lore = tree._core.lore()
    learned = dict(zip(lore["names"].tolist(), lore["importance"].tolist(), strict=True))
    assert learned[1] < 1 < learned[0]
    assert learned[0] * learned[1] == pytest.approx(1, rel=1e-3)  # up as far as down


def test_equal_rewards_and_none_teach_nothing():
    tree = MemoryTree.build(documents(50), range(50), seed=0)
    for rewards in ([0.0] * 3, [1.0] * 3, [None] * 3, [None, 1.0, None]):
        assert tree.update(tree.query(documents(2)[1], 3), rewards).learned == 0
    assert np.all(importance(tree) == 1)


def test_a_loaded_tree_goes_on_as_if_it_had_never_stopped(tmp_path):
    X, Q = documents(300), documents(40, seed=1)
    straight, stopped = (MemoryTree(routing=terms(breadth=2), scorer="cosine", capacity=120, seed=0) for _ in "ab")

    def write(tree, part):
        tree.insert_many(X[part], range(*part.indices(300)))
        hits = tree.query_many(Q, 5)
        tree.update_many(hits, (hits.ids % 3 == 0).astype(float))
        tree.remove(int(hits.ids[3, 0]))
        tree.reroute(7)

    for part in (slice(0, 100), slice(100, 200), slice(200, 300)):
        write(straight, part)
        write(stopped, part)
        stopped.save(tmp_path / "tree")
        stopped = MemoryTree.load(tmp_path / "tree")
        check_tree(stopped)
        assert content(stopped) == content(straight)
    assert stopped.sweep() == straight.sweep()
    assert content(stopped) == content(straight)
    assert stopped.query_many(Q, 5).ids.tolist() == straight.query_many(Q, 5).ids.tolist()


def test_lists_that_do_not_fit_the_memories_are_refused(tmp_path):
    tree = MemoryTree.build(documents(60), range(60), seed=0)
    for name, spoil in {
        "members": lambda array: array + 4,
        "weights": lambda array: array + 1,
        "homes": lambda array: array + 1,
        "importance": lambda array: -array,
        "lists": lambda array: array + 1,
        "names": lambda array: array[:-1],
        "free": lambda array: array + 10**6,
    }.items():
        whole = tree._core.lore
        tree._core.lore = lambda name=name, spoil=spoil, whole=whole: whole() | {name: spoil(whole()[name])}
        tree.save(tmp_path / "tree")
        del tree._core.lore
        with pytest.raises(DamagedFile):
            MemoryTree.load(tmp_path / "tree")


def test_a_removed_key_is_not_in_the_file(tmp_path):
    tree = MemoryTree(seed=0)
    secret, _ = tree.insert_many([{"a": 123.456, "b": 1.0}, {"b": 2.0}], "ab")
    tree.remove(int(secret))
    tree.save(tmp_path / "tree")
    assert np.float32(123.456).tobytes() not in (tmp_path / "tree").read_bytes()


def test_a_copy_is_a_tree_of_its_own():
    tree = MemoryTree.build(documents(60), range(60), seed=0)
    before, twin = state(tree), tree._core.copy()
    twin.remove(3)
    twin.update(tree._keys.many(documents(1))[0], None, np.array([[1, 2]]), np.array([[1.0, 0.0]]), np.zeros(1, np.int64), 1)
    twin.sweep()
    assert state(tree) == before


@pytest.mark.parametrize("scorer", SCORERS)
def test_an_explanation_names_the_words(scorer):
    tree = MemoryTree(scorer=scorer, seed=0)
    for i in range(40):
        tree.insert({"the": 0.1, f"word{i}": 1.0}, i)
    why, hits = (
        tree.explain({"word3": 1.0, "the": 0.1, "new": 0.2}, 2),
        tree.query({"word3": 1.0, "the": 0.1, "new": 0.2}, 2),
    )
    assert [candidate.hit for candidate in why.candidates] == list(hits)
    assert why.candidates[0].hit.value == 3
    assert "word3" in dict(why.candidates[0].parts) or scorer == "distance"
    assert why.looked_at == 41
    assert tree.stats().memories == 40
    assert tree.stats().other_bytes > 0
    assert tree.draw().startswith("40 memories in lists by 41 terms")


@pytest.mark.parametrize("routing", ["terms", terms()])
def test_dense_keys_and_forests_have_no_term_lists(routing):
    tree = MemoryTree(routing=routing, seed=0)
    with pytest.raises(InvalidOption, match="sparse"):
        tree.insert([1.0, 2.0], "dense")
    assert len(tree) == 0
    tree.insert({"a": 1.0}, "sparse")
    for bad in ([1.0, 2.0], {"a": float("nan")}, {"a": float("inf")}, {1.5: 1.0}, scipy.sparse.csr_matrix([[1.0]])):
        with pytest.raises(InvalidKey):
            tree.insert(bad, "bad")
        with pytest.raises(InvalidKey):
            tree.query(bad)
    check_tree(tree)
    with pytest.raises(InvalidOption, match="forest"):
        MemoryForest(2, routing=routing)
    assert MemoryForest(2, seed=0).insert({"a": 1.0}, "sparse") == 0  # auto means trees there


@pytest.mark.parametrize("wrong", [{"breadth": 0}, {"homes": 0}, {"scored": -1}, {"rate": float("nan")}, {"reads": 0}])
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(InvalidOption):
        MemoryTree(routing=terms(**wrong))


@pytest.mark.parametrize("scorer", SCORERS)
def test_a_query_among_few_terms_is_scored_as_one_among_many(scorer):
    """Among few terms a query has a place for each, among many a table to search in: the same, bit by bit."""
    rows = documents(60)
    rows.resize(60, 2000)
    others = scipy.sparse.csr_matrix(np.eye(1900, 2000, k=100, dtype=np.float32))
    few, many = (MemoryTree(routing=WIDE, scorer=scorer, seed=0) for _ in range(2))
    few.insert_many(rows, range(60))
    many.insert_many(scipy.sparse.vstack([rows, others], "csr"), range(1960))
    asked = rows[[i for i in range(60) if rows[i].nnz]]
    for tree in (few, many):
        hits = tree.query_many(asked, 3)
        assert tree.update_many(hits, (hits.ids % 3 == 0).astype(float)).learned
    ours, other = few.query_many(asked, 3), many.query_many(asked, 3)
    assert ours.ids.tolist() == other.ids.tolist()
    assert ours.scores.tolist() == other.scores.tolist()


def test_learning_makes_lists_anew_and_leaves_keys_where_they_are():
    X, labels = planted(np.random.default_rng(0), 300)
    tree = MemoryTree.build(X, range(300), scorer="cosine", seed=0)
    hits = tree.query_many(X, 5, exclude=np.arange(300)[:, None])
    tree.update_many(hits, (labels[hits.ids] == labels[:, None]).astype(float))
    keys, lists = tree._core.raw, tree._core.lists
    tree.learn()
    assert tree._core.raw is keys
    assert tree._core.lists is not lists
    check_tree(tree)
    assert tree.query_many(X).ids[:, 0].tolist() == list(range(300))


@pytest.mark.parametrize("capacity", [None, 50])
def test_a_batch_is_a_loop_however_often_the_keys_are_written_anew(capacity):
    X = documents(900, 300, 0.1)
    whole, loop = (MemoryTree(routing="terms", scorer="cosine", capacity=capacity, seed=3) for _ in "ab")
    ids = np.arange(900) % 170
    whole.insert_many(X, range(900), ids=ids)
    for i in range(900):
        loop.insert(X[i], i, id=int(ids[i]))
    assert state(whole) == state(loop)


def test_keys_that_fill_their_room_are_not_written_anew_at_every_insertion():
    """Where memories go as others come, half of the room is free after each time."""
    size = MemoryTree.build(documents(1), [0], routing="terms", seed=0)._core.raw.arrays()["key_features"].shape[0]
    tree = MemoryTree(routing="terms", capacity=8 * size - 1, seed=0)
    X = scipy.sparse.csr_matrix(np.ones((1, 1), np.float32))
    tree.insert_many(scipy.sparse.vstack([X] * (8 * size - 1), "csr"), range(8 * size - 1))
    rewritten = 0
    for i in range(20):
        before = tree._core.raw.arrays()["key_features"].ctypes.data
        tree.insert(X, i)
        rewritten += tree._core.raw.arrays()["key_features"].ctypes.data != before
    assert rewritten <= 1
