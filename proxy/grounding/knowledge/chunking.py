"""A document -> chunks that say something by themselves: a paragraph, or the sentences of a long one, or a row of a table.

Each chunk knows the headings that it stands under and the line it begins with. Sentences and rows are cut as evidence is
(`proxy.grounding.evidence.pieces`), so that what is found here is cut the same way again when a claim is judged by it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from proxy.grounding.evidence.pieces import cut

CHUNK_CHARS = 400
"""Sentences of a paragraph are taken together up to this length: two chunks fit into a claim's evidence of 900 characters."""
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*?)[ \t#]*")
_UNDERLINE = re.compile(r" {0,3}(=+|-{3,})[ \t]*")
_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_LINK = re.compile(r"!?\[([^\]\n]{0,200})\]\([^)\n]{0,500}\)")
_EMPHASIS = re.compile(r"(\*\*|__|`)(?=\S)(.{1,200}?)(?<=\S)\1")
_LIST_MARK = re.compile(r"^[ \t]{0,12}(?:[-*+]|\d{1,3}[.)])[ \t]+|^[ \t]{0,3}>[ \t]?", re.M)
_NOT_SLUG = re.compile(r"[^\w\- ]")


class Chunk(Struct, frozen=True):
    """A piece of a document."""

    text: str
    headings: tuple[str, ...]
    """From the document's title down to its own."""
    anchor: str
    """Of its own heading, as GitHub makes it; "" before the first one."""
    line: int
    """1-based, where its paragraph begins."""


def chunks_of(text: str, *, markdown: bool = True) -> Iterator[Chunk]:
    """The chunks of a document, in order; with `markdown`, headings are read, and links and emphasis are taken for their text."""
    headings, anchor, anchors = tuple[str, ...](), "", dict[str, int]()
    for line, lines in _blocks(text.splitlines(), markdown):
        heading = _heading(lines) if markdown else None
        if heading is not None:
            level, title = heading
            headings, anchor = (*headings[: level - 1], title), _anchor(title, anchors)
        else:
            block = "\n".join(lines)
            for found in _cut_block(_plain(block) if markdown else block):
                yield Chunk(found, headings, anchor, line)


def _blocks(lines: Sequence[str], markdown: bool) -> Iterator[tuple[int, list[str]]]:
    """Paragraphs, headings and fenced blocks, each with the number of its first line."""
    block: list[str] = []
    begin, fence = 1, ""
    start = _front_matter(lines) if markdown else 0
    for number, line in enumerate(lines[start:], start + 1):
        opened = _FENCE.match(line) if markdown else None
        if fence or opened:
            if not block:
                begin = number
            block.append(line)
            if not fence and opened:
                fence = opened[1]
            elif line.strip().startswith(fence):
                yield begin, block
                block, fence = [], ""
            continue
        alone = markdown and (_HEADING.fullmatch(line) is not None or (len(block) == 1 and _UNDERLINE.fullmatch(line) is not None))
        if alone and block and _UNDERLINE.fullmatch(line) is not None and not _HEADING.fullmatch(line):
            yield begin, [*block, line]
            block = []
        elif alone or not line.strip():
            if block:
                yield begin, block
            block = []
            if alone:
                yield number, [line]
        else:
            begin = begin if block else number
            block.append(line)
    if block:
        yield begin, block


def _front_matter(lines: Sequence[str]) -> int:
    """Lines of YAML between ``---`` at the top."""
    if not lines or lines[0].strip() != "---":
        return 0
    return next((i + 1 for i, line in enumerate(lines[1:200], 1) if line.strip() == "---"), 0)


def _heading(lines: Sequence[str]) -> tuple[int, str] | None:
    """Level and title, if it is one."""
    if len(lines) == 1 and (match := _HEADING.fullmatch(lines[0])) is not None and match[2].strip():
        return len(match[1]), _plain(match[2]).strip()
    if len(lines) == 2 and (under := _UNDERLINE.fullmatch(lines[1])) is not None and "|" not in lines[0]:
        return (1 if under[1][0] == "=" else 2), _plain(lines[0]).strip()
    return None


def _plain(text: str) -> str:
    return _EMPHASIS.sub(r"\2", _LINK.sub(r"\1", text))


def _anchor(title: str, known: dict[str, int]) -> str:
    slug = _NOT_SLUG.sub("", title.lower()).strip().replace(" ", "-")
    count = known.get(slug, 0)
    known[slug] = count + 1
    return f"{slug}-{count}" if count else slug


def _cut_block(text: str) -> Iterator[str]:
    """Sentences together up to `CHUNK_CHARS`; an item of a list, a row, a member of JSON by itself."""
    for part in _items(text):
        taken: list[str] = []
        for piece in cut(part):
            said = " ".join(_LIST_MARK.sub("", piece.shown).split())
            if taken and (not piece.prose or sum(map(len, taken)) + len(taken) + len(said) > CHUNK_CHARS):
                yield " ".join(taken)
                taken = []
            if not any(c.isalnum() for c in said):
                continue
            if piece.prose:
                taken.append(said)
            else:
                yield said
        if taken:
            yield " ".join(taken)


def _items(text: str) -> Iterator[str]:
    """A list's items, or the text as a whole; the lines of a wrapped paragraph are joined."""
    if "|" in text or _FENCE.match(text) or text.lstrip()[:1] in "{[":
        yield text
        return
    lines: list[str] = []
    for line in text.split("\n"):
        if _LIST_MARK.match(line) and lines:
            yield " ".join(lines)
            lines = []
        lines.append(_LIST_MARK.sub("", line).strip())
    yield " ".join(lines)
