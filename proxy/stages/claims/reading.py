"""Read: what an answer states, and where. Its text's claims, or those in the strings of a JSON answer; those of its refusal. Pure.

In a JSON answer a string of several words is a text with claims of its own; a short one is read with its key (``city: London``), unless
it looks like one of a fixed set of values. Only the former are ever edited: a program may depend on the others. A refusal is shown to a
user as an answer is, and read as it is; a sentence in which the speaker declines, and which says nothing besides, is not checkable.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from proxy.exchange import Choice
from proxy.exchange.judgements import Claim
from proxy.grounding.claims.claims import claims_of
from proxy.language.json.strings import JsonString, looks_json, strings_of
from proxy.offloop import each

STATEMENT_WORDS = 4
"""A string with as many words is a statement."""
MAX_STATEMENTS = 5000
"""Of a choice that are told apart: a book. Each is an entry in lists that the event loop goes through."""
TOO_MANY_STATEMENTS = "too_many_statements"
"""Reason of what stands behind them."""
_FENCED_JSON = re.compile(r"\s*```(?:json)?[ \t]*\n(.*)\n[ \t]*```\s*", re.S | re.I)
_STRING = re.compile(r'"[^"\\]*(?:\\[\s\S][^"\\]*)*(?:"|\\?\Z)')
"""One that never ends goes to the text's end: it is not looked for again from each of the quotation marks within."""
_BARE_VALUE = re.compile(r"[:\[,]\s*(?:-?\d|true|false)")
_FIXED_VALUE = re.compile(r"(?:[a-z][a-z0-9]*(?:[_-][a-z0-9]+)*|[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)*|https?://\S+)")
"""``positive``, ``in_progress``, ``HIGH``, an address."""


class AnswerStatement(Struct, frozen=True):
    """One claim of one choice, and how it can be taken out."""

    claim: Claim
    choice: int
    string: int | None = None
    """Its string's number in a JSON answer."""
    span: tuple[int, int] = (0, 0)
    """Where it stands: in the choice's text, or in its string's value."""
    editable: bool = True
    refusal: bool = False
    """Whether it stands in the choice's refusal, and not in its text."""


def read_choices(choices: Sequence[Choice], question: str, *, json: bool) -> list[AnswerStatement]:
    """The statements of whole choices, at most `MAX_STATEMENTS` of each; `json` where the request asked for JSON."""
    return [statement for choice in each(choices) for statement in bounded(read_choice(choice, question, json=json))]


def read_choice(choice: Choice, question: str, *, json: bool) -> list[AnswerStatement]:
    """The statements of a whole choice; `json` where the request asked for JSON. Of more than `MAX_STATEMENTS` the first, and the last."""
    if not choice.text.strip():
        return []
    start, end = json_part(choice.text) if json else (0, len(choice.text))
    strings = strings_of(choice.text[start:end]) if json or looks_json(choice.text) else None
    if strings is None:
        claims = claims_of(choice.text, question, MAX_STATEMENTS)
        return [AnswerStatement(claim, choice.index, span=(claim.start, claim.end)) for claim in claims]
    found = list[AnswerStatement]()
    for i, string in enumerate(strings):
        found += _of_string(choice.index, i, string, start, question)
        if len(found) > MAX_STATEMENTS:
            behind = (_of_string(choice.index, j, strings[j], start, question) for j in range(len(strings) - 1, i, -1))
            return found + next((last for last in behind if last), [])
    return found


def bounded(statements: list[AnswerStatement]) -> list[AnswerStatement]:
    """At most `MAX_STATEMENTS` of one choice's statements, and one more for all that stands behind them, which nobody judges."""
    if len(statements) <= MAX_STATEMENTS:
        return statements
    first, last = statements[MAX_STATEMENTS], statements[-1]
    claim = replace(first.claim, end=last.claim.end, checkable=True, reason=TOO_MANY_STATEMENTS)
    rest = replace(first, claim=claim, span=(first.span[0], last.span[1]), editable=first.string is None)
    return [*statements[:MAX_STATEMENTS], rest]


def has_bare_values(text: str, *, json: bool) -> bool:
    """Whether a JSON answer has numbers, true or false among its values; `json` where the request asked for JSON."""
    start, end = json_part(text) if json else (0, len(text))
    return (json or looks_json(text)) and _BARE_VALUE.search(_STRING.sub('""', text[start:end])) is not None


def json_part(text: str) -> tuple[int, int]:
    """Where the JSON of an answer stands that should be JSON: all of it, or what a fence of Markdown encloses."""
    fenced = _FENCED_JSON.fullmatch(text)
    return fenced.span(1) if fenced else (0, len(text))


