"""A folder of facts: what is read, what is left out, and with which place it is reported."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.errors import ConfigError
from proxy.grounding.knowledge.reading import MAX_FACT_CHARS, FileProblem, read_folder
from proxy.ports.facts import Fact

EXAMPLES = Path(__file__).parents[3] / "examples" / "knowledge"


def read(folder: Path, name: str = "", data: bytes | str = b"") -> tuple[list[Fact], list[str]]:
    if name:
        (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    found = list(read_folder(folder))
    return [one for one in found if isinstance(one, Fact)], [str(one) for one in found if isinstance(one, FileProblem)]


def test_rows_of_csv_are_facts(tmp_path: Path) -> None:
    facts, problems = read(
        tmp_path, "a.csv", "subject,statement,source,valid_from,valid_to\nBonn,Bonn was the capital.,archive,1949,1990\n"
    )
    (fact,) = facts
    assert ("Bonn", "Bonn was the capital.", "archive", -662688000.0, 662688000.0) == (
        fact.subject,
        fact.statement,
        fact.source,
        fact.valid_from,
        fact.valid_to,
    )
    assert [] == problems


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_delimiter_is_told_by_the_header(tmp_path: Path, delimiter: str) -> None:
    facts, _ = read(tmp_path, "a.csv", f"statement{delimiter}subject\nWater is wet.{delimiter}water\n")
    assert [("water", "Water is wet.")] == [(fact.subject, fact.statement) for fact in facts]


def test_only_the_statement_is_needed_and_the_source_is_then_the_file(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    facts, _ = read(tmp_path, "deep/a.jsonl", '{"statement": "Water is wet."}\n')
    assert [("", "Water is wet.", "deep/a.jsonl")] == [(f.subject, f.statement, f.source) for f in facts]


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path, encoding: str) -> None:
    facts, problems = read(tmp_path, "a.csv", "statement\nZürich liegt an der Limmat.\n".encode(encoding))
    assert (["Zürich liegt an der Limmat."], []) == ([fact.statement for fact in facts], problems)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_a_row_may_hold_line_ends_in_quotes(tmp_path: Path, newline: str) -> None:
    facts, _ = read(tmp_path, "a.csv", newline.join(("statement", '"Water is', 'wet."', "Fire is hot.", "")))
    assert ["Water is wet.", "Fire is hot."] == [fact.statement for fact in facts]


@pytest.mark.parametrize(
    ("row", "problem"),
    [
        ("a,b,c,,,", "a.csv:2: has 6 columns, the header 5: put text that holds the delimiter into quotes"),
        ("a,,c,,", "a.csv:2: has no statement"),
        ("a,b,c,tomorrow,", "a.csv:2: valid_from: expected a date as 2024-01-31, got 'tomorrow'"),
        ("a,b,c,2024,2023", "a.csv:2: valid_to is not after valid_from"),
    ],
)
def test_a_bad_row_is_left_out_with_file_and_line(tmp_path: Path, row: str, problem: str) -> None:
    facts, problems = read(tmp_path, "a.csv", f"subject,statement,source,valid_from,valid_to\n{row}\nx,Good row.,,,\n")
    assert (["Good row."], [problem]) == ([fact.statement for fact in facts], problems)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ("{bad", "a.jsonl:1: is not JSON"),
        ("[1]", "a.jsonl:1: expected an object with a statement"),
        ('{"statement": 5}', "a.jsonl:1: statement: expected text, got 5"),
        ('{"statement": "A b.", "valid_from": []}', "a.jsonl:1: valid_from: expected a date"),
    ],
)
def test_a_bad_line_of_json_is_left_out_with_its_place(tmp_path: Path, line: str, problem: str) -> None:
    facts, (found,) = read(tmp_path, "a.jsonl", f'{line}\n\n{{"statement": "Good line."}}\n')
    assert ["Good line."] == [fact.statement for fact in facts]
    assert problem == found[: len(problem)]


def test_bytes_of_another_encoding_cost_their_row_only(tmp_path: Path) -> None:
    facts, problems = read(tmp_path, "a.csv", b"statement\nA caf\xe9 is open.\nWater is wet.\n")
    assert (["Water is wet."], ["a.csv:2: is not UTF-8"]) == ([fact.statement for fact in facts], problems)


def test_a_quotation_mark_that_is_never_closed_is_reported_with_what_it_took(tmp_path: Path) -> None:
    facts, (problem,) = read(tmp_path, "a.csv", 'statement\nFirst is read.\n"never closed\nlost\n')
    assert ["First is read."] == [fact.statement for fact in facts]
    assert problem.startswith("a.csv:3: lines 3 to 4 are no rows")


def test_a_huge_row_is_reported_and_not_taken(tmp_path: Path) -> None:
    facts, problems = read(tmp_path, "a.csv", f"statement\n{'word ' * MAX_FACT_CHARS}\nWater is wet.\n")
    assert ["Water is wet."] == [fact.statement for fact in facts]
    assert ["a.csv:2: statement is longer than 2,000 characters"] == [p.partition(" (")[0] for p in problems]


def test_a_misspelt_column_is_reported_with_the_one_that_is_meant(tmp_path: Path) -> None:
    _, problems = read(tmp_path, "a.csv", "statement,valid_til\nWater is wet.,2020\n")
    assert ["a.csv:1: unknown column 'valid_til' is left out; did you mean 'valid_to'?"] == problems


def test_a_table_without_a_header_is_not_guessed_at(tmp_path: Path) -> None:
    facts, (problem,) = read(tmp_path, "a.csv", "Paris,Paris is a city.\n")
    assert ([], "a.csv:1: expected a header") == (facts, problem[:26])


def test_a_fact_said_twice_is_taken_once_and_reported_with_both_places(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("statement\nWater is wet.\n")
    facts, problems = read(tmp_path, "b.jsonl", '{"statement": "water  is wet"}\n')
    assert (["a.csv"], ["b.jsonl:1: says the same as a.csv:2"]) == ([fact.source for fact in facts], problems)


def test_the_same_statement_of_another_time_is_another_fact(tmp_path: Path) -> None:
    facts, problems = read(tmp_path, "a.csv", "statement,valid_to\nAda leads the team.,2020\nAda leads the team.,\n")
    assert (2, []) == (len(facts), problems)


def test_an_empty_file_and_one_of_another_kind_are_noted(tmp_path: Path) -> None:
    (tmp_path / "b.docx").write_bytes(b"x")
    facts, problems = read(tmp_path, "a.csv", "")
    assert ([], ["a.csv: is empty", "b.docx: is not read: known are .csv, .tsv, .jsonl, .ndjson, .md, .markdown, .txt"]) == (
        facts,
        problems,
    )


def test_hidden_files_and_folders_are_left_alone(tmp_path: Path) -> None:
    (tmp_path / ".index").mkdir()
    (tmp_path / ".index" / "a.csv").write_text("statement\nHidden.\n")
    assert ([], []) == read(tmp_path, ".b.csv", "statement\nHidden.\n")


def test_a_missing_folder_is_refused_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere: no such folder of facts"):
        list(read_folder(tmp_path / "nowhere"))


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("statement\nWater is wet.\n")
    with pytest.raises(ConfigError, match=r"a\.csv: is a file: give the folder that it lies in"):
        list(read_folder(tmp_path / "a.csv"))


def test_the_sample_reads_without_a_problem() -> None:
    facts, problems = read(EXAMPLES)
    assert (True, []) == (30 <= len(facts) <= 60, problems)
    assert {".csv", ".jsonl", ".md"} == {path.suffix for path in EXAMPLES.iterdir() if not path.name.startswith(".")}


@given(st.binary(max_size=300), st.sampled_from(["a.csv", "a.jsonl", "a.md", "a.txt"]))
def test_no_bytes_break_the_reading(tmp_path_factory: pytest.TempPathFactory, data: bytes, name: str) -> None:
    facts, _ = read(tmp_path_factory.mktemp("facts"), name, data)
    assert all(fact.statement.strip() and fact.text for fact in facts)
