"""Links in Markdown that an answer cites by, and quotations of the context that are not in it.

In: a text. Out: `Citation`s of the kind ``link`` ("[guide](docs/guide.md)"). A link may lead anywhere: `proxy.grounding.citations.citable` says
what counts. Pure; every pattern is bounded.
"""
# ruff: noqa: E501 - a pattern is read alternative by alternative

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import unescape
from itertools import pairwise
from pathlib import Path

from msgspec import Struct

from proxy.context.faithful import extract_citations
from proxy.language.detection import language
from proxy.language.patterns import LazyPattern, phrases
from proxy.language.text import fold, split_sentences

_TEXTS = phrases(Path(__file__).parent)

_LINK = LazyPattern(r"(?<!!)\[(?P<label>[^\[\]\n]{1,200})\]\((?P<target>[^()\s]{1,500})(?: \"[^\"\n]{0,100}\")?\)")
_DEFINITION = LazyPattern(
    r"^[ \t]{0,3}\[(?P<label>[^\[\]\n]{1,60})\]:[ \t]{1,4}<?(?P<target>(?:https?://|www\.|\.{0,2}/|#)[^\s<>]{1,500}|[^\s<>]{1,200}[/.][^\s<>.]{1,200})>?",
    re.M,
)
_REFERENCE = LazyPattern(r"(?:\[[^\[\]\n]{0,200}[^\[\]\n\d][^\[\]\n]{0,200}\])?\[(?P<label>[^\[\]\n]{1,60})\](?![\[(:])")


def links(text: str, targets: Mapping[str, str]) -> list[Citation]:
    """Links with their address in brackets behind them, and those whose address `targets` has under their label."""
    found = [Citation(*match.span(), "link", None, match["target"]) for match in _LINK.finditer(text)]
    for match in _REFERENCE.finditer(text) if targets else ():
        if target := targets.get(match["label"].casefold()):
            found.append(Citation(*match.span(), "link", None, target))
    return sorted(found, key=lambda citation: citation.start)


def link_targets(text: str) -> dict[str, str]:
    """By label, the addresses in lines such as ``[1]: docs/guide.md``."""
    return {match["label"].casefold(): match["target"] for match in _DEFINITION.finditer(text)} if "]:" in text else {}


# ---- citation ----


class Citation(Struct, frozen=True):
    """One thing that a mark cites; ``[Passages 1-3]`` is three of them with one span."""

    start: int
    """Characters of the choice's text before its mark."""
    end: int
    kind: str
    """``passage``, ``source``, ``context`` or ``link``."""
    number: int | None = None
    name: str = ""
    """Of a source, of a part of the context, or a link's address."""

    @property
    def label(self) -> str:
        """What it cites, in words."""
        return f"passage {self.number}" if self.number is not None else f"{self.kind}: {self.name}"


# ---- quotations ----


MIN_WORDS = 5
"""Shorter ones are names, titles and words that are spoken of, unless the context has the same but for a word:"""
MIN_NEAR_WORDS = 3
MAX_SAID_CHARS = 200_000
NEAR = 0.5
"""Share of a quotation's runs of two words from which the context has it, in its language, with changes."""
_QUOTATION = re.compile(r"\"([^\"\n]{12,600})\"|“([^“”\n]{12,600})”|„([^„“”\n]{12,600})[“”]|«\s?([^«»\n]{12,600})\s?»")
_ATTRIBUTION = LazyPattern(_TEXTS.ATTRIBUTED, re.I)
_SPEECH_VERB = LazyPattern(_TEXTS.STATED, re.I)
"""Somebody is said to say it: without such a word "for the report: …" offers a wording."""
_WORD = re.compile(r"\w+(?:['’]\w+)*")
_OMISSION = re.compile(r"\w*\[[^\[\]\n]{0,80}\]\w*|\(…\)|\(\.\.\.\)|…|\.{3,}| / ")
"""Between parts of a quotation; a word of which a letter stands in brackets is left out ("[T]he fee")."""
_ESCAPES = re.compile(r"\\u([0-9a-fA-F]{4})|\\[nrt\"/]")
_HYPHEN_BREAK = re.compile(r"(?<=\w)-\n[ \t]*(?=[^\W\d_])")


def invented_quotations(text: str, said: Sequence[str]) -> list[tuple[int, int]]:
    """Where the quotations stand in `text` that it attributes to the context and that are in none of the texts `said`."""
    if not any(mark in text for mark in '"“„«') or sum(map(len, said)) > MAX_SAID_CHARS:
        return []
    found, offset = [], 0
    there: list[list[str]] | None = None
    for sentence in split_sentences(text):
        around, cites = _QUOTATION.sub(" ", sentence), bool(extract_citations(sentence))
        named, stated = cites or _ATTRIBUTION.search(around) is not None, cites or _SPEECH_VERB.search(around) is not None
        if named or stated:
            for match in _QUOTATION.finditer(sentence):
                quotation = next(group for group in match.groups() if group is not None)
                there = [_words(_plain(one)) for one in said] if there is None else there
                if _is_invented(quotation, there, said, named=named, stated=stated):
                    found.append((offset + match.start(), offset + match.end()))
        offset += len(sentence)
    return found


def _is_invented(quotation: str, there: Sequence[Sequence[str]], said: Sequence[str], *, named: bool, stated: bool) -> bool:
    parts = [words for part in _OMISSION.split(quotation) if (words := _words(part))]
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
    return _HYPHEN_BREAK.sub("", unescape(text) if "&" in text else text)


def _words(text: str) -> list[str]:
    return _WORD.findall(fold(text).replace("’", "'").replace("_", " "))
