"""Citations in an answer that only the sources at hand tell from other words: authors with a year, and links in Markdown.

In: a text. Out: `Citation`s of the kinds ``author`` ("(Meyer, 2019)", "Meyer et al. (2019)") and ``link`` ("[guide](docs/guide.md)").
"(Paris, 2019)" has the same form, and a link may lead anywhere: `proxy.grounding.citations.citable` says what counts. Pure; every pattern is bounded.
"""
# ruff: noqa: E501 - a pattern is read alternative by alternative

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Protocol

from proxy.grounding.citations.citation import Citation
from proxy.language.patterns import LazyPattern

_MONTHS = (
    r"jan\w*|feb\w*|mar\w*|apr\w*|may|jun\w*|jul\w*|aug\w*|sep\w*|oct\w*|nov\w*|dec\w*|mär\w*|mai|okt\w*|dez\w*|ene\w*|abr\w*|ago\w*|dic\w*|janv\w*|fév\w*|avril|juin|juil\w*|août|déc\w*|gen\w*|mag\w*|giu\w*|lug\w*|set\w*|ott\w*|fev\w*|maio|out\w*"
    r"|spring|summer|autumn|winter|since|until|before|after|in|from|see|figure|fig|table|q[1-4]"
)
_NAME = rf"(?!(?i:{_MONTHS})\b)(?:(?:van|von|de|der|den|del|della|di|da|du|le|la|al) ){{0,2}}(?:Mc|Mac|O['’]|D['’])?[^\W\d_a-zß-öø-ÿ][\w'’-]{{1,30}}"
_OTHERS = r",? (?:et al\.?|u\. ?a\.|and others|und andere|y otros|y col\.|et coll\.|e altri|e outros|e col\.)"
_JOINT = rf"(?:, {_NAME}){{0,4}},? (?:&|and|und|y|et|e) {_NAME}"
_YEAR = r"(?:1[5-9]|20)\d\d[a-z]?"
_PAGES = r"(?:[,:] ?(?:pp?\.|s\.|pág\.|Seite|page|chap\.|ch\.|sec\.|§)? ?\d{1,4}(?: ?[-–] ?\d{1,4})?)?"
_ONE = rf"{_NAME}(?:{_OTHERS}|{_JOINT})?,? {_YEAR}{_PAGES}"
_IN_BRACKETS = LazyPattern(
    rf"\((?:(?i:see(?: also)?|cf\.|e\.g\.,?|vgl\.|siehe|véase|ver|voir|cfr\.|vedi) )?(?P<all>{_ONE}(?:; {_ONE}){{0,9}})\)"
)
_SINGLE = LazyPattern(rf"(?P<name>{_NAME})(?P<more>{_OTHERS}|{_JOINT})?,? (?P<year>{_YEAR})")
_TELLS = (
    r"(?:found|finds?|shows?|showed|argue[sd]?|reports?|reported|describe[sd]?|claim(?:s|ed)?|state[sd]?|note[sd]?|suggest(?:s|ed)?|demonstrate[sd]?|estimate[sd]?|conclude[sd]?|observe[sd]?|propose[sd]?|define[sd]?|zeigt\w*|berichte\w*|fand\w*|argumentier\w*|schreib\w*"
    r"|muestra\w*|mostr\w+|encontr\w+|argument\w+|señal\w+|afirma\w*|concluy\w+|montre\w*|trouv\w+|affirme\w*|conclu\w+|dimostr\w+|trov\w+|sostien\w+)"
)
_NARRATIVE = LazyPattern(
    rf"(?P<name>{_NAME})(?P<more>{_OTHERS}|{_JOINT})?(?:['’]s)? (?P<brackets>\((?P<year>{_YEAR}){_PAGES}\))(?P<tells> {_TELLS}\b)?"
)
_LINK = LazyPattern(r"(?<!!)\[(?P<label>[^\[\]\n]{1,200})\]\((?P<target>[^()\s]{1,500})(?: \"[^\"\n]{0,100}\")?\)")
_DEFINITION = LazyPattern(
    r"^[ \t]{0,3}\[(?P<label>[^\[\]\n]{1,60})\]:[ \t]{1,4}<?(?P<target>(?:https?://|www\.|\.{0,2}/|#)[^\s<>]{1,500}|[^\s<>]{1,200}[/.][^\s<>.]{1,200})>?",
    re.M,
)
_REFERENCE = LazyPattern(r"(?:\[[^\[\]\n]{0,200}[^\[\]\n\d][^\[\]\n]{0,200}\])?\[(?P<label>[^\[\]\n]{1,60})\](?![\[(:])")


class CitedSources(Protocol):
    """What there is to cite."""

    @property
    def authored(self) -> bool:
        """Whether sources are named by author and year."""

    def knows(self, citation: Citation) -> bool:
        """Whether it means anything that is there."""


def author_citations(text: str, *, authored: bool) -> Iterator[Citation]:
    """Authors with a year; where sources are not named so (`authored`), only what can be nothing else: "et al."."""
    for match in _IN_BRACKETS.finditer(text):
        for one in _SINGLE.finditer(text, match.start("all"), match.end("all")):
            if authored or _is_several(one["more"]):
                yield Citation(*match.span(), "author", None, f"{one['name']} {one['year']}")
    for match in _NARRATIVE.finditer(text):
        if _is_several(match["more"]) or (authored and (match["more"] or match["tells"])):
            yield Citation(*match.span("brackets"), "author", None, f"{match['name']} {match['year']}")


def _is_several(more: str | None) -> bool:
    return bool(more) and re.fullmatch(_OTHERS, more or "") is not None


def names_authors(text: str) -> bool:
    """Whether a source's text or name is that of a scholarly work: authors with a year."""
    return (
        any(True for _ in author_citations(text, authored=True))
        or re.search(rf"\b{_NAME}(?:{_OTHERS}|{_JOINT})?,? \(?{_YEAR}\)?", text[:200]) is not None
    )


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
