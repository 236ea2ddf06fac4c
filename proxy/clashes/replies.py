"""What the user answers to a question of `proxy.clashes.asking`: an option, its number, free text, or nothing to do with it.

All four languages are read whichever the question was put in: people switch. A reply is understood where it can mean one thing only;
"2" to the options "a table for 2" and "a table for 4" cannot, and the question stays open. Every pattern is bounded.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Literal

from msgspec import Struct

from proxy.clashes.asking import Question
from proxy.clashes.kinds import Statement
from proxy.clashes.places import is_known
from proxy.clashes.slots import read_slots
from proxy.grounding.values.quantities import read_quantities

Choice = Literal["older", "newer", "both", "neither", "other", "open"]
"""``other``: something else on the same matter, which then holds in place of both. ``open``: the reply does not answer."""
_CHOICES: tuple[Choice, Choice, Choice] = ("older", "newer", "both")
MAX_ANSWER_WORDS = 40
"""A longer reply is a message of its own, in which a word of an option does not answer the question."""
_SHORT_WORDS = 8
_STEM = 5
"""Words that begin with the same letters, so many, count as the same: vegetarian, vegetarisch; luxus, luxuriös."""


class Reply(Struct, frozen=True):
    """What was understood."""

    choice: Choice
    text: str = ""
    """What the user said, where it holds in place of both."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ORDINALS: tuple[frozenset[str], ...] = (
    _words(
        "1 1st first one former erste erster erstes ersten erstere ersteres eins primera primero primer uno premier premiere "
        "older earlier old previous original fruhere fruheren alte alten vorherige vorherigen ursprungliche ursprunglichen anterior "
        "antigua antiguo precedente precedent ancien ancienne"
    ),
    _words(
        "2 2nd second two latter zweite zweiter zweites zweiten letztere letzteres zwei segunda segundo dos deuxieme second seconde deux "
        "newer newest new latest recent neue neuen neuere neueren neueste neuesten nueva nuevo reciente nouveau nouvelle recente"
    ),
    _words("3 3rd third three dritte dritter drittes dritten drei tercera tercero tres troisieme trois"),
)
_COUNTING = _words("1 2 3 one two three eins zwei drei uno dos tres deux trois")
"""In a longer reply they count something: "two adults"."""
_FILLERS = _words(
    "i id ill im d ll m s would will like want prefer choose choosing pick take go going with for the that this it is lets let us use "
    "option number no nr answer choice statement version thing please thanks thank you ok okay well then rather my your and hm so yes "
    "anything but most mas plus "
    "ich nehme nimm mochte will wahle wurde gerne gern lieber die der das den dem bitte danke nummer antwort angabe also dann mir fur ja "
    "yo quiero prefiero elijo escojo me quedo con la el lo los las opcion numero por favor gracias pues si "
    "je j veux prefere choisis prends plutot le les l numero reponse svp sil s il vous te plait merci alors oui c est ce"
)
_NUMBERED = re.compile(
    r"\b(?:option|number|nummer|opcion|numero|nr|no|choice|antwort|reponse|variante)\s{0,2}[.°º#:]?\s{0,2}(\d{1,2}|[a-z]{2,9})\b|#\s?(\d)"
)
_LEADING_NUMBER = re.compile(r"\W{0,4}(\d)\s{0,2}(?:[.):;,–-]|$)")
_NEGATORS = _words("not nicht pas never kein keine keinen keines ni ne dont dislike sin without ohne sans")
_REACH = 3
"""So many words behind a negation are negated."""
_CONTRAST = re.compile(
    r"\b(?:instead of|rather than|anything but|(?:an)?statt|anstelle von|en vez de|en lugar de|au lieu de|plutot que|nicht mehr|"
    r"no longer|forget|vergiss|olvida|oublie[zr]?|not|nicht|pas(?! mal))\b"
)
"""What follows is what the user does not want."""
_NEGATED_NO = re.compile(r"\bno (?!(?:,|the|i|it|wait|thanks|thank|sorry|go|let|make|use|longer|preference|se|me|prefiero)\b|,)(?=\w)")
"""A "no" that denies what follows, and does not answer something."""
_FLEXIBLE_ALONE = re.compile(
    r"\b(?:flexible|flexibel|flexibles|both|either|whichever|whatever|any|anything(?! but)|beides|beide|egal|ambos|ambas|cualquiera|"
    r"les deux|l un ou l autre|las dos|los dos|lo mismo|indifferent|indiferente|n importe)\b"
)
_FLEXIBLE = re.compile(
    r"\b(?:(?:i am|i m|im|ich bin|soy|je suis|stay|remain)(?: (?:quite|very|pretty|ganz|da|bastante|assez|tout a fait))? fle?xib(?:le|el)|"
    r"(?:does not|doesn t|doesnt|don t|dont|do not) (?:really )?(?:matter|mind|care)|no (?:strong )?preferences?|"
    r"(?:both|either)(?: (?:one|of them|options?))? (?:is|are|works?|would be|will do|sounds?)|up to you|you (?:choose|decide)|"
    r"keine praferenz|spielt keine rolle|ist mir (?:ganz |vollig |eigentlich )?(?:egal|gleich|wurscht|recht)|"
    r"mir (?:ganz |vollig )?egal|beides (?:geht|passt|ist|ware)|such (?:du )?(?:dir )?(?:es |was )?aus|entscheide du|"
    r"(?:me )?da (?:igual|lo mismo)|sin preferencia|no me importa|(?:ambos|ambas|los dos|las dos) (?:me )?(?:valen|sirven|estan|van)|"
    r"tu (?:eliges|decides)|como quieras|peu m? ?importe|m est egal|sans preference|pas de preference|"
    r"les deux (?:me )?(?:vont|conviennent|sont)|comme (?:tu|vous) (?:veux|voulez)|a toi de (?:choisir|voir)|a vous de (?:choisir|voir))\b"
)
_NOT_FLEXIBLE = re.compile(r"\b(?:not|nicht|no|pas|kein\w{0,2}|nada) (?:\w{1,12} )?(?:fle?xib|egal|both|beid|either|any\b)")
_NEITHER = re.compile(
    r"\b(?:neither|none of (?:them|these|those|the)|keine?[rs]? (?:von|davon|der) ?(?:beiden|denen|den beiden)?|"
    r"weder noch|"
    r"ningun[oa]?(?: de (?:los|las) dos| de ellas| de ellos)|ni (?:la )?una? ni (?:la )?otr[ao]|"
    r"aucun\w?(?: des deux)?|ni l un\w? ni l autre)\b"
)
_UNSURE = re.compile(
    r"\b(?:(?:not|nicht|pas) (?:so |ganz |really |yet )?(?:sure|sicher|certain|sur)|(?:don t|dont|do not) know|can(?:no|n?)t? ?t? decide|"
    r"weiss (?:ich )?(?:es )?(?:noch )?nicht|weiss nicht|kann mich nicht entscheiden|no (?:lo )?se\b|no estoy segur[oa]|"
    r"je ne sais pas|sais pas)\b"
)
_BARE_AMOUNT = re.compile(r"\b\d{2,7}\b\s?(?:[€$£¥]|(?:eur(?:os?)?|dollars?|usd|gbp|pounds?|chf|francs?|franken)\b)", re.I)
"""Money, also where "1200 €" could be a year."""
_BOUNDED = re.compile(
    r"\b(?:nicht mehr als|no more than|not more than|not over|no mas de|pas plus de|not only|nicht nur|no solo|pas seulement)\b"
)
"""A "not" that denies nothing."""
_NAME = re.compile(r"(?<=[\w,;:] )[^\W\d_a-zß-ÿ][\w-]*|\d[\d.,]*")
"""What is written large within a sentence, and numbers."""
_TURNS = _words("but sondern sino mais aber pero ,")
"""Behind them a negation is over."""
_STOP = _words(
    "a an the i my me we our you your to of in on at for with and or is are be am was it that this these those want like prefer would "
    "need please have has do not no make let s d m ll t "
    "ich mir mich mein meine meinen wir uns unser der die das den dem des ein eine einen einem einer zu von im in am auf fur mit und oder "
    "ist sind war bin mochte will hatte gern gerne lieber bitte nicht kein keine es doch "
    "yo mi mis me nos un una el la los las lo de del en a con para por y o es son era quiero prefiero gusta no "
    "je j moi mon ma mes nous un une le la les l de du des en a au aux avec pour et ou est sont prefere veux voudrais aime ne pas c qu que"
)


