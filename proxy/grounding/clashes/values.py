"""Values of what one person or one deployment has one of: their one normal form, whatever the language, and which two exclude each other.

In: the words of a value, as `clashes.plain` finds them, and the words of ``lexicon.toml``. Out: a text that is the same for the same value,
or None where the words are none; and whether two values cannot both hold: Kreuzberg lies in Berlin, a vegan eats no cheese. A place that no
list has may lie anywhere. Only closed lists: of meetings or ideas one has another number every hour, and of most tools several.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from proxy.grounding.clashes.kinds import Declaration
from proxy.language.dates import read_dates
from proxy.language.number_words import MAIN_LANGUAGES, word_value
from proxy.language.patterns import LazyPattern
from proxy.language.quantities import MONEY, read_quantities
from proxy.language.text import fold

LEXICON: dict[str, Any] = tomllib.loads(Path(__file__).with_name("lexicon.toml").read_text(encoding="utf-8"))
"""Lists of words, each by its name."""
REPLY_LANGUAGE = "reply language"
PRODUCTION = frozenset(("", "production", "prod"))
PRODUCT_PLACES = frozenset(LEXICON["products"])
_LINKS = frozenset(("de", "la", "del", "las", "los", "am", "der", "of", "the", "upon", "sur", "le", "les", "den", "an", "von", "van", "du"))
_ARTICLE = re.compile(r"^(?:the |la |las |los |el |les |le |l['’])", re.I)
_NO_NAMES = frozenset(LEXICON["no_names"].split())
BUDGET_SHARE = 0.05
"""Budgets that differ by less are the same, rounded."""
_PHONE_DIGITS = 7
"""As many last digits are the same whether or not the country's number stands before them."""
_TOGETHER = {"zweit": 2, "dritt": 3, "viert": 4, "fünft": 5, "sechst": 6}
"""Of "zu zweit"."""
_OMITTED_PARTS = {
    "vegan": frozenset(("meat", "pork", "fish", "dairy")),
    "vegetarian": frozenset(("meat", "pork", "fish")),
    "pescatarian": frozenset(("meat", "pork")),
}
_WHOLES = {"sons": "children", "daughters": "children", "brothers": "siblings", "sisters": "siblings", "dogs": "pets", "cats": "pets"}
"""What is counted in another number, too."""
_PRICE_LEVEL = LazyPattern(
    r"\b(?:(?P<low>cheap\w*|budget(?! is|\w| of|:)|affordable|inexpensive|günstig\w*|billig\w*|barat\w+|económic\w+|bon marché|pas chers?)|"
    r"luxur\w+|deluxe|upscale|luxus\w*|luxuriös\w*|(?:de )?luj\w+|(?:de )?luxe)\b",
    re.I,
)


def words_of(listed: str) -> list[str]:
    """The words of a list."""
    return [word.replace("_", " ") for word in listed.split()]


def value_of(attribute: str, text: str, language: str) -> str | None:
    """The normal form of a value of `attribute`: ``berlin``, ``500 EUR``, ``05-14``; None where the words are no such value."""
    return _READERS.get(attribute, _kind)(text, language)


def values_in(text: str, sort: str, language: str) -> dict[str, tuple[int, int]]:
    """The values of one sort that a text names, and where: ``time``, the same for both halves of the day where the text does not say which,
    ``budget`` or ``price level``.
    """
    if sort == "price level":
        return {_level(match[0]): match.span() for match in _PRICE_LEVEL.finditer(text)}
    read = read_quantities(text, language)
    if sort == "time":
        return {"/".join(str(minute) for minute in sorted(time.minutes)): (time.start, time.end) for time in read.times}
    money = (number for number in read.numbers if number.dimension in MONEY)
    return {f"{number.base_values()[0]:g}": (number.start, number.end) for number in money}


def _level(words: str) -> str:
    found = _PRICE_LEVEL.match(words)
    return "low" if found is not None and found["low"] else "high"


def _name(text: str, language: str) -> str | None:
    """A name: each word with a capital letter, or a small word that names have."""
    words = text.replace(",", " ").split()
    known = is_known_place(fold(text))
    if not known and not all(word[0].isupper() or (i and word in _LINKS) for i, word in enumerate(words)):
        return None
    plain = " ".join(fold(text).strip(" .,'").split())
    return None if plain in _NO_NAMES else plain


def _place(text: str, language: str) -> str | None:
    name = _name(text, language)
    return place(name) if name is not None else None


def _employer(text: str, language: str) -> str | None:
    name = _name(text, language)
    return None if name is None or is_known_place(name) else name


def _day(text: str, language: str) -> str | None:
    """One day of the year, and nothing else."""
    dates = read_dates(text)
    if len(dates) != 1 or (dates[0].start, dates[0].end) != (0, len(text.rstrip(" ."))) or dates[0].decade:
        return None
    readings = {(month, day) for _, month, day in dates[0].readings}
    return "/".join(f"{month:02d}-{day:02d}" for month, day in sorted(readings)) if all(month and day for month, day in readings) else None


