"""Other texts, and arguments of calls, in a Messages stream that has come whole: every event stays, but for deltas of changed texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from proxy.wire.dialect import StreamPiece
from proxy.wire.messages import events
from proxy.wire.messages.answers import without_gap
from proxy.wire.spreading import spread


def with_texts(pieces: Sequence[StreamPiece], text: str) -> list[StreamPiece]:
    """`pieces` whose text blocks together say `text`: of a changed block, one delta says all of it."""
    before: dict[int, str] = {}
    for piece in pieces:
        if (index := _text_block(piece)) is not None:
            before[index] = before.get(index, "") + piece.text
    if not before:
        return _with_block(pieces, text)
    said = dict(zip(before, spread(list(before.values()), text), strict=True))
    left = {index: without_gap(new, before[index]) for index, new in said.items() if new != before[index]}
    out: list[StreamPiece] = []
    for piece in pieces:
        index, payload = _text_block(piece), _fields(piece)
        if index is None or index not in left:
            out.append(piece)
        elif payload["type"] == "content_block_start":
            out.append(_made(piece, {**payload, "content_block": {**payload["content_block"], "text": ""}}))
            if left[index].strip():
                out.append(_says(index, left[index]))
    return out


def with_arguments(pieces: Sequence[StreamPiece], changed: Mapping[int, str]) -> list[StreamPiece]:
    """`pieces` whose calls have these arguments, by the call's index: the first delta has all of them, later ones none."""
    calls: list[int] = []
    left: dict[int, str] = {}
    out: list[StreamPiece] = []
    for piece in pieces:
        payload = _fields(piece)
        kind, index = payload.get("type"), payload.get("index")
        block, delta = payload.get("content_block"), payload.get("delta")
        out.append(piece)
        if kind == "content_block_start" and isinstance(block, dict) and block.get("type") == "tool_use" and isinstance(index, int):
            if len(calls) in changed:
                left[index] = changed[len(calls)]
                out[-1] = _made(piece, {**payload, "content_block": {**block, "input": {}}})
            calls.append(index)
        elif kind == "content_block_delta" and index in left and isinstance(delta, dict) and delta.get("type") == "input_json_delta":
            if delta.get("partial_json"):
                out[-1] = _made(piece, {**payload, "delta": {**delta, "partial_json": left[index]}})
                left[index] = ""
        elif kind == "content_block_stop" and isinstance(index, int) and left.get(index, ""):
            said = {"type": "input_json_delta", "partial_json": left.pop(index)}
            out.insert(-1, _made(piece, {"type": "content_block_delta", "index": index, "delta": said}))
    return out


def _with_block(pieces: Sequence[StreamPiece], text: str) -> list[StreamPiece]:
    """`pieces` with a text block of their own behind all others, where they have none."""
    if not text.strip():
        return list(pieces)
    taken = [index for piece in pieces if isinstance(index := _fields(piece).get("index"), int)]
    index = 1 + max(taken, default=-1)
    at = next((i for i, piece in enumerate(pieces) if piece.finish), len(pieces))
    opening, closing = (
        StreamPiece(events.encode(event), 0, payload=event)
        for event in (events.started(index, {"type": "text", "text": ""}), events.stopped(index))
    )
    return [*pieces[:at], opening, _says(index, text), closing, *pieces[at:]]


def _says(index: int, text: str) -> StreamPiece:
    delta = events.text_delta(index, text)
    return StreamPiece(events.encode(delta), 0, text, payload=delta)


def _fields(piece: StreamPiece) -> dict[str, Any]:
    return dict(piece.payload or {})


def _text_block(piece: StreamPiece) -> int | None:
    """The block whose text `piece` opens, or says some of."""
    payload = _fields(piece)
    kind = payload.get("type")
    if kind == "content_block_start":
        block = payload.get("content_block")
        says = isinstance(block, dict) and block.get("type") == "text"
    else:
        says = kind == "content_block_delta" and bool(piece.text)
    index = payload.get("index")
    return index if says and isinstance(index, int) else None


def _made(piece: StreamPiece, payload: Mapping[str, Any]) -> StreamPiece:
    return replace(piece, raw=events.encode(payload), payload=payload)
