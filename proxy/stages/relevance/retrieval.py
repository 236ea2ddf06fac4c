"""What a request's search has brought: nothing at all, passages for an earlier question, and what else stands in the conversation."""

from __future__ import annotations

import re
from collections.abc import Sequence

from proxy.context.conversation import last_user
from proxy.context.passages import passages_of, retrieval_results
from proxy.context.passages.blocks import marked_blocks
from proxy.context.passages.finding import is_empty_json, is_empty_text
from proxy.exchange import Evidence, Exchange, Message
from proxy.language.json.strings import parse_json
from proxy.language.patterns import LazyPattern
from proxy.language.text import text_of
from proxy.offloop import each

_INSTRUCTING = ("system", "developer")
_MARK_ALONE = re.compile(r"[ \t]{0,8}(?:[<#*\[`\"'~=-]|[^\n]{0,200}:$)")
"""A line that begins with a mark or ends in a colon: a tag within a sentence is spoken of."""
_LIST_OF_SOURCES = LazyPattern(r"\b(?:sources|quellen|fuentes|references|referenzen|referencias|références)[ \t:*]{0,8}\Z", re.I)
"""A heading with nothing below it: as often the end of an answer's outline as a place for passages."""


def usable(exchange: Exchange) -> list[int]:
    """Positions of the passages that say something."""
    return [i for i, passage in enumerate(each(exchange.passages)) if holds_text(passage.content)]


def nothing_found(exchange: Exchange) -> str:
    """How it is known that the search for this question has nothing to show; "" where there was no search, or it has."""
    if exchange.original.has_context and not any(holds_text(p.content) for p in exchange.original.passages):
        return "groundwire.context is empty"
    results = retrieval_results(exchange.original.messages, exchange.retrieval_tools)
    if results and not any(map(holds_text, results)):
        return "the search found nothing"
    messages = exchange.original.messages
    if _current(_client_passages(exchange), messages):
        return "no passage was left in the context"
    if any(_has_empty_place(messages[i]) for i in _current_messages(messages)):
        return "the prompt's place for passages is empty"
    return ""


def _has_empty_place(message: Message) -> bool:
    """Whether a prompt's template has a place for passages with nothing in it."""
    role = str(message.get("role"))
    if role not in (*_INSTRUCTING, "user"):
        return False
    text = text_of(message.get("content"))
    marked = marked_blocks(text, role)
    if not marked or any(holds_text(block.content) for block in marked):
        return False
    before = text[: marked[-1].start].rstrip()
    mark = text[marked[-1].start :] if text[marked[-1].start :].startswith("[") else before.rpartition("\n")[2]
    return _MARK_ALONE.match(mark) is not None and not _LIST_OF_SOURCES.search(before)


def holds_text(passage: str) -> bool:
    """Whether a passage or a tool's result says more than that there is nothing."""
    value = parse_json(passage)
    return not is_empty_text(passage) and (value is None or not is_empty_json(value))


def _client_passages(exchange: Exchange) -> list[Evidence]:
    """The passages of the request, before any stage took some away."""
    found = (*exchange.original.passages, *passages_of(exchange))
    return [p for p in found if holds_text(p.content)]


def is_for_another_question(exchange: Exchange) -> bool:
    """Whether all passages came before the user last wrote."""
    passages = _client_passages(exchange)
    return bool(passages) and not _current(passages, exchange.original.messages)


def _current(passages: Sequence[Evidence], messages: Sequence[Message]) -> list[Evidence]:
    """Those that came for the question at hand: with the request, in the instructions, or since the user last wrote."""
    current = _current_messages(messages)
    return [passage for passage in passages if passage.message_index is None or passage.message_index in current]


def _current_messages(messages: Sequence[Message]) -> set[int]:
    """The instructions', and those since the user last wrote."""
    since = last_user(messages) or 0
    return {i for i, message in enumerate(messages) if i >= since or message.get("role") in _INSTRUCTING}


def rest_of_talk(exchange: Exchange) -> list[str]:
    """What else the model has before it: the talk without its passages and without what the user asked."""
    passages: dict[int, list[str]] = {}
    for passage in exchange.passages:
        if passage.message_index is not None:
            passages.setdefault(passage.message_index, []).append(passage.content)
    found, last = [], last_user(exchange.conversation)
    for i, message in enumerate(exchange.conversation):
        text = text_of(message.get("content"))
        for passage_text in passages.get(i, ()):
            text = text.replace(passage_text, "\n")
        asked = message.get("role") == "user" and (i == last or text.rstrip().endswith(("?", "？")))
        if text.strip() and not asked and holds_text(text):
            found.append(text)
    return found
