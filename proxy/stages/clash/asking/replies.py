"""What the user answers to a question of `proxy.stages.clash.asking.questions`: an option, its number, free text, or nothing to do with it.

All four languages are read whichever the question was put in: people switch. A reply is understood where it can mean one thing only;
"2" to the options "a table for 2" and "a table for 4" cannot, and the question stays open. Every pattern is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Literal

from msgspec import Struct

from proxy.grounding.clashes.kinds import Statement
from proxy.stages.clash.asking.questions import ClashQuestion
from proxy.stages.clash.asking.reply_cues import (
    BOUNDED,
    BY_THEN,
    CHANGED,
    CONTRAST,
    COUNTING,
    FILLERS,
    FLEXIBLE,
    FLEXIBLE_ALONE,
    LEADING_NUMBER,
    NAME,
    NEGATED_NO,
    NEGATORS,
    NEITHER,
    NOT_FLEXIBLE,
    NUMBERED,
    ORDINALS,
    REACH,
    STOP,
    TURNS,
    UNSURE,
    WRONG,
    folded,
    spelled_out,
)
from proxy.stages.clash.asking.reply_values import chosen_by_value

Choice = Literal["older", "newer", "both", "neither", "other", "open"]
"""``other``: something else on the same matter, which then holds in place of both. ``open``: the reply does not answer."""
_CHOICES: tuple[Choice, Choice, Choice] = ("older", "newer", "both")
_ORDINAL_END = re.compile(r"(?<=\d)(?:st|nd|rd|th|er|eme)$")
_LETTERS = ("a", "b", "c")
MAX_ANSWER_WORDS = 40
"""A longer reply is a message of its own, in which a word of an option does not answer the question."""
_SHORT_WORDS = 8
_FIRST_CLAUSE = re.compile(
    r"([^,.;:!?\n–—]{1,60}?)(?:[,.;:!?–—](?=\s)|\n|\s-\s|\s(?=(?:but|and|aber|und|pero|y|mais|et)\s))\s*(?=\S)", re.I
)
_LIST_ITEM = re.compile(r"(?:^|\s)\d[.)]\s")
"""The reply is a numbered list of the user's own."""
_STEM = 5
"""Words that begin with the same letters, so many, count as the same: vegetarian, vegetarisch; luxus, luxuriös."""


class UserReply(Struct, frozen=True):
    """What was understood."""

    choice: Choice
    text: str = ""
    """What the user said, where it holds in place of both."""


def read_reply(said: str, question: ClashQuestion, about: tuple[Statement, Statement] | None = None) -> UserReply:
    """What `said`, the user's next message, answers to `question`.

    `about` are the two statements: with them a value for the same thing counts, too ("700 €", "Hamburg"); without them free text
    counts only where it speaks of both sides ("budget on weekdays, luxury at weekends").
    """
    plain = folded(said)
    words = plain.split()
    if not words or len(words) > MAX_ANSWER_WORDS:
        return UserReply("open")
    choice = _listed(plain, question)
    if choice is None and not UNSURE.search(plain):
        asks = _asks(said, words)
        choice = None if asks else _stance(plain, words)
        choice = choice or _opening(said, question)
        if choice is None and not asks:
            choice = _chosen(said, plain, question) or (chosen_by_value(said, *about) if about is not None else None)
    return UserReply(choice or "open", " ".join(said.split()) if choice == "other" else "")


def _chosen(said: str, plain: str, question: ClashQuestion) -> Choice | None:
    """By what is said to have changed or to be wrong, by number, by what only one option denies, by its own words, by a word for it."""
    sides = _sides(question)
    stops = folded(said, commas=True)
    if question.of_facts and (choice := _changed(plain, sides)) is not None:
        return choice
    choice = _numbered(said, stops, sides) or _denied(plain, question)
    choice = choice or _named(stops, _sides(question, strong=True)) or _named(stops, sides)
    return choice or _described(plain.split())


