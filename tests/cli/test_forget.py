import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import memorytree
from memorytree.cli import input


def left(run):
    return [line["id"] for line in run("export").lines]


@pytest.fixture
def many(store):
    store("remember", "--meta", "kind=item", input="\n".join(f"item {i}" for i in range(20)))
    return store


def test_by_id(store):
    assert store("forget", 1, 3, "--json").json == {"forgotten": [1, 3]}
    assert left(store) == [0, 2]


def test_by_metadata(store):
    assert store("forget", "--where", "who=ada").out == "forgot 2 memories: 0, 3\n"
    assert left(store) == [1, 2]


def test_an_unknown_id_forgets_nothing(store):
    assert "99" in store("forget", 0, 99, code=2).err
    assert left(store) == [0, 1, 2, 3]


def test_no_fit_is_said_and_coded(store):
    told = store("forget", "--where", "who=zoe", "--json", code=1)
    assert told.json == {"forgotten": []}
    assert "no memory fits" in told.err


def test_asks_before_many(many, monkeypatch):
    monkeypatch.setattr(input, "somebody_types", lambda: True)
    assert "20 memories" in many("forget", "--where", "kind=item", input="n\n", code=1).err
    assert len(left(many)) == 24
    many("forget", "--where", "kind=item", input="y\n")
    assert len(left(many)) == 4


def test_nobody_to_ask_needs_yes(many):
    assert "--yes" in many("forget", "--where", "kind=item", code=2).err
    assert len(left(many)) == 24
    many("forget", "--where", "kind=item", "--yes")
    assert len(left(many)) == 4


def test_wrong_usage(store):
    assert "ids, or --where" in store("forget", code=2).err
    assert "not by both" in store("forget", 1, "--where", "who=ada", code=2).err


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.dictionaries(st.sampled_from("ab"), st.sampled_from([1, 2, True, "1", None])), max_size=8),
    st.dictionaries(st.sampled_from("ab"), st.lists(st.sampled_from([1, 2, True, "1", None]), max_size=3)),
)
def test_a_filter_fits_exactly_those_that_it_says(tmp_path_factory, metadata, where):
    def equal(one, two):
        return one == two and isinstance(one, bool) == isinstance(two, bool)

    with memorytree.open(tmp_path_factory.mktemp("store"), durability="normal") as store:
        for known in metadata:
            store.insert([1.0], None, metadata=known)
        fitting = [
            id
            for id, known in enumerate(metadata)
            if all(field in known and any(equal(known[field], one) for one in wanted) for field, wanted in where.items())
        ]
        assert store.matching(where) == fitting
