"""Published formats: what was written is read unchanged, and a damaged line is named."""

import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from lab.datasets.formats import (
    FeatureColumns,
    read_captions,
    read_libsvm,
    read_split,
    read_vw,
    read_xmc,
    vw_lines,
)
from memorytree.errors import DamagedData
from tests.lab.files import PACKERS, write

WIDTH, LABELS = 6, 5
weights = st.integers(1, 99).map(lambda tenth: tenth / 10)
sparse_row = st.dictionaries(st.integers(0, WIDTH - 1), weights, max_size=WIDTH)
sparse_rows = st.lists(sparse_row, min_size=1, max_size=6)


def matrix_of(rows) -> np.ndarray:
    dense = np.zeros((len(rows), WIDTH), np.float32)
    for place, row in enumerate(rows):
        for column, weight in row.items():
            dense[place, column] = weight
    return dense


def pairs(row, first=0) -> str:
    return " ".join(f"{column + first}:{weight}" for column, weight in sorted(row.items()))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


# ---- rows


@pytest.mark.parametrize("ending", PACKERS)
@given(rows=sparse_rows, data=st.data())
def test_libsvm_round_trip(folder, ending, rows, data):
    classes = data.draw(st.lists(st.integers(0, 9), min_size=len(rows), max_size=len(rows)))
    lines = [f"{label} {pairs(row, 1)}".strip() for label, row in zip(classes, rows, strict=True)]
    path = write(folder, "libsvm", "\n".join(lines) + "\n", ending)
    keys, found = read_libsvm(path, WIDTH)
    assert np.array_equal(keys.toarray(), matrix_of(rows))
    assert found.tolist() == classes


@pytest.mark.parametrize("ending", PACKERS)
@given(rows=sparse_rows, data=st.data())
def test_xmc_round_trip(folder, ending, rows, data):
    sets = data.draw(st.lists(st.sets(st.integers(0, LABELS - 1)), min_size=len(rows), max_size=len(rows)))
    lines = [f"{','.join(map(str, own))} {pairs(row)}" for own, row in zip(sets, rows, strict=True)]
    path = write(folder, "xmc.txt", f"{len(rows)} {WIDTH} {LABELS}\n" + "".join(line + "\n" for line in lines), ending)
    keys, labels = read_xmc(path)
    assert np.array_equal(keys.toarray(), matrix_of(rows))
    assert labels.shape == (len(rows), LABELS)
    assert [set(row.indices.tolist()) for row in labels] == sets


@given(rows=sparse_rows, data=st.data())
def test_vw_round_trip(folder, rows, data):
    classes = data.draw(st.lists(st.integers(1, 9), min_size=len(rows), max_size=len(rows)))
    path = write(folder, "rows.vw", "".join(vw_lines(sp.csr_matrix(matrix_of(rows)), map(str, classes))))
    keys, found = read_vw(path, FeatureColumns(), growing=True)
    there = matrix_of(rows)[:, : keys.shape[1]]
    assert np.allclose(keys.toarray(), there)
    assert not matrix_of(rows)[:, keys.shape[1] :].any()
    assert found == [[label] for label in classes]


def test_vw_names_namespaces_scales_and_tags(tmp_path):
    path = write(tmp_path, "named.vw", "2 0.5 tag1|words:2 dog cat:3 |numbers age:0.5\n1,3 |words cat\n")
    columns = FeatureColumns()
    keys, labels = read_vw(path, columns, growing=True)
    assert labels == [[2], [1, 3]]
    assert keys.toarray().tolist() == [[2, 6, 0.5], [0, 1, 0]]
    other = write(tmp_path, "other.vw", "1 |words cat bird\n")
    assert read_vw(other, columns, growing=False)[0].toarray().tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("gap", ["\t", "  ", " \t "])
def test_any_white_space_separates_fields(tmp_path, gap):
    rows, classes = read_libsvm(write(tmp_path, "libsvm", f"2{gap}1:5{gap}3:0.5{gap}\n1\n"))
    assert (rows.toarray().tolist(), classes.tolist()) == ([[5, 0, 0.5], [0, 0, 0]], [2, 1])
    rows, sets = read_xmc(write(tmp_path, "xmc", f"2{gap}3{gap}4\n1,2{gap}0:5{gap}2:0.5\n{gap}1:7\n"))
    assert rows.toarray().tolist() == [[5, 0, 0.5], [0, 7, 0]]
    assert sets.toarray().tolist() == [[0, 1, 1, 0], [0, 0, 0, 0]]
    text = f"2{gap}|f{gap}dog{gap}cat:3\n1,3{gap}tag|{gap}dog:2{gap}|f:2{gap}cat\n"
    rows, labels = read_vw(write(tmp_path, "vw", text), FeatureColumns(), growing=True)
    assert (rows.toarray().tolist(), labels) == ([[1, 3, 0], [0, 2, 2]], [[2], [1, 3]])


