"""What the user answers to a question of `proxy.stages.clash.asking.questions`: an option by its number, its letter or its own words.

All four languages are read whichever the question was put in: people switch. Anything else, a denial too, leaves the question open: the
model reads the reply as well, and what it means is not guessed at here.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Sequence
from typing import Literal

from proxy.stages.clash.asking.questions import ClashQuestion

Choice = Literal["older", "newer", "both", "open"]
"""``open``: the reply does not answer."""
_CHOICES: tuple[Choice, Choice, Choice] = ("older", "newer", "both")
MAX_ANSWER_WORDS = 40
"""A longer reply is a message of its own, in which a word of an option does not answer the question."""
_SHORT_WORDS = 8
_STEM = 5
"""Words that begin with the same letters, so many, count as the same: vegetarian, vegetarisch; luxus, luxuriös."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ORDINALS = (
    _words("1 a 1st first one former erste erster erstes ersten eins primera primero uno premier premiere"),
    _words("2 b 2nd second two latter zweite zweiter zweites zweiten zwei segunda segundo dos deuxieme second seconde deux"),
    _words("3 c 3rd third three dritte dritter drittes dritten drei tercera tercero tres troisieme trois"),
)
_COUNTING = _words("one two three eins zwei drei uno dos tres deux trois")
"""Weaker than a number in figures or an ordinal: "the second one" is the second."""
_FILLERS = _words(
    "i id ill ll d will would like want prefer choose pick take go going with for the that this it is lets let us option number no nr "
    "answer choice please thanks thank you ok okay well then rather my and so yes "
    "ich nehme mochte will wahle gerne gern lieber die der das den bitte danke nummer antwort also dann ja "
    "yo quiero prefiero elijo la el lo opcion numero por favor gracias si "
    "je veux prefere choisis prends plutot le les l numero reponse s il vous te plait merci oui"
)
_NUMBERED = re.compile(r"\b(?:option|number|nummer|opcion|numero|antwort|reponse) (?:# )?(\d{1,2}|[a-z]{1,9})\b|# (\d)\b")
_LEADING_NUMBER = re.compile(r"\W{0,4}([123])\s{0,2}(?:[.):;,–-](?!\d)|$)")
_LIST_ITEM = re.compile(r"(?:^|\s)\d[.)]\s")
_DENIAL = re.compile(
    r"\b(?:not|n t|nicht|pas|never|kein\w{0,2}|ni|ne|without|ohne|sin|sans|nor|neither|none|weder|ningun\w?|aucun\w?|no|"
    r"instead|rather than|anything but|(?:an)?statt|en (?:vez|lugar) de|au lieu|forget|vergiss|olvida|oublie[zr]?|nada|was|were|war|era|"
    r"etait|antes|avant|wrong|mistake|errors?|fehler|falsch|erreur|fausse?|equivocad[oa])\b"
)
"""The reply denies something: which of the two is a question of meaning."""
_LEADING_NO = re.compile(r"\W{0,4}(?:no|nein|non)\s?,\s?", re.I)
"""It answers something else, and not what follows."""
_BOTH = re.compile(
    r"\b(?:flexible|flexibel|both|either|whichever|whatever|up to you|beides|egal|ambos|ambas|cualquiera|da igual|les deux|las dos|los dos|"
    r"peu importe|m est egal|(?:do not|don t) (?:mind|care))\b"
)
_STOP = _words(
    "a an the i my me we our you your to of in on at for with and or is are be am was it that this these those have has do make let s d m "
    "t by from as so about only just still also really very there here now then no not want like prefer would need please love good day "
    "ich mir mich mein meine meinen wir uns unser der die das den dem des ein eine einen einem einer zu von im in am auf fur mit und oder "
    "ist sind bei als auch noch nur bin es yo mi mis me nos un una el la los las lo de del en con para por como muy solo y o es son soy "
    "je j moi mon ma mes nous une le les l du des au aux avec pour comme tres et ou est sont suis que c qu gern gerne hatte mochte prefiero"
)


