"""A folder -> its facts, one after another, and what is wrong with its files.

Tables of facts are CSV (a header, then rows; comma, semicolon or tab) and JSON Lines (an object a line) with ``subject``, ``statement``,
``source``, ``valid_from`` and ``valid_to``, of which only ``statement`` is needed. Documents are Markdown and plain text
(`proxy.grounding.knowledge.chunking`). Files come in the order of their paths; names that begin with a dot are left alone, the index among
them.

What cannot be read is left out and reported with file and line; a fact that an earlier row says already is taken once. Text is UTF-8, with
or without a byte order mark, or UTF-16 with one. Memory does not grow with the folder but for 100 bytes a fact.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from msgspec import Struct

from proxy.errors import ConfigError
from proxy.grounding.knowledge import documents, tables
from proxy.grounding.knowledge.problems import FileProblem
from proxy.ports.facts import Fact

READERS = {
    ".csv": tables.read_csv,
    ".tsv": tables.read_csv,
    ".jsonl": tables.read_jsonl,
    ".ndjson": tables.read_jsonl,
    ".md": documents.read_markdown,
    ".markdown": documents.read_markdown,
    ".txt": documents.read_text,
}


class Placed(Struct, frozen=True):
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


def unread_files(folder: Path) -> list[str]:
    """Paths of the files of other kinds."""
    return sorted(path for path in _walk(folder) if Path(path).suffix.lower() not in READERS)


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
    yield from (FileProblem(path, 0, f"is not read: known are {', '.join(READERS)}", "note") for path in unread_files(folder))


def read_file(folder: Path, path: str) -> Iterator[Placed | FileProblem]:
    """What stands in one file."""
    reader = READERS[Path(path).suffix.lower()]
    try:
        with (folder / path).open(encoding=_encoding(folder / path), errors="surrogateescape", newline="") as file:
            empty = True
            for found in reader(file, path):
                empty = False
                yield found if isinstance(found, FileProblem) else Placed(found[1], path, found[0])
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