@given(split=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=1))
def test_split_files_count_rows_from_one(folder, split):
    path = write(folder, "trSplit.txt", "".join(f"{a} {b}\n" for a, b in split))
    assert read_split(path, 1).tolist() == [b - 1 for _, b in split]


def read_new_vw(path):
    return read_vw(path, FeatureColumns(), growing=True)


def test_vw_rows_without_labels(tmp_path):
    keys = sp.csr_matrix(np.eye(3, dtype=np.float32))
    path = write(tmp_path, "sets.vw", "".join(vw_lines(keys, ["1,2", "", "2"])) + "|f 1:1\n")
    rows, labels = read_new_vw(path)
    assert labels == [[1, 2], [], [2], []]
    assert rows.toarray().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]]


def test_large_numbers_beside_names_are_names(tmp_path):
    rows, _ = read_new_vw(write(tmp_path, "named.vw", f"1 |f dog {2**31}:3\n"))
    assert rows.toarray().tolist() == [[1, 3]]


def test_libsvm_classes_written_as_floats(tmp_path):
    assert read_libsvm(write(tmp_path, "classes", "3.0 1:1\n+1 1:1\n-1\n"))[1].tolist() == [3, 1, -1]


@pytest.mark.parametrize(
    ("read", "text", "line"),
    [
        (read_libsvm, "1 1:2\n2 0:3\n", 2),
        (read_libsvm, "1 1:2\none 2:3\n", 2),
        (read_libsvm, "1 1:nan\n", 1),
        (read_libsvm, "1 1:2\n\n2 1=3\n", 3),
        (read_libsvm, "1 1:2\n1.7 1:2\n", 2),
        (read_libsvm, "nan 1:2\n", 1),
        (read_libsvm, "1e300 1:2\n", 1),
        (read_libsvm, f"1 1:2\n1 {2**31}:2\n", 2),
        (read_libsvm, "1 1:1e39\n", 1),
        (read_xmc, "two 3 4\n", 1),
        (read_xmc, "1 3 4\n0,4 1:1\n", 2),
        (read_xmc, "2 3 4\n0 1:1\n0;1 1:1\n", 3),
        (read_xmc, "1 3 4\n0 1:1 2\n", 2),
        (read_xmc, f"1 {2**31} 4\n0 1:1\n", 1),
        (read_xmc, "1 -3 4\n0 1:1\n", 1),
        (read_xmc, f"1 3 4\n0 {2**31}:1\n", 2),
        (read_xmc, f"1 3 4\n{2**31} 1:1\n", 2),
        (read_split, "1 2\nx 2\n", 2),
        (read_split, "0\n", 1),
        (read_split, "1\n\n2\n", 2),
        (read_split, f"1\n{2**64}\n", 2),
        (read_new_vw, "1 |f 1:2\n1 f 1:2\n", 2),
        (read_new_vw, "1 |f 1:two\n", 1),
        (read_new_vw, "tag|f 1:2\n", 1),
        (read_new_vw, "1 |f 1:2\n\n1 |f 1:nan\n", 3),
        (read_new_vw, "1 |f 1:-inf\n", 1),
        (read_new_vw, "1 |f:inf a\n", 1),
        (read_new_vw, "1 |f:1e30 a:1e30\n", 1),
        (read_new_vw, f"1 |f 1:2\n\n1 |f 2:1 {2**31}:2\n", 3),
        (read_captions, "a.jpg#0\tA dog.\na.jpg#1 no tab\n", 2),
        (read_captions, "a.jpg#0\tA dog.\n\na.jpg#1\tA brown dog.\n", 2),
    ],
)
def test_bad_line_is_named(tmp_path, read, text, line):
    with pytest.raises(DamagedData, match=rf"damaged, line {line}:"):
        read(write(tmp_path, "damaged", text))


