"""Whether a sentence is negated: not, kein, nunca, ne … pas. In six languages.

Used by `proxy.grounding.values.consistency`. Two negations make none ("not impossible" is left as it is: prefixes are not read).
"""

from __future__ import annotations

import re

_WORDS = {
    "en": r"\b(?:not|never|no|none|nobody|nothing|neither|nor|cannot|without|nowhere)\b|n['’]t\b",
    "de": r"\b(?:nicht|nichts|nie|niemals|niemand\w{0,2}|ohne|weder|kein\w{0,2}|nirgends)\b",
    "es": r"\b(?:no|nunca|jamás|nadie|nada|tampoco|sin|ningún|ningun[oa]s?)\b",
    "fr": r"\b(?:pas|jamais|aucune?|rien|sans|ni|nullement)\b",
    "it": r"\b(?:non|mai|nessun[oa]?|niente|nulla|senza|né|neppure|nemmeno)\b",
    "pt": r"\b(?:não|nunca|jamais|ninguém|nada|sem|nem|nenhum(?:a|as)?|nenhuns)\b",
}
_NEGATIONS = {language: re.compile(words, re.I) for language, words in _WORDS.items()}
_NOT_NEGATING = re.compile(
    r"\b(?:not only|no longer than|no (?:more|less|fewer) than|no\. ?\d|not (?:just|least)|nicht nur|nicht zuletzt|"
    r"nichts anderes|no s[oó]lo|"
    r"no solamente|pas seulement|pas moins|non seulement|sans doute|sin embargo|without doubt)\b",
    re.I,
)


def is_negated(sentence: str, language: str = "en") -> bool:
    """Whether an odd number of negations stands in `sentence`."""
    pattern = _NEGATIONS.get(language, _NEGATIONS["en"])
    return len(pattern.findall(_NOT_NEGATING.sub(" ", sentence))) % 2 == 1


def without_negation(sentence: str, language: str = "en") -> str:
    """`sentence` without the words that negate it, to be compared with what it denies."""
    return _NEGATIONS.get(language, _NEGATIONS["en"]).sub(" ", sentence)
