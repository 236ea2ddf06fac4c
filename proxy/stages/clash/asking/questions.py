"""Two statements that clash -> the question that the proxy puts to the user, with numbered options built from both sides.

English, German, Spanish and French; any other language is asked in English. The wording is a pure function of the two statements, so
that the question is found again in the history that the client sends with the next turn (`asked`).
"""

from __future__ import annotations

import re
import unicodedata

from msgspec import Struct

from proxy.grounding.clashes.kinds import Statement, StatementClash
from proxy.language.wordings import wordings

MAX_OPTION_CHARS = 140
"""A longer statement is cut at a word: the user knows what they said."""
LANGUAGES = ("en", "de", "es", "fr")
_MARKUP = re.compile(r"[*_`#>|]{1,8}|^\s{0,8}(?:[-•–]|\(?\d{1,2}[.)])\s+", re.M)
_LEAD_IN = re.compile(
    r"(?:(?:oh|ah|hm+|no|nein|non|wait|sorry|actually|well|okay|ok|and|but|also|now|then|moment|warte|eigentlich|doch|also|und|aber|ach|nun|"
    r"bueno|espera|en realidad|perdón|pero|además|y|mejor dicho|en fait|finalement|attends|mais|et|alors|pardon|on second thoughts?)"
    r"(?:\s*(?:,|-|–|—|\.{3}|…|:)\s*|\s+(?=no,|wait)))+",
    re.I,
)
"""What opens a correction or carries on from the sentence before."""


class _Words(Struct, frozen=True):
    """One language's wording."""

    choice: str
    """Where the user said both."""
    facts: str
    """Where the context says both."""
    flexible: str
    error: str
    changed: str
    both: str
    end: str


_WORDS = wordings(__file__, _Words)


class ClashQuestion(Struct, frozen=True):
    """What the user is asked."""

    text: str
    """All of it, with the numbered options."""
    options: tuple[str, str, str]
    """The older side, the newer side, and that both are fine; of two facts, that the other one is an error, that it has changed, and that
    both are right."""
    language: str = "en"
    of_facts: bool = False
    """Whether the two say what is so, and not what somebody wants."""

    @property
    def sides(self) -> tuple[str, str]:
        """The two statements alone."""
        older, newer = self.options[:2]
        words = _WORDS[self.language]
        return (older.removesuffix(f" ({words.error})"), newer.removesuffix(f" ({words.changed})")) if self.of_facts else (older, newer)

    @property
    def listed(self) -> str:
        """The options as they stand in the text: what tells one question from another."""
        return "\n".join(f"{number}. {option}" for number, option in enumerate(self.options, 1))


def question_of(clash: StatementClash, language: str = "") -> ClashQuestion:
    """The question about `clash`, in `language` (ISO 639-1) or else the newer statement's."""
    return question(clash.older, clash.newer, language)


def question(older: Statement, newer: Statement, language: str = "") -> ClashQuestion:
    """The question which of two statements counts."""
    tongue = language or newer.language
    words = _WORDS[tongue]
    both = older.origin in ("user", "memory") and newer.origin in ("user", "memory")
    of_facts = older.kind == newer.kind == "fact"
    options = (_option(older), _option(newer), words.flexible)
    if of_facts:
        options = (f"{options[0]} ({words.error})", f"{options[1]} ({words.changed})", words.both)
    made = ClashQuestion("", options, tongue if tongue in _WORDS else "en", of_facts)
    lead = words.choice if both else words.facts
    return ClashQuestion(f"{lead}\n\n{made.listed}\n\n{words.end}", options, made.language, of_facts)


def asked(said: str, about: ClashQuestion) -> bool:
    """Whether `said`, an assistant's message, asks this question, whatever the client has done to its white space."""
    return _plain(about.listed) in _plain(said)


def without_lead_in(text: str) -> str:
    """A statement without the words by which it carries on from another: "Actually, make it luxury" -> "Make it luxury"."""
    match = _LEAD_IN.match(text)
    rest = text[match.end() :].lstrip() if match else text
    return rest[:1].upper() + rest[1:] if rest and match else text


def _option(statement: Statement) -> str:
    """A statement in one line, with its source where it is not the user's own word."""
    text = " ".join(_MARKUP.sub(" ", statement.text).split()).strip(" \"'“”„«»")
    if statement.slot.startswith("field:"):  # of a record: its name tells what the value is of
        text = f"{statement.slot.removeprefix('field:').replace('_', ' ')}: {text}"
    text = without_lead_in(text)
    if len(text) > MAX_OPTION_CHARS:
        cut = text.rfind(" ", MAX_OPTION_CHARS // 2, MAX_OPTION_CHARS)
        text = text[: cut if cut > 0 else MAX_OPTION_CHARS].rstrip(" ,;:") + " …"
    source = " ".join(statement.source.split())[:60]
    return f"{text} ({source})" if source and statement.origin in ("tool_result", "passage") else text


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())
