"""Files: a saved tree is loaded as it was, or refused."""

import os
import re
import zipfile

import msgpack
import numpy as np
import pytest

from memorytree import MemoryTree
from memorytree.errors import DamagedFile, UnsupportedValue
from tests.trees import grown, keys_of, state, survives


def require_refused_or_equal(path, data, tree):
    path.write_bytes(data)
    try:
        loaded = MemoryTree.load(path)
    except DamagedFile:
        return
    assert state(loaded) == state(tree)


def test_values_nested_too_deep_are_refused_by_save():
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
def test_save_refuses_what_load_could_not_read(tmp_path, value):
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
def test_a_value_keeps_its_type_or_is_refused(tmp_path, value):
    tree = MemoryTree(seed=0)
    tree.insert([1.0], value)
    try:
        tree.save(tmp_path / "tree")
    except UnsupportedValue:
        return
    assert type(MemoryTree.load(tmp_path / "tree")[0]) is type(value)


@pytest.mark.parametrize("kind", ["dense", "named"])
def test_flipped_bits_in_the_zip_directory_are_detected(tmp_path, kind):
    tree = grown(kind, n=12)
    path = tmp_path / "tree"
    tree.save(path)
    data = path.read_bytes()
    with zipfile.ZipFile(path) as file:
        directory = file.start_dir
    for place in range(directory, len(data)):
        bit = 1 << (place * 5 + 3) % 8
        require_refused_or_equal(path, data[:place] + bytes([data[place] ^ bit]) + data[place + 1 :], tree)
    # A longer comment of one member hides the members behind it.
    for entry in re.finditer(rb"PK\x01\x02", data[directory:]):
        place = directory + entry.start() + 33
        for bit in range(8):
            require_refused_or_equal(path, data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :], tree)


@pytest.mark.parametrize("options", [{"routing": "principal"}, {"routing": "paper", "center": True}], ids=str)
def test_flipped_bits_in_array_shapes_are_detected(tmp_path, options):
    tree = MemoryTree(seed=0, **options)
    tree.insert_many(np.random.default_rng(0).normal(size=(20, 1000)), range(20))
    path = tmp_path / "tree"
    tree.save(path)
    data = path.read_bytes()
    for shape in re.finditer(rb"'shape': \(([0-9, ]+)\)", data):
        for place in range(shape.start(1), shape.end(1)):
            for bit in range(5):
                require_refused_or_equal(path, data[:place] + bytes([data[place] ^ 1 << bit]) + data[place + 1 :], tree)


@pytest.mark.parametrize("id", [2**61 - 1, 2**61, 2**63 - 1])
def test_a_tree_with_the_largest_ids_is_saved(tmp_path, id):
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
def test_keys_of_removed_memories_are_not_saved(tmp_path, kind):
    tree = MemoryTree(seed=0, routing="principal")
    X = np.array([[123.456, 2.0], [0.0, 1.0]], np.float32)
    secret, _ = tree.insert_many(keys_of(kind, X), "ab")
    tree.remove(int(secret))
    tree.save(tmp_path / "tree")
    assert np.float32(123.456).tobytes() not in (tmp_path / "tree").read_bytes()


def test_a_saved_file_has_default_permissions(tmp_path):
    tree = grown(n=5)
    tree.save(tmp_path / "tree")
    (tmp_path / "plain").write_bytes(b"")
    assert (tmp_path / "tree").stat().st_mode == (tmp_path / "plain").stat().st_mode
