"""Numbers in words, in six languages: "twenty-one", "einundzwanzig", "treinta y uno", "quatre-vingt-dix", "ventuno", "trinta e um".

In: the words of a text, in order. Out: what a run of them is worth, and numbers with a half. What text2num does not know stands here:
dozens, abbreviations, parts. Used by `proxy.language.quantities`, and the only file that imports text2num.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from msgspec import Struct
from text_to_num import find_numbers

from proxy.language.patterns import LazyPattern

_MAGNITUDES: dict[str, float] = {
    **dict.fromkeys(("thousands", "tsd", "mila", "milliers", "k"), 1e3),
    **dict.fromkeys(("mn", "mio", "mill", "millones", "milioni", "milhão", "milhões"), 1e6),
    **dict.fromkeys(("bn", "mrd", "md", "miliardo", "miliardi"), 1e9),
    "lakh": 1e5,
    "crore": 1e7,
}
_OTHERS = {
    "en": {"dozen": 12.0, "twice": 2.0},
    "de": {"dutzend": 12.0, "zweimal": 2.0},
    "es": {"docena": 12.0, "veintiún": 21.0},
    "fr": {"douzaine": 12.0},
    "it": {"dozzina": 12.0},
    "pt": {"dúzia": 12.0},
}
_NO_NUMBERS = frozenset("o os ones unos unas uns non none nona milo prima prime primo primi quart".split())  # noqa: SIM905
"""What text2num takes for a number, and is mostly another word: "some", or a "not" or "none" of another of the languages."""
_KNOWN_WORDS, _KNOWN_RUNS = 16_384, 4_000
"""Whose worth is remembered: to look a word up costs a microsecond a language. Most words are no numbers, and of them that alone is kept:
100 bytes, where their worth in six languages took 1,200."""
FRACTIONS: dict[str, float] = {
    "half": 1 / 2,
    "halves": 1 / 2,
    "thirds": 1 / 3,
    "quarters": 1 / 4,
    "fifths": 1 / 5,
    "hälfte": 1 / 2,
    "drittel": 1 / 3,
    "viertel": 1 / 4,
    "fünftel": 1 / 5,
    "mitad": 1 / 2,
    "tercio": 1 / 3,
    "tercios": 1 / 3,
    "moitié": 1 / 2,
    "tiers": 1 / 3,
}
"""Words that are always a part of something; "a third" and "a quarter" need their article."""
JOINERS = frozenset(("and", "und", "y", "et", "e"))
MAIN_LANGUAGES = ("en", "de", "es", "fr")
"""Of what the proxy itself says, and of the number words that count where a text's language is not known."""
NUMBER_LANGUAGES = (*MAIN_LANGUAGES, "it", "pt")
"""Whose number words are read: text2num has to know each."""


class _Word(Struct, frozen=True):
    """A word as text2num asks for it."""

    word: str

    def text(self) -> str:
        """The word."""
        return self.word

    def nt_separated(self, previous: _Word) -> bool:
        """Whether it belongs to another number than the one before: the caller's runs have no gaps."""
        return False

    def not_a_number_part(self) -> bool:
        """Whether it is certain to be no number."""
        return False


def _look_up(word: str, language: str) -> tuple[float, bool] | None:
    """What one lower-case word is worth, and whether it is an ordinal."""
    value = _OTHERS[language].get(word) or _MAGNITUDES.get(word)
    if value is not None:
        return value, False
    found = find_numbers([_Word(word)], language, threshold=0) if word not in _NO_NUMBERS else []
    return (found[0].value, found[0].is_ordinal) if found else None


_worth_of = lru_cache(maxsize=_KNOWN_RUNS)(_look_up)


@lru_cache(maxsize=_KNOWN_WORDS)
def may_count(word: str) -> bool:
    """Whether a lower-case word is a number's in one of the languages: most are not, and need no closer look."""
    return word in FRACTIONS or word == "quarter" or any(_look_up(word, language) is not None for language in NUMBER_LANGUAGES)


