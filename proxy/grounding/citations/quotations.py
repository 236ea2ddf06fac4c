"""Quotations that an answer attributes to its context and that stand nowhere in it.

In: an answer's text and all that was said in the request. Out: the spans of invented quotations. Only what can be told exactly: a
quotation of some words, in a sentence that names the context as its source, in the language of the context, of whose runs of three words
less than half stand there. A quotation with other punctuation, an ellipsis, an addition in brackets or a typing error is none. Pure.
"""
# ruff: noqa: E501 - a pattern is read alternative by alternative

from __future__ import annotations

import re
from collections.abc import Sequence

from proxy.context.faithful import extract_citations
from proxy.language.detection import language
from proxy.language.names import folded
from proxy.language.patterns import LazyPattern
from proxy.language.text import split_sentences

MIN_WORDS = 5
"""Shorter ones are names, titles and words that are spoken of."""
MAX_SAID_CHARS = 200_000
FOUND = 0.5
"""Share of a quotation's runs of three words from which it is there, with small changes."""
_QUOTED = re.compile(r"\"([^\"\n]{12,600})\"|“([^“”\n]{12,600})”|„([^„“”\n]{12,600})[“”]|«\s?([^«»\n]{12,600})\s?»")
_ATTRIBUTED = LazyPattern(
    r"\b(?:according to|quot\w+|(?:the|this|that|its|their) (?:\w+ ){0,2}(?:context|passages?|documents?|text|articles?|sources?|policy|manual|report|page|notes?|file|results?)"
    r"|it (?:says|states|reads)|(?:says|states|reads|writes|mentions) (?:that|:)|laut|gemäß|zitat|zitier\w+|(?:im|in der|in dem|der|das|die) (?:\w+ ){0,2}"
    r"(?:kontext|passage|dokument|text|artikel|quelle|bericht|richtlinie)|heißt es|steht|según|cita|(?:el|la) (?:contexto|pasaje|documento|texto|artículo|fuente|informe)"
    r"|dice|selon|d'après|citation|(?:le|la) (?:contexte|passage|document|texte|article|source|rapport)|indique|précise)\b",
    re.I,
)
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_OMITTED = re.compile(r"\[[^\[\]\n]{0,80}\]|\(…\)|…|\.{3,}")


def invented_quotations(text: str, said: Sequence[str]) -> list[tuple[int, int]]:
    """Where the quotations stand in `text` that it attributes to the context and that are in none of the texts `said`."""
    if not any(mark in text for mark in '"“„«') or sum(map(len, said)) > MAX_SAID_CHARS:
        return []
    found, offset = [], 0
    for sentence in split_sentences(text):
        if _ATTRIBUTED.search(sentence) or extract_citations(sentence):
            for match in _QUOTED.finditer(sentence):
                quotation = next(group for group in match.groups() if group is not None)
                if _is_invented(quotation, said):
                    found.append((offset + match.start(), offset + match.end()))
        offset += len(sentence)
    return found


def _is_invented(quotation: str, said: Sequence[str]) -> bool:
    parts = [_words(part) for part in _OMITTED.split(quotation)]
    words = [word for part in parts for word in part]
    runs = {tuple(part[i : i + 3]) for part in parts for i in range(len(part) - 2)}
    if len(words) < MIN_WORDS or not runs:
        return False
    everything = [_words(text) for text in said]
    there = {tuple(one[i : i + 3]) for one in everything for i in range(len(one) - 2)}
    if len(runs & there) >= FOUND * len(runs):
        return False
    spoken = language(quotation, default="")
    return bool(spoken) and spoken in {language(text[:2000], default="") for text in said if text.strip()}


def _words(text: str) -> list[str]:
    return _WORD.findall(folded(text).replace("’", "'"))
