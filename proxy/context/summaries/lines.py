"""Messages as short lines, each with its speaker: what the extractive summary picks from, and what facts are read from. And how a summary
stands in the prompt: as data, between tags that its text cannot close, with one plain sentence before them.

Text is cut into sentences, JSON results into ``key: value`` facts. A line never holds a line end, so that foreign text cannot pass for
another speaker's line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, Literal

import orjson
from msgspec import Struct

from proxy.context.conversation import called_names, named_calls
from proxy.exchange import Message
from proxy.language.json.strings import parse_json
from proxy.language.patterns import wordings
from proxy.language.text import split_sentences, text_of

TAG = "conversation_summary"
_INTROS = wordings(__file__, str)
_OPEN, _CLOSE = f"\n<{TAG}>\n", f"\n</{TAG}>"
_TAG_LIKE = re.compile(rf"<(?=[\s/]{{0,9}}{TAG})", re.IGNORECASE)
_ESCAPED_TAG = re.compile(rf"&lt;(?=[\s/]{{0,9}}{TAG})", re.IGNORECASE)


def summary_message(text: str, language: str = "en") -> Message:
    """A user message that holds `text`; the sentence before it is in `language` (ISO 639-1) where there is one, else in English."""
    return {"role": "user", "content": f"{_INTROS[language]}{_OPEN}{_TAG_LIKE.sub('&lt;', text)}{_CLOSE}"}


def is_summary(message: Message) -> bool:
    """Whether `summary_message` made it."""
    content = message.get("content")
    if message.get("role") != "user" or not isinstance(content, str) or not content.endswith(_CLOSE):
        return False
    return content.startswith(tuple(intro + _OPEN for intro in _INTROS.values()))


def summary_text(message: Message) -> str:
    """The text that `summary_message` was given."""
    content = str(message["content"])
    inner = content[content.index(_OPEN) + len(_OPEN) : -len(_CLOSE)]
    return _ESCAPED_TAG.sub("<", inner)


Kind = Literal["user", "assistant", "call", "tool", "summary"]
MAX_LINE_CHARS = 260
"""A longer sentence is cut into pieces: one alone would take a third of a summary of 200 tokens."""
MAX_JSON_LINE_CHARS = 220
MAX_JSON_LINES = 400
"""Of one tool result."""
_MAX_DEPTH = 12
_MAX_INLINE_CHARS = 90
_CHUNK_CHARS = 4000
_LABEL = re.compile(r"((?:User|Assistant called|Assistant|Tool)(?: [\w.@-]{1,64})?): (.+)")
_SPACE = re.compile(r"\s+")
_MARKUP = re.compile(r"^(?:[-*•>#]+\s+|\|\s*|\d{1,2}[.)]\s+(?=\D))+|\*\*|__(?=\w)|(?<=\w)__")
_NAME = re.compile(r"[^\w.@-]+")


class SpokenLine(Struct, frozen=True):
    """One sentence, or some facts of one JSON object."""

    label: str
    """Whose it is: ``User``, ``Assistant Ann``, ``Tool get_order``, ``Assistant called get_order``."""
    text: str
    kind: Kind
    message: int
    """Position of its message."""


def lines_of(messages: Sequence[Message]) -> list[SpokenLine]:
    """Lines of all messages but the system's, in order."""
    names = called_names(messages)
    return [line for i, message in enumerate(messages) for line in _of_message(message, i, names)]


def label_of(message: Message, names: Mapping[str, str]) -> str:
    """The speaker of a message; `names` are the tools' by call id."""
    role = message.get("role")
    if role in ("tool", "function"):
        name = message.get("name") or names.get(str(message.get("tool_call_id")), "")
        return _label("Tool", name)
    return _label("Assistant" if role == "assistant" else "User", message.get("name"))


def source_texts(messages: Sequence[Message]) -> Iterator[str]:
    """Everything that is said in `messages`, the system's too: texts, names, calls and JSON with its escapes read."""
    for message in messages:
        text = summary_text(message) if is_summary(message) else text_of(message.get("content"))
        yield text
        if "\\u" in text and (value := parse_json(text)) is not None:
            yield orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()
        yield str(message.get("name") or "")
        for call in named_calls(message):
            yield " ".join(call)


