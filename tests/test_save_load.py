"""Files: a saved tree comes back as it was, or not at all."""

import os
import re
import zipfile

import msgpack
import numpy as np
import pytest

from memorytree import MemoryTree
from memorytree.errors import DamagedFile, UnsupportedValue
from tests.trees import grown, keys_of, state, survives


def refused_or_the_same(path, data, tree):
    path.write_bytes(data)
    try:
        loaded = MemoryTree.load(path)
    except DamagedFile:
        return
    assert state(loaded) == state(tree)


def test_values_nested_too_deep_to_load_are_refused_when_saving():
    survives(
        """
import tempfile, pathlib
from memorytree import MemoryTree
from memorytree.errors import UnsupportedValue
for depth in (10, 100, 200, 400, 500):
    value = ()
    for _ in range(depth):
        value = (value,)
    tree = MemoryTree(seed=0)
    tree.insert([1.0], value)
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "tree"
        try:
            tree.save(path)
        except UnsupportedValue:
            continue
        assert MemoryTree.load(path)[0] == value
"""
    )


def test_a_value_that_contains_itself_is_refused(tmp_path):
    value = ([],)
    value[0].append(value)
    tree = MemoryTree(seed=0)
    tree.insert([1.0], value)
    with pytest.raises(UnsupportedValue):
        tree.save(tmp_path / "tree")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("value", [msgpack.ExtType(1, b"x"), msgpack.ExtType(2, b"\xc1"), msgpack.ExtType(9, b"x")])
def test_what_could_not_be_loaded_is_refused_when_saving(tmp_path, value):
    tree = MemoryTree(seed=0)
    tree.insert([1.0], value)
    try:
        tree.save(tmp_path / "tree")
    except UnsupportedValue:
        return
    assert MemoryTree.load(tmp_path / "tree")[0] == value


@pytest.mark.parametrize(
    "value",
    [np.ma.masked_array([1, 2], [False, True]), np.matrix([[1]]), np.array(5), bytearray(b"x")],
    ids=lambda value: type(value).__name__,
)
def test_a_value_comes_back_as_what_it_was_or_is_refused(tmp_path, value):
    tree = MemoryTree(seed=0)
    tree.insert([1.0], value)
    try:
        tree.save(tmp_path / "tree")
    except UnsupportedValue:
        return
    assert type(MemoryTree.load(tmp_path / "tree")[0]) is type(value)


@pytest.mark.parametrize("kind", ["dense", "named"])
def test_no_flipped_bit_in_the_directory_of_the_file_goes_unnoticed(tmp_path, kind):
    tree = grown(kind, n=12)
    path = tmp_path / "tree"
    tree.save(path)
    data = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        directory = file.start_dir
    for place in range(directory, len(data)):
        bit = 1 << (place * 5 + 3) % 8
        refused_or_the_same(path, data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :], tree)
    # The length of a comment can swallow the members that follow.
    for entry in re.finditer(rb"PK\x01\x02", data[directory:]):
        place = directory + entry.start() + 33
        for bit in range(8):
            refused_or_the_same(path, data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :], tree)


@pytest.mark.parametrize("settings", [{"routing": "principal"}, {"routing": "paper", "center": True}], ids=str)
def test_no_flipped_bit_in_the_shape_of_an_array_goes_unnoticed(tmp_path, settings):
    tree = MemoryTree(seed=0, **settings)
    tree.insert_many(np.random.default_rng(0).normal(size=(20, 1000)), range(20))
    path = tmp_path / "tree"
    tree.save(path)
    data = path.read_bytes()
    for shape in re.finditer(rb"'shape': \(([0-9, ]+)\)", data):
        for place in range(shape.start(1), shape.end(1)):
            for bit in range(5):
                refused_or_the_same(path, data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :], tree)


@pytest.mark.parametrize("id", [2**63 - 2, 2**63 - 1])
def test_a_tree_with_the_largest_ids_can_be_loaded_again(tmp_path, id):
    tree = grown(n=20)
    try:
        tree.insert([0.0] * 4, "last", id=id)
    except ValueError:
        return
    tree.save(tmp_path / "tree")
    loaded = MemoryTree.load(tmp_path / "tree")
    assert loaded[id] == "last"
    assert state(loaded) == state(tree)


@pytest.mark.parametrize("kind", ["dense", "sparse", "named"])
def test_the_key_of_a_removed_memory_is_not_in_the_file(tmp_path, kind):
    tree = MemoryTree(seed=0, routing="principal")
    X = np.array([[123.456, 2.0], [0.0, 1.0]], np.float32)
    secret, _ = tree.insert_many(keys_of(kind, X), "ab")
    tree.remove(int(secret))
    tree.save(tmp_path / "tree")
    assert np.float32(123.456).tobytes() not in (tmp_path / "tree").read_bytes()


def test_a_saved_file_has_the_permissions_of_any_new_file(tmp_path):
    tree = grown(n=5)
    tree.save(tmp_path / "tree")
    (tmp_path / "plain").write_bytes(b"")
    assert (tmp_path / "tree").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_the_same_writes_give_the_same_bytes(tmp_path):
    """What lies in room never written to must not get into the file."""
    states = [state(grown("sparse", n=300)) for _ in range(3)]
    junk = np.random.default_rng(0).integers(1, 255, 10**6).astype(np.uint8)  # makes fresh memory differ
    del junk
    states += [state(grown("sparse", n=300)) for _ in range(3)]
    assert all(other == states[0] for other in states)