@given(end=st.lists(st.sampled_from(["\n", " \n", "\t\n"]), max_size=4).map("".join))
def test_blank_lines_at_the_end_are_ignored(folder, end):
    rows, labels = read_xmc(write(folder, "xmc.txt", "3 2 2\n0 1:1\n\n1 0:1\n" + end))
    assert rows.toarray().tolist() == [[0, 1], [0, 0], [1, 0]]
    assert labels.toarray().tolist() == [[1, 0], [0, 0], [0, 1]]
    assert read_split(write(folder, "trSplit.txt", "3\n1\n" + end)).tolist() == [2, 0]
    assert read_captions(write(folder, "Flickr8k.token.txt", "a.jpg#0\tA dog.\n" + end)) == [("a.jpg", "A dog.")]


def test_counted_blank_line_is_a_row(tmp_path):
    rows, labels = read_xmc(write(tmp_path, "xmc.txt", "2 2 2\n0 1:1\n\n\n"))
    assert rows.toarray().tolist() == labels[:, ::-1].toarray().tolist() == [[0, 1], [0, 0]]
    with pytest.raises(DamagedData, match="3 rows, but its first line gives 2"):
        read_xmc(write(tmp_path, "xmc.txt", "2 2 2\n0 1:1\n\n\n1 1:1\n"))


def test_split_without_rows_is_refused(tmp_path):
    with pytest.raises(DamagedData, match="trSplit names no rows"):
        read_split(write(tmp_path, "trSplit", "\n\n"))


def test_rows_must_match_the_first_line(tmp_path):
    with pytest.raises(DamagedData, match="1 rows, but its first line gives 2"):
        read_xmc(write(tmp_path, "short", "2 3 4\n0 1:1\n"))
    with pytest.raises(DamagedData, match="feature 7 is beyond the 3"):
        read_xmc(write(tmp_path, "wide", "1 3 4\n0 7:1\n"))


# ---- captions


CAPTIONS = [("a.jpg", "A dog."), ("a.jpg", "A brown dog, running"), ("b.jpg", "The sea")]


def coco() -> str:
    images = [{"id": 7, "file_name": "a.jpg"}, {"id": 8, "file_name": "b.jpg"}]
    notes = [{"image_id": 7 if image == "a.jpg" else 8, "caption": text} for image, text in CAPTIONS]
    return json.dumps({"images": images, "annotations": notes})


@pytest.mark.parametrize("ending", PACKERS)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("captions.csv", 'image,caption\na.jpg,A dog.\na.jpg,"A brown dog, running"\nb.jpg,The sea\n'),
        ("Flickr8k.token.txt", "a.jpg#0\tA dog.\na.jpg#1\tA brown dog, running\nb.jpg#0\tThe sea\n"),
        ("captions_train2014.json", coco()),
    ],
)
def test_captions_in_every_published_format(tmp_path, ending, name, text):
    assert read_captions(write(tmp_path, name, text, ending)) == CAPTIONS


@pytest.mark.parametrize("ending", PACKERS)
@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("captions.csv", "image,caption\na.jpg,A dog.\n"),
        ("Flickr8k.token.txt", "a.jpg#0\tA dog.\n"),
        ("c.json", '{"images": [{"id": 7, "file_name": "a.jpg"}], "annotations": [{"image_id": 7, "caption": "A dog."}]}'),
    ],
)
def test_captions_with_byte_order_mark(tmp_path, ending, name, text):
    assert read_captions(write(tmp_path, name, "\ufeff" + text, ending)) == [("a.jpg", "A dog.")]


@pytest.mark.parametrize("text", ["image,caption\na.jpg,A dog.\nb.jpg\n", "caption,image\nA dog.,a.jpg\nA cat.\n"])
def test_row_without_caption_is_named(tmp_path, text):
    with pytest.raises(DamagedData, match=r"captions\.csv, line 3: no image or no caption"):
        read_captions(write(tmp_path, "captions.csv", text))


def test_captions_as_a_folder_of_text_files(tmp_path):
    write(tmp_path / "dogs", "a.txt", "\ufeffA dog.\n\nA brown dog, running\n")
    write(tmp_path / "seas", "b.txt", "The sea\n")
    assert read_captions(tmp_path) == [(image.removesuffix(".jpg"), text) for image, text in CAPTIONS]


@pytest.mark.parametrize(("name", "text"), [("c.csv", "picture,text\na,b\n"), ("c.json", '{"images": []}')])
def test_unknown_caption_format_is_refused(tmp_path, name, text):
    with pytest.raises(DamagedData, match=name):
        read_captions(write(tmp_path, name, text))
