"""Data sets: what is written in a published format is read as it was, and what is damaged is named."""

import bz2
import gzip
import json
import lzma

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from memorytree.errors import DamagedData, DataMissing, InvalidOption
from memorytree.lab.datasets import NAMES, Dataset, Source, load
from memorytree.lab.datasets.formats import (
    Columns,
    read_captions,
    read_libsvm,
    read_split,
    read_vw,
    read_xmc,
    vw_lines,
)
from memorytree.lab.datasets.standing import flickr

PACKERS = {"": open, ".xz": lzma.open, ".gz": gzip.open, ".bz2": bz2.open}
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


def write(folder, name, text, ending=""):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / (name + ending)
    with PACKERS[ending](path, "wt", encoding="utf8") as file:
        file.write(text)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("data")


# ---- formats


@pytest.mark.parametrize("ending", PACKERS)
@given(rows=sparse_rows, data=st.data())
def test_libsvm_is_read_as_it_was_written(folder, ending, rows, data):
    classes = data.draw(st.lists(st.integers(0, 9), min_size=len(rows), max_size=len(rows)))
    lines = [f"{label} {pairs(row, 1)}".strip() for label, row in zip(classes, rows, strict=True)]
    path = write(folder, "libsvm", "\n".join(lines) + "\n", ending)
    keys, found = read_libsvm(path, WIDTH)
    assert np.array_equal(keys.toarray(), matrix_of(rows))
    assert found.tolist() == classes


@pytest.mark.parametrize("ending", PACKERS)
@given(rows=sparse_rows, data=st.data())
def test_the_repositorys_format_is_read_as_it_was_written(folder, ending, rows, data):
    sets = data.draw(st.lists(st.sets(st.integers(0, LABELS - 1)), min_size=len(rows), max_size=len(rows)))
    lines = [f"{','.join(map(str, own))} {pairs(row)}" for own, row in zip(sets, rows, strict=True)]
    path = write(folder, "xmc.txt", f"{len(rows)} {WIDTH} {LABELS}\n" + "".join(line + "\n" for line in lines), ending)
    keys, labels = read_xmc(path)
    assert np.array_equal(keys.toarray(), matrix_of(rows))
    assert labels.shape == (len(rows), LABELS)
    assert [set(row.indices.tolist()) for row in labels] == sets


@given(rows=sparse_rows, data=st.data())
def test_vw_text_is_read_as_it_was_written(folder, rows, data):
    classes = data.draw(st.lists(st.integers(1, 9), min_size=len(rows), max_size=len(rows)))
    path = write(folder, "rows.vw", "".join(vw_lines(sp.csr_matrix(matrix_of(rows)), map(str, classes))))
    keys, found = read_vw(path, Columns(), growing=True)
    there = matrix_of(rows)[:, : keys.shape[1]]
    assert np.allclose(keys.toarray(), there)
    assert not matrix_of(rows)[:, keys.shape[1] :].any()
    assert found == [[label] for label in classes]


def test_vw_text_with_names_namespaces_scales_and_tags(tmp_path):
    path = write(tmp_path, "named.vw", "2 0.5 tag1|words:2 dog cat:3 |numbers age:0.5\n1,3 |words cat\n")
    columns = Columns()
    keys, labels = read_vw(path, columns, growing=True)
    assert labels == [[2], [1, 3]]
    assert keys.toarray().tolist() == [[2, 6, 0.5], [0, 1, 0]]
    other = write(tmp_path, "other.vw", "1 |words cat bird\n")
    assert read_vw(other, columns, growing=False)[0].toarray().tolist() == [[0, 1, 0]]


@pytest.mark.parametrize("gap", ["\t", "  ", " \t "])
def test_any_white_space_stands_between_fields(tmp_path, gap):
    rows, classes = read_libsvm(write(tmp_path, "libsvm", f"2{gap}1:5{gap}3:0.5{gap}\n1\n"))
    assert (rows.toarray().tolist(), classes.tolist()) == ([[5, 0, 0.5], [0, 0, 0]], [2, 1])
    rows, sets = read_xmc(write(tmp_path, "xmc", f"2{gap}3{gap}4\n1,2{gap}0:5{gap}2:0.5\n{gap}1:7\n"))
    assert rows.toarray().tolist() == [[5, 0, 0.5], [0, 7, 0]]
    assert sets.toarray().tolist() == [[0, 1, 1, 0], [0, 0, 0, 0]]
    text = f"2{gap}|f{gap}dog{gap}cat:3\n1,3{gap}tag|{gap}dog:2{gap}|f:2{gap}cat\n"
    rows, labels = read_vw(write(tmp_path, "vw", text), Columns(), growing=True)
    assert (rows.toarray().tolist(), labels) == ([[1, 3, 0], [0, 2, 2]], [[2], [1, 3]])


