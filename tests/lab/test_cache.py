"""The cache of finished parts."""

import json

import memorytree
from lab import cache as cache_module
from lab.cache import ResultCache
from lab.parts import Part, options

PART = Part("one", "somewhere", 0, "batch", options(beam=4, values=(1, 2)))


def test_every_field_of_a_part_determines_its_file(tmp_path):
    cache = ResultCache(tmp_path, quick=False)
    others = [
        Part("two", "somewhere", 0, "batch", PART.options),
        Part("one", "elsewhere", 0, "batch", PART.options),
        Part("one", "somewhere", 1, "batch", PART.options),
        Part("one", "somewhere", 0, "online", PART.options),
        Part("one", "somewhere", 0, "batch", options(beam=8, values=(1, 2))),
    ]
    paths = {cache.path(one) for one in (PART, *others)} | {ResultCache(tmp_path, quick=True).path(PART)}
    assert len(paths) == 7
    assert cache.path(PART) == cache.path(Part("one", "somewhere", 0, "batch", PART.options, slow=True))


def test_result_is_stored_with_its_part(tmp_path):
    cache = ResultCache(tmp_path, quick=False)
    cache.put(PART, {"status": "ok", "error": 0.1}, 1.0)
    assert cache.get(PART)["part"]["options"] == {"beam": 4, "values": [1, 2]}
    assert json.loads(cache.path(PART).read_text())["error"] == 0.1


def test_result_of_another_machine_is_found(tmp_path, monkeypatch):
    cache = ResultCache(tmp_path, quick=False)
    monkeypatch.setattr(cache_module, "machine", lambda: {"cpu": "Abacus", "cores": 1})
    cache.put(PART, {"status": "ok", "versions": {"beads": "10"}}, 1.0)
    monkeypatch.setattr(cache_module, "machine", lambda: {"cpu": "Slide rule", "cores": 1})
    cached = cache.get(PART)
    assert cached["machine"] == {"cpu": "Abacus", "cores": 1}
    assert cached["versions"]["beads"] == "10"
    assert {"python", "memorytree", "numpy"} <= set(cached["versions"])
    assert not {"machine", "versions", "numpy"} & set(cached["part"])


def test_file_names_do_not_change(tmp_path, monkeypatch):
    """Results that took days to measure are found by these names."""
    monkeypatch.setattr(memorytree, "__version__", "0.1.0")
    name = ResultCache(tmp_path, quick=False).path(Part("exact-1nn", "omniglot-1")).name
    assert name == "exact-1nn.omniglot-1.0.90f2e2b129.json"