def read_reply(said: str, question: Question, *, on_topic: Callable[[str], bool] | None = None) -> Reply:
    """What `said`, the user's next message, answers to `question`.

    `on_topic` tells whether a text states something on the matter itself; without it, free text counts only where it speaks of both
    sides ("budget on weekdays, luxury at weekends").
    """
    plain = _folded(said)
    words = plain.split()
    if not words or len(words) > MAX_ANSWER_WORDS:
        return Reply("open")
    sides = _sides(question)
    stops = _folded(said, commas=True)
    choice = _listed(plain, question)
    if choice is None and not _asks(said, words) and not _UNSURE.search(plain):
        choice = _stance(plain, words) or _numbered(said, stops, sides) or _denied(plain, question)
        choice = choice or _named(stops, _sides(question, strong=True)) or _named(stops, sides) or _described(words)
        if choice is None and on_topic is not None and on_topic(said):
            choice = "other"
    return Reply(choice or "open", " ".join(said.split()) if choice == "other" else "")


def speaks_of(said: str, older: Statement, newer: Statement) -> bool:
    """Whether a reply gives a value for what the two statements are about: an amount, a date, a place, a word of the same list."""
    sides = [value for statement in (older, newer) for value in statement.slots]
    slots, units = {value.slot for value in sides}, {value.unit for value in sides if value.unit}
    if any(value.slot in slots for value in read_slots(said, newer.language)):
        return True
    read = read_quantities(said, newer.language)
    if units and (any(number.dimension in units or not number.dimension for number in read.numbers) or _BARE_AMOUNT.search(said)):
        return True
    if read.dates and slots & {"date", "birthday"}:
        return True
    return bool(slots & {"location", "destination", "departure"}) and is_known(_folded(said))


