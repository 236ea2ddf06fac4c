"""Markdown and plain text -> facts: one a chunk, its subject the headings it stands under, its source ``PATH#heading``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TextIO

from proxy.grounding.knowledge.chunking import chunks_of
from proxy.grounding.knowledge.making import make_fact
from proxy.grounding.knowledge.problems import FileProblem, is_broken
from proxy.grounding.knowledge.tables import MAX_NAME_CHARS, Found

MAX_DOCUMENT_CHARS = 20_000_000
"""A longer document is not read: it is no text that somebody wrote. A table of facts has no such bound."""
JOINT = " – "
"""Between the headings that a chunk stands under."""


def read_markdown(file: TextIO, path: str) -> Iterator[Found]:
    """A document with headings."""
    return _read(file, path, markdown=True)


def read_text(file: TextIO, path: str) -> Iterator[Found]:
    """A document of paragraphs."""
    return _read(file, path, markdown=False)


def _read(file: TextIO, path: str, *, markdown: bool) -> Iterator[Found]:
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
