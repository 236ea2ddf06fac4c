"""Quotations that an answer attributes to its context and that stand nowhere in it as they are.

In: an answer's text and all that was said in the request. Out: the spans of invented quotations. A quotation, in a sentence that names the
context as its source, has to be there word for word, up to case, punctuation, white space and how its letters are written; an ellipsis or
words in brackets part it. One that differs in a word is invented ("shall likewise invalidate" for "shall not invalidate"); one of which
little is there only in the language of the context, since it may be translated. Pure.
"""
# ruff: noqa: E501 - a pattern is read alternative by alternative

from __future__ import annotations

import re
from collections.abc import Sequence
from html import unescape
from itertools import pairwise

from proxy.context.faithful import extract_citations
from proxy.language.detection import language
from proxy.language.names import folded
from proxy.language.patterns import LazyPattern
from proxy.language.text import split_sentences

MIN_WORDS = 5
"""Shorter ones are names, titles and words that are spoken of, unless the context has the same but for a word:"""
MIN_NEAR_WORDS = 3
MAX_SAID_CHARS = 200_000
NEAR = 0.5
"""Share of a quotation's runs of two words from which the context has it, in its language, with changes."""
_QUOTED = re.compile(r"\"([^\"\n]{12,600})\"|“([^“”\n]{12,600})”|„([^„“”\n]{12,600})[“”]|«\s?([^«»\n]{12,600})\s?»")
_ATTRIBUTED = LazyPattern(
    r"\b(?:according to|quot\w+|(?:the|this|that|its|their) (?:\w+ ){0,2}(?:context|passages?|documents?|text|articles?|sources?|policy|manual|report|page|notes?|file|results?)"
    r"|it (?:says|states|reads)|(?:says|states|reads|writes|mentions) (?:that|:)|laut|gemäß|zitat|zitier\w+|(?:im|in der|in dem|der|das|die) (?:\w+ ){0,2}"
    r"(?:kontext|passage|dokument|text|artikel|quelle|bericht|richtlinie)|heißt es|steht|según|cita|(?:el|la) (?:contexto|pasaje|documento|texto|artículo|fuente|informe)"
    r"|dice|selon|d'après|citation|(?:le|la) (?:contexte|passage|document|texte|article|source|rapport)|indique|précise)\b",
    re.I,
)
_STATED = LazyPattern(
    r"\b(?<!would )(?<!could )(?<!should )(?<!might )(?<!can )(?<!may )(?<!to )(?<!\bI )(?<!you )(?<!we )(?:according to|quot(?:e|es|ed|ing)|says?|said|states?|stated|reads?|writes?|wrote|provides?|stipulates?|specif(?:y|ies)|requires?|mentions?|notes?|warns?|puts it"
    r"|laut|gemäß|zitat|zitier\w+|heißt es|steht|schreib(?:t|en)|besag(?:t|en)|sag(?:t|en)|laute(?:t|n)|según|citan?|dicen?|establecen?|estipulan?|afirman?|señalan?|selon|d['’]après|citation|dit|disent|indiquent?|précisent?|stipulent?"
    r"|secondo|citazione|recitano?|dice|dicono|si legge|stabilisc(?:e|ono)|preved(?:e|ono)|segundo|de acordo com|conforme|citação|lê-se|diz|dizem|estabelecem?|preveem?|prevê)(?!\w)",
    re.I,
)
"""Somebody is said to say it: without such a word "for the report: …" offers a wording."""
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_OMITTED = re.compile(r"\w*\[[^\[\]\n]{0,80}\]\w*|\(…\)|\(\.\.\.\)|…|\.{3,}| / ")
"""Between parts of a quotation; a word of which a letter stands in brackets is left out ("[T]he fee")."""
_ESCAPES = re.compile(r"\\u([0-9a-fA-F]{4})|\\[nrt\"/]")
_HYPHENATED = re.compile(r"(?<=\w)-\n[ \t]*(?=[^\W\d_])")


def invented_quotations(text: str, said: Sequence[str]) -> list[tuple[int, int]]:
    """Where the quotations stand in `text` that it attributes to the context and that are in none of the texts `said`."""
    if not any(mark in text for mark in '"“„«') or sum(map(len, said)) > MAX_SAID_CHARS:
        return []
    found, offset = [], 0
    there: list[list[str]] | None = None
    for sentence in split_sentences(text):
        around, cites = _QUOTED.sub(" ", sentence), bool(extract_citations(sentence))
        named, stated = cites or _ATTRIBUTED.search(around) is not None, cites or _STATED.search(around) is not None
        if named or stated:
            for match in _QUOTED.finditer(sentence):
                quotation = next(group for group in match.groups() if group is not None)
                there = [_words(_plain(one)) for one in said] if there is None else there
                if _is_invented(quotation, there, said, named=named, stated=stated):
                    found.append((offset + match.start(), offset + match.end()))
        offset += len(sentence)
    return found


def _is_invented(quotation: str, there: Sequence[Sequence[str]], said: Sequence[str], *, named: bool, stated: bool) -> bool:
    parts = [words for part in _OMITTED.split(quotation) if (words := _words(part))]
    count = sum(map(len, parts))
    if count < MIN_NEAR_WORDS or any(_has(one, parts) for one in there):
        return False
    if count < MIN_WORDS:
        return stated and any(_differs_in_a_word(one, part) for part in parts if len(part) >= MIN_NEAR_WORDS for one in there)
    pairs = {pair for part in parts for pair in pairwise(part)}
    if pairs and max((len(pairs & set(pairwise(one))) for one in there), default=0) >= NEAR * len(pairs):
        return stated
    spoken = language(quotation, default="") if named else ""
    return bool(spoken) and spoken in {language(text[:2000], default="") for text in said if text.strip()}


def _has(words: Sequence[str], parts: Sequence[Sequence[str]]) -> bool:
    """Whether the parts stand in a text, one after the other."""
    row, at = f" {' '.join(words)} ", 0
    for part in parts:
        at = row.find(f" {' '.join(part)} ", at)
        if at < 0:
            return False
    return True


def _differs_in_a_word(words: Sequence[str], part: Sequence[str]) -> bool:
    """Whether a text has a short part but for one of its words, which is not the first or last and neither a plural of the text's."""
    first = [i for i, word in enumerate(words) if word == part[0]]
    for i in first:
        other = list(words[i : i + len(part)])
        apart = [(a, b) for a, b in zip(part, other, strict=False) if a != b]
        if len(other) == len(part) and other[-1] == part[-1] and len(apart) == 1 and apart[0][0][:4] != apart[0][1][:4]:
            return True
    return False


def _plain(text: str) -> str:
    """A text of the context without escapes of JSON and HTML, and without hyphens at the ends of lines."""
    if "\\" in text:
        text = _ESCAPES.sub(lambda match: chr(int(match[1], 16)) if match[1] else " ", text)
    return _HYPHENATED.sub("", unescape(text) if "&" in text else text)


def _words(text: str) -> list[str]:
    return _WORD.findall(folded(text).replace("’", "'").replace("_", " "))
