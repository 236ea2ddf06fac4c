"""A Messages answer's body <-> `Answer`, and an answer of the proxy's own.

The texts of an answer are one text to the stages: blocks that follow each other (the API cuts a text where a citation ends) as they are,
those that thinking or a tool's call stands between with a blank line. A changed text goes back into the blocks that it stood in
(`proxy.wire.answers`); a block of which nothing is left goes, since the API refuses empty ones in the next request.

Reference: https://docs.anthropic.com/en/api/messages
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import orjson
from msgspec.structs import replace

from proxy.exchange import Answer, Exchange, Usage
from proxy.wire.answers import has_words, spread
from proxy.wire.bodies import as_raw, exact_object
from proxy.wire.dialect import StreamPiece
from proxy.wire.messages import events
from proxy.wire.messages.requests import THINKING

GAP = "\n\n"
"""Between two texts that do not follow each other."""
PROVIDERS_CALLS = ("server_tool_use", "mcp_tool_use")
"""Types of blocks that call a tool which the provider runs."""
_SILENT = (*THINKING, "tool_use", "compaction", "container_upload", "fallback")
_SILENT_ENDS = ("_tool_use", "_tool_result")


def texts_of(blocks: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    """The text of each text block, by its position, with what parts it from the text before."""
    found: dict[int, str] = {}
    for i, block in enumerate(blocks):
        if block.get("type") == "text" and isinstance(block.get("text"), str):
            apart = any(found.values()) and blocks[i - 1].get("type") != "text"
            found[i] = (GAP if apart else "") + block["text"]
    return found


def unread(block: Mapping[str, Any]) -> str:
    """The name of a block with words that are not read as the answer's; "" where there are none."""
    kind = str(block.get("type"))
    if kind == "text":
        return "" if isinstance(block.get("text"), str | None) else "content.text"
    if kind in _SILENT or kind.endswith(_SILENT_ENDS):
        return ""
    return f"content.{kind[:60]}" if has_words(block) else ""


def changed_blocks(sent: Sequence[msgspec.Raw], text: str | None, arguments: Mapping[int, str]) -> list[msgspec.Raw]:
    """The blocks with another text and other arguments of calls."""
    blocks = [orjson.loads(bytes(block)) for block in sent]
    known = [block if isinstance(block, dict) else {} for block in blocks]
    texts = texts_of(known)
    said = dict(zip(texts, spread(list(texts.values()), text), strict=True)) if text is not None and texts else {}
    calls = [i for i, block in enumerate(known) if block.get("type") == "tool_use"]
    changed = {calls[index]: given for index, given in arguments.items()}
    found: list[msgspec.Raw] = []
    for i, piece in enumerate(sent):
        if i in said and said[i] != texts[i]:
            own = without_gap(said[i], texts[i])
            if own.strip():
                found.append(as_raw(saying(blocks[i], own)))
        else:
            found.append(as_raw({**blocks[i], "input": exact_object(changed[i]) or {}}) if i in changed else piece)
    if text and not texts:
        found.insert(calls[0] if calls else len(found), as_raw({"type": "text", "text": text}))
    return found


def without_gap(text: str, before: str) -> str:
    """A block's new text without what parts it from the one before it, if that was put there."""
    return text.removeprefix(GAP) if before.startswith(GAP) else text


def saying(block: Mapping[str, Any], text: str) -> dict[str, Any]:
    """A text block that says `text`; what its citations were for must still stand in it."""
    made = {**block, "text": text}
    if made.get("citations") and str(block.get("text")) not in text:
        made["citations"] = None
    return made


# ---- an answer of the proxy's own ----


def own_message(exchange: Exchange, answer: Answer) -> dict[str, Any]:
    """The message."""
    choice, usage = answer.choices[0], answer.usage or Usage(0, 0)
    return {
        "id": f"msg_{exchange.id}",
        "type": "message",
        "role": "assistant",
        "model": answer.model,
        "content": [{"type": "text", "text": choice.text}] if choice.text else [],
        "stop_reason": "refusal" if choice.finish_reason == "content_filter" else "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": usage.prompt_tokens, "output_tokens": usage.completion_tokens},
    }


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
            out.append(_with_payload(piece, {**payload, "content_block": {**payload["content_block"], "text": ""}}))
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
                out[-1] = _with_payload(piece, {**payload, "content_block": {**block, "input": {}}})
            calls.append(index)
        elif kind == "content_block_delta" and index in left and isinstance(delta, dict) and delta.get("type") == "input_json_delta":
            if delta.get("partial_json"):
                out[-1] = _with_payload(piece, {**payload, "delta": {**delta, "partial_json": left[index]}})
                left[index] = ""
        elif kind == "content_block_stop" and isinstance(index, int) and left.get(index, ""):
            said = {"type": "input_json_delta", "partial_json": left.pop(index)}
            out.insert(-1, _with_payload(piece, {"type": "content_block_delta", "index": index, "delta": said}))
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
        for event in (events.block_start(index, {"type": "text", "text": ""}), events.block_stop(index))
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


def _with_payload(piece: StreamPiece, payload: Mapping[str, Any]) -> StreamPiece:
    return replace(piece, raw=events.encode(payload), payload=payload)
