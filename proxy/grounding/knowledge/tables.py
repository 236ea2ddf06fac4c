"""Rows of CSV and JSON Lines -> facts, each with its line; a row that is not one is a problem with its line."""

from __future__ import annotations

import csv
import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TextIO

import msgspec

from proxy.grounding.knowledge.making import make_fact
from proxy.grounding.knowledge.problems import FileProblem, is_broken
from proxy.grounding.knowledge.validity import instant
from proxy.ports.facts import Fact

COLUMNS = ("subject", "statement", "source", "valid_from", "valid_to")
MAX_FACT_CHARS = 2000
"""A longer statement is a document: no verifier reads it whole (`proxy.grounding.evidence.retrieval.EVIDENCE_CHARS` is 900)."""
MAX_NAME_CHARS = 500
"""Of a subject or a source."""
Found = tuple[int, Fact] | FileProblem


def read_jsonl(file: TextIO, path: str) -> Iterator[Found]:
    """An object a line."""
    unknown: set[str] = set()
    for number, line in enumerate(file, 1):
        if not line.strip():
            continue
        if is_broken(line):
            yield FileProblem(path, number, "is not UTF-8")
            continue
        try:
            row = msgspec.json.decode(line)
        except (msgspec.DecodeError, RecursionError) as error:
            yield FileProblem(path, number, f"is not JSON: {error}")
            continue
        if not isinstance(row, dict):
            yield FileProblem(path, number, "expected an object with a statement")
            continue
        for name in row.keys() - COLUMNS - unknown:
            unknown.add(name)
            yield FileProblem(path, number, _unknown(name))
        yield _fact(row, path, number)


def read_csv(file: TextIO, path: str) -> Iterator[Found]:
    """A header that names the columns, then rows."""
    first = file.readline()
    header_lines = 1
    while first and not first.strip():
        first, header_lines = file.readline(), header_lines + 1
    if not first:
        return
    delimiter = max(",;\t", key=first.count)
    header = [name.strip().lower() for name in next(csv.reader([first], delimiter=delimiter), [])]
    if "statement" not in header:
        yield FileProblem(path, header_lines, f"expected a header with the column statement, and of {', '.join(COLUMNS)} what is known")
        return
    yield from (FileProblem(path, header_lines, _unknown(name)) for name in header if name not in COLUMNS)
    yield from (FileProblem(path, header_lines, f"column {name} stands here twice") for name in COLUMNS if header.count(name) > 1)
    yield from _rows(csv.reader(file, delimiter=delimiter, strict=True), header, path, header_lines)


def _rows(reader: Any, header: Sequence[str], path: str, before: int) -> Iterator[Found]:
    """`reader` is a `csv.reader` behind the header, which took `before` lines."""
    while True:
        line = before + reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            last = before + reader.line_num
            where = f"lines {line} to {last} are no rows" if last > line else "is no row"
            yield FileProblem(path, line, f"{where}: {error} (a quotation mark that is not closed, or not doubled?)")
            continue
        if not any(cell.strip() for cell in row):
            continue
        if len(row) > len(header):
            yield FileProblem(
                path, line, f"has {len(row)} columns, the header {len(header)}: put text that holds the delimiter into quotes"
            )
        elif any(is_broken(cell) for cell in row):
            yield FileProblem(path, line, "is not UTF-8")
        else:
            yield _fact(dict(zip(header, row, strict=False)), path, line)


def _fact(row: Mapping[str, Any], path: str, line: int) -> Found:
    try:
        subject, statement = _text(row, "subject", MAX_NAME_CHARS), _text(row, "statement", MAX_FACT_CHARS)
        source = _text(row, "source", MAX_NAME_CHARS) or path
        if not any(c.isalnum() for c in statement):
            raise ValueError("has no statement")
        begin, end = _instant(row, "valid_from"), _instant(row, "valid_to")
        if begin is not None and end is not None and end <= begin:
            raise ValueError("valid_to is not after valid_from")
    except ValueError as error:
        return FileProblem(path, line, str(error))
    return line, make_fact(subject, statement, source, begin, end)


def _text(row: Mapping[str, Any], name: str, most: int) -> str:
    value = row.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise ValueError(f"{name}: expected text, got {value!r}"[:200])
    value = value.strip()
    if len(value) > most:
        hint = "; put long texts into a document (.md or .txt), which is cut into pieces" if name == "statement" else ""
        raise ValueError(f"{name} is longer than {most:,} characters ({len(value):,}){hint}")
    return value


def _instant(row: Mapping[str, Any], name: str) -> float | None:
    try:
        return instant(row.get(name), end=name == "valid_to")
    except (ValueError, OverflowError) as error:
        raise ValueError(f"{name}: {error}") from error


def _unknown(name: str) -> str:
    near = difflib.get_close_matches(str(name), COLUMNS, n=1)
    return f"unknown column {str(name)[:80]!r} is left out; " + (f"did you mean {near[0]!r}?" if near else f"known: {', '.join(COLUMNS)}")
