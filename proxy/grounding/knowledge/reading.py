"""A folder -> its facts, one after another, and what is wrong with its files.

Tables of facts are CSV (a header, then rows; comma, semicolon or tab) and JSON Lines (an object a line) with ``subject``, ``statement``,
``source``, ``valid_from`` and ``valid_to``, of which only ``statement`` is needed. Documents are Markdown and plain text
(`proxy.grounding.knowledge.chunking`): a fact is one chunk, its subject the headings it stands under, its source ``PATH#heading``. Files
come in the order of their paths; names that begin with a dot are left alone, the index among them.

What cannot be read is left out and reported with file and line; a fact that an earlier row says already is taken once. Text is UTF-8, with
or without a byte order mark, or UTF-16 with one. Memory does not grow with the folder but for 100 bytes a fact.
"""

from __future__ import annotations

import csv
import difflib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TextIO

import msgspec
from msgspec import Struct

from proxy.errors import ConfigError
from proxy.grounding.evidence.retrieval import FUNCTION_WORDS, terms
from proxy.grounding.knowledge.chunking import chunks_of
from proxy.ports.facts import Fact, fact_id

# ---- problems ----


class FileProblem(Struct, frozen=True):
    """One line of the report."""

    file: str
    """Path inside the folder."""
    line: int
    """1-based, where the row or paragraph begins; 0 for the whole file."""
    problem: str
    kind: Literal["bad", "duplicate", "note"] = "bad"
    """``bad``: something was left out; ``duplicate``: a row says what an earlier one says; ``note``: nothing is missing."""

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.problem}" if self.line else f"{self.file}: {self.problem}"


def is_broken(text: str) -> bool:
    """Whether it holds bytes that are not of its file's encoding (they were read as lone surrogates)."""
    return not text.isascii() and any("\ud800" <= c <= "\udfff" for c in text)


# ---- facts ----


def make_fact(subject: str, statement: str, source: str, valid_from: float | None = None, valid_to: float | None = None) -> Fact:
    """A fact with its id and text; white space is made single."""
    subject, statement = " ".join(subject.split()), " ".join(statement.split())
    name = fact_id(subject, statement, valid_from, valid_to)
    return Fact(name, subject, statement, source, valid_from, valid_to, text_of_fact(subject, statement))


def text_of_fact(subject: str, statement: str) -> str:
    """The statement, after "SUBJECT: " where it does not have every word of the subject itself."""
    named = set(terms(subject)) - FUNCTION_WORDS
    return statement if not subject or named <= set(terms(statement)) else f"{subject}: {statement}"


def names_subject(text: str, subject: str) -> bool:
    """Whether `text` names all of `subject`: each of its words but the function words, by its first letters."""
    wanted = set(terms(subject)) - FUNCTION_WORDS
    return bool(wanted) and wanted <= set(terms(text))


# ---- when a fact holds ----

_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")