def read_reply(said: str, question: ClashQuestion) -> Choice:
    """What `said`, the user's next message, answers to `question`."""
    plain = folded(_LEADING_NO.sub("", said))
    words = plain.split()
    if not words or len(words) > MAX_ANSWER_WORDS:
        return "open"
    if len(words) <= _SHORT_WORDS and _BOTH.search(plain) and not _DENIAL.search(plain):
        return "both"
    return _listed(plain, question) or _numbered(said, plain, question) or _named(said, plain, question) or "open"


def folded(text: str) -> str:
    """Words, numbers and ``#`` in lower case without accents, one space between."""
    plain = unicodedata.normalize("NFKD", text.casefold().replace("ß", "ss"))
    bare = "".join(c for c in plain if not unicodedata.combining(c))
    return " ".join(re.findall(r"\d+(?:[.,]\d+)*(?:(?:st|nd|rd|th|er|eme)\b)?|[^\W\d_]+|#", bare))


def _listed(plain: str, question: ClashQuestion) -> Choice | None:
    """The reply is an option's text, or has one option's whole text in it and nothing that denies."""
    found = set[Choice]()
    for choice, bare, option in zip(_CHOICES, (*question.sides, question.options[2]), question.options, strict=True):
        text = folded(bare)
        if plain in (text, folded(option)):
            return choice
        if text and text in plain and not _DENIAL.search(plain.replace(text, " ")):
            found.add(choice)
    return found.pop() if len(found) == 1 else None


def _numbered(said: str, plain: str, question: ClashQuestion) -> Choice | None:
    """The reply is a number, begins with one, or names one: "2", "2 - with a view", "option 2", "die zweite bitte"."""
    leading = _LEADING_NUMBER.match(said)
    if leading and _LIST_ITEM.search(said[leading.end() :]):
        return "open"
    found = {n for match in _NUMBERED.finditer(plain) if (n := _ordinal(match[1] or match[2])) is not None}
    if not found and leading:
        found = {int(leading[1]) - 1}
    if not found:
        rest = [word for word in plain.split() if word not in _FILLERS]
        numbers = [_ordinal(word) for word in rest]
        if rest and None not in numbers:
            strong = {n for word, n in zip(rest, numbers, strict=True) if word not in _COUNTING}
            found = {n for n in strong or set(numbers) if n is not None}
    if len(found) != 1 or _DENIAL.search(plain):
        return "open" if found else None
    return "open" if _is_a_value(plain, found, _sides(question)) else _CHOICES[found.pop()]


def _is_a_value(plain: str, numbers: Collection[int], sides: Sequence[frozenset[str]]) -> bool:
    """Whether the whole reply is a number that another option is about, too: "2", where the first option is a table for 2."""
    return plain.isdigit() and any(plain in side for other, side in enumerate(sides) if other not in numbers)


def _ordinal(word: str) -> int | None:
    return next((number for number, names in enumerate(_ORDINALS) if word in names), None)


def _named(said: str, plain: str, question: ClashQuestion) -> Choice | None:
    """A reply with words that one option alone has, and nothing that denies."""
    words = plain.split()
    if _DENIAL.search(plain) or ("?" in said and len(words) > _SHORT_WORDS // 2):
        return None
    hits = [sum(any(_same(word, other) for other in side) for word in set(words) - _STOP) for side in _sides(question)]
    return _CHOICES[0 if hits[0] else 1] if any(hits) and not all(hits) else None


def _sides(question: ClashQuestion) -> tuple[frozenset[str], frozenset[str]]:
    """The words that only one of the two options has."""
    older, newer = (frozenset(folded(option).split()) - _STOP for option in question.sides)
    return _only(older, newer), _only(newer, older)


def _only(words: frozenset[str], others: frozenset[str]) -> frozenset[str]:
    return frozenset(word for word in words if not any(_same(word, other) for other in others))


def _same(one: str, other: str) -> bool:
    return one == other or (min(len(one), len(other)) >= _STEM and one[:_STEM] == other[:_STEM] and not one.isdigit())
