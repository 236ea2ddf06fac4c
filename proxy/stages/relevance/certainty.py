"""What is known of a context's origin and of the measure's reach: why an answer in the model's stead, or a warning, would be a guess.

Each function says why not, in words for the record, or "" where nothing speaks against it. An answer in the model's stead takes a right
answer away from a user whenever it is wrong, so that everything that is not known counts against it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence

from proxy.context.conversation import last_user
from proxy.context.passages import find_passages, retrieval_results
from proxy.context.passages.blocks import find_blocks, marked_blocks, told_blocks
from proxy.context.passages.context_block import read_written
from proxy.context.passages.empty_results import is_empty_json, is_empty_text
from proxy.context.question import Question
from proxy.exchange import Evidence, Exchange, Message
from proxy.language.detection import language
from proxy.language.patterns import LazyPattern
from proxy.language.text import text_of
from proxy.language.word_overlap import Vocabulary, content_words, words

MEASURED_LANGUAGES = frozenset(("en", "de", "es"))
"""Of questions and passages in ``benchmarks.relevance``."""
MEASURED_WORDS = 70
"""99 of 100 passages of XQuAD's training half have more. Of a line or two a cosine says little: "Guests check out by eleven" answers
"By what hour must the room be vacated?"."""
OVERLAP = 0.2
"""From this share on (`Vocabulary`) a word of the question counts as found, in another form or in a compound."""

_INSTRUCTING = ("system", "developer")
_ABBREVIATION = LazyPattern(r"\b[A-ZÄÖÜ]{2,6}s?\b")
_MARK_ALONE = re.compile(r"[ \t]{0,8}(?:[<#*\[`\"'~=-]|[^\n]{0,200}:$)")
"""A line that begins with a mark or ends in a colon: a tag within a sentence is spoken of."""
_LIST_OF_SOURCES = LazyPattern(r"\b(?:sources|quellen|fuentes|references|referenzen|referencias|références)[ \t:*]{0,8}\Z", re.I)
"""A heading with nothing below it: as often the end of an answer's outline as a place for passages."""


# ---- nothing was found ----


def nothing_found(exchange: Exchange) -> str:
    """How it is known that the search for this question has nothing to show; "" where there was no search, or it has."""
    if exchange.original.has_context and not any(holds_text(p.content) for p in exchange.original.passages):
        return "groundwire.context is empty"
    results = retrieval_results(exchange.original.messages, exchange.retrieval_tools)
    if results and not any(map(holds_text, results)):
        return "the search found nothing"
    messages = exchange.original.messages
    if _current(_as_sent(exchange), messages):
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
    if is_empty_text(passage):
        return False
    try:
        return passage.lstrip()[:1] not in ("{", "[") or not is_empty_json(json.loads(passage))
    except (ValueError, RecursionError):
        return True


def _as_sent(exchange: Exchange) -> list[Evidence]:
    """The passages of the request, before any stage took some away."""
    found = (*exchange.original.passages, *find_passages(exchange.original.messages, exchange.retrieval_tools))
    return [p for p in found if holds_text(p.content)]


# ---- where passages come from ----


def why_not_retrieved(exchange: Exchange) -> str:
    """Why the request's passages are not, all of them, what a search has found for this question."""
    passages = _as_sent(exchange)
    if any(_is_pasted(p, exchange.original.messages) for p in passages):
        return "the user gave a passage"
    if any(_is_told(p, exchange.original.messages) for p in passages):
        return "a passage may be what the operator wrote"
    if passages and not _current(passages, exchange.original.messages):
        return "nothing was retrieved for this question"
    return ""


def _current(passages: Sequence[Evidence], messages: Sequence[Message]) -> list[Evidence]:
    """Those that came for the question at hand: with the request, in the instructions, or since the user last wrote."""
    current = _current_messages(messages)
    return [passage for passage in passages if passage.message_index is None or passage.message_index in current]


def _current_messages(messages: Sequence[Message]) -> set[int]:
    """The instructions', and those since the user last wrote."""
    since = last_user(messages) or 0
    return {i for i, message in enumerate(messages) if i >= since or message.get("role") in _INSTRUCTING}


def _is_told(passage: Evidence, messages: Sequence[Message]) -> bool:
    """Whether it stands in a system message that has no mark for passages, only a sentence that leads to them."""
    message = messages[passage.message_index] if passage.message_index is not None else {}
    if message.get("role") not in _INSTRUCTING:
        return False
    text = text_of(message.get("content"))
    return bool(told := told_blocks(text, "system")) and told == find_blocks(text, "system")


def _is_pasted(passage: Evidence, messages: Sequence[Message]) -> bool:
    """Whether it stands in a user's message without a retriever's score or this project's own frame around it."""
    at = passage.message_index
    if at is None or messages[at].get("role") != "user" or passage.score is not None:
        return False
    return all(passage.content != block.content for block in read_written(text_of(messages[at].get("content")))[0])


# ---- how far the measure reaches ----


def why_not_measured(question: Question, passages: Sequence[Evidence]) -> str:
    """Why a low probability of these passages says less than it did where it was measured."""
    if not question.asks:
        return "it asks for no fact"
    if question.unresolved:
        return question.unresolved
    if _ABBREVIATION.search(question.text):
        return "an abbreviation, which a passage may spell out"
    if language(question.text, default="") not in MEASURED_LANGUAGES:
        return "a question in a language that was not measured"
    for passage in passages:
        if len(words(passage.content)) < MEASURED_WORDS:
            return "a passage shorter than those that were measured"
        if language(passage.content, default="") not in MEASURED_LANGUAGES:
            return "a passage in a language that was not measured"
    return ""


def in_another_language(question: Question, passages: Sequence[Evidence]) -> bool:
    """Whether a passage is in another language than the question: that they share no word then says nothing."""
    tongue = language(question.text, default="")
    return any(language(passage.content, default=tongue) != tongue for passage in passages)


def shares_words(question: Question, texts: Sequence[str]) -> bool:
    """Whether a word of the question stands in one of `texts`, in whatever form."""
    wanted = [word for word in content_words(question.text) if not word.isdigit()]
    return any(Vocabulary(text).closest(wanted) >= OVERLAP for text in texts)


def rest_of_talk(exchange: Exchange) -> list[str]:
    """What else the model has before it: the talk without its passages and without what the user asked."""
    passages: dict[int, list[str]] = {}
    for passage in exchange.passages:
        if passage.message_index is not None:
            passages.setdefault(passage.message_index, []).append(passage.content)
    found = []
    for i, message in enumerate(exchange.conversation):
        text = text_of(message.get("content"))
        for passage_text in passages.get(i, ()):
            text = text.replace(passage_text, "\n")
        asked = message.get("role") == "user" and (i == _last_user(exchange) or text.rstrip().endswith(("?", "？")))
        if text.strip() and not asked and holds_text(text):
            found.append(text)
    return found


def _last_user(exchange: Exchange) -> int:
    return max((i for i, message in enumerate(exchange.conversation) if message.get("role") == "user"), default=-1)
