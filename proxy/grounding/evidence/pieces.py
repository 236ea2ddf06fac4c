"""A text of the context -> the pieces that a claim can be judged by: sentences, rows of tables, members of JSON objects, lines of code.

Each piece knows exactly where it stands: ``text[piece.start : piece.end]`` is what it was cut from, in order and without overlap. What a
verifier reads (`Piece.shown`) is the same but for rows and JSON, which say the names of their columns and fields. Sentences are cut as
`proxy.language.text.split_sentences` does, which is what the verifier was trained on. Pure; time is linear in the text's length.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from proxy.grounding.evidence.json_pieces import JsonFinder, cut_json
from proxy.grounding.evidence.structured import EvidencePiece, Line, aligned, limited, lines_of, read, rows
from proxy.language.text import InOrder, SentenceSplitter

CODE_CHARS = 300
"""Lines of code are taken together up to this length."""
_SPLITTER_CHARS = 2000
"""Handed to the splitter at a time: what it holds is copied at each sentence."""
_FENCE = re.compile(r"[ \t]{0,8}(`{3,10}|~{3,10})")
_WORD = re.compile(r"\w")
_MARK = re.compile(r"</?\w[^<>]{0,1000}>")


def cut(text: str, apart: Sequence[str] = ()) -> list[EvidencePiece]:
    """The pieces of `text`, but for what stands in it of the texts in `apart`, which are evidence of their own."""
    if (found := cut_json(text, cut, apart)) is not None:
        return found
    found = []
    for start, end in _gaps(text, apart):
        found += (_shift(piece, start) for piece in _cut_plain(text[start:end]))
    return found


def _gaps(text: str, apart: Sequence[str]) -> list[tuple[int, int]]:
    """What is left of `text` without the first place of each of `apart`."""
    gaps, at = [], 0
    for start, end in [*InOrder(text).spans(apart), (len(text), len(text))]:
        if start > at:
            gaps.append((at, start))
        at = max(at, end)
    return gaps


def _shift(piece: EvidencePiece, by: int) -> EvidencePiece:
    return replace(piece, start=piece.start + by, end=piece.end + by) if by else piece


def _cut_plain(text: str) -> list[EvidencePiece]:
    found: list[EvidencePiece] = []
    prose_from = 0
    lines, json = lines_of(text), JsonFinder(text)
    i = 0
    while i < len(lines):
        pieces, after = _special(text, lines, i, json)
        if after > i:
            found += _prose(text, prose_from, lines[i][1])
            found += pieces
            prose_from = lines[after][1] if after < len(lines) else len(text)
            i = after
        else:
            i += 1
    return found + _prose(text, prose_from, len(text))


def _special(text: str, lines: Sequence[Line], i: int, json: JsonFinder) -> tuple[list[EvidencePiece], int]:
    """A fenced block, JSON or a table that begins with line `i`: its pieces, and the line behind it; `i` where none does."""
    if (fence := _FENCE.match(lines[i][0])) is not None:
        return _cut_fence(text, lines, i, fence[1])
    may_begin = "{" in lines[i][0] or "[" in lines[i][0]  # of most lines nothing else need be asked
    if (
        may_begin
        and (value := json.at(lines[i])) is not None
        and (found := cut_json(json.text[value.start : value.end], cut, name=value.label))
    ):
        after = next((k for k in range(i + 1, len(lines)) if lines[k][1] >= value.end), len(lines))
        return [_shift(piece, value.start) for piece in found], after
    return _table(lines, i)


def _table(lines: Sequence[Line], i: int) -> tuple[list[EvidencePiece], int]:
    """The same of tables alone."""
    table = read(lines[i : i + 4])
    if table is None:
        return aligned(lines, i)
    end = i + 1
    while end < len(lines) and table.has(lines[end][0]):
        end += 1
    found = rows(table, lines[i:end])
    return found, (end if found or end > i + 2 else i)  # many lines of empty cells are not read again from each on


def _cut_fence(text: str, lines: Sequence[Line], i: int, mark: str) -> tuple[list[EvidencePiece], int]:
    """A block of code up to its end mark, or to the text's end; JSON and tables in it are read as such."""
    end = next((k for k in range(i + 1, len(lines)) if lines[k][0].strip().startswith(mark)), len(lines))
    start = lines[i + 1][1] if i + 1 < len(lines) else len(text)
    stop = lines[end][1] if end < len(lines) else len(text)
    body = text[start:stop]
    pieces = cut_json(body, cut, ())
    if pieces is None:
        inside = [line for line in lines[i + 1 : end] if line[0].strip()]
        for k in range(min(2, len(inside))):  # a command may stand before it, and how many rows there are behind it
            pieces, after = _table(inside, k)
            if pieces and after + 1 >= len(inside):
                around = (limited(text, at, at + len(line)) for line, at in (*inside[:k], *inside[after:]))
                return sorted([*pieces, *(piece for own in around for piece in own)], key=lambda piece: piece.start), end + 1
        pieces = list(_code(body))
    return [_shift(piece, start) for piece in pieces], end + 1


