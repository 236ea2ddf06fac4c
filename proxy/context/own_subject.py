"""Does a question say all by itself what it is about? Pure functions.

"Combien d'heures pour la moitié ?" and "What's the total?" do not: what they ask about stands in the passage or in the talk, so that a
passage that shares no word with them may hold their answer all the same. Nobody can refuse such a question for its passages' sake.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from proxy.language.detection import language
from proxy.language.patterns import LazyPattern
from proxy.language.stop_words import OPENERS
from proxy.language.word_overlap import words

ENOUGH_WORDS = 3
"""Content words that name a subject; a name counts for two ("Who painted Guernica?"), but in German every noun has a capital letter."""
MANY_WORDS = 25
"""With more content words than these, a message tells a story around its question."""
_POINTERS = {
    "en": r"it|its|they|them|theirs?|he|him|his|she|hers?|this|that|these|those|there|then|here|ones?|former|latter|same|both|else|others?",
    "de": r"es|er|ihm|ihn|sie|sein\w{0,2}|ihr\w{0,2}|ihnen|dessen|deren|dies\w{0,2}|jene\w?|davon|dazu|dafür|damit|darin|daran|darauf|dabei"
    r"|dort|hier|dann|solche\w?|beide\w?|sonst",
    "es": r"él|ella|ellos|ellas|ello|lo|le|les|sus?|est[eao]s?|es[eao]s?|aquel\w{0,3}|allí|ahí|aquí|entonces|ambos|ambas|mism[oa]s?"
    r"|otr[oa]s?",
    "fr": r"ils?|elles?|lui|leurs?|(?<!est-)(?<!est )ce|cet|cettes?|ces|cela|ça|celui|celles?|ceux|y|en|son|sa|ses|là|ici|alors|mêmes?"
    r"|autres?",
}
"""By language, the words by which a question points at what was said or shown before; with accents, which tell él from el."""
_POINTS = {tongue: LazyPattern(rf"\b(?:{words_})\b", re.I) for tongue, words_ in _POINTERS.items()}
_NAME = LazyPattern(r"(?<=[^\W\d_.?!:] )[A-ZÀ-Þ]\w{2,}")
_WHAT_ABOUT = LazyPattern(
    r"\W{0,3}(?:(?:and )?(?:what|how) about|(?:und )?(?:was ist|wie (?:ist|sieht) es) mit|¿?(?:y )?qué (?:tal|pasa|hay) con"
    r"|(?:et )?qu['’]en est-il|e (?:per|quanto))\b",
    re.I,
)
NEW_TERM = LazyPattern(
    r"\W{0,3}(?:what(?:'s| is| are)|who(?:'s| is)|was ist|wer ist|qué es|quién es|qu['’]est-ce qu['’]|c['’]est quoi)"
    r" ?(?:an?|eine?|un|une|una) \w",
    re.I,
)
"""Asks what something is, with an article that introduces what was not spoken of before."""


def missing_subject(text: str, content: Sequence[str]) -> str:
    """Why the question `text`, with these content words, cannot be judged by itself; "" when it can be."""
    said = words(text)
    points = _POINTS.get(language(text, default=""))
    if points is None:
        return "a language in which nobody knows what it points at"
    if said and said[0] in OPENERS:
        return "goes on from what was said before"
    if sum(word.isdigit() for word in content) > 1:
        return "may be a sum"
    if points.search(text) or _WHAT_ABOUT.match(text):
        return "points at what was said before"
    names = len(_NAME.findall(text)) if language(text, default="") != "de" else 0
    if sum(not word.isdigit() for word in content) + names < ENOUGH_WORDS and not NEW_TERM.match(text):
        return "says too little of its subject"
    return "tells more than it asks" if len(content) > MANY_WORDS else ""
