"""Numbers in words, in six languages: "twenty-one", "einundzwanzig", "treinta y uno", "quatre-vingt-dix", "ventuno", "trinta e um".

In: the words of a text, in order. Out: what a run of them is worth. Used by `proxy.language.quantities`.
"""
# ruff: noqa: SIM905 - lists of words read better as words

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from proxy.language.patterns import LazyPattern

_DE_UNITS = "ein zwei drei vier fünf sechs sieben acht neun".split()
_DE_TEENS = "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn neunzehn".split()
_DE_TENS = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig".split()


def _german() -> dict[str, float]:
    below_100 = dict(zip(_DE_UNITS + _DE_TEENS, range(1, 20), strict=True))
    for n, ten in enumerate(_DE_TENS, 2):
        below_100[ten] = n * 10
        below_100 |= {f"{unit}und{ten}": n * 10 + k for k, unit in enumerate(_DE_UNITS, 1)}
    out: dict[str, float] = {"hundert": 100, **below_100}
    for k, unit in enumerate(_DE_UNITS, 1):
        out |= {f"{unit}hundert{word}": k * 100 + n for word, n in [("", 0), *below_100.items()]}
    return out | {"null": 0, "zwo": 2, "dreissig": 30}


def _italian() -> dict[str, float]:
    units = "uno due tre quattro cinque sei sette otto nove".split()
    below_20 = [*units, *"dieci undici dodici tredici quattordici quindici sedici diciassette diciotto diciannove".split()]
    out: dict[str, float] = {"zero": 0, "una": 1, **dict(zip(below_20, range(1, 20), strict=True))}
    for n, ten in enumerate("venti trenta quaranta cinquanta sessanta settanta ottanta novanta".split(), 2):
        out[ten] = n * 10
        out |= {f"{ten[:-1] if unit[0] in 'uo' else ten}{'tré' if unit == 'tre' else unit}": n * 10 + k for k, unit in enumerate(units, 1)}
    return out | {"cento": 100, "duecento": 200, "trecento": 300, "dozzina": 12}


_GERMAN = _german()
_WORDS: dict[str, dict[str, float]] = {
    "en": {
        **dict(
            zip(
                "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
                "seventeen "
                "eighteen nineteen".split(),
                range(20),
                strict=True,
            )
        ),
        **dict(zip("twenty thirty forty fifty sixty seventy eighty ninety hundred".split(), range(20, 101, 10), strict=True)),
        "dozen": 12,
        "twice": 2,
    },
    "de": _GERMAN | {"dutzend": 12, "zweimal": 2},
    "es": {
        **dict(
            zip(
                "cero uno dos tres cuatro cinco seis siete ocho nueve diez once doce trece catorce quince dieciséis diecisiete "
                ""
                "dieciocho diecinueve veinte veintiuno veintidós veintitrés veinticuatro veinticinco veintiséis veintisiete "
                "veintiocho veintinueve".split(),
                range(30),
                strict=True,
            )
        ),
        **dict(zip("treinta cuarenta cincuenta sesenta setenta ochenta noventa cien".split(), range(30, 101, 10), strict=True)),
        **dict(
            zip(
                "ciento doscientos trescientos cuatrocientos quinientos seiscientos setecientos ochocientos novecientos".split(),
                range(100, 1000, 100),
                strict=True,
            )
        ),
        "un": 1,
        "una": 1,
        "docena": 12,
        "veintiún": 21,
    },
    "fr": {
        **dict(
            zip(
                "zéro un deux trois quatre cinq six sept huit neuf dix onze douze treize quatorze quinze seize".split(),
                range(17),
                strict=True,
            )
        ),
        **dict(zip("vingt trente quarante cinquante soixante septante huitante nonante cent".split(), range(20, 101, 10), strict=True)),
        "une": 1,
        "vingts": 20,
        "cents": 100,
        "douzaine": 12,
    },
    "it": _italian(),
    "pt": {
        **dict(
            zip(
                "zero um dois três quatro cinco seis sete oito nove dez onze doze treze catorze quinze dezesseis dezessete dezoito "
                "dezenove vinte".split(),
                range(21),
                strict=True,
            )
        ),
        **dict(
            zip("trinta quarenta cinquenta sessenta setenta oitenta noventa cem cento".split(), [*range(30, 101, 10), 100], strict=True)
        ),
        "uma": 1,
        "duas": 2,
        "dezasseis": 16,
        "dezassete": 17,
        "dezanove": 19,
        "dúzia": 12,
    },
}
_MAGNITUDES: dict[str, float] = {
    **dict.fromkeys("thousand thousands tausend tsd mil mille mila milliers k".split(), 1e3),
    **dict.fromkeys("million millions mn mio mill millionen millón millones milione milioni milhão milhões".split(), 1e6),
    **dict.fromkeys("bn milliarde milliarden mrd md milliard milliards miliardo miliardi".split(), 1e9),
    "lakh": 1e5,
    "crore": 1e7,
    "billionen": 1e12,
}
_BILLIONS = {
    "billion": {"en": 1e9, **dict.fromkeys(("de", "fr", "es", "it", "pt"), 1e12)},
    "trillion": {"en": 1e12, **dict.fromkeys(("de", "fr", "es", "it", "pt"), 1e18)},
}
_ORDINALS: dict[str, float] = {
    **dict(
        zip(
            "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth "
            ""
            "sixteenth seventeenth eighteenth nineteenth twentieth".split(),
            range(1, 21),
            strict=True,
        )
    ),
    "thirtieth": 30,
    "hundredth": 100,
    **{f"{stem}{end}": n for n, stem in [(1, "erste"), (3, "dritte"), (7, "siebte"), (8, "achte")] for end in ("", "n", "r", "s", "m")},
    **{
        f"{stem}{end}": n
        for n, stem in enumerate("primer segund tercer cuart quint sext séptim octav noven décim".split(), 1)
        for end in ("o", "a", "os", "as")
    },
    "primer": 1,
    "tercer": 3,
    "premier": 1,
    "première": 1,
    "seconde": 2,
    "cinquième": 5,
    "neuvième": 9,
    **{f"{stem}ième": n for n, stem in [(2, "deux"), (3, "trois"), (4, "quatr"), (6, "six"), (7, "sept"), (8, "huit"), (10, "dix")]},
}
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
LANGUAGES = ("en", "de", "es", "fr")
EVERY_LANGUAGE = (*LANGUAGES, "it", "pt")


