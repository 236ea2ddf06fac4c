"""What texts hold that a summary must not lose: identifiers, numbers, dates, names, negations, calls without a result. Pure functions."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Literal

from msgspec import Struct

from proxy.context.summaries.lines import SpokenLine, calls_of, label_of
from proxy.context.summaries.words import FUNCTION_WORDS, NEGATION, fold, is_german
from proxy.exchange import Message

FactKind = Literal["identifier", "date", "time", "number"]
_FACT = re.compile(
    r"(?P<url>https?://[^\s<>\"'`\])}]{1,2000})"
    r"|(?P<email>[\w.+-]{1,64}@[\w-]{1,63}(?:\.[\w-]{1,63}){1,8})"
    r"|(?P<path>(?<![\w/.])(?:~|\.{1,2})?/(?:[\w.@-]{1,255}/){0,40}[\w.@-]{2,255}|(?<![\w/])(?:[\w.@-]{1,255}/){1,40}[\w@-]{1,255}\.[a-z]\w{0,5}\b"
    r"|\b[A-Za-z]:\\[\w.\\-]{2,255}|\b[\w-]{1,100}\.(?:py|js|ts|tsx|json|ya?ml|md|txt|csv|sql|log|toml|html|css|pdf|docx?|xlsx?|png|jpe?g|sh"
    r"|go|rs|java|cpp|h|zip|gz|ipynb|cfg|ini|env)\b)"
    r"|(?P<date>(?<![\w-])(?:\d{4}-\d{2}-\d{2}|\d{1,2}/\d{1,2}/\d{2,4}|\d{1,2}\.\d{1,2}\.\d{4})(?!\d))"
    r"|(?P<time>(?<![\w:])\d{1,2}:\d{2}(?::\d{2})?(?!\d))"
    r"|(?P<code>(?<![\w-])\#?(?=[A-Za-z_\-]{0,64}\d)(?=[\d_\-]{0,64}[A-Za-z])[A-Za-z\d]{1,128}(?:[_-][A-Za-z\d]{1,128}){0,16})"
    r"|(?P<number>(?:[$€£¥]\s?)?\d+(?:[.,'’\u00a0\u202f]\d+)*(?:\s?[%€$£¥])?)"
)
_MAYBE = re.compile(r"[\d/@\\]|\.\w")
"""Without any of these a text has no fact; most lines of a chat have none."""
_QUANTITY = re.compile(r"\d+(?:-?[a-z]{1,3}|-[a-z]+|[A-Z]{2}|[KMB])", re.ASCII)
"""Letters after a number that make it an ordinal, a time or a quantity: ``20th``, ``3pm``, ``5GB``, ``30-day``."""
_UPPER = "A-ZÀ-ÖØ-Þ"
_NAMES = re.compile(rf"(?<![\w'’])[{_UPPER}][\w’'&-]*(?: (?:(?:of|the|de|la|von|van|der|du|del) )?[{_UPPER}][\w’'&-]*){{0,7}}")
_START = re.compile(r"(?:^|[.!?:;•\n\"“„«(\]*|>-])\s*$")


class KeptFact(Struct, frozen=True):
    """An identifier, a date, a time or a number as it stands in a text."""

    kind: FactKind
    text: str


def literals(text: str) -> list[KeptFact]:
    """Identifiers, dates, times and numbers of a text, in order."""
    if _MAYBE.search(text) is None:
        return []
    found = []
    for match in _FACT.finditer(text):
        group, value = match.lastgroup, match[0]
        if group == "code" and _QUANTITY.fullmatch(value):
            group = "number"
        if group in ("date", "time", "number"):
            found.append(KeptFact(group, value.strip()))  # type: ignore[arg-type]
        else:
            found.append(KeptFact("identifier", value.rstrip(".,;:!?")))
    return found


def names(text: str) -> list[str]:
    """Named entities: sequences of capitalised words, not counting the first word of a sentence.

    In German, where every noun has a capital, only sequences of two and more and words with further capitals.
    """
    german = is_german(text)
    return [name for name, _ in capitalised(text) if not german or is_name_in_german(name)]


def is_name_in_german(name: str) -> bool:
    """Whether a capitalised sequence is more than a noun."""
    return " " in name or not name[1:].islower()


def capitalised(text: str) -> Iterator[tuple[str, bool]]:
    """Capitalised words and sequences that are no function words; True where the sequence starts its sentence."""
    for match in _NAMES.finditer(text):
        words = match[0].split(" ")
        at_start = _START.search(text[max(0, match.start() - 4) : match.start()]) is not None
        while words and (_empty(words[0]) or words[0][0].islower()):
            words, at_start = words[1:], False
        while words and (_empty(words[-1]) or words[-1][0].islower()):
            words = words[:-1]
        if words and not (at_start and len(words) == 1 and (len(words[0]) == 1 or words[0][1:].islower())):
            yield " ".join(word.removesuffix("'s").removesuffix("’s") for word in words), at_start


def has_negation(text: str) -> bool:
    """Whether `text` denies something."""
    return NEGATION.search(fold(text)) is not None


def open_calls(messages: Sequence[Message]) -> tuple[str, ...]:
    """Ids of tool calls that no message answers."""
    answered = {str(message.get("tool_call_id")) for message in messages if message.get("role") == "tool"}
    return tuple(id_ for message in messages for id_, _, _ in calls_of(message) if id_ and id_ not in answered)


def open_call_lines(messages: Sequence[Message]) -> list[str]:
    """One line for each call without a result."""
    wanted = set(open_calls(messages))
    calls = [(label_of(m, {}), id_, name) for m in messages for id_, name, _ in calls_of(m) if id_ in wanted]
    return [f"{label} called: {name} (open call {id_})" for label, id_, name in calls]


def as_text(line: SpokenLine) -> str:
    """``User: I prefer the train.``"""
    return f"{line.label}: {line.text}" if line.label else line.text


def _empty(word: str) -> bool:
    bare = re.split(r"['’]", fold(word))[0]
    return bare in FUNCTION_WORDS