def _listed(plain: str, question: Question) -> Choice | None:
    """The reply is an option's text, or has one option's whole text in it."""
    texts = [_folded(option) for option in question.options]
    there = [choice for choice, text in zip(_CHOICES, texts, strict=True) if text and (text in plain or plain in (text, text.strip(".")))]
    return there[0] if len(there) == 1 and not _negated_before(plain, texts[_CHOICES.index(there[0])]) else None


def _negated_before(plain: str, text: str) -> bool:
    before = plain[: max(plain.find(text), 0)].split()[-_REACH:]
    return any(word in _NEGATORS or word == "no" for word in before)


def _numbered(said: str, stops: str, sides: Sequence[frozenset[str]]) -> Choice | None:
    """The reply is a number, or names one: "2", "option 2", "die zweite bitte", "not the first one"."""
    words = [word for word in stops.split() if word != ","]
    found = {number for match in _NUMBERED.finditer(stops) if (number := _ordinal(match[1] or match[2] or "")) is not None}
    if not found:
        found = _bare(said, words)
        if len(found) == 1 and _is_a_value(words, next(iter(found)), sides):
            return "open"
    if len(found) != 1:
        return None
    number = found.pop()
    if any(word in _NEGATORS for word in words) or _NEGATED_NO.search(stops) or "anything but" in stops:
        return _CHOICES[1 - number] if number < 2 else None
    return _CHOICES[number]


def _bare(said: str, words: Sequence[str]) -> set[int]:
    """The number that the reply is, or begins with."""
    leading = _LEADING_NUMBER.match(said)
    if leading and not re.search(r"\d", said[leading.end() :]):
        return {n for n in (_ordinal(leading[1]),) if n is not None}
    rest = [word for word in words if word not in _FILLERS and word not in _NEGATORS]
    if not all(_ordinal(word) is not None for word in rest):
        return set()
    found = {n for word in rest if (n := _ordinal(word)) is not None}
    strong = {n for word in rest if word not in _COUNTING and (n := _ordinal(word)) is not None}
    return strong if len(found) > 1 and strong else found  # "the second one"


def _ordinal(word: str) -> int | None:
    return next((number for number, names in enumerate(_ORDINALS) if word in names), None)


def _is_a_value(words: Sequence[str], number: int, sides: Sequence[frozenset[str]]) -> bool:
    """Whether a bare number is also what another option is about: "2", where the first option is a table for 2."""
    digits = [word for word in words if word.isdigit()]
    return any(digit in side for digit in digits for other, side in enumerate(sides) if other != number)