def _count(text: str, language: str) -> str | None:
    """How many, in figures or words; not none."""
    word = text.lower()
    tongues = (language, *MAIN_LANGUAGES) if language in MAIN_LANGUAGES else MAIN_LANGUAGES
    number = float(word) if word.isdigit() else next((v for tongue in tongues if (v := word_value(word, tongue)) is not None), None)
    number = _TOGETHER.get(word) if number is None else number
    return f"{number:g}" if number and (word.isdigit() or number < 200) else None


def _how_many(text: str, language: str) -> str | None:
    """How many there are, none among them."""
    word = fold(text)
    if word in words_of(LEXICON["none"]):
        return "0"
    return "1" if word in LEXICON["one"].split() else _count(text, language)


def _workplace(text: str, language: str) -> str | None:
    """A known place, since much else that somebody works in has a capital letter; also in "unser Londoner Büro"."""
    name = fold(text).strip()
    found = next(
        (
            one
            for one in (name, name.removesuffix("er"), f"{name.removesuffix('er')}en", f"{name.removesuffix('ner')}en")
            if is_known_place(one)
        ),
        None,
    )
    return None if found is None else place(found)


def _money(text: str, language: str) -> str | None:
    """``500 EUR``; the unit is left out where none is said."""
    quantities = read_quantities(text.strip(), language).numbers
    if len(quantities) != 1:
        return None
    return f"{quantities[0].base_values()[0]:g} {quantities[0].dimension}".strip()


def _food(text: str, language: str) -> str | None:
    word = re.sub(r"^(?:eine[mnr]? |einen )", "", _ARTICLE.sub("", fold(text)))
    return word if word.endswith("ss") else word.removesuffix("s") or None


def _kind(text: str, language: str) -> str | None:
    """One name for a word of a closed list, whatever the language."""
    plain = fold(text)
    if plain == "pescado":
        return "fish"
    return next((kind for kind, stems in LEXICON["kinds"].items() if plain.startswith(tuple(stems.split()))), None)


def _language_name(text: str, language: str) -> str | None:
    return next((name for name, words in LEXICON["tongues"].items() if text.lower() in words.split()), None)


_READERS: dict[str, Callable[[str, str], str | None]] = {
    **dict.fromkeys(("name", "nickname"), _name),
    **dict.fromkeys(("age", "people"), _count),
    "location": _place,
    "employer": _employer,
    "workplace": _workplace,
    "number": _how_many,
    "product": lambda text, _: text,
    "email": lambda text, _: text.lower(),
    "phone": lambda text, _: re.sub(r"\D", "", text)[-_PHONE_DIGITS:],
    "birthday": _day,
    "budget": _money,
    "allergy": _food,
    REPLY_LANGUAGE: _language_name,
}


# ---- things, products ----


def thing(word: str) -> str:
    """What is counted, whatever the language and the number."""
    plain = fold(word)
    return next((name for name, words in LEXICON["things"].items() if plain in map(fold, words.split())), plain)


def product(text: str) -> tuple[str, str]:
    """``("database", "postgresql 15")``: the place that a product takes, and which it is."""
    plain = re.sub(r" (?:v|version )?(?=\d)", " ", " ".join(text.lower().split())).removesuffix(" lts")
    name, _, version = plain.rpartition(" ") if plain[-1:].isdigit() else (plain, "", "")
    name = LEXICON["same_product"].get(name, name)
    kind = next((kind for kind, names in LEXICON["products"].items() if name in words_of(names)), "")
    return kind, f"{name} {version}".strip()


def whole(attribute: str) -> str:
    """The attribute that counts all of them, where `attribute` counts some; else itself."""
    what = attribute.removeprefix("number of ")
    return f"number of {_WHOLES[what]}" if what in _WHOLES and what != attribute else attribute


# ---- places ----


@cache
def _same_place() -> dict[str, str]:
    """By each of a city's, or a country's, names the first."""
    listed = (words_of(names) for names in (*LEXICON["cities"], *LEXICON["countries"]))
    return {name: names[0] for names in listed for name in names}


@cache
def _lies_in() -> dict[str, str]:
    tables = (*LEXICON["countries"].items(), *LEXICON["districts"].items())
    return {inner: words_of(names)[0] for names, listed in tables for inner in words_of(listed)}


def place(name: str) -> str:
    """A folded place's one name, whatever the language: "wien" and "vienna" are one."""
    name = name.removeprefix("the ")
    return _same_place().get(name, name)


def is_known_place(name: str) -> bool:
    """Whether a folded name is one of a place in the list."""
    name = name.removeprefix("the ")
    return name in _same_place() or name in _lies_in() or name in LEXICON["continents"].split()


def can_be_in_both(one: str, other: str) -> bool:
    """Whether somebody can: the same place, one inside the other, or one that nothing is known of and a country or region."""
    one, other = place(one), place(other)
    if one == other or {one, other} & set(LEXICON["continents"].split()):
        return True
    words, others = set(one.replace(",", " ").split()), set(other.replace(",", " ").split())
    if words <= others or others <= words:  # "Berlin" and "Berlin, Germany"
        return True
    around, around_other = _around(one), _around(other)
    if other in around or one in around_other:
        return True
    countries = {words_of(names)[0] for names in LEXICON["countries"]}
    unknown = (one in countries and not around_other) or (other in countries and not around)
    return unknown and not {one, other} <= countries