def _of_message(message: Message, index: int, names: Mapping[str, str]) -> Iterator[SpokenLine]:
    role = message.get("role")
    if role in ("system", "developer"):
        return
    if is_summary(message):
        yield from _of_summary(summary_text(message), index)
        return
    label = label_of(message, names)
    text = text_of(message.get("content"))
    if role in ("tool", "function"):
        value = parse_json(text)
        results = list(_json_lines(value)) if value is not None else sentences(text)
        yield from (SpokenLine(label, result, "tool", index) for result in results)
        return
    kind: Kind = "assistant" if role == "assistant" else "user"
    yield from (SpokenLine(label, piece, kind, index) for piece in sentences(text))
    for _, name, arguments in named_calls(message):
        value = parse_json(arguments)
        pieces = _json_lines(value) if value else _pieces(clean_line(arguments) or "(no arguments)")
        yield from (SpokenLine(_label("Assistant called", name), piece, "call", index) for piece in pieces)


def _of_summary(text: str, index: int) -> Iterator[SpokenLine]:
    """Lines of an earlier summary keep the speaker they name."""
    for line in text.splitlines():
        match = _LABEL.fullmatch(line.strip())
        label, said = (match[1], match[2]) if match else ("", line.strip())
        yield from (SpokenLine(label, piece, "summary", index) for piece in _pieces(clean_line(said)) if piece)


def sentences(text: str) -> list[str]:
    """The sentences of a text, each on one line, without list and emphasis marks; long ones in pieces."""
    found: list[str] = []
    for paragraph in text.splitlines():
        for chunk in _cut(paragraph, _CHUNK_CHARS):
            for sentence in split_sentences(chunk):
                found += _pieces(clean_line(sentence))
    return found


def clean_line(text: str) -> str:
    """On one line, without the marks of lists, headings and emphasis."""
    return _SPACE.sub(" ", _MARKUP.sub("", text.strip())).strip()


def _pieces(text: str) -> Iterator[str]:
    return _cut(text, MAX_LINE_CHARS)


def _cut(text: str, most: int) -> Iterator[str]:
    """Pieces of at most `most` characters, cut at a comma or a space. A longer word (a blob) is left out, for half of it says nothing."""
    while len(text) > most:
        cut = max(text.rfind(mark, most // 2, most) for mark in (", ", "; ", ": ")) + 1
        cut = cut or text.rfind(" ", 1, most)
        if cut <= 0:
            end = text.find(" ", most)
            text = text[end:].strip() if end > 0 else ""
            continue
        yield text[:cut].strip()
        text = text[cut:].strip()
    if text:
        yield text


def _json_lines(value: Any) -> Iterator[str]:
    """The scalars of each object on lines of their own, small objects inside their parent's."""
    yield from islice((line for items in _walk(value, "", 0) for line in _group_items(items)), MAX_JSON_LINES)


def _walk(value: Any, name: str, depth: int) -> Iterator[list[str]]:
    """The items of each object or list of scalars, with the key that leads to it unless one of its values says it."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, list):
        scalars = [str(item) for item in value if not isinstance(item, dict | list)]
        if scalars:
            yield [f"{name}: {scalars[0]}" if name else scalars[0], *scalars[1:]]
        for item in value:
            if isinstance(item, dict | list):
                yield from _walk(item, name, depth + 1)
        return
    short = {key: text for key, item in value.items() if (text := _short(item)) is not None}
    items = [f"{key}: {text}" for key, text in short.items()]
    if items:
        yield items if not name or name in short.values() else [f"{name} {items[0]}", *items[1:]]
    for key, item in value.items():
        if key not in short:
            yield from _walk(item, str(key), depth + 1)


def _group_items(items: Iterable[str]) -> Iterator[str]:
    """Items on as few lines as hold them."""
    held = ""
    for item in items:
        clean = clean_line(item)
        if held and len(held) + len(clean) + 2 > MAX_JSON_LINE_CHARS:
            yield from _pieces(held)
            held = ""
        held = f"{held}, {clean}" if held else clean
    yield from _pieces(held)


def _short(value: Any) -> str | None:
    """A scalar, or a small flat object or list, as text."""
    if isinstance(value, dict | list):
        items = value.values() if isinstance(value, dict) else value
        if any(isinstance(item, dict | list) for item in items):
            return None
        text = ", ".join(f"{key}: {item}" for key, item in value.items()) if isinstance(value, dict) else ", ".join(map(str, value))
        return f"({text})" if len(text) <= _MAX_INLINE_CHARS else None
    return str(value)


def _label(role: str, name: object) -> str:
    """One word of a name: it comes from the client, or from a tool, and must not look like more than a name."""
    word = _NAME.sub("-", name).strip("-")[:64] if isinstance(name, str) else ""
    return f"{role} {word}" if word else role
