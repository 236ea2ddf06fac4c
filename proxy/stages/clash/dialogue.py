"""The proxy's questions in the history that the client sends back, and what the user replied to them. Pure functions over messages."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

from proxy.exchange import Exchange, Message
from proxy.language.patterns import LazyPattern
from proxy.language.text import text_of
from proxy.stages.clash.asking.questions import ClashQuestion, asked
from proxy.stages.clash.asking.replies import Choice, read_reply


class Dialogue(Struct, frozen=True):
    """What the history has about one question."""

    times: int
    """How often it was asked."""
    reply: Choice | None = None
    """The first that was understood."""
    message: int | None = None
    """Position of that reply."""


def dialogue_about(messages: Sequence[Message], question: ClashQuestion) -> Dialogue:
    """How often the question was asked, and what the user said to it."""
    times = 0
    for i, message in enumerate(messages):
        if message.get("role") != "assistant" or not asked(text_of(message.get("content")), question):
            continue
        times += 1
        at = _next_user(messages, i)
        if at is None:
            continue
        reply = read_reply(text_of(messages[at].get("content")), question)
        if reply != "open":
            return Dialogue(times, reply, at)
    return Dialogue(times)


def _next_user(messages: Sequence[Message], i: int) -> int | None:
    """The user message that follows `i` before the assistant speaks again."""
    for j in range(i + 1, len(messages)):
        if messages[j].get("role") == "user":
            return j
        if messages[j].get("role") == "assistant":
            return None
    return None


def is_task(text: str, stated: Sequence[str]) -> bool:
    """Whether a user's message asks for something beside what it has `stated`: to answer it with a question would leave that undone."""
    for statement in stated:
        text = text.replace(statement, " ", 1)
    return any(c.isalnum() for c in _COURTESY.sub(" ", text))


_COURTESY = LazyPattern(
    r"\b(?:hi|hello|hey|hallo|hola|bonjour|salut|good (?:morning|afternoon|evening)|guten (?:morgen|tag|abend)|buen[oa]s (?:días|tardes)|"
    r"thanks?(?: you| a lot)?|thank you|danke(?: schön| sehr)?|(?:muchas )?gracias|merci(?: beaucoup)?|ok(?:ay)?|fine|great|good|"
    r"gut|bien|vale|and|but|also|actually|please|sorry|no|well|now|und|aber|bitte|y|pero|et|mais)\b",
    re.I,
)


def may_ask(exchange: Exchange) -> bool:
    """Whether a person can be asked now: they spoke last, and what they wait for is one text in words."""
    last, wants = exchange.original.messages[-1], exchange.wants
    return last.get("role") == "user" and wants.choices == 1 and wants.free_text