def _lexicon(language: str) -> dict[str, float]:
    words = dict(_WORDS[language])
    words |= {word: per_language[language] for word, per_language in _BILLIONS.items()}
    words |= {f"{word}s": value for word, value in words.items() if word.endswith("llion")}
    return {**_MAGNITUDES, **words}


_LEXICONS = {language: _lexicon(language) for language in EVERY_LANGUAGE}


_GERMAN_ORDINALS = {f"{word}{mark}te{end}": n for word, n in _GERMAN.items() for mark in ("", "s") for end in ("", "n", "r", "s", "m")}
_ANY = frozenset().union(*_LEXICONS.values(), _ORDINALS, _GERMAN_ORDINALS, FRACTIONS, ("third", "quarter"))


def may_count(word: str) -> bool:
    """Whether a lower-case word is a number's in one of the languages: most are not, and need no closer look."""
    return word in _ANY or "tausend" in word


def word_value(word: str, language: str) -> float | None:
    """What one lower-case cardinal is worth; None for another word."""
    lexicon = _LEXICONS.get(language, _LEXICONS["en"])
    if (value := lexicon.get(word)) is not None or language != "de":
        return value
    left, found, right = word.partition("tausend")
    if not found:
        return None
    thousands, rest = (1.0 if not left else _GERMAN.get(left)), (0.0 if not right else _GERMAN.get(right))
    return None if thousands is None or rest is None else thousands * 1000 + rest


def ordinal_value(word: str, language: str) -> float | None:
    """What one lower-case ordinal is worth: third, dritte, tercero, troisième."""
    value = _ORDINALS.get(word)
    return _GERMAN_ORDINALS.get(word) if value is None and language == "de" else value


def magnitude(word: str, language: str) -> float | None:
    """1e6 for "million", "Mio", "millones"; None for what does not multiply the number before it."""
    value = word_value(word, language)
    return value if value is not None and value >= 1000 and word not in _GERMAN else None


def run_value(words: Sequence[str], language: str) -> tuple[float, int]:
    """What the cardinals that `words` begins with are worth together, and how many words they are; ``(0, 0)`` if it begins with none."""
    total, current, used, previous = 0.0, 0.0, 0, 0.0
    for i, word in enumerate(words):
        value = word_value(word, language)
        if value is None:
            if word in JOINERS and i == used and previous >= 20:
                continue
            break
        if i > used and value >= 100:  # "twenty and hundred" is no number
            break
        if value >= 1000:
            if i and previous >= 1000 and value >= previous:
                total, current = total * value, 0.0  # mil millones
            else:
                total, current = total + (current or 1.0) * value, 0.0
        elif value == 100 and current < 100:
            current = (current or 1.0) * 100
        elif value == 20 and current % 100 == 4 and language == "fr":
            current += 76  # quatre-vingt
        elif i == 0 or _fits(current, value, previous):
            current += value
        else:
            break
        used, previous = i + 1, value
    return total + current, used


def _fits(current: float, value: float, previous: float) -> bool:
    """Whether `value` may follow within the same number: twenty-one, soixante-dix, two hundred five, but not "two three"."""
    if previous >= 1000:
        return True
    rest = current % 100
    if value < 10:
        return current % 10 == 0 and current >= 10
    return current > 0 and (rest == 0 or (value < 20 and rest in (60, 80)))


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