def _changed(plain: str, sides: Sequence[frozenset[str]]) -> Choice | None:
    """Of two facts: "it changed", "the first one is wrong", "London was a mistake"; "an error" alone does not say which."""
    words = plain.split()
    denied = any(word in NEGATORS or word == "no" for word in words)
    if WRONG.search(plain):
        number = next((n for word in words if (n := _ordinal(word)) is not None and n < 2), None)
        named = [index for index, side in enumerate(sides) if _hits(words, side)]
        wrong = named[0] if len(named) == 1 else number
        return "open" if wrong is None or denied else _CHOICES[1 - wrong]
    return "newer" if CHANGED.search(plain) and not denied and len(words) <= _SHORT_WORDS else None


def _opening(said: str, question: ClashQuestion) -> Choice | None:
    """An option's number that the reply begins with before it goes on: "the first one, but steak for my wife"."""
    clause = _FIRST_CLAUSE.match(said)
    if clause is None:
        return None
    first, rest = clause[1], said[clause.end() :]
    choice = _numbered(first, folded(first, commas=True), _sides(question))
    if choice in (None, "open") or _LIST_ITEM.search(rest) or _bare(rest, folded(rest).split()):
        return None
    named = {number for word in folded(rest).split() if word not in COUNTING and (number := _ordinal(word)) is not None}
    return choice if named <= {_CHOICES.index(choice)} else None


def _listed(plain: str, question: ClashQuestion) -> Choice | None:
    """The reply is an option's text, or has one option's whole text in it."""
    texts = [folded(option) for option in (*question.sides, question.options[2])]
    there = [choice for choice, text in zip(_CHOICES, texts, strict=True) if text and (text in plain or plain in (text, text.strip(".")))]
    return there[0] if len(there) == 1 and not _negated_before(plain, texts[_CHOICES.index(there[0])]) else None


def _negated_before(plain: str, text: str) -> bool:
    before = plain[: max(plain.find(text), 0)].split()[-REACH:]
    return any(word in NEGATORS or word == "no" for word in before)


def _numbered(said: str, stops: str, sides: Sequence[frozenset[str]]) -> Choice | None:
    """The reply is a number, or names one: "2", "option 2", "die zweite bitte", "not the first one"."""
    words = [word for word in stops.split() if word != ","]
    letter = _letter(words)
    if letter is not None:
        return _CHOICES[letter]
    found = {number for match in NUMBERED.finditer(stops) if (number := _ordinal(match[1] or match[2] or "")) is not None}
    if not found:
        found = _bare(said, words)
        if len(found) == 1 and _is_a_value(words, next(iter(found)), sides):
            return "open"
    if len(found) != 1:
        return None
    number = found.pop()
    if any(word in NEGATORS for word in words) or NEGATED_NO.search(stops) or "anything but" in stops:
        return _CHOICES[1 - number] if number < 2 else None
    return _CHOICES[number]


def _bare(said: str, words: Sequence[str]) -> set[int]:
    """The number that the reply is, or begins with."""
    leading = LEADING_NUMBER.match(said)
    if leading and not re.search(r"\d", said[leading.end() :]):
        return {n for n in (_ordinal(leading[1]),) if n is not None}
    rest = [word for word in words if word not in FILLERS and word not in NEGATORS]
    if not all(_ordinal(word) is not None for word in rest):
        return set()
    found = {n for word in rest if (n := _ordinal(word)) is not None}
    strong = {n for word in rest if word not in COUNTING and (n := _ordinal(word)) is not None}
    return strong if len(found) > 1 and strong else found  # "the second one"


def _letter(words: Sequence[str]) -> int | None:
    """The place of the option's letter that the reply is, where somebody counts in letters: "b", "option B, please"."""
    rest = [word for word in words if word in _LETTERS or word not in FILLERS]
    return _LETTERS.index(rest[0]) if len(rest) == 1 and rest[0] in _LETTERS else None


def _ordinal(word: str) -> int | None:
    return next((number for number, names in enumerate(ORDINALS) if word in names), None)


def _is_a_value(words: Sequence[str], number: int, sides: Sequence[frozenset[str]]) -> bool:
    """Whether a bare number is also what another option is about: "2", where the first option is a table for 2."""
    digits = [word for word in words if word.isdigit()]
    return any(digit in side for digit in digits for other, side in enumerate(sides) if other != number)


