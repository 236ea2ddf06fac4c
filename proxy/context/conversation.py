"""A conversation as its parts: what may be taken out of it, and what must stay together. Pure functions over messages.

A *block* is the smallest run of messages that may be moved or replaced: one message, or an assistant message that calls tools with all
the results of its calls. Cutting at block borders keeps every list of messages one that the chat API accepts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import orjson
from msgspec import Struct

from proxy.exchange import Message

Kind = Literal["system", "user", "assistant", "tools", "other"]


class MessageBlock(Struct, frozen=True):
    """``messages[start:end]``, which stay together."""

    kind: Kind
    """``tools`` is an assistant message that calls tools, with the results."""
    start: int
    end: int


def blocks_of(messages: Sequence[Message]) -> list[MessageBlock]:
    """All of `messages`, in order. A tool result that answers nothing before it is a block of its own (``other``)."""
    found: list[MessageBlock] = []
    i = 0
    while i < len(messages):
        message = messages[i]
        end = i + 1
        kind = _kind(message)
        if kind == "tools":
            while end < len(messages) and messages[end].get("role") in ("tool", "function"):
                end += 1
        found.append(MessageBlock(kind, i, end))
        i = end
    return found


def calls_of(message: Message) -> list[Mapping[str, Any]]:
    """The tool calls of an assistant message, those that are objects."""
    calls = message.get("tool_calls")
    return [call for call in calls if isinstance(call, dict)] if isinstance(calls, list) else []


def answered_calls(messages: Sequence[Message]) -> dict[int, Mapping[str, Any]]:
    """The call that a tool's result answers, by the result's position: the latest one before it with its id."""
    called: dict[str, Mapping[str, Any]] = {}
    found: dict[int, Mapping[str, Any]] = {}
    for i, message in enumerate(messages):
        if message.get("role") == "tool" and isinstance(id_ := message.get("tool_call_id"), str) and id_ in called:
            found[i] = called[id_]
        for call in reversed(calls_of(message)):
            if isinstance(call.get("id"), str):
                called[call["id"]] = call
    return found


def called_ids(message: Message) -> list[str]:
    """Ids of the tool calls of an assistant message."""
    return [call["id"] for call in calls_of(message) if isinstance(call.get("id"), str)]


def problems(messages: Sequence[Message]) -> list[str]:
    """Why OpenAI's API would refuse these messages, for tests and as a last check: orphaned results, unanswered calls, no messages."""
    found = [] if messages else ["no messages"]
    for block in blocks_of(messages):
        first = messages[block.start]
        if block.kind == "other" and first.get("role") in ("tool", "function"):
            found.append(f"messages[{block.start}]: a tool result that answers no call")
        if block.kind != "tools":
            continue
        asked = called_ids(first)
        answered = [m.get("tool_call_id") for m in messages[block.start + 1 : block.end] if m.get("role") == "tool"]
        if missing := [id_ for id_ in asked if id_ not in answered]:
            found.append(f"messages[{block.start}]: calls without a result: {', '.join(missing)}")
        found += [f"messages[{block.start}]: a result for {id_!r}, which was not called" for id_ in answered if id_ not in asked]
    return found


def prefix_hashes(messages: Sequence[Message], ends: Sequence[int], *, turns_only: bool = False) -> dict[int, str]:
    """For each position in `ends` (ascending) a hash of all messages before it: the same prefix has the same hash everywhere.

    With `turns_only`, of system messages only that they stand there: many agents write a clock, or a counter, anew into theirs.
    """
    digest = hashlib.blake2b(digest_size=16)
    found: dict[int, str] = {}
    wanted = iter(sorted(set(ends)))
    end = next(wanted, None)
    for i, message in enumerate([*messages, None]):
        while end is not None and end == i:
            found[end] = digest.copy().hexdigest()
            end = next(wanted, None)
        if message is not None:
            moves = turns_only and message.get("role") in ("system", "developer")
            data = b"system" if moves else orjson.dumps(message, option=orjson.OPT_SORT_KEYS)
            digest.update(len(data).to_bytes(8, "big") + data)
    return found


def last_user(messages: Sequence[Message]) -> int | None:
    """Position of the last user message."""
    return next((i for i in range(len(messages) - 1, -1, -1) if messages[i].get("role") == "user"), None)


def with_text_after(message: Message, block: str) -> Message | None:
    """A copy of `message` with `block` behind its text, a blank line between them; None where its content is no text and no parts."""
    content = message.get("content")
    if content is None or content == "":
        return {**message, "content": block}
    if isinstance(content, str):
        return {**message, "content": f"{content}\n\n{block}"}
    if isinstance(content, list) and all(isinstance(part, Mapping) for part in content):
        return {**message, "content": [*content, {"type": "text", "text": block}]}
    return None


def _kind(message: Message) -> Kind:
    role = message.get("role")
    if role in ("system", "developer"):
        return "system"
    if role == "user":
        return "user"
    if role == "assistant":
        return "tools" if called_ids(message) or isinstance(message.get("function_call"), dict) else "assistant"
    return "other"