@given(split=st.lists(st.tuples(st.integers(1, 50), st.integers(1, 50)), min_size=1))
def test_split_files_count_rows_from_one(folder, split):
    path = write(folder, "trSplit.txt", "".join(f"{a} {b}\n" for a, b in split))
    assert read_split(path, 1).tolist() == [b - 1 for _, b in split]


def read_new_vw(path):
    return read_vw(path, Columns(), growing=True)


def test_vw_text_without_labels_is_read_as_it_was_written(tmp_path):
    keys = sp.csr_matrix(np.eye(3, dtype=np.float32))
    path = write(tmp_path, "sets.vw", "".join(vw_lines(keys, ["1,2", "", "2"])) + "|f 1:1\n")
    rows, labels = read_new_vw(path)
    assert labels == [[1, 2], [], [2], []]
    assert rows.toarray().tolist() == [[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]]


def test_large_numbers_beside_names_are_names(tmp_path):
    rows, _ = read_new_vw(write(tmp_path, "named.vw", f"1 |f dog {2**31}:3\n"))
    assert rows.toarray().tolist() == [[1, 3]]


def test_libsvm_classes_are_whole_however_they_are_written(tmp_path):
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
def test_a_bad_line_is_named(tmp_path, read, text, line):
    with pytest.raises(DamagedData, match=rf"damaged, line {line}:"):
        read(write(tmp_path, "damaged", text))


@given(end=st.lists(st.sampled_from(["\n", " \n", "\t\n"]), max_size=4).map("".join))
def test_blank_lines_at_the_end_are_no_rows(folder, end):
    rows, labels = read_xmc(write(folder, "xmc.txt", "3 2 2\n0 1:1\n\n1 0:1\n" + end))
    assert rows.toarray().tolist() == [[0, 1], [0, 0], [1, 0]]
    assert labels.toarray().tolist() == [[1, 0], [0, 0], [0, 1]]
    assert read_split(write(folder, "trSplit.txt", "3\n1\n" + end)).tolist() == [2, 0]
    assert read_captions(write(folder, "Flickr8k.token.txt", "a.jpg#0\tA dog.\n" + end)) == [("a.jpg", "A dog.")]


def test_a_blank_line_at_the_end_is_a_row_where_the_first_line_counts_it(tmp_path):
    rows, labels = read_xmc(write(tmp_path, "xmc.txt", "2 2 2\n0 1:1\n\n\n"))
    assert rows.toarray().tolist() == labels[:, ::-1].toarray().tolist() == [[0, 1], [0, 0]]
    with pytest.raises(DamagedData, match="3 rows, but its first line says 2"):
        read_xmc(write(tmp_path, "xmc.txt", "2 2 2\n0 1:1\n\n\n1 1:1\n"))


def test_a_split_without_rows_is_refused(tmp_path):
    with pytest.raises(DamagedData, match="trSplit names no rows"):
        read_split(write(tmp_path, "trSplit", "\n\n"))


def test_what_does_not_fit_its_first_line_is_refused(tmp_path):
    with pytest.raises(DamagedData, match="1 rows, but its first line says 2"):
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
def test_captions_in_every_published_form(tmp_path, ending, name, text):
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
def test_captions_behind_a_byte_order_mark(tmp_path, ending, name, text):
    assert read_captions(write(tmp_path, name, "\ufeff" + text, ending)) == [("a.jpg", "A dog.")]


@pytest.mark.parametrize("text", ["image,caption\na.jpg,A dog.\nb.jpg\n", "caption,image\nA dog.,a.jpg\nA cat.\n"])
def test_a_row_without_its_caption_is_named(tmp_path, text):
    with pytest.raises(DamagedData, match=r"captions\.csv, line 3: no image or no caption"):
        read_captions(write(tmp_path, "captions.csv", text))


def test_captions_as_a_folder_of_text_files(tmp_path):
    write(tmp_path / "dogs", "a.txt", "\ufeffA dog.\n\nA brown dog, running\n")
    write(tmp_path / "seas", "b.txt", "The sea\n")
    assert read_captions(tmp_path) == [(image.removesuffix(".jpg"), text) for image, text in CAPTIONS]


@pytest.mark.parametrize(("name", "text"), [("c.csv", "picture,text\na,b\n"), ("c.json", '{"images": []}')])
def test_captions_in_no_known_form_are_refused(tmp_path, name, text):
    with pytest.raises(DamagedData, match=name):
        read_captions(write(tmp_path, name, text))


# ---- sets by name


def pairs_of(rng, width=128):
    return " ".join(f"{column}:{rng.random():.3f}" for column in sorted(rng.permutation(width)[:4] + 1))


