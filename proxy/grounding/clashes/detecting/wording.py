"""Two sentences that are the same but for one thing: a "not", a number, a colour.

In: two texts. Out: the words that make the difference, where both cannot be so of one thing: "The parcel has arrived" and "has not
arrived yet", "My car is red" and "is blue", "The flat has two rooms" and "has four rooms". Numbers that may only
name a thing ("room 12") make none. English, German, Spanish and French; the lists are this
project's own.
"""

from __future__ import annotations

import re
from functools import cache

from proxy.language.names import folded
from proxy.language.number_words import word_value

_WORD = re.compile(r"[^\W_]+")
_CONTRACTED = re.compile(r"n['’]t\b")
_ELIDED = re.compile(r"\b[nd]['’]")
_NEGATORS = frozenset(
    ("not", "never", "no", "cannot", "nicht", "kein", "keine", "keinen", "keinem", "keiner", "nie", "nunca", "pas", "jamais")
)
_SMALL = frozenset(
    (
        *("a", "an", "the", "do", "does", "did", "any", "yet", "still", "now", "actually", "can", "at", "all"),
        *("ein", "eine", "einen", "einem", "einer", "noch", "jetzt", "doch", "gar"),
        *("un", "una", "todavia", "aun", "ya", "ahora", "une", "de", "du", "des", "le", "la", "les", "ne", "encore", "maintenant"),
    )
)
"""Words that come and go with a negation."""
_VERBS = frozenset(
    (
        *(
            "is",
            "are",
            "was",
            "were",
            "has",
            "have",
            "had",
            "costs",
            "cost",
            "takes",
            "weighs",
            "needs",
            "holds",
            "seats",
            "lasts",
            "own",
            "owns",
        ),
        *("ist", "sind", "war", "waren", "hat", "habe", "haben", "hatte", "kostet", "dauert", "wiegt", "braucht"),
        *("es", "son", "era", "tiene", "tienen", "tengo", "cuesta", "dura", "pesa"),
        *("est", "sont", "etait", "a", "ai", "ont", "avons", "coute", "dure", "pese"),
    )
)
"""Before a number that counts or measures."""
_COLOURS = """
red rot rote roter rotes rojo roja rouge
blue blau blaue blauer blaues azul bleu bleue
green grun grune gruner grunes verde vert verte
yellow gelb gelbe gelber gelbes amarillo amarilla jaune
black schwarz schwarze schwarzer schwarzes negro negra noir noire
white weiss weisse weisser weisses blanco blanca blanc blanche
grey gray grau graue grauer graues gris grise
brown braun braune brauner braunes marron brun brune
orange naranja
purple violet lila violeta morado morada violette
pink rosa rose
silver silber silbern silberne plateado plateada argente argentee
"""


def difference(older: str, newer: str, language: str = "en") -> tuple[str, str] | None:
    """The words in which the two differ and that exclude each other; "" for those of one that only denies the other."""
    one, other = _words(older), _words(newer)
    denied = [bool(_NEGATORS & set(words)) for words in (one, other)]
    if denied[0] != denied[1]:
        same = _without_negation(one) == _without_negation(other) != []
        return ("", "not") if same and denied[1] else ("not", "") if same else None
    if len(one) != len(other):
        return None
    unlike = [i for i, (a, b) in enumerate(zip(one, other, strict=True)) if a != b]
    if len(unlike) != 1:
        return None
    at = unlike[0]
    return (one[at], other[at]) if _exclude(one, other, at, language) else None


def _words(text: str) -> list[str]:
    said = _ELIDED.sub(" ", _CONTRACTED.sub(" not", folded(text).replace("can't", "can not").replace("won't", "will not")))
    return _WORD.findall(said)


def _without_negation(words: list[str]) -> list[str]:
    return [word for word in words if word not in _NEGATORS and word not in _SMALL]


def _exclude(one: list[str], other: list[str], at: int, language: str) -> bool:
    """Whether the words at this place are two colours of one thing, or two numbers of what follows."""
    if at == 0:
        return False
    colours = _colours().get(one[at]), _colours().get(other[at])
    if None not in colours:
        return colours[0] != colours[1] and one[at - 1] in _VERBS
    numbers = _number(one[at], language), _number(other[at], language)
    return None not in numbers and numbers[0] != numbers[1] and one[at - 1] in _VERBS and at + 1 < len(one)


def _number(word: str, language: str) -> float | None:
    return float(word) if word.isdecimal() else word_value(word, language)


@cache
def _colours() -> dict[str, str]:
    """Each name of a colour with one name for it."""
    return {word: line.split()[0] for line in _COLOURS.strip().splitlines() for word in line.split()}