def are_apart(one: str, other: str) -> bool:
    """Whether both are known, and nobody lives in both at once: two cities, two countries, a city and another country."""
    names = [place(name.split(",")[0].strip()) for name in (one, other)]
    unclear = words_of(f"{LEXICON['regions_of_countries']} {LEXICON['several_places']}")
    return all(is_known_place(name) and name not in unclear for name in names) and not can_be_in_both(one, other)


def _around(name: str) -> list[str]:
    """What a place lies in, from the smallest on; of "Potsdam, Germany" what stands behind the comma, too."""
    found = [place(part.strip()) for part in name.split(",")[1:]]
    at = place(name.split(",")[0].strip())
    while at in _lies_in() and _lies_in()[at] not in found:
        at = place(_lies_in()[at])
        found.append(at)
    return found


# ---- two values ----


def contradict(older: Declaration, newer: Declaration) -> bool:
    """Whether the two cannot both be so of one person at one time, for certain."""
    if (older.attribute, older.scope) != (newer.attribute, newer.scope):
        pairs = ((older, newer), (newer, older))
        return any(_is_more_than_all(part, every) for part, every in pairs)
    judge = _JUDGES.get(older.attribute)
    if judge is not None:
        return judge(older, newer)
    return _other_value(older, newer, lambda one, other: one != other)


def _is_more_than_all(part: Declaration, every: Declaration) -> bool:
    """Whether there are more of one kind than of all: a son, and no children."""
    return part.attribute != every.attribute == whole(part.attribute) and int(part.value) > int(every.value)


def _other_value(older: Declaration, newer: Declaration, exclude: Callable[[str, str], bool]) -> bool:
    """Two values of which each excludes the other, or the same once said and once denied."""
    if older.negated or newer.negated:
        return older.negated != newer.negated and older.value == newer.value
    return exclude(older.value, newer.value)


def _locations(older: Declaration, newer: Declaration) -> bool:
    """A move is one whatever the places; two plain statements only where it is known that neither lies in the other."""
    if newer.before and not older.negated:
        return place(older.value) == newer.before and older.value != newer.value
    if newer.change:
        return _other_value(older, newer, lambda one, other: not can_be_in_both(one, other))
    return _other_value(older, newer, are_apart)


def _is_other_product(one: str, other: str) -> bool:
    """Whether two are not one: a version that is not told, or told in part, is any."""
    (name, _, version), (other_name, _, other_version) = (_name_and_version(text) for text in (one, other))
    if name != other_name or not version or not other_version:
        return name != other_name
    short, long = sorted((version, other_version), key=len)
    return not f"{long}.".startswith(f"{short}.")


def _name_and_version(text: str) -> tuple[str, str, str]:
    return text.rpartition(" ") if text[-1:].isdigit() and " " in text else (text, "", "")


def _names(older: Declaration, newer: Declaration) -> bool:
    """Two names of which neither is a part, or a short form, of the other."""
    return _other_value(older, newer, lambda one, other: not (_is_part(one, other) or _is_part(other, one)))


def _is_part(short: str, long: str) -> bool:
    """Whether its letters stand in the other in their order, from the same first letter on: Tom of Thomas, Anna of Anna Schmidt."""
    letters = iter(long)
    return short[:1] == long[:1] and all(letter in letters for letter in short)


def _allergies(older: Declaration, newer: Declaration) -> bool:
    """One can have several: only the same one, said and denied."""
    return older.value == newer.value and older.negated != newer.negated


def _days(older: Declaration, newer: Declaration) -> bool:
    return not set(older.value.split("/")) & set(newer.value.split("/"))


def _budgets(older: Declaration, newer: Declaration) -> bool:
    (one, _, unit), (other, _, other_unit) = older.value.partition(" "), newer.value.partition(" ")
    if unit and other_unit and unit != other_unit:
        return False
    worth = sorted((float(one), float(other)))
    return worth[1] - worth[0] > BUDGET_SHARE * worth[1]


def _diets(older: Declaration, newer: Declaration) -> bool:
    """What one leaves out and the other eats; or a diet said and denied."""
    if older.value == newer.value:
        return older.negated != newer.negated
    leaves = [_OMITTED_PARTS.get(one.value, frozenset()) if not one.negated else frozenset() for one in (older, newer)]
    eats = [one.value if one.value not in _OMITTED_PARTS and not one.negated else "" for one in (older, newer)]
    return eats[1] in leaves[0] or eats[0] in leaves[1]


_JUDGES: dict[str, Callable[[Declaration, Declaration], bool]] = {
    "location": _locations,
    "workplace": _locations,
    **dict.fromkeys(PRODUCT_PLACES, lambda older, newer: _other_value(older, newer, _is_other_product)),
    "name": _names,
    "nickname": _names,
    "employer": _names,
    "birthday": _days,
    "budget": _budgets,
    "diet": _diets,
    "allergy": _allergies,
}