def _stance(plain: str, words: Sequence[str]) -> Choice | None:
    """Flexible, or neither."""
    if _NEITHER.search(plain):
        return "neither" if len(words) <= _SHORT_WORDS else None
    if _NOT_FLEXIBLE.search(plain):
        return None
    said = sum(word not in _FILLERS for word in words)
    if _FLEXIBLE.search(plain) or (said <= _SHORT_WORDS // 2 and len(words) <= _SHORT_WORDS and _FLEXIBLE_ALONE.search(plain)):
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
    if (for_older or against_newer) and not (for_newer or against_older):
        return "older"
    if (for_newer or against_older) and not (for_older or against_newer):
        return "newer"
    return None


def _denied(plain: str, question: Question) -> Choice | None:
    """Where one option denies what the other says, a reply that denies, too, is for that one: a "no" in it does not turn it round."""
    texts = [_folded(option) for option in question.options[:2]]
    denying = [_denies(text) for text in texts]
    if denying[0] == denying[1] or not _denies(plain):
        return None
    index = denying.index(True)
    return _CHOICES[index] if _hits(plain.split(), frozenset(texts[index].split()) - _STOP) else "open"


def _denies(plain: str) -> bool:
    words = _BOUNDED.sub(" ", plain).split()
    return any(
        word in _NEGATORS or word in ("no", "never", "nie", "nunca", "jamais", "ninguna", "ningun", "aucun", "aucune") for word in words
    )


def _described(words: Sequence[str]) -> Choice | None:
    """By a word for one of the two, with hardly anything else: "the old address"."""
    found = [n for word in words if word not in _COUNTING and (n := _ordinal(word)) is not None]
    first = next((i for i, word in enumerate(words) if word not in _FILLERS), 0)
    close = len(words) <= _SHORT_WORDS // 2 and len(set(found)) == 1 and _ordinal(words[first]) is not None
    return _CHOICES[found[0]] if close and not any(word in _NEGATORS or word == "no" for word in words) else None


def _polarised(plain: str) -> tuple[list[str], list[str]]:
    """The reply's words that it is for, and those that it is against."""
    wanted: list[str] = []
    unwanted: list[str] = []
    left = 0
    for word in _CONTRAST.sub(" \0 ", _NEGATED_NO.sub(" \0 ", _BOUNDED.sub(" ", plain))).split():
        if word == "\0" or word in _NEGATORS:
            left = _REACH + 2
        elif word in _TURNS:
            left = 0
        else:
            (unwanted if left else wanted).append(word)
            left = max(0, left - 1)
    return wanted, unwanted


def _hits(words: Collection[str], side: frozenset[str]) -> int:
    return sum(any(_same(word, other) for other in side) for word in set(words) - _STOP)


def _same(one: str, other: str) -> bool:
    if one == other:
        return True
    return min(len(one), len(other)) >= _STEM and one[:_STEM] == other[:_STEM] and not one.isdigit()


def _sides(question: Question, *, strong: bool = False) -> tuple[frozenset[str], frozenset[str]]:
    """The words that only one of the two options has; the `strong` ones are names and numbers."""
    older, newer = (frozenset(_folded(option).split()) - _STOP for option in question.options[:2])
    only = _only(older, newer), _only(newer, older)
    if not strong:
        return only
    names = [frozenset(_folded(" ".join(_NAME.findall(option))).split()) for option in question.options[:2]]
    return only[0] & names[0], only[1] & names[1]


def _only(words: frozenset[str], others: frozenset[str]) -> frozenset[str]:
    return frozenset(word for word in words if not any(_same(word, other) for other in others))


def _asks(said: str, words: Sequence[str]) -> bool:
    """Whether it is a question of its own: "luxury?" is still an answer."""
    return "?" in said and len(words) > _SHORT_WORDS // 2


def _folded(text: str, *, commas: bool = False) -> str:
    """Words and numbers in lower case without accents, one space between; with `commas`, these too."""
    return " ".join(word for word in _tokens(text) if commas or word != ",")


def _tokens(text: str) -> Iterator[str]:
    plain = unicodedata.normalize("NFKD", text.casefold().replace("ß", "ss"))
    for match in re.finditer(
        r"\d+(?:[.,]\d+)*(?:(?:st|nd|rd|th|er|eme)\b)?|[^\W\d_]+|[#,]", "".join(c for c in plain if not unicodedata.combining(c))
    ):
        yield match[0]
