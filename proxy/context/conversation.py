"""A conversation as its parts: what may be taken out of it, and what must stay together. Pure functions over messages.

A *block* is the smallest run of messages that may be moved or replaced: one message, or an assistant message that calls tools with all the
results of its calls. Cutting at block borders keeps every list of messages one that the chat API accepts. A *transcript* is a run of
messages as text that a person, a model and a search can read: what was said byte for byte, tool results too, under a line that tells whose
it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Literal

import orjson
from msgspec import Struct

from proxy.exchange import Evidence, Exchange, Message, Request
from proxy.language.lru import LRU
from proxy.language.text import text_of
from proxy.offloop import LARGE

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


def answered_calls_of(exchange: Exchange) -> Mapping[int, Mapping[str, Any]]:
    """`answered_calls` of its conversation."""
    given = (exchange.conversation,)
    return exchange.once("answered calls", given, partial(answered_calls, *given))


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


MAX_KNOWN_TEXTS = 20_000
_known_texts: LRU[bool] = LRU(MAX_KNOWN_TEXTS)
"""Hashes of messages' texts, of calls' arguments and of passages that came before."""


def unread_size(exchange: Exchange) -> int:
    """As `Request.size`, for a pass that remembers by its hash what it read of a text: texts that this process has read do not count."""
    given = (exchange.original,)
    return exchange.once("unread size", given, partial(_unread_size, *given))


def _unread_size(request: Request) -> int:
    if request.quick_size >= LARGE:
        return request.size
    unread = 0
    for text in _texts_of(request):
        if _known_texts.get(key := hash(text)) is None:
            unread += len(text)
            _known_texts.put(key, True)
    return max(request.quick_size, unread)


def _texts_of(request: Request) -> Iterator[str]:
    for message in request.messages:
        yield text_of(message.get("content"))
        yield from (arguments for _, _, arguments in named_calls(message))
    yield from (passage.content for passage in request.passages)


def last_user(messages: Sequence[Message]) -> int | None:
    """Position of the last user message."""
    return next((i for i in range(len(messages) - 1, -1, -1) if messages[i].get("role") == "user"), None)


def last_user_text(messages: Sequence[Message]) -> str:
    """What the last user message says; "" without one."""
    last = last_user(messages)
    return text_of(messages[last].get("content")) if last is not None else ""


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


_KINDS: Mapping[str, Any] = {"tool": "tool_result", "function": "tool_result", "user": "user", "assistant": "assistant"}


def transcript(messages: Sequence[Message], start: int, end: int) -> str:
    """``messages[start:end]``; each begins with a line as ``--- message 7, tool (get_user, call_3)``."""
    names = called_names(messages)
    return "\n".join(line for i in range(start, end) for line in _lines(messages[i], i, names))


def named_calls(message: Message) -> list[tuple[str, str, str]]:
    """Id, name and arguments of each call of an assistant message, the legacy form included."""
    found = []
    calls = message.get("tool_calls")
    for call in calls if isinstance(calls, list) else []:
        function = call.get("function") if isinstance(call, dict) else None
        if isinstance(function, dict):
            found.append((str(call.get("id") or ""), str(function.get("name") or ""), str(function.get("arguments") or "")))
    legacy = message.get("function_call")
    if isinstance(legacy, dict):
        found.append(("", str(legacy.get("name") or ""), str(legacy.get("arguments") or "")))
    return found


def called_names(messages: Sequence[Message]) -> dict[str, str]:
    """Name of the called tool by the call's id."""
    return {id_: name for message in messages for id_, name, _ in named_calls(message) if id_}


def result_name(message: Message, names: Mapping[str, str]) -> str:
    """Name of the tool whose result `message` is; "" when it cannot be told."""
    name = names.get(str(message.get("tool_call_id"))) or message.get("name")
    return name if isinstance(name, str) else ""


def content_bytes(message: Message) -> bytes:
    """A message's content: a string's own bytes, anything else as JSON."""
    content = message.get("content")
    return content.encode("utf-8", "surrogatepass") if isinstance(content, str) else orjson.dumps(content)


def evidence_of(message: Message, position: int, names: Mapping[str, str]) -> Evidence | None:
    """What an answer may rest on when the message is no longer in the prompt; None for one without text."""
    text = text_of(message.get("content"))
    kind = _KINDS.get(str(message.get("role")))
    if not text or kind is None:
        return None
    source = result_name(message, names) if kind == "tool_result" else ""
    return Evidence(text, source=source, kind=kind, message_index=position)


def _lines(message: Message, position: int, names: Mapping[str, str]) -> Iterator[str]:
    role = str(message.get("role"))
    name = ", ".join(part for part in (result_name(message, names), str(message.get("tool_call_id") or "")) if part)
    yield f"--- message {position}, {role}" + (f" ({name})" if name else "")
    content = message.get("content")
    if content is not None:
        yield content if isinstance(content, str) else _parts(content)
    for key in ("tool_calls", "function_call", "refusal"):
        if message.get(key):
            yield f"{key}: {orjson.dumps(message[key]).decode()}"


def _parts(content: object) -> str:
    parts = content if isinstance(content, list) else [content]
    return "\n".join(text_of([part]) or orjson.dumps(part).decode() for part in parts)
