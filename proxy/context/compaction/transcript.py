"""A run of messages as text that a person, a model and a search can read: every content as it was, under a line that tells whose it is.

What was said is in it byte for byte, tool results too; only content that is no text (images, unknown parts) is given as JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from proxy.context.conversation import calls_of
from proxy.exchange import Evidence, Message
from proxy.language.text import text_of

_KINDS: Mapping[str, Any] = {"tool": "tool_result", "function": "tool_result", "user": "user", "assistant": "assistant"}


def transcript(messages: Sequence[Message], start: int, end: int) -> str:
    """``messages[start:end]``; each begins with a line as ``--- message 7, tool (get_user, call_3)``."""
    names = called_names(messages)
    return "\n".join(line for i in range(start, end) for line in _lines(messages[i], i, names))


def called_names(messages: Sequence[Message]) -> dict[str, str]:
    """Name of the called tool by the call's id."""
    found: dict[str, str] = {}
    for message in messages:
        for call in calls_of(message):
            id_, function = call.get("id"), call.get("function")
            if isinstance(id_, str) and isinstance(function, dict) and isinstance(function.get("name"), str):
                found[id_] = function["name"]
    return found


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
