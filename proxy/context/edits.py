"""Taking parts of the context out, or replacing them, so that the list of messages stays one that the chat API accepts.

No message is added, dropped or moved: a message of which nothing is left says so in a note. JSON stays valid JSON, parts that are no text
stay as they are, messages that are not touched stay the same objects. The exchange's conversation, evidence and passages are replaced
alike, so that what was taken out can ground no answer.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proxy.context.pieces import ContextPiece
from proxy.exchange import Evidence, Exchange, Message
from proxy.language.json.strings import json_string
from proxy.language.text import text_of

NOTE = "[This content was removed by the proxy's policy.]"
_SCALAR = re.compile(r'("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?|-?\d[\d.eE+-]*|true|false|null', re.S)
Span = tuple[int, int, str]
"""Start, end, and the text that takes the place."""


class Edit(Struct, frozen=True):
    """Some of a piece's text, and what takes its place."""

    piece: ContextPiece
    start: int
    """Characters of the piece's text before it."""
    end: int
    text: str = ""


def whole(piece: ContextPiece, text: str = "") -> Edit:
    """All of a piece."""
    return Edit(piece, 0, len(piece.text), text)


def edited(text: str, spans: Iterable[Span]) -> str:
    """`text` with the spans replaced; of two that overlap, the first counts. What is taken out takes one space beside it with it."""
    out, at = [], 0
    for start, end, new in sorted(spans):
        start, end = max(start, at), max(end, at)
        out.append(text[at:start])
        if not new and text[end : end + 1] == " " and (not start or text[start - 1].isspace()):
            end += 1
        out.append(new)
        at = end
    return "".join([*out, text[at:]])


def apply_edits(exchange: Exchange, stage: str, edits: Sequence[Edit], *, note: str = NOTE) -> bool:
    """Put the conversation without what `edits` take out into the exchange; whether anything has changed.

    `note` stands where nothing of a message is left. A passage of ``groundwire.context`` of which nothing is left goes.
    """
    found = _changes(edits)
    if not found:
        return False
    conversation = list(exchange.conversation)
    new: dict[int, Message] = {}
    for i in sorted({change.piece.message for change in found if change.piece.message is not None}):
        spans = [span for change in found if change.piece.message == i for span in _raw(change)]
        new[id(conversation[i])] = conversation[i] = with_spans(conversation[i], spans, note)
    _put(exchange, conversation, new, found)
    exchange.changes.append({"stage": stage, "what": "context", "pieces": len(found), "messages": len(new)})
    return True


class _Change(Struct, frozen=True):
    piece: ContextPiece
    spans: Sequence[Span]
    text: str
    """What is left of the piece."""


def _changes(edits: Sequence[Edit]) -> list[_Change]:
    """The pieces that `edits` change."""
    pieces: dict[tuple[object, ...], ContextPiece] = {}
    spans: dict[tuple[object, ...], list[Span]] = {}
    for edit in edits:
        key = (edit.piece.message, edit.piece.start, edit.piece.text, edit.piece.source)
        pieces[key] = edit.piece
        spans.setdefault(key, []).append((edit.start, edit.end, edit.text))
    every = (_Change(piece, spans[key], edited(piece.text, spans[key])) for key, piece in pieces.items())
    return [change for change in every if change.text != change.piece.text]


def _raw(change: _Change) -> list[Span]:
    """A piece's changes in characters of its message's text; a JSON string is written anew as a whole."""
    piece = change.piece
    if piece.literal:
        return [(piece.start, piece.end, json_string(change.text)[1:-1])]
    return [(piece.start + start, piece.start + end, new) for start, end, new in change.spans]


def _put(exchange: Exchange, conversation: Sequence[Message], new: Mapping[int, Message], changes: Sequence[_Change]) -> None:
    exchange.messages = [new.get(id(message), message) for message in exchange.messages]
    exchange.cleaned = conversation
    passages = {(change.piece.message, change.piece.text): change.text for change in changes if change.piece.kind == "passage"}
    exchange.evidence = tuple(_remaining_evidence(exchange.evidence, passages))
    exchange.passages = tuple(_remaining_evidence(exchange.passages, passages))


def _remaining_evidence(evidence: Iterable[Evidence], passages: Mapping[tuple[int | None, str], str]) -> Iterable[Evidence]:
    for one in evidence:
        text = passages.get((one.message_index, one.content), one.content)
        if text == one.content:
            yield one
        elif text.strip():
            yield replace(one, content=text)


def with_spans(message: Message, spans: Sequence[Span], note: str = NOTE) -> Message:
    """A copy of `message` with `spans` of its text (`text_of`) replaced; `note` where no text is left."""
    content = message.get("content")
    if isinstance(content, str):
        return {**message, "content": _legal(content, spans, note)}
    left = sum(1 for part in content if _text(part) is not None) if isinstance(content, list) else 0
    if not left:
        return message
    parts: list[Any] = []
    at = 0
    whole_text = edited(text_of(content), spans)
    for part in content if isinstance(content, list) else ():
        text = _text(part)
        if text is None:
            parts.append(part)
            continue
        touched = [(start, end, new) for start, end, new in spans if start < at + len(text) and end > at]
        inside = [  # what takes the place of a span over several parts stands in the first
            (max(start - at, 0), min(end - at, len(text)), new if start >= at - 1 else "") for start, end, new in touched
        ]
        said = _legal(text, inside, "") if inside else text
        at += len(text) + 1
        if said.strip() or not text.strip():
            parts.append({**part, "text": said} if inside else part)
    if not whole_text.strip():
        parts.append({"type": "text", "text": note})
    return {**message, "content": parts}


def _text(part: object) -> str | None:
    """The text of a content part that `text_of` reads."""
    if isinstance(part, dict) and part.get("type") in ("text", "output_text") and isinstance(part.get("text"), str):
        return str(part["text"])
    return None


def _legal(text: str, spans: Sequence[Span], note: str) -> str:
    new = edited(text, spans)
    if _is_json(text) and not _is_json(new):
        return _json_edited(text, spans)
    return new if new.strip() else note


def _is_json(text: str) -> bool:
    if text.lstrip()[:1] not in ("{", "["):
        return False
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


def _json_edited(text: str, spans: Sequence[Span]) -> str:
    """JSON whose values that a span touches say what takes their place, or null; keys stay."""
    values = [match.span() for match in _SCALAR.finditer(text) if not match[2]]
    found: list[Span] = []
    for at, end in values:
        new = next((new for start, stop, new in spans if start < end and stop > at), None)
        if new is not None:
            found.append((at, end, json_string(new) if new else "null"))
    return edited(text, found)