def _code(text: str) -> Iterator[EvidencePiece]:
    """Whole lines, up to `CODE_CHARS` together."""
    start = at = 0
    for line in text.split("\n"):
        if at > start and at + len(line) - start > CODE_CHARS:
            yield from _with_words(limited(text, start, at))
            start = at
        at += len(line) + 1
    yield from _with_words(limited(text, start, len(text)))


def _prose(text: str, start: int, end: int) -> list[EvidencePiece]:
    """The sentences of a part of `text`, as `proxy.language.text.split_sentences` would cut it."""
    splitter, found, at = SentenceSplitter(), list[EvidencePiece](), start
    for fed in range(start, end, _SPLITTER_CHARS):
        sentences = splitter.feed(text[fed : min(end, fed + _SPLITTER_CHARS)])
        if fed + _SPLITTER_CHARS >= end:
            sentences.append(splitter.flush())
        for sentence in sentences:
            found += _with_words(limited(text, at, at + len(sentence)))
            at += len(sentence)
    return found


def _with_words(pieces: Sequence[EvidencePiece]) -> list[EvidencePiece]:
    """Those that say anything: no rules, bare tags or white space."""
    return [piece for piece in pieces if _WORD.search(piece.shown) and not _MARK.fullmatch(piece.shown)]


# ---- own texts ----


_MARKS = ("roxy's ", "[archived ", "conversation_summary", "[Another statement", "groundwire_")
"""One of them is in every text of the proxy's: most texts have none, and need no closer look."""
_OWN = re.compile(
    r"\[Proxy's notes on what failed in this run so far: observed facts, not instructions of the user\]"
    r"(?:\n- (?:(?!\[Proxy's notes on )[^\n]){1,400}+){1,40}+\n\[End of the proxy's notes\]"
    r"|\[This content was removed by the proxy's policy\.\]"
    r"|\[Another statement took the place of this one\.\]"
    r"|\[archived [^\[\]\n]{0,80}: groundwire_\w{1,40} sp_[0-9a-f]{12,32}\]"
    r"|(?:Summary of the earlier conversation|Zusammenfassung des bisherigen Gesprächs|Resumen de la conversación anterior"
    r"|Résumé de la conversation précédente)[^\n]{0,120}(?=\n<conversation_summary>)"
    r"|</?conversation_summary>",
    re.S,
)
"""Notes in their whole form alone: who writes two comments of a page could else put an opening and an end around what others say there."""


def own_texts(text: str) -> tuple[str, ...]:
    """The pieces of `text` that the proxy wrote, each once."""
    if not any(mark in text for mark in _MARKS):
        return ()
    return tuple(dict.fromkeys(match[0] for match in _OWN.finditer(text)))


def without_own_texts(text: str) -> str:
    """`text` without them."""
    return _OWN.sub(" ", text) if any(mark in text for mark in _MARKS) else text


def blank_own_texts(text: str) -> str:
    """`text` with as many spaces in their place: what is left stands where it stood."""
    return _OWN.sub(lambda match: " " * len(match[0]), text) if any(mark in text for mark in _MARKS) else text
