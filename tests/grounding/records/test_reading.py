"""What is read of structured texts: rows with the names of their columns."""

import json
import random

import pytest

from proxy.grounding.records.reading import read
from tests.cost import below

Rows = list[dict[str, str]]


def rows(text: str) -> Rows:
    """The values of all rows of the first table, by the names of their columns."""
    table = read(text)[0]
    return [{table.columns[c].name: value for c, value in row.values.items()} for row in table.rows]


BIRDS: Rows = [{"bird": "wren", "eggs": "6"}, {"bird": "rook", "eggs": "4"}, {"bird": "teal", "eggs": "9"}]


@pytest.mark.parametrize(
    "text",
    [
        "| bird | eggs |\n|---|---|\n| wren | 6 |\n| rook | 4 |\n| teal | 9 |",
        "bird\teggs\nwren\t6\nrook\t4\nteal\t9",
        "bird  eggs\nwren  6\nrook  4\nteal  9",
        "bird     eggs\n-------  ----\nwren     6\nrook     4\nteal     9",
        " bird | eggs\n------+------\n wren | 6\n rook | 4\n teal | 9\n(3 rows)",
        "+------+------+\n| bird | eggs |\n+------+------+\n| wren | 6    |\n| rook | 4    |\n| teal | 9    |\n+------+------+",
        json.dumps([{"bird": "wren", "eggs": 6}, {"bird": "rook", "eggs": 4}, {"bird": "teal", "eggs": 9}]),
        "\n".join(json.dumps({"bird": row["bird"], "eggs": int(row["eggs"])}) for row in BIRDS),
        "- bird: wren\n  eggs: 6\n- bird: rook\n  eggs: 4\n- bird: teal\n  eggs: 9",
        "Found: [{'bird': 'wren', 'eggs': 6}, {'bird': 'rook', 'eggs': 4}, {'bird': 'teal', 'eggs': 9}]",
    ],
)
def test_one_table_is_read_however_it_is_written(text: str) -> None:
    assert BIRDS == rows(text)


def test_values_separated_by_commas_have_three_columns_and_rows() -> None:
    text = "bird,eggs,nest\nwren,6,dome\nrook,4,cup"
    assert [{"bird": "wren", "eggs": "6", "nest": "dome"}, {"bird": "rook", "eggs": "4", "nest": "cup"}] == rows(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Form 7\nName: Ada\nAge: 36", [{"": "Form 7", "Name": "Ada", "Age": "36"}]),
        ("From: a@b.example\nSubject: Boots\n\nPlease send them.", [{"From": "a@b.example", "Subject": "Boots"}]),
        (
            "## North\n- Beds: 4\n- Doors: 2\n\n## South\n- Beds: 6",
            [{"": "North", "Beds": "4", "Doors": "2"}, {"": "South", "Beds": "6"}],
        ),
        (
            "- Ward 5C: beds 13, Sr. Ersoy is on duty\n- Ward 4A: beds 27, Sr. Tran is on duty",
            [{"": "Ward 5C", "beds": "13", "Sr.": "Ersoy is on duty"}, {"": "Ward 4A", "beds": "27", "Sr.": "Tran is on duty"}],
        ),
        ("BEGIN:VEVENT\nSUMMARY:Drill\nLOCATION:Yard\nEND:VEVENT", [{"": "VEVENT", "SUMMARY": "Drill", "LOCATION": "Yard"}]),
    ],
)
def test_lines_that_name_their_values_are_one_row_a_section(text: str, expected: Rows) -> None:
    assert expected == rows(text)


def test_lines_of_a_log_have_the_values_that_they_name() -> None:
    text = '2031-01-02T03:04:05Z INFO job=seed state=done size=4GB\n2031-01-02T03:05:00Z WARN job=weed state=failed note="no hoe"'
    found = rows(text)
    assert [("seed", "done", "4GB"), ("weed", "failed", None)] == [(row["job"], row["state"], row.get("size")) for row in found]
    assert "no hoe" == found[1]["note"]