def test_aloi_in_one_file_or_two(tmp_path, rng):
    lines = [f"{label} {pairs_of(rng)}\n" for label in rng.integers(0, 5, 40).tolist()]
    write(tmp_path / "one" / "aloi", "aloi.scale", "".join(lines), ".bz2")
    whole = load("aloi", tmp_path / "one")
    assert (whole.train.shape, whole.test.shape, whole.kind) == ((36, 128), (4, 128), "classes")
    write(tmp_path / "two" / "aloi", "train", "".join(lines[:30]))
    write(tmp_path / "two" / "aloi", "test", "".join(lines[30:]))
    parts = load("aloi", tmp_path / "two")
    assert (parts.rows, parts.test.shape[0]) == (30, 10)
    assert np.isclose(whole.train.sum() + whole.test.sum(), parts.train.sum() + parts.test.sum())


def test_extreme_sets_in_two_files_or_split(tmp_path):
    rows = [f"{i % 3} {i % 4}:1.5\n" for i in range(10)]
    write(tmp_path / "rcv1-2k", "rcv1_train.txt", "7 4 3\n" + "".join(rows[:7]), ".gz")
    write(tmp_path / "rcv1-2k", "rcv1_test.txt", "3 4 3\n" + "".join(rows[7:]))
    write(tmp_path / "wiki10-31k", "wiki10_data.txt", "10 4 3\n" + "".join(rows))
    write(tmp_path / "wiki10-31k", "wiki10_trSplit.txt", "".join(f"{i}\n" for i in range(1, 8)))
    write(tmp_path / "wiki10-31k", "wiki10_tstSplit.txt", "8\n9\n10\n")
    two, split = load("rcv1-2k", tmp_path), load("wiki10-31k", tmp_path)
    assert (two.kind, two.rows, two.test.shape[0]) == ("labels", 7, 3)
    for mine, other in ((two.train, split.train), (two.truth, split.truth), (two.test, split.test)):
        assert np.array_equal(mine.toarray(), other.toarray())
    write(tmp_path / "wiki10-31k", "wiki10_tstSplit.txt", "11\n")
    with pytest.raises(DamagedData, match="row 11 of 10"):
        load("wiki10-31k", tmp_path)


def test_vw_folders_and_files(tmp_path):
    lines = [f"{10 + i % 4} |f {i % 4}:1 9:0.5\n" for i in range(40)]
    write(tmp_path / "imagenet", "train.vw", "".join(lines[:30]), ".xz")
    write(tmp_path / "imagenet", "test.vw", "".join(lines[30:]))
    assert load("imagenet", tmp_path).truth.max() == 3
    whole = load(f"vw:{tmp_path / 'imagenet'}")
    assert (whole.kind, whole.rows, whole.test.shape) == ("classes", 30, (10, 10))
    file = write(tmp_path, "all.vw", "".join(lines))
    one = load(f"vw:{file}")
    assert (one.rows, one.test.shape[0]) == (36, 4)
    sets = write(tmp_path, "sets.vw", "".join(f"1,{2 + i % 3} |f {i % 3}:1\n" for i in range(20)))
    assert load(f"vw:{sets}").truth.sum(axis=1).tolist() == [[2]] * 18
    some = write(tmp_path, "some.vw", "".join(f"{'1,2' if i % 2 else ''} |f {i % 3}:1\n" for i in range(20)))
    found = load(f"vw:{some}")
    assert (found.kind, found.truth.sum() + found.test_truth.sum()) == ("labels", 20)
    with pytest.raises(DamagedData, match=r"none\.vw has no row with a label"):
        load(f"vw:{write(tmp_path, 'none.vw', '|f 1:1')}")


@pytest.mark.parametrize("name", ["pascal", "coco"])
def test_captioned_images_with_precomputed_features(tmp_path, rng, name):
    images = [f"{i}.jpg" for i in range(20)]
    write(tmp_path / name, "captions.csv", "image,caption\n" + "".join(f"{image},dog number {image}\n" for image in images))
    np.savez(tmp_path / name / "features.npz", files=np.array(images), feat=rng.random((20, 6)))
    data = load(name, tmp_path)
    assert (data.kind, data.rows, data.test_truth.shape) == ("retrieval", 18, (2, 6))
    assert np.allclose(np.linalg.norm(data.truth, axis=1), 1, atol=1e-6)
    assert sorted(data.texts) != sorted(load(name, tmp_path, seed=1).texts)


