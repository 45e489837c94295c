"""The demo: its text, its figures, its picture, its errors."""

import json

import numpy as np
import pytest

from examples.demo import docstrings, vectors
from examples.demo.__main__ import main
from examples.demo.docstrings import BLANK, Paragraph, choose_task, collect, paragraphs, words
from examples.demo.race import CONSTANT, SCAN, TREE, Race, error


@pytest.fixture(scope="module")
def found():
    return collect(["numpy"])


@pytest.fixture(scope="module")
def task(found):
    return choose_task(found, 600, np.random.default_rng(0))


def test_quick_demo_draws_and_reports(tmp_path, capsys, monkeypatch, found):
    monkeypatch.setattr(docstrings, "collect", {("numpy",): found}.__getitem__)  # collected once
    picture = tmp_path / "demo.png"
    assert main(["--quick", "--out", str(picture)]) == 0
    assert picture.read_bytes().startswith(b"\x89PNG\r\n\x1a\n")
    printed = capsys.readouterr().out
    assert str(picture) in printed
    assert max(map(len, printed.replace(str(picture), "").splitlines())) <= 80
    figures = {
        system: float(line.split("%")[0].split()[-1])
        for system in (TREE, SCAN, CONSTANT)
        for line in printed.splitlines()
        if line.startswith(system) and line.count("%") == 1
    }
    assert set(figures) == {TREE, SCAN, CONSTANT}
    assert figures[TREE] < figures[CONSTANT]


def test_paragraphs_do_not_name_their_function(found):
    assert len(found) > 1000
    for owner, text in found:
        name = owner.split(".")[-1].lower()
        assert name not in text.lower().replace("_", " ").split(), (owner, text)


def test_names_are_blanked_out():
    (text,) = paragraphs("KMeans runs kmeans_plusplus, then `kmeans`; but not bikmeans and seven other words.", ["kmeans"])
    assert text == "___ runs ____plusplus, then `___`; but not bikmeans and seven other words."


@pytest.mark.parametrize(
    "trivial",
    [
        "Too short to keep.",
        ">>> print('a doctest is code and not a paragraph of eight words')",
        ".. versionadded:: 1.2 and some more words to make this long enough",
        "See Also\n--------\nother : a function that does something quite like what this one does",
    ],
)
def test_trivial_paragraphs_are_dropped(trivial):
    assert list(paragraphs(trivial)) == []


def test_stream_has_two_paragraphs_of_each_function(task):
    stream, rest = task
    texts = [p.text for p in stream]
    assert 500 < len(stream) <= 600
    assert len(set(texts)) == len(texts)
    assert not set(texts) & set(rest)
    owners = [p.owner for p in stream]
    assert all(owners.count(owner) >= 2 for owner in set(owners))


def test_copied_paragraphs_are_left_out():
    copied = "This text was copied from one function to the next, with another ending"
    own = [
        Paragraph(f"module.f{i}", f"{BLANK} {'abcdefgh'[i] * 3} {j} is found in this function alone")
        for i in (0, 1)
        for j in "xy"
    ]
    found = [*own, Paragraph("module.f0", copied + " here."), Paragraph("module.f1", copied + " there.")]
    stream, rest = choose_task(found, 100, np.random.default_rng(0))
    assert sorted(stream) == sorted(own)
    assert len(rest) == 2


def test_keys_have_length_one(task):
    stream, rest = task
    texts = [p.text for p in stream]
    keys = vectors.make_keys(texts, rest, np.random.default_rng(0))
    assert keys.dtype == np.float32
    np.testing.assert_allclose(np.linalg.norm(keys, axis=1), 1, rtol=1e-5)


def test_words_have_no_digits_or_punctuation():
    assert words("The n_jobs=4 Default, x1.") == ["the", "jobs", "default"]


def test_scan_agrees_with_a_plain_loop(task):
    stream, rest = task
    keys = vectors.make_keys([p.text for p in stream], rest, np.random.default_rng(0))[:200]
    labels = [p.owner for p in stream][:200]
    race = Race(keys, labels, beam=4, seed=0)
    assert list(race.run())[-1] == 200
    expected = [i > 0 and labels[int((keys[:i] @ keys[i]).argmax())] == labels[i] for i in range(200)]
    assert race.right[SCAN].tolist() == expected
    assert not race.right[TREE][~race.seen_before].any()
    assert error(race.right[SCAN])[-1] == pytest.approx(1 - np.mean(expected))


@pytest.mark.parametrize(("out", "reason"), [("missing/demo.png", "there is no folder"), (".", "that is a folder")])
def test_unwritable_picture_is_refused_before_the_work(tmp_path, capsys, out, reason):
    assert main(["--quick", "--out", str(tmp_path / out)]) == 2
    error_text = capsys.readouterr().err
    assert reason in error_text
    assert error_text.count("\n") == 1


@pytest.mark.parametrize("arguments", [["--rows", "3"], ["--beam", "0"], ["--seed", "x"]])
def test_options_out_of_range_are_refused(arguments, capsys):
    with pytest.raises(SystemExit) as exit:
        main(arguments)
    assert exit.value.code == 2
    assert arguments[0] in capsys.readouterr().err


def test_missing_package_has_no_sources():
    assert list(docstrings.module_sources("a_package_that_does_not_exist")) == []


def test_json_figures_go_to_standard_output(capsys, monkeypatch, found):
    monkeypatch.setattr(docstrings, "collect", {("numpy",): found}.__getitem__)  # collected once
    assert main(["--quick", "--rows", "200", "--no-picture", "--json"]) == 0
    shown = capsys.readouterr()
    figures = json.loads(shown.out)
    systems = figures["systems"]
    assert set(systems) == {TREE, SCAN, CONSTANT}
    assert 0 <= systems[TREE]["error"] < systems[CONSTANT]["error"] <= 1
    assert systems[CONSTANT]["entropy_reduction"] == 0
    assert figures["rows"] == 200
    assert "learning" in shown.err