def test_objects_in_objects_are_tables_of_their_own() -> None:
    text = '{"farm": "Low Hill", "fields": [{"name": "Top", "acres": 4}], "barns": {"red": {"doors": 2}, "old": {"doors": 1}}}'
    found = [[dict(row.values) for row in table.rows] for table in read(text)]
    assert [[{0: "Low Hill"}], [{0: "Top", 1: "4"}], [{0: "red", 1: "2"}, {0: "old", 1: "1"}]] == found


def test_rows_know_where_they_stand() -> None:
    text = "Stock:\n\nbird,eggs,nest\nwren,6,dome\nrook,4,cup"
    assert ["wren,6,dome", "rook,4,cup"] == [text[row.start : row.end] for row in read(text)[0].rows]


@pytest.mark.parametrize("text", ["", "The wren lays six eggs, the rook four, and the teal nine.", "{", "[1, 2, 3]", "a: \n" * 3])
def test_prose_is_no_table(text: str) -> None:
    assert () == read(text)


def test_a_unit_in_a_columns_name_is_that_of_its_numbers() -> None:
    (table,) = read("field,area_ha,rent (EUR),yield (t/ha)\nTop,4,20,3\nLow,2,10,4")
    assert ["", "area", "EUR", ""] == [unit.dimension if (unit := table.unit(c)) else "" for c in range(4)]


def test_a_row_with_more_cells_than_names_has_those_that_are_named() -> None:
    text = "| bird | eggs |\n|---|---|\n| wren | 6 | small |\n| rook | 4 |"
    assert [{"bird": "wren", "eggs": "6"}, {"bird": "rook", "eggs": "4"}] == rows(text)


@pytest.mark.cost
def test_reading_costs_no_more_than_the_length() -> None:
    r = random.Random(3)
    marks = ["|", ",", ": ", "  ", "\n", "{", "[", '"', "- ", "=", "\t", "---", "a", "7"]
    with below(4.0):
        read("".join(r.choice(marks) for _ in range(60_000)))
        read("{" * 60_000)
        read("a: b\n" * 20_000)
        read("".join(f"- W{i}: a{i} b, c{i} d\n" for i in range(3_000)))
        read("".join(f"- W{i}: the a{i}, the c{i}\n" for i in range(3_000)))
        read('["a",\n' * 20_000)
        read(" \t" * 20_000)
        read("| a " * 20_000 + "\n" + "| - " * 20_000)


def test_a_file_with_numbered_lines_is_no_table() -> None:
    assert () == read("     8\tname = str\n     9\tsize = int\n    10\tprice = float\n")


@pytest.mark.parametrize(
    "text",
    [
        "eggs:\n  wren: {clutch: 6, nest: hedge}\n  rook: {clutch: 4, nest: 'elm, high'}\n",
        'wren: {clutch: 6, nest: hedge},\nrook: {"clutch": 4, nest: "elm, high"}  # two of them',
    ],
)
def test_mappings_in_braces_are_rows_by_name(text: str) -> None:
    """No table between commas, whose first line would name its columns."""
    text = text.replace("'elm, high'", '"elm, high"')
    assert [{"": "wren", "clutch": "6", "nest": "hedge"}, {"": "rook", "clutch": "4", "nest": "elm, high"}] == rows(text)


def test_labelled_objects_are_rows_by_name_but_a_single_one() -> None:
    assert [{"": "wren", "eggs": "6"}, {"": "rook", "eggs": "4"}] == rows('wren: {"eggs": 6}\nrook: {"eggs": 4}')
    assert [{"eggs": "6"}] == rows('Result: {"eggs": 6}')


def test_items_that_are_mappings_in_braces_are_rows() -> None:
    assert [{"bird": "wren", "eggs": "6"}, {"bird": "rook", "eggs": "4"}] == rows("- {bird: wren, eggs: 6}\n- {bird: rook, eggs: 4}\n")


@pytest.mark.parametrize("text", ["x: {}\ny: {}", "css { color: red; }\np { margin: 0 }"])
def test_braces_of_code_are_no_rows(text: str) -> None:
    assert not any("" in row for row in map(dict, rows(text) if read(text) else []))