def instant(value: object, *, end: bool = False) -> float | None:
    """When it begins, or with `end` when it is over; None for no value. Raises `ValueError`, saying what was expected."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    if not isinstance(value, str):
        raise ValueError(f"expected a date as 2024-01-31, got {value!r}")
    text = value.strip()
    try:
        if (match := _DATE.fullmatch(text)) is not None:
            return _of_date(match, end).timestamp()
        found = datetime.fromisoformat(text)
    except ValueError as error:
        raise ValueError(f"expected a date as 2024-01-31, got {text[:40]!r}") from error
    return (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()


def _of_date(match: re.Match[str], end: bool) -> datetime:
    year, month, day = int(match[1]), match[2], match[3]
    start = datetime(year, int(month or 1), int(day or 1), tzinfo=UTC)
    if not end:
        return start
    if day:
        return start + timedelta(days=1)
    following = (year, int(month) + 1) if month and int(month) < 12 else (year + 1, 1)
    return datetime(*following, 1, tzinfo=UTC)


# ---- tables of facts ----

COLUMNS = ("subject", "statement", "source", "valid_from", "valid_to")
MAX_FACT_CHARS = 2000
"""A longer statement is a document: no verifier reads it whole (`proxy.grounding.evidence.retrieval.EVIDENCE_CHARS` is 600)."""
MAX_NAME_CHARS = 500
"""Of a subject or a source."""
FactOrProblem = tuple[int, Fact] | FileProblem


def read_jsonl(file: TextIO, path: str) -> Iterator[FactOrProblem]:
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


def read_csv(file: TextIO, path: str) -> Iterator[FactOrProblem]:
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


def _rows(reader: Any, header: Sequence[str], path: str, before: int) -> Iterator[FactOrProblem]:
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


def _fact(row: Mapping[str, Any], path: str, line: int) -> FactOrProblem:
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


# ---- documents ----

MAX_DOCUMENT_CHARS = 20_000_000
"""A longer document is not read: it is no text that somebody wrote. A table of facts has no such bound."""
JOINT = " – "
"""Between the headings that a chunk stands under."""


def read_markdown(file: TextIO, path: str) -> Iterator[FactOrProblem]:
    """A document with headings."""
    return _read_document(file, path, markdown=True)


def read_text(file: TextIO, path: str) -> Iterator[FactOrProblem]:
    """A document of paragraphs."""
    return _read_document(file, path, markdown=False)


def _read_document(file: TextIO, path: str, *, markdown: bool) -> Iterator[FactOrProblem]:
    text = file.read(MAX_DOCUMENT_CHARS + 1)
    if len(text) > MAX_DOCUMENT_CHARS:
        yield FileProblem(path, 0, f"is longer than {MAX_DOCUMENT_CHARS:,} characters")
        return
    for chunk in chunks_of(text, markdown=markdown):
        if is_broken(chunk.text) or any(is_broken(heading) for heading in chunk.headings):
            yield FileProblem(path, chunk.line, "is not UTF-8")
            continue
        source = f"{path}#{chunk.anchor}" if chunk.anchor else path
        yield chunk.line, make_fact(JOINT.join(chunk.headings)[:MAX_NAME_CHARS], chunk.text, source)


# ---- a folder ----


READERS = {
    ".csv": read_csv,
    ".tsv": read_csv,
    ".jsonl": read_jsonl,
    ".ndjson": read_jsonl,
    ".md": read_markdown,
    ".markdown": read_markdown,
    ".txt": read_text,
}


class FactInFile(Struct, frozen=True):
    """A fact with the place where it was read."""

    fact: Fact
    file: str
    line: int


def files_of(folder: Path) -> list[str]:
    """Paths inside `folder` of all files that can be read, ``/`` between names, in order. Raises `ConfigError` where there is no folder."""
    if folder.is_file():
        raise ConfigError(str(folder), "", "is a file: give the folder that it lies in, all of whose facts belong together")
    if not folder.is_dir():
        raise ConfigError(str(folder), "", "no such folder of facts")
    return sorted(path for path in _walk(folder) if Path(path).suffix.lower() in READERS)


def unread_files(folder: Path) -> list[FileProblem]:
    """A note for each file of another kind."""
    paths = sorted(path for path in _walk(folder) if Path(path).suffix.lower() not in READERS)
    return [FileProblem(path, 0, f"is not read: known are {', '.join(READERS)}", "note") for path in paths]


def read_folder(folder: Path) -> Iterator[Fact | FileProblem]:
    """Facts, each once, and problems, in the order of files and lines. Raises `ConfigError` where there is no folder."""
    seen: dict[bytes, tuple[str, int]] = {}
    for path in files_of(folder):
        for found in read_file(folder, path):
            if isinstance(found, FileProblem):
                yield found
                continue
            name = bytes.fromhex(found.fact.id[3:])
            first = seen.setdefault(name, (path, found.line))
            if first == (path, found.line):
                yield found.fact
            else:
                yield FileProblem(path, found.line, f"says the same as {first[0]}:{first[1]}", "duplicate")
    yield from unread_files(folder)


def read_file(folder: Path, path: str) -> Iterator[FactInFile | FileProblem]:
    """What stands in one file."""
    reader = READERS[Path(path).suffix.lower()]
    try:
        with (folder / path).open(encoding=_encoding(folder / path), errors="surrogateescape", newline="") as file:
            empty = True
            for found in reader(file, path):
                empty = False
                yield found if isinstance(found, FileProblem) else FactInFile(found[1], path, found[0])
            if empty:
                yield FileProblem(path, 0, "is empty", "note")
    except (OSError, UnicodeError) as error:
        yield FileProblem(path, 0, f"cannot be read: {getattr(error, 'strerror', None) or error}")


def _encoding(path: Path) -> str:
    with path.open("rb") as file:
        begin = file.read(2)
    return "utf-16" if begin in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"


def _walk(folder: Path) -> Iterator[str]:
    for at, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        for name in names:
            if not name.startswith("."):
                yield (Path(at) / name).relative_to(folder).as_posix()