def test_captioned_images_with_hog_are_seen_once(tmp_path, rng, monkeypatch):
    io = pytest.importorskip("skimage.io", reason="scikit-image is not installed")
    from memorytree.lab.datasets import images

    for number in range(10):
        (tmp_path / "pascal" / "images" / "dogs").mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 255, (30, 40, 3)).astype(np.uint8)
        io.imsave(tmp_path / "pascal" / "images" / "dogs" / f"{number}.png", pixels, check_contrast=False)
        write(tmp_path / "pascal" / "sentence" / "dogs", f"{number}.txt", f"dog {number}\nanother dog\n")
    first = load("pascal", tmp_path)
    assert (first.rows, first.test.shape[0]) == (9, 1)
    monkeypatch.setattr(images, "hog_of", lambda path: pytest.fail("computed again"))
    assert np.array_equal(load("pascal", tmp_path).truth, first.truth)


def test_flickr8k_as_it_was_published(tmp_path, rng):
    here, images = tmp_path / "flickr8k", [f"{i}.jpg" for i in range(20)]
    write(here, "Flickr8k.token.txt", "".join(f"{image}#0\tdogs running {image}\n" for image in images))
    write(here, "Flickr8k.lemma.token.txt", "".join(f"{image}#0\tdog run {image}\n" for image in images))
    with pytest.raises(DataMissing, match=r"features\.npz or the folder .*images is needed"):
        load("flickr8k", tmp_path)
    np.savez(here / "features.npz", files=np.array(images), feat=rng.random((20, 6)))
    data = load("flickr8k", tmp_path)
    assert (data.name, data.rows, data.test_truth.shape) == ("flickr8k", 18, (2, 6))
    assert all("running" in text for text in data.texts)


def test_flickr8k_with_its_images(tmp_path, rng):
    io = pytest.importorskip("skimage.io", reason="scikit-image is not installed")
    here = tmp_path / "flickr8k"
    write(here, "Flickr8k.token.txt", "".join(f"{i}.png#0\tdog {i}\n" for i in range(10)))
    (here / "images").mkdir()
    for number in range(10):
        pixels = rng.integers(0, 255, (30, 40, 3)).astype(np.uint8)
        io.imsave(here / "images" / f"{number}.png", pixels, check_contrast=False)
    data = load("flickr8k", tmp_path)
    assert (data.rows, data.test.shape[0]) == (9, 1)


def test_flickr8k_with_captions_and_features_is_the_standing_set(tmp_path, rng):
    here, images = tmp_path / "flickr8k", [f"{i}.jpg" for i in range(20)]
    write(here, "captions.csv", "image,caption\n" + "".join(f"{image},dog {image}\n" for image in images), ".xz")
    write(here, "Flickr8k.token.txt", "not read\n")
    np.savez(here / "features.npz", files=np.array(images), feat=rng.random((20, 6)))
    data, standing = load("flickr8k", tmp_path, seed=2), flickr(tmp_path, 2)
    assert data.texts == standing.texts
    assert np.array_equal(data.truth, standing.truth)


def test_flickr8k_that_is_not_there_says_what_is_expected(tmp_path):
    (tmp_path / "flickr8k").mkdir()
    for folder in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(DataMissing, match=r"captions\.csv .*Flickr8k\.token\.txt.* features\.npz or a folder `images`"):
            load("flickr8k", folder)


def test_captions_of_other_images_are_refused(tmp_path, rng):
    write(tmp_path / "pascal", "captions.csv", "image,caption\n" + "".join(f"{i}.jpg,dog {i}\n" for i in range(20)))
    np.savez(tmp_path / "pascal" / "features.npz", files=np.array(["a.jpg", "b.jpg"]), feat=rng.random((2, 6)))
    with pytest.raises(DamagedData, match="0 images have captions and features"):
        load("pascal", tmp_path)


@pytest.mark.parametrize("name", NAMES)
def test_a_set_that_is_not_there_is_said_to_be_missing(tmp_path, name):
    with pytest.raises(DataMissing) as raised:
        load(name, tmp_path)
    assert name.split("-")[0].removesuffix("150") in str(raised.value)
    assert "(" in str(raised.value)  # where the original comes from


def test_an_unknown_name_is_refused():
    with pytest.raises(InvalidOption, match="no data set 'omniglot-4'; there are omniglot-1"):
        load("omniglot-4")


# ---- order


@given(seed=st.integers(1, 50))
def test_a_seed_changes_the_order_and_nothing_else(seed):
    rows = np.arange(20, dtype=np.float32)[:, None]
    data = Dataset("d", "classes", rows, np.arange(20), rows[:3], np.arange(3), [str(i) for i in range(20)])
    other = data.seeded(seed)
    assert data.seeded(0) is data
    assert sorted(other.truth.tolist()) == list(range(20))
    assert other.train[:, 0].tolist() == other.truth.tolist() == [int(text) for text in other.texts]
    assert np.array_equal(other.truth, data.seeded(seed).truth)


def test_a_source_loads_what_it_names():
    source = Source("clusters-500", seed=3)
    assert np.array_equal(source.load().train, load("clusters-500", seed=3).train)
    assert not np.array_equal(source.load().train, load("clusters-500").train)