def word_value(word: str, language: str) -> float | None:
    """What one lower-case cardinal is worth; None for another word."""
    found = _worth_of(word, language if language in NUMBER_LANGUAGES else "en")
    return None if found is None or found[1] else found[0]


def ordinal_value(word: str, language: str) -> float | None:
    """What one lower-case ordinal is worth: third, dritte, tercero, troisième."""
    found = _worth_of(word, language if language in NUMBER_LANGUAGES else "en")
    return None if found is None or not found[1] else found[0]


def magnitude(word: str, language: str) -> float | None:
    """1e6 for "million", "Mio", "millones"; None for what does not multiply the number before it."""
    value = word_value(word, language)
    return value if value in (1e3, 1e5, 1e6, 1e7, 1e9, 1e12, 1e18) else None


def run_value(words: Sequence[str], language: str) -> tuple[float, int]:
    """What the cardinals that `words` begins with are worth together, and how many words they are; ``(0, 0)`` if it begins with none."""
    alone = word_value(words[0], language) if words else None
    if alone is None:
        return 0.0, 0
    if len(words) > 1 and (first := _first(tuple(words), language if language in NUMBER_LANGUAGES else "en")) is not None:
        return first
    return alone, 1


@lru_cache(maxsize=_KNOWN_RUNS)
def _first(words: tuple[str, ...], language: str) -> tuple[float, int] | None:
    """The cardinal that a run begins with, as far as text2num knows its words."""
    found = find_numbers([_Word(word) for word in words], language, threshold=0)
    return (found[0].value, found[0].end) if found and found[0].start == 0 and not found[0].is_ordinal else None


# ---- halves ----


_LARGE = (
    r"dozen|hundred|thousand|million|billion|dutzend|hundert|tausend|million(?:en)?|milliarden?|docena|mil|millón|millones|mille|"
    r"millions?|milliards?"
)
_MAY_BE = re.compile(r"(?i:half|halb|y medi|medi[oa] |demi)")
"""A first look that is true of whatever `_HALF` finds."""
_HALF = LazyPattern(
    rf"\b(?:(?:half|(?:einen? )?halbe[ns]?|medi[oa]|(?:un )?demi[- ])\s?(?:an? |de )?(?P<half>{_LARGE})\b"
    rf"|(?P<german>[a-zäöüß]{{3,6}})einhalb(?: (?P<german_large>{_LARGE})\b)?|(?P<one>anderthalb|eineinhalb)(?: (?P<one_large>{_LARGE})\b)?"
    rf"|(?P<count>\d{{1,3}}|[a-zéú]{{1,7}}) (?:(?P<first>{_LARGE}) )?(?:and a half|y medi[oa]|et demie?)(?: (?P<large>{_LARGE})\b)?(?!\w))",
    re.I,
)


def read_halves(text: str) -> Iterator[tuple[float, int, int]]:
    """``(value, start, end)`` of each, in order."""
    for match in _HALF.finditer(text) if _MAY_BE.search(text) else ():
        value = _value(match)
        if value is not None:
            yield value, match.start(), match.end()


def _value(match: re.Match[str]) -> float | None:
    if match["half"]:
        return 0.5 * _worth(match["half"])
    if match["one"]:
        return 1.5 * _worth(match["one_large"])
    if match["german"]:
        whole = word_value(match["german"].lower(), "de")
        return None if whole is None or whole > 12 else (whole + 0.5) * _worth(match["german_large"])
    said = match["count"].lower()
    count = float(said) if said.isdigit() else next((v for tongue in MAIN_LANGUAGES if (v := word_value(said, tongue)) is not None), None)
    if said == "a":
        count = 1.0
    if count is None or count > 999:
        return None
    return (count + 0.5) * _worth(match["first"] or match["large"])


def _worth(word: str | None) -> float:
    if not word:
        return 1.0
    small = {"dozen": 12.0, "dutzend": 12.0, "docena": 12.0, "hundred": 100.0, "hundert": 100.0}
    found = small.get(word.lower()) or next((m for tongue in MAIN_LANGUAGES if (m := magnitude(word.lower(), tongue))), None)
    return found or (1000.0 if word.lower() == "tausend" else 1.0)
