"""The documents of experiments and the page of all results."""

import errno
import os
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from lab import documents, report
from lab.experiments import EXPERIMENTS, Plan
from lab.measuring import measurement_context
from lab.results import Results
from memorytree.errors import DamagedFile
from tests.lab.synthetic_results import results

VOID = {"meta", "img", "br", "link", "input", "hr"}
PLAN = Plan(quick=True, seeds=1)
RUN = ("few-shot", "retrieval", "desiderata")


class Page(HTMLParser):
    """Checks that elements are closed in order; collects ids, links, and everything that would be fetched."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.links, self.sources, self.tags = [], set(), set(), [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        given = dict(attrs)
        self.ids |= {given["id"]} if "id" in given else set()
        self.links |= {given["href"]} if "href" in given else set()
        self.sources += [given[name] for name in ("src", "srcset", "data", "action") if name in given]
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def read(text: str) -> Page:
    page = Page()
    page.feed(text)
    page.close()
    assert page.open == []
    return page


@pytest.fixture(scope="module")
def out(tmp_path_factory):
    """A folder with everything that experiments write, of synthetic results; some experiments were not run."""
    folder = tmp_path_factory.mktemp("lab")
    for name in RUN:
        found = Results(results(EXPERIMENTS[name], PLAN))
        documents.write(EXPERIMENTS[name], PLAN, found, measurement_context(0, True), folder)
    return folder


def test_page_is_well_formed_and_complete(out):
    text = report.write(out).read_text(encoding="utf8")
    page = read(text)
    assert set(EXPERIMENTS) <= page.ids
    assert {link.removeprefix("#") for link in page.links} <= page.ids
    assert {"claims", "elsewhere", "circumstances"} <= page.ids
    assert "./mt lab run growth" in text  # an experiment that was not run


def test_page_needs_no_network(out):
    text = report.write(out).read_text(encoding="utf8")
    page = read(text)
    assert all(source.startswith("data:") for source in page.sources)
    assert all(link.startswith("#") for link in page.links)
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert not re.search(r"url\(|@import", text)


def test_page_has_every_table_claim_and_plot(out):
    text = report.write(out).read_text(encoding="utf8")
    for name in RUN:
        found = documents.load(out, name)
        assert found["tables"]
        for table in found["tables"]:
            assert table["title"] in text.replace("&#x27;", "'")
        for picture in found["pictures"]:
            assert (out / f"{picture['file']}.png").stat().st_size > 1000
            assert picture["file"].startswith(name)
        assert text.count("<figure>") >= len(found["pictures"])


def test_json_has_every_run_with_its_seed(out):
    found = documents.load(out, "few-shot")
    assert len(found["runs"]) == len(EXPERIMENTS["few-shot"].parts(PLAN))
    assert {"peer", "dataset", "seed", "error", "memorytree"} <= set(found["runs"][0])
    assert found["circumstances"]["versions"]["memorytree"]
    assert (out / "few-shot.md").read_text(encoding="utf8").count("\n| ") > 20


def test_document_names_dates_and_machines(tmp_path):
    found = results(EXPERIMENTS["online"], PLAN)
    slow, fast = ({"cpu": cpu, "cores": 2, "ram_gb": 4.0, "system": "Linux"} for cpu in ("Abacus", "Slide rule"))
    days = ("2019-05-07T23:00:00+00:00", "2019-06-01T01:00:00+00:00", "2019-05-20T01:00:00+00:00")
    for (_, result), day, machine in zip(found.items(), days, (slow, fast, slow), strict=False):
        result |= {"finished": day, "machine": machine, "versions": {"numpy": "1.0" if machine is slow else "1.1"}}
    document = documents.write(EXPERIMENTS["online"], PLAN, Results(found), measurement_context(0, True), tmp_path)
    line = documents.measured_line(document["circumstances"])
    assert line.startswith(
        "Measured 2019-05-07 to 2019-06-01 on Abacus, 2 cores, 4.0 GB, Linux and on Slide rule, 2 cores, "
    )
    assert "numpy 1.0 and 1.1" in line
    assert document["surroundings"][:2] == [
        {"machine": slow, "versions": {"numpy": "1.0"}},
        {"machine": fast, "versions": {"numpy": "1.1"}},
    ]
    assert [run["surroundings"] for run in document["runs"]] == [0, 1, 0, *(len(found) - 3) * [2]]
    assert document["surroundings"][2:] == [{}]  # results without machine and versions
    text = report.write(tmp_path).read_text(encoding="utf8")
    assert "Seed: 0." in text
    assert "2019-05-07 to 2019-06-01" in text


def test_missing_machine_means_this_one(out):
    now = measurement_context(0, True)
    document = documents.load(out, "few-shot")["circumstances"]
    assert document["date"] == now["date"]
    assert [machine["cpu"] for machine in document["machines"]] == [now["cpu"]]
    assert documents.measured_line(document) == documents.measured_line(now)


def test_empty_folder_gives_a_page(tmp_path):
    page = read(report.write(tmp_path / "new").read_text(encoding="utf8"))
    assert set(EXPERIMENTS) <= page.ids


@pytest.mark.parametrize("text", ['{"name": "few-shot", "ru', "[]", "{}", "\xff"])
def test_damaged_document_is_named(lab, tmp_path, text):
    path = tmp_path / "few-shot.json"
    path.write_text(text, encoding="latin1")
    with pytest.raises(DamagedFile, match=r"few-shot\.json is not a whole document"):
        documents.load(tmp_path, "few-shot")
    error = lab("report", "--out", tmp_path, code=3).err
    assert str(path) in error
    assert error.startswith("mt lab: ")
    assert not (tmp_path / "report.html").exists()


def test_full_disk_keeps_the_old_file(out, tmp_path, monkeypatch):
    experiment, found = EXPERIMENTS["retrieval"], Results(results(EXPERIMENTS["retrieval"], PLAN))
    (tmp_path / "retrieval.json").write_text("the old file")

    def half(path, text, encoding):
        path.write_bytes(text[:5].encode())
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(OSError, match=r"No space left on device: .*retrieval\.json'"):
        documents.write(experiment, PLAN, found, measurement_context(0, True), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["retrieval.json"]
    assert (tmp_path / "retrieval.json").read_text() == "the old file"
