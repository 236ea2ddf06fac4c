"""Taking spans out of an answer so that what is left is still well-formed: lists, tables, paragraphs, emphasis.

In: an answer's text, or one sentence as the gate holds it, and the spans of claims that must not leave. Out: the text without them. A
span that holds a part of a sentence takes the whole sentence, unless `claims.parts` cuts there and what is left stands by itself.
Code blocks are never touched; an item or row that loses all its words loses its line, a table that loses all rows its head too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from msgspec import Struct

from proxy.context.faithful import extract_citations
from proxy.grounding.claims.checkable import line_marks
from proxy.grounding.claims.claims import parts
from proxy.language.patterns import phrases
from proxy.language.text import split_sentences
from proxy.offloop import each

Span = tuple[int, int]
_FENCE = re.compile(r"[> \t]{0,12}(`{3,40}|~{3,40})([^`\n]{0,200})$")
_SEPARATOR = re.compile(r"[ \t]{0,40}\|?[ \t]{0,99}:?-{2,99}:?[ \t]{0,99}(?:\|[ \t]{0,99}:?-{1,99}:?[ \t]{0,99}){0,99}\|?[ \t]{0,40}")
_PIPE = re.compile(r"(?<!\\)\|")
_BARE_CITATION = re.compile(r"\[\^?\d{1,3}(?:[ ]?[,;–-][ ]?\d{1,3}){0,9}\](?!\()|【[^【】\n]{0,80}】")
_PRONOUNS = "|".join(phrases(Path(__file__).parent).PRONOUNS)
_PRONOUN = re.compile(rf"\W{{0,3}}(?:(?:and|but|und|aber|sondern|y|pero|et|mais) )?(?:{_PRONOUNS})\b", re.I)
_CONJUNCTION = re.compile(r"(?:and|but|und|aber|sondern|y|pero|et|mais) ", re.I)
_WORD = re.compile(r"\w")
_TAIL_CHARS = 2000


class _Line(Struct):
    text: str
    start: int
    kind: str
    """``text``, ``code``, ``head`` (of a table), ``row`` or ``blank``."""
    table: int = 0
    cut: Sequence[Span] = ()
    """What is to be taken out of it."""


def redacted(text: str, spans: Sequence[Span]) -> str:
    """`text` without `spans`; "" where nothing is left."""
    cut = sentence_spans(text, spans)
    if not cut:
        return text
    lines = _with_cuts(_lines(text), cut)
    if not any(_keeps_words(line) for line in each(lines)):
        return ""
    alive = {line.table for line in lines if line.kind == "row" and not line.cut}
    return _join_lines(lines, alive)


def redacted_sentence(sentence: str, spans_within: Sequence[Span]) -> str:
    """One sentence of a stream without `spans_within` (offsets into it); "" where nothing of it leaves.

    A paragraph's end is kept where the sentence was not all of its line, as white space in front tells. A table keeps its head.
    """
    cut = sentence_spans(sentence, spans_within)
    if not cut:
        return sentence
    body = sentence.strip()
    head_chars = len(sentence) - len(sentence.lstrip())
    tail = sentence[head_chars + len(body) :]
    line = _Line(body, head_chars, "row" if body.startswith("|") and len(_PIPE.findall(body)) > 1 else "text")
    _with_cuts([line], cut)
    said = _remaining_text(line)
    if said:
        return sentence[:head_chars] + said + tail
    if sentence[:head_chars].strip("\n"):
        return tail if "\n" in tail else ""
    return "\n" if tail.count("\n") > 1 else ""


def _join_lines(lines: list[_Line], alive: set[int]) -> str:
    """The lines that are left; a paragraph that vanished takes one of the blank lines around it along."""
    out: list[str] = []
    vanished = False
    for line in each(lines):
        said = "" if line.kind == "head" and line.table not in alive else _remaining_text(line)
        if line.kind == "blank":
            if vanished and (not out or not out[-1].strip()):
                continue
            out.append(line.text)
        elif said:
            out.append(said)
            vanished = False
        else:
            vanished = True
    if vanished:
        while out and not out[-1].strip():
            out.pop()
    result = "".join(out)
    return result if lines[-1].text.endswith("\n") else result.rstrip("\n") if vanished else result


def _remaining_text(line: _Line) -> str:
    """What is left of a line; "" for none of it."""
    if line.kind in ("blank", "code", "head") or not line.cut:
        return line.text
    return "" if line.kind == "row" else _remaining_prose(line)


def _remaining_prose(line: _Line) -> str:
    body = line.text.rstrip()
    marks = line_marks(body)
    out, at, opened = "", marks, False
    finished: list[str] = []
    for start, end in each(_spans(line, marks, len(body))):
        if len(out) > 2 * _TAIL_CHARS:  # the beginning is finished: what follows looks at the end alone
            finished.append(out[:-_TAIL_CHARS])
            out = out[-_TAIL_CHARS:]
        out = _with_full_stop(_append_clause(out, body[at:start], opened))
        opened = body[start:end].endswith((",", ";"))
        at = end + _citations_at(body, end)
        while at < len(body) and body[at].isspace() and (not out or out[-1].isspace()):
            at += 1
    out = "".join([*finished, _append_clause(out, body[at:], opened)]).rstrip()
    return body[:marks] + _balance_emphasis(out) + line.text[len(body) :] if _WORD.search(out) else ""


def _append_clause(out: str, rest: str, opened: bool) -> str:
    """`out` with what stays; the rest of a sentence that lost its first clause begins like a sentence."""
    if not opened or not _WORD.search(rest):
        return out + rest
    clause = rest.lstrip()
    space = rest[: len(rest) - len(clause)]
    clause = _CONJUNCTION.sub("", clause, count=1)
    return out + space + clause[:1].upper() + clause[1:]


def _spans(line: _Line, marks: int, length: int) -> list[Span]:
    found = ((max(start - line.start, marks), min(end - line.start, length)) for start, end in line.cut)
    return [(start, end) for start, end in found if start < end]


def _with_full_stop(out: str) -> str:
    """A sentence that loses its last clause ends in a full stop."""
    bare = out.rstrip()
    return f"{bare.rstrip(',; ')}.{out[len(bare) :]}" if bare.endswith((",", ";")) else out


def _balance_emphasis(text: str) -> str:
    """Without an emphasis mark whose partner went."""
    for mark in ("**", "`"):
        if text.count(mark) % 2:
            text = text.replace(mark, "")
    return text


def _citations_at(body: str, at: int) -> int:
    """Characters of citations that directly follow a removed sentence: they were its own."""
    end = at
    rest = body[at : at + 400]
    cited = {span[0]: span[1] for span in (citation["span"] for citation in extract_citations(rest))}
    while True:
        here = end - at
        here += len(rest[here:]) - len(rest[here:].lstrip(" \t"))
        bare = _BARE_CITATION.match(rest, here)
        stop = bare.end() if bare else cited.get(here)
        if stop is None:
            return end - at
        end = at + stop


def sentence_spans(text: str, spans: Sequence[Span]) -> list[Span]:
    """The spans, merged, each grown to its sentence where it cannot be taken out of it; without those that hold no words."""
    wanted = sorted((max(0, start), min(len(text), end)) for start, end in spans)
    wanted = [(start, end) for start, end in wanted if start < end and text[start:end].strip()]
    found: list[Span] = []
    offset = k = 0
    for sentence in each(split_sentences(text) if wanted else ()):
        end = offset + len(sentence)
        while k < len(wanted) and wanted[k][1] <= offset:
            k += 1
        inside = []
        j = k
        while j < len(wanted) and wanted[j][0] < end:
            inside.append((max(0, wanted[j][0] - offset), min(len(sentence), wanted[j][1] - offset)))
            j += 1
        found += [(a + offset, b + offset) for a, b in _in_sentence(sentence, inside)]
        offset = end
    return _merge_spans(found, text)


def _in_sentence(sentence: str, spans: list[Span]) -> list[Span]:
    body = sentence.strip()
    start = len(sentence) - len(sentence.lstrip())
    spans = [(a, b) for a, b in spans if sentence[a:b].strip()]
    if not spans or not body:
        return []
    marks = line_marks(body)
    pieces = [(a + marks + start, b + marks + start) for a, b in parts(body[marks:])]
    gone = [any(a < end and b > begin and sentence[max(a, begin) : min(b, end)].strip() for a, b in spans) for begin, end in pieces]
    # What is left must stand by itself: the first parts, or later ones that name what they speak of.
    first = gone.index(False) if False in gone else -1
    if first < 0 or (first > 0 and _PRONOUN.match(sentence[pieces[first][0] : pieces[first][1]])):
        return [(start, start + len(body))]
    return [piece for piece, out in zip(pieces, gone, strict=True) if out] if True in gone else [(start, start + len(body))]


def _merge_spans(spans: list[Span], text: str) -> list[Span]:
    """Neighbours with nothing but white space between them on one line as one."""
    out: list[Span] = []
    for start, end in spans:
        if out and not text[out[-1][1] : start].strip(" \t"):
            out[-1] = (out[-1][0], end)
        else:
            out.append((start, end))
    return out


def _with_cuts(lines: list[_Line], cut: Sequence[Span]) -> list[_Line]:
    """The lines, each with those of the sorted spans that touch it: one pass over both."""
    k = 0
    for line in each(lines):
        end = line.start + len(line.text)
        while k < len(cut) and cut[k][1] <= line.start:
            k += 1
        until = k
        while until < len(cut) and cut[until][0] < end:
            until += 1
        line.cut = cut[k:until]
    return lines


def _keeps_words(line: _Line) -> bool:
    """Whether a line keeps words."""
    if line.kind == "code":
        return True
    if line.kind == "row" and line.cut:
        return False
    body = line.text
    at = line_marks(body) + line.start
    for start, end in line.cut:
        if end > line.start and start < line.start + len(body):
            if _WORD.search(body[max(0, at - line.start) : max(0, start - line.start)]):
                return True
            at = max(at, end + _citations_at(body, end - line.start) if end - line.start < len(body) else end)
    return _WORD.search(body[max(0, at - line.start) :]) is not None


def _lines(text: str) -> list[_Line]:
    """Lines with their ends, and what they are; a table's head is known by the separator under it."""
    out: list[_Line] = []
    fence, offset, table = "", 0, 0
    for raw in re.findall(r"[^\n]*\n|[^\n]+", text):
        bare = raw.strip()
        mark = _FENCE.match(raw.rstrip())
        kind = "code" if fence or mark else "blank" if not bare else "text"
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not mark[2].strip():
            fence = ""
        line = _Line(raw, offset, kind)
        if kind == "text":
            table = _table(line, out, table)
        out.append(line)
        offset += len(raw)
    return out


def _table(line: _Line, out: list[_Line], table: int) -> int:
    """Mark `line`, and the head above it, as parts of a table; the number of the last table."""
    last = out[-1] if out else None
    if (
        "|" in line.text
        and _SEPARATOR.fullmatch(line.text.strip())
        and last is not None
        and last.kind in ("text", "row")
        and "|" in last.text
    ):
        last.kind = line.kind = "head"
        last.table = line.table = table + 1
        return table + 1
    piped = line.text.lstrip().startswith("|") and len(_PIPE.findall(line.text)) > 1
    if last is not None and last.kind in ("head", "row") and last.table and "|" in line.text:
        line.kind, line.table = "row", last.table
    elif piped:
        line.kind = "row"
    return table
