"""One content block of a Messages request <-> what stages see of it: a chat message's content part, or a tool's call.

Text blocks are the chat API's own text parts. A search result, and a document that is text, is a text part with the field ``passage``, so
that it is evidence with a source. Images and files are told in the chat form, by which they are counted. Everything else stays as it is,
but for ``cache_control``: clients move it from turn to turn, and a conversation that goes on must look the same to the stages.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from proxy.wire.big_numbers import exact

Block = Mapping[str, Any]
THINKING = ("thinking", "redacted_thinking")


def part_of(block: Block) -> dict[str, Any]:
    """The part that stands for `block`; an object of its own, by which the block is found again."""
    kind = block["type"]
    if kind == "search_result":
        return _passage(_joined(block.get("content")), block.get("source") or block.get("title"))
    if kind == "image":
        return {"type": "image_url", "image_url": {"url": _address(block.get("source"))}}
    if kind == "document":
        return _document(block)
    return without_mark(block)


def call_of(block: Block) -> dict[str, Any]:
    """The call that a ``tool_use`` block is."""
    arguments = orjson.dumps(block.get("input") if block.get("input") is not None else {}).decode()
    return {"id": block["id"], "type": "function", "function": {"name": block["name"], "arguments": arguments}}


def block_of(part: Block, before: Block | None) -> dict[str, Any] | None:
    """The block for a part that a stage made or changed; `before` is the block it was made of. None where nothing is left of it."""
    if part.get("type") == "text":
        text = part.get("text")
        if not isinstance(text, str) or not text.strip():
            return None
        if before is not None and (before["type"] == "search_result" or isinstance(before.get("source"), Mapping)):
            return _saying(before, text)
        return {**(before or {}), **{key: value for key, value in part.items() if key != "passage"}}
    if part.get("type") == "image_url":
        image = part.get("image_url")
        return {"type": "image", "source": _source(str(image.get("url") if isinstance(image, Mapping) else image))}
    return dict(before) if before is not None else dict(part)


def without_mark(block: Block) -> dict[str, Any]:
    """`block` as the stages see it: without what it tells the provider's cache."""
    return {key: value for key, value in block.items() if key != "cache_control"}


def input_of(arguments: str) -> Any:
    """A call's arguments as the object that the API wants; {} for what is none."""
    try:
        found = exact(arguments)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _document(block: Block) -> dict[str, Any]:
    source = block.get("source")
    source = source if isinstance(source, Mapping) else {}
    if source.get("type") == "text":
        return _passage(str(source.get("data") or ""), block.get("title"))
    if source.get("type") == "content":
        return _passage(_joined(source.get("content")), block.get("title"))
    file: dict[str, Any] = {"filename": block.get("title") or source.get("url") or source.get("file_id") or "document"}
    if source.get("type") == "base64":
        file["file_data"] = _address(source)
    return {"type": "file", "file": file}


def _passage(text: str, source: object) -> dict[str, Any]:
    return {"type": "text", "text": text, "passage": {"source": source if isinstance(source, str) else ""}}


def _joined(content: object) -> str:
    if isinstance(content, str):
        return content
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    return "\n".join(str(block["text"]) for block in blocks if isinstance(block.get("text"), str))


def _saying(block: Block, text: str) -> dict[str, Any]:
    """A search result or document that says `text`; its other fields stay."""
    if block["type"] == "search_result":
        return {**block, "content": [{"type": "text", "text": text}]}
    source = block["source"]
    said = {"data": text} if source.get("type") == "text" else {"content": [{"type": "text", "text": text}]}
    return {**block, "source": {**source, **said}}


def _address(source: object) -> str:
    """The address under which the chat API would name an image or a file."""
    source = source if isinstance(source, Mapping) else {}
    if source.get("type") == "base64":
        return f"data:{source.get('media_type')};base64,{source.get('data')}"
    return str(source.get("url") or "")


def _source(url: str) -> dict[str, Any]:
    head, found, data = url.partition(";base64,")
    if not found:
        return {"type": "url", "url": url}
    return {"type": "base64", "media_type": head.removeprefix("data:"), "data": data}
