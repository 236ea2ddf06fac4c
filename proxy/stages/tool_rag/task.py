"""What a conversation asks for, as text to rank tools by. Pure functions.

The query is the last user message; the context is what surrounds it: the turns before, and in an agent's loop the calls and results
since. Pasted content is cut to its head and tail, where the request mostly stands.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from proxy.exchange import Message
from proxy.language.text import text_of

QUERY_CHARS = 2000
CONTEXT_CHARS = 1500
_TURN_CHARS = 300
_RESULT_CHARS = 200
_TURNS_BEFORE = 4
_STEPS_AFTER = 8
_WORD_BORDER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|[_\W]+")


def task_of(messages: Sequence[Message]) -> tuple[str, str]:
    """``(query, context)``. Without a user's text the system's is the query; both are empty where there is neither."""
    at = next((i for i in reversed(range(len(messages))) if messages[i].get("role") == "user" and _text(messages[i])), None)
    if at is None:
        system = "\n".join(_text(m) for m in messages if m.get("role") in ("system", "developer"))
        return clipped(system.strip(), QUERY_CHARS), _joined(messages[-_STEPS_AFTER:])
    before, after = messages[max(0, at - _TURNS_BEFORE) : at], messages[at + 1 :][-_STEPS_AFTER:]
    return clipped(_text(messages[at]), QUERY_CHARS), _joined([*before, *after])


def called_names(messages: Sequence[Message]) -> list[str]:
    """Names of the tools that the conversation has calls or results of, in order, each once."""
    return list(dict.fromkeys(name for message in messages for name in _names(message)))


def clipped(text: str, most_chars: int) -> str:
    """`text`, or its head and tail where it is longer."""
    if len(text) <= most_chars:
        return text
    half = (most_chars - 3) // 2
    return f"{text[:half]} … {text[-half:]}"


def words_of(name: str) -> str:
    """``travel__searchFlights`` as ``travel search flights``."""
    return " ".join(_WORD_BORDER.sub(" ", name).lower().split())


def _joined(messages: Sequence[Message]) -> str:
    """One line a message, the last ones within `CONTEXT_CHARS`."""
    lines = [line for message in messages for line in _lines(message)]
    kept, room = [], CONTEXT_CHARS
    for line in reversed(lines):
        room -= len(line) + 1
        if room < 0:
            break
        kept.append(line)
    return "\n".join(reversed(kept))


def _lines(message: Message) -> Iterator[str]:
    role = message.get("role")
    if role in ("user", "assistant") and (text := _text(message)):
        yield clipped(text, _TURN_CHARS)
    if role == "assistant" and (names := list(_names(message))):
        yield ", ".join(map(words_of, names))
    if role in ("tool", "function") and (text := _text(message)):
        yield clipped(text, _RESULT_CHARS)


def _names(message: Message) -> Iterator[str]:
    """Of an assistant's calls (both forms), or of the tool whose result this is."""
    calls = message.get("tool_calls")
    candidates = [message.get("function_call"), *(calls if isinstance(calls, list) else ())]
    for call in candidates:
        if not isinstance(call, Mapping):
            continue
        for part in (call.get("function"), call.get("custom"), call):
            name = part.get("name") if isinstance(part, Mapping) else None
            if isinstance(name, str):
                yield name
                break
    if message.get("role") in ("tool", "function") and isinstance(message.get("name"), str):
        yield message["name"]


def _text(message: Message) -> str:
    return text_of(message.get("content")).strip()