def _of_string(choice: int, number: int, string: JsonString, offset: int, question: str) -> list[AnswerStatement]:
    """The claims of one string; their positions are the literal's, since no character of it need stand for one of its value."""
    place: dict[str, Any] = {"start": string.start + offset, "end": string.end + offset}
    if len(string.value.split()) >= STATEMENT_WORDS:
        found = claims_of(string.value, question, MAX_STATEMENTS)
        return [AnswerStatement(replace(claim, **place), choice, number, (claim.start, claim.end)) for claim in found]
    value = string.value.strip()
    fixed = not any(c.isalnum() for c in value) or _FIXED_VALUE.fullmatch(value) is not None
    text = f"{key_of(string.path)}: {value}" if not fixed and key_of(string.path) else value
    claim = Claim(text, **place, checkable=not fixed, reason="value" if fixed else "")
    return [AnswerStatement(claim, choice, number, (0, len(string.value)), editable=False)]


def key_of(path: str) -> str:
    """The last name in a path, in words: ``$.items[0].release_date`` -> ``release date``."""
    names = [name for name in re.split(r"[.\[\]/'\"$]+", path) if name and not name.isdigit()]
    return re.sub(r"(?<=[a-z])(?=[A-Z])|[_-]+", " ", names[-1]).lower() if names else ""


# ---- refusals ----

_DECLINING = re.compile(
    r"""(?ix) (?:
        \b(?:i|we)\b\W{0,3} (?:(?:a|wi)?m\s|are\s|have\sto\s|must\s|will\s|would\s|do\s|can\s?|could\s|should\s|'?m\s|'?ll\s|'?re\s)?
            (?:just\s|really\s|also\s|simply\s|unfortunately\s|therefore\s)?
            (?:not\s|can't\s|cannot\s|can’t\s|won't\s|won’t\s|couldn't\s|don't\s|shouldn't\s|unable\s)
            (?:\W?\w+){0,4}?\W?
            (?:help|assist|comply|answer|respond|provide|do|support|fulfil\w*|continue|share|discuss|give|offer|create|generate|write|
               engage|participate|process|complete)\b
      | \b(?:i|we)\b (?:\W?\w+){0,3}?\s (?:decline|refuse)\b
      | \b(?:ich|wir)\b .{0,40}\b(?:nicht|keine[nrms]?|nichts)\b .{0,40}\b(?:\w*helfen|unterstützen|beantworten|antworten|dienen|erfüllen|
            nachkommen|anbieten|geben|machen|tun|besprechen|bereitstellen|schreiben|erstellen)\b
      | \b(?:ich|wir)\b .{0,30}\b(?:ab(?:lehnen)?|lehne[n]?)\b
      | \bno\s(?:puedo|podemos|debo|debemos|voy\sa|vamos\sa)\s (?:\w+\s){0,2}
            (?:ayudar|asistir|responder|contestar|cumplir|proporcionar|dar|ofrecer|hacer|continuar|hablar|escribir|crear|generar|compartir)\w{0,4}\b
      | \b(?:je|nous)\s ne\s (?:\w+\s)? (?:peux|pouvons|vais|allons|dois|devons)\s (?:\w+\s){0,2}pas\b .{0,20}
            \b(?:aider|assister|répondre|fournir|donner|faire|continuer|traiter|écrire|créer|partager|satisfaire|accéder)\b
    )"""
)
_BESIDES = re.compile(
    r"(?i)\d|[;:—–]|,\s*\w+\s+\w+\s+\w+|\b(?:because|since|but|although|though|whereas|while|as|and|which|"
    r"weil|denn|aber|obwohl|während|da|und|dass|porque|pues|pero|aunque|mientras|y|car|puisque|parce|mais|quoique|tandis|et)\b"
)
"""Where a sentence goes on to say something of the world: a value, another clause."""
MAX_DECLINING_WORDS = 18


def declines(text: str) -> bool:
    """Whether a sentence says that its speaker does not help, and nothing besides."""
    return len(text.split()) <= MAX_DECLINING_WORDS and _DECLINING.search(text) is not None and _BESIDES.search(text) is None


def read_refusals(choices: Sequence[Choice], question: str) -> list[AnswerStatement]:
    """The statements in what `choices` refuse with."""
    return [statement for choice in choices for statement in read_refusal(choice, question)]


def read_refusal(choice: Choice, question: str) -> list[AnswerStatement]:
    """All statements of a choice's refusal."""
    claims = claims_of(choice.refusal, question) if choice.refusal.strip() else []
    return [AnswerStatement(_mark_refusal(claim), choice.index, span=(claim.start, claim.end), refusal=True) for claim in claims]


def _mark_refusal(claim: Claim) -> Claim:
    return replace(claim, checkable=False, reason="refusal") if claim.checkable and declines(claim.text) else claim