def _stance(plain: str, words: Sequence[str]) -> Choice | None:
    """Flexible, or neither."""
    if NEITHER.search(plain):
        return "neither" if len(words) <= _SHORT_WORDS else None
    if NOT_FLEXIBLE.search(plain):
        return None
    said = sum(word not in FILLERS for word in words)
    if FLEXIBLE.search(plain) or (said <= _SHORT_WORDS // 2 and len(words) <= _SHORT_WORDS and FLEXIBLE_ALONE.search(plain)):
        return "both"
    return None


def _named(plain: str, sides: Sequence[frozenset[str]]) -> Choice | None:
    """By the words in which the two options differ: those that the reply wants, against those that it does not."""
    older, newer = sides
    wanted, unwanted = _polarised(plain)
    for_older, for_newer = _hits(wanted, older), _hits(wanted, newer)
    against_older, against_newer = _hits(unwanted, older), _hits(unwanted, newer)
    if for_older and for_newer:
        return None if against_older or against_newer else "other"
    if BY_THEN.search(plain):  # "Berlin was before": so it is the other, or neither
        return "open"
    if (for_older or against_newer) and not (for_newer or against_older):
        return "older"
    if (for_newer or against_older) and not (for_older or against_newer):
        return "newer"
    return None


def _denied(plain: str, question: ClashQuestion) -> Choice | None:
    """Where one option denies what the other says, a reply that denies, too, is for that one: a "no" in it does not turn it round."""
    texts = [folded(option) for option in question.sides]
    denying = [_denies(text) for text in texts]
    if denying[0] == denying[1] or not _denies(plain):
        return None
    index = denying.index(True)
    return _CHOICES[index] if _hits(plain.split(), frozenset(texts[index].split()) - STOP) else "open"


def _denies(plain: str) -> bool:
    words = BOUNDED.sub(" ", spelled_out(plain)).split()
    return any(
        word in NEGATORS or word in ("no", "never", "nie", "nunca", "jamais", "ninguna", "ningun", "aucun", "aucune") for word in words
    )


def _described(words: Sequence[str]) -> Choice | None:
    """By a word for one of the two, with hardly anything else: "the old address"."""
    found = [n for word in words if word not in COUNTING and (n := _ordinal(word)) is not None]
    first = next((i for i, word in enumerate(words) if word not in FILLERS), 0)
    close = len(words) <= _SHORT_WORDS // 2 and len(set(found)) == 1 and _ordinal(words[first]) is not None
    return _CHOICES[found[0]] if close and not any(word in NEGATORS or word == "no" for word in words) else None


def _polarised(plain: str) -> tuple[list[str], list[str]]:
    """The reply's words that it is for, and those that it is against."""
    wanted: list[str] = []
    unwanted: list[str] = []
    left = 0
    for word in CONTRAST.sub(" \0 ", NEGATED_NO.sub(" \0 ", BOUNDED.sub(" ", spelled_out(plain)))).split():
        if word == "\0" or word in NEGATORS:
            left = REACH + 2
        elif word in TURNS:
            left = 0
        else:
            (unwanted if left else wanted).append(word)
            left = max(0, left - 1)
    return wanted, unwanted


def _hits(words: Collection[str], side: frozenset[str]) -> int:
    return sum(any(_same(_ORDINAL_END.sub("", word), other) for other in side) for word in set(words) - STOP)


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    return min(len(one), len(other)) >= _STEM and one[:_STEM] == other[:_STEM] and not one.isdigit()


def _sides(question: ClashQuestion, *, strong: bool = False) -> tuple[frozenset[str], frozenset[str]]:
    """The words that only one of the two options has; the `strong` ones are names and numbers."""
    older, newer = (frozenset(folded(option).split()) - STOP for option in question.sides)
    only = _only(older, newer), _only(newer, older)
    if not strong:
        return only
    names = [frozenset(folded(" ".join(NAME.findall(option))).split()) for option in question.sides]
    return only[0] & names[0], only[1] & names[1]


def _only(words: frozenset[str], others: frozenset[str]) -> frozenset[str]:
    return frozenset(word for word in words if not any(_same(word, other) for other in others))


def _asks(said: str, words: Sequence[str]) -> bool:
    """Whether it is a question of its own: "luxury?" is still an answer."""
    return "?" in said and len(words) > _SHORT_WORDS // 2
