"""Numbers with a half in words: "half a million", "anderthalb Stunden", "un millón y medio", "2 et demi".

In: a text. Out: where such a number stands, and what it is worth. Used by `proxy.language.quantities`, whose own words are whole numbers.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from proxy.language.number_words import LANGUAGES, magnitude, word_value
from proxy.language.patterns import LazyPattern

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
    count = float(said) if said.isdigit() else next((v for tongue in LANGUAGES if (v := word_value(said, tongue)) is not None), None)
    if said == "a":
        count = 1.0
    if count is None or count > 999:
        return None
    return (count + 0.5) * _worth(match["first"] or match["large"])


def _worth(word: str | None) -> float:
    if not word:
        return 1.0
    small = {"dozen": 12.0, "dutzend": 12.0, "docena": 12.0, "hundred": 100.0, "hundert": 100.0}
    found = small.get(word.lower()) or next((m for tongue in LANGUAGES if (m := magnitude(word.lower(), tongue))), None)
    return found or (1000.0 if word.lower() == "tausend" else 1.0)
