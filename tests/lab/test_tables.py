"""Tables and their rendering."""

import math
from html.parser import HTMLParser

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.tables import Cell, Column, Table, decimals, markdown, to_html, to_rich

figures = st.floats(-1e6, 1e6).filter(lambda x: x == 0 or abs(x) > 1e-4)
cells = st.one_of(
    st.builds(Cell.of, st.lists(figures, min_size=1, max_size=5)),
    st.builds(Cell, status=st.sampled_from(["missing", "failed", "not run", "stopped after 900 CPU s"])),
    st.text(alphabet="ab|<&>é\"'", max_size=5),
)


@st.composite
def some_tables(draw):
    width = draw(st.integers(2, 4))
    columns = [Column(f"column {place}", draw(st.sampled_from(["less", "more", None]))) for place in range(width)]
    table = Table("a <title>", columns, note="a & note")
    for number in range(draw(st.integers(0, 5))):
        table.add(f"row {number}", *(draw(cells) for _ in columns[1:]))
    return table


class Rows(HTMLParser):
    """Counts cells, and whether every element that was opened is closed in order."""

    def __init__(self):
        super().__init__()
        self.open, self.cells, self.texts = [], [], []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.cells.append(0)
        if tag in ("td", "th"):
            self.cells[-1] += 1

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append(data)


@given(some_tables())
def test_html_is_well_formed_and_complete(table):
    parsed = Rows()
    parsed.feed(to_html(table))
    parsed.close()
    assert parsed.open == []
    assert parsed.cells == (len(table.rows) + 1) * [len(table.columns)]
    shown = "".join(parsed.texts)
    for row in table.rows:
        for cell in row:
            assert str(cell) in shown


@given(some_tables())
def test_markdown_has_a_line_for_each_row(table):
    lines = [line for line in markdown(table).splitlines() if line.startswith("|")]
    assert len(lines) == len(table.rows) + 2
    assert {line.replace("\\|", "").count("|") for line in lines} == {len(table.columns) + 1}


@given(some_tables())
def test_json_round_trip(table):
    assert Table.from_json(table.to_json()) == table
    to_rich(table)


@given(st.lists(figures, min_size=2, max_size=6), st.sampled_from(["less", "more"]))
def test_best_figure_is_marked(values, better):
    table = Table("", [Column("system"), Column("error", better)])
    for value in values:
        table.add("system", value)
    extreme = (min if better == "less" else max)(values)
    assert values.index(extreme) in table.best(1)
    assert table.best(0) == set()


def test_missing_figure_is_never_best():
    table = Table("", [Column("system"), Column("error", "less")])
    table.add("a", Cell(status="missing"))
    table.add("b", 2.0)
    table.add("c", 1.0)
    assert table.best(1) == {2}


@given(st.lists(st.floats(0.001, 1000), min_size=2, max_size=5))
def test_cell_has_mean_and_deviation(values):
    cell = Cell.of(values)
    mean = sum(values) / len(values)
    assert cell.value == pytest.approx(mean)
    spread = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    assert cell.sd == pytest.approx(spread, rel=1e-6, abs=1e-9)
    assert Cell.least(values).value == min(values)


def test_cell_shows_its_status():
    assert str(Cell.of([])) == "not run"
    assert str(Cell(status="stopped after 900 CPU s")) == "stopped after 900 CPU s"
    assert str(Cell.of([0.5]).times(1000)) == "500"
    assert [str(Cell.of([value])) for value in (0.0, 7.0, 7.5)] == ["0", "7", "7.50"]
    assert decimals(0.00001234) == 5


def test_row_of_wrong_length_is_refused():
    with pytest.raises(ValueError, match="2 cells"):
        Table("a table", [Column("only")]).add("a", "b")
