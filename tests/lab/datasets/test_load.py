"""Data sets by name: each is read from the files in which it was published, in the order of the seed."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.datasets import NAMES, Dataset, Source, load
from lab.datasets.standard import flickr
from memorytree.errors import DamagedData, DataMissing, InvalidOption
from tests.lab.files import write

# ---- sets by name


def pairs_of(rng, width=128):
    return " ".join(f"{column}:{rng.random():.3f}" for column in sorted(rng.permutation(width)[:4] + 1))


def test_aloi_in_one_or_two_files(tmp_path, rng):
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
def test_captioned_images_with_features(tmp_path, rng, name):
    images = [f"{i}.jpg" for i in range(20)]
    write(tmp_path / name, "captions.csv", "image,caption\n" + "".join(f"{image},dog number {image}\n" for image in images))
    np.savez(tmp_path / name / "features.npz", files=np.array(images), feat=rng.random((20, 6)))
    data = load(name, tmp_path)
    assert (data.kind, data.rows, data.test_truth.shape) == ("retrieval", 18, (2, 6))
    assert np.allclose(np.linalg.norm(data.truth, axis=1), 1, atol=1e-6)
    assert sorted(data.texts) != sorted(load(name, tmp_path, seed=1).texts)


def test_hog_features_are_computed_once(tmp_path, rng, monkeypatch):
    io = pytest.importorskip("skimage.io", reason="scikit-image is not installed")
    from lab.datasets import images

    for number in range(10):
        (tmp_path / "pascal" / "images" / "dogs").mkdir(parents=True, exist_ok=True)
        pixels = rng.integers(0, 255, (30, 40, 3)).astype(np.uint8)
        io.imsave(tmp_path / "pascal" / "images" / "dogs" / f"{number}.png", pixels, check_contrast=False)
        write(tmp_path / "pascal" / "sentence" / "dogs", f"{number}.txt", f"dog {number}\nanother dog\n")
    first = load("pascal", tmp_path)
    assert (first.rows, first.test.shape[0]) == (9, 1)
    monkeypatch.setattr(images, "hog_of", lambda path: pytest.fail("computed again"))
    assert np.array_equal(load("pascal", tmp_path).truth, first.truth)


def test_flickr8k_from_published_files(tmp_path, rng):
    here, images = tmp_path / "flickr8k", [f"{i}.jpg" for i in range(20)]
    write(here, "Flickr8k.token.txt", "".join(f"{image}#0\tdogs running {image}\n" for image in images))
    write(here, "Flickr8k.lemma.token.txt", "".join(f"{image}#0\tdog run {image}\n" for image in images))
    with pytest.raises(DataMissing, match=r"features\.npz or the folder .*images is needed"):
        load("flickr8k", tmp_path)
    np.savez(here / "features.npz", files=np.array(images), feat=rng.random((20, 6)))
    data = load("flickr8k", tmp_path)
    assert (data.name, data.rows, data.test_truth.shape) == ("flickr8k", 18, (2, 6))
    assert all("running" in text for text in data.texts)


def test_flickr8k_from_images(tmp_path, rng):
    io = pytest.importorskip("skimage.io", reason="scikit-image is not installed")
    here = tmp_path / "flickr8k"
    write(here, "Flickr8k.token.txt", "".join(f"{i}.png#0\tdog {i}\n" for i in range(10)))
    (here / "images").mkdir()
    for number in range(10):
        pixels = rng.integers(0, 255, (30, 40, 3)).astype(np.uint8)
        io.imsave(here / "images" / f"{number}.png", pixels, check_contrast=False)
    data = load("flickr8k", tmp_path)
    assert (data.rows, data.test.shape[0]) == (9, 1)


def test_flickr8k_from_prepared_files(tmp_path, rng):
    here, images = tmp_path / "flickr8k", [f"{i}.jpg" for i in range(20)]
    write(here, "captions.csv", "image,caption\n" + "".join(f"{image},dog {image}\n" for image in images), ".xz")
    write(here, "Flickr8k.token.txt", "not read\n")
    np.savez(here / "features.npz", files=np.array(images), feat=rng.random((20, 6)))
    data, prepared = load("flickr8k", tmp_path, seed=2), flickr(tmp_path, 2)
    assert data.texts == prepared.texts
    assert np.array_equal(data.truth, prepared.truth)


def test_missing_flickr8k_names_its_files(tmp_path):
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
def test_missing_set_is_named(tmp_path, name):
    with pytest.raises(DataMissing) as raised:
        load(name, tmp_path)
    assert name.split("-")[0].removesuffix("150") in str(raised.value)
    assert "(" in str(raised.value)  # where the original comes from


def test_unknown_name_is_refused():
    with pytest.raises(InvalidOption, match="no data set 'omniglot-4'; there are omniglot-1"):
        load("omniglot-4")


# ---- order


@given(seed=st.integers(1, 50))
def test_seed_changes_only_the_order(seed):
    rows = np.arange(20, dtype=np.float32)[:, None]
    data = Dataset("d", "classes", rows, np.arange(20), rows[:3], np.arange(3), [str(i) for i in range(20)])
    other = data.seeded(seed)
    assert data.seeded(0) is data
    assert sorted(other.truth.tolist()) == list(range(20))
    assert other.train[:, 0].tolist() == other.truth.tolist() == [int(text) for text in other.texts]
    assert np.array_equal(other.truth, data.seeded(seed).truth)


def test_source_loads_its_data_set():
    source = Source("clusters-500", seed=3)
    assert np.array_equal(source.load().train, load("clusters-500", seed=3).train)
    assert not np.array_equal(source.load().train, load("clusters-500").train)
