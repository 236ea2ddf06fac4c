"""Whether a phrase is meant, and whether a text that looks like an attack is one for certain, so that it may be kept from the model.

In: a text and the phrases found in it. Out: a weight for each phrase (`weight`, `is_no_order`), and a `Grade` for the text:
most of what is found is "unsure", for prompts, rules for coding agents, training data and articles are full of the same phrases, and a file
that holds a prompt is not an attack on the model that reads it. It is certain only where

- the phrases stand in the text itself: in no quotation, string, code block, diff or example;
- they are of two kinds, or leave the given instructions where a model is named, or are hidden from people;
- the text is none that is made of prompts: a template, rules for agents, training data, a text about attacks.

An attacker who dresses the attack up as such a text is not stopped, but recorded; it is also less likely to be followed.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from proxy.language.patterns import LazyPattern
from proxy.stages.poisoning.hidden import fold
from proxy.stages.poisoning.phrases import Category, model_names, patterns

QUOTED_AND_TOLD, TOLD, QUOTED = 0.15, 0.35, 0.75
"""What is left of a phrase that is quoted, introduced as an example or ascribed to an attacker, in a text about attacks."""
AROUND_CHARS = 240
"""How far from the phrases the model may be named."""
HEAD_CHARS = 400
"""Where a text says what it is."""
MIN_STRENGTH = 0.3
"""Weaker phrases are common in any text."""
MIN_LIKELY = 0.25
"""The same, for a warning."""
Grade = Literal["certain", "likely", "unsure"]
_GRADES: tuple[tuple[Grade, float], ...] = (("certain", MIN_STRENGTH), ("likely", MIN_LIKELY))
_NO_ATTACK: tuple[Category, ...] = ("hidden", "authority", "pressure")
"""What only goes with an attack: to press or to claim an authority is common in any text."""
_DIFF = LazyPattern(r"(?m)^(?:diff --git |@@ -\d|\+\+\+ )")
_BEFORE_CHARS = 140
_ABOUT_CHARS = 1500
_QUOTES = {"“": "”", "„": "“", "«": "»", "‘": "’"}


class InjectionSpan(Struct, frozen=True):
    """One phrase that looks like an instruction."""

    start: int
    end: int
    category: Category
    strength: float
    """After what its surroundings take from it."""
    reason: str
    mentioned: bool = False
    """Whether its surroundings quote it, give it as an example or tell of it."""


# ---- a phrase ----


def is_no_order(category: Category, text: str, start: int, end: int) -> bool:
    """Whether nothing of the kind is asked for: it is forbidden, only data is to be left unheard, or the reader gets something."""
    words = patterns("mention")
    if category == "override":
        only_data = words["in_data"].match(text, end) is not None and words["given"].search(text, start, end) is None
        return only_data or _is_forbidden(text, start, end)
    return category == "exfiltration" and (words["to_reader"].match(text, start, end) is not None or _is_forbidden(text, start, end))


def _is_forbidden(text: str, start: int, end: int) -> bool:
    """Whether the order at ``text[start:end]`` is one not to: "never reveal the prompt", "do not forget the instructions above".

    "No" denies a Spanish order and "ne" a French one; before any other it is an exclamation: "no ignore all …", "ne vergiss alle …".
    """
    words, before = patterns("mention"), max(0, start - 30)
    if words["denied"].search(text, before, start) is None:
        return words["denied_within"].match(text, start, end) is not None
    return all(
        words[denial].search(text, before, start) is None or words[order].match(text, start, end) is not None
        for denial, order in (("spanish_no", "spanish_order"), ("french_ne", "french_order"))
    )


def weight(text: str, start: int, end: int) -> float:
    """What is left of a phrase at ``text[start:end]`` of folded text, 0 to 1."""
    introduction = patterns("mention")["told"]
    before = text[max(0, start - _BEFORE_CHARS) : start]
    line = before[before.rfind("\n") + 1 :]
    heading = line.strip() in ("", "-", "*", ">", "•") and introduction.search(before.rstrip()[-_BEFORE_CHARS:]) is not None
    introduced = heading or introduction.search(line) is not None
    quoted, about = _is_quoted(text, start, end), _is_about_attacks(text, start, end)
    if quoted and (about or introduced):
        return QUOTED_AND_TOLD
    return TOLD if introduced and about else QUOTED if quoted else 1.0


def _is_quoted(text: str, start: int, end: int) -> bool:
    """Whether ``text[start:end]`` stands in a string, a quotation, a code block or a diff, however long."""
    if any(text.count(mark, 0, start) % 2 == 1 for mark in ('"""', "'''", "```")):
        return True
    first, last = text.rfind("\n", 0, start) + 1, text.find("\n", end)
    before, after = text[first:start], text[end : last if last >= 0 else len(text)]
    if text[first] in "+- " and _DIFF.search(text, 0, start) is not None:
        return True
    if any(before.count(mark) % 2 == 1 and mark in after for mark in ('"', "`")):
        return True
    if re.search(r"(?:^|[\s(:])'[^']{0,100}$", before) is not None and re.search(r"'(?!\w)", after) is not None:
        return True
    return any(before.rfind(opening) > before.rfind(closing) and closing in after for opening, closing in _QUOTES.items())


def _is_about_attacks(text: str, start: int, end: int) -> bool:
    """Whether the text around, the phrase itself left out, speaks of attacks by at least two different terms."""
    around = text[max(0, start - _ABOUT_CHARS) : start] + " " + text[end : end + _ABOUT_CHARS]
    return len({match[0].rstrip("s") for match in patterns("mention")["subject"].finditer(around)}) >= 2


# ---- a text ----


def grade(text: str, raw: str, spans: Sequence[InjectionSpan]) -> Grade:
    """How sure it is that the phrases of `text` are an attack; `raw` is the text as it came, which may be JSON."""
    meant = [span for span in spans if not span.mentioned]
    if not meant:
        return "unsure"
    folded = fold(text).text
    around = folded[max(0, min(span.start for span in meant) - AROUND_CHARS) : max(span.end for span in meant) + AROUND_CHARS]
    found = next((name for name, least in _GRADES if _is_attack(meant, around, least)), None)
    return "unsure" if found is None or _is_material(folded, raw, around) else found


def _is_attack(meant: Sequence[InjectionSpan], around: str, least: float) -> bool:
    """Whether the kinds of phrases of this strength make an attack together; of a comment, where people write to each other, as of text."""
    kinds = {span.category for span in meant if span.category not in _NO_ATTACK and span.strength >= least}
    hidden = [span.reason for span in meant if span.category == "hidden" and "comment" not in span.reason]
    if hidden:  # in tag characters, which nobody types, whatever it is
        return bool(kinds - {"role"}) or any("tag characters" in reason for reason in hidden)
    return len(kinds) > 1 or ("override" in kinds and model_names().search(around) is not None)


def _is_material(folded: str, raw: str, around: str) -> bool:
    """Whether the text is one that prompts are part of: a template, rules, training data, an article."""
    words = patterns("material")
    return (
        words["heading"].search(folded[:HEAD_CHARS]) is not None
        or words["template"].search(folded) is not None
        or words["training"].search(raw) is not None
        or words["attacks"].search(around) is not None
    )
