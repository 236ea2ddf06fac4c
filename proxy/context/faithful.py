"""Context-faithful prompting as a library: numbered passages and rules into a prompt, citations and confidence out of an answer.

Pure functions, used by stages and importable on their own. Prompts are worded in English, German, Spanish and French (`language=`); answers
are read in these, and admissions of not knowing in Chinese too. Anything odd (None, numbers, nested lists) is left out,
never an error; every pattern is bounded, so that time is linear in the text's length.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from proxy.context.faithful_texts import ADMISSIONS, ADMISSIONS_IN_CHINESE, GUIDANCE, RATINGS, TEXTS, Texts
from proxy.context.passages.context_block import WORDS, number_in, write_block
from proxy.exchange import Evidence
from proxy.language.patterns import LazyPattern
from proxy.language.text import stretches
from proxy.offloop import check, each

__all__ = [
    "CONTEXT_FAITHFUL_GUIDANCE",
    "CONTEXT_FAITHFUL_RAG_TEMPLATE",
    "CONTEXT_FAITHFUL_SYSTEM_SUFFIX",
    "CONTEXT_FAITHFUL_USER_PREFIX",
    "LANGUAGES",
    "MAX_RANGE",
    "SOURCE_LABEL",
    "SUBSTANTIVE_CHARS",
    "Passage",
    "admits_ignorance",
    "build_context_block",
    "detect_context_ignoring",
    "extract_citations",
    "extract_confidence",
    "readable",
    "texts",
    "wrap_with_context_faithful_prompt",
]
CONTEXT_FAITHFUL_GUIDANCE = GUIDANCE
CONTEXT_FAITHFUL_SYSTEM_SUFFIX = TEXTS["en"].system_suffix
CONTEXT_FAITHFUL_USER_PREFIX = TEXTS["en"].prefix(cite=True)
CONTEXT_FAITHFUL_RAG_TEMPLATE = TEXTS["en"].template(cite=True, rate=True)
LANGUAGES = tuple(TEXTS)
SOURCE_LABEL = TEXTS["en"].source_label
SUBSTANTIVE_CHARS = 50
"""An answer longer than this says something."""
MAX_RANGE = 100
"""``[Passages 1-N]`` counts as single citations up to this many."""

Passage = str | Mapping[str, Any] | Evidence


def texts(language: str = "en") -> Texts:
    """The wordings of `language`; English for one that has none."""
    return TEXTS[language]


def build_context_block(
    passages: Sequence[Passage] | None, max_passages: int = 10, source_label: str = SOURCE_LABEL, *, language: str = "en"
) -> str:
    """The first `max_passages` passages, numbered from 1, with source and relevance, under a title that says how many.

    Where there are none, a line that says so: a model that is told that nothing was found does not take it for an oversight.

    A passage is a text, an `Evidence`, or a mapping with ``content`` (or ``text``, …), ``source`` and ``score`` (or ``relevance``).
    """
    title = texts(language).source_label if source_label == SOURCE_LABEL or not source_label.strip() else source_label
    shown = readable(passages)[: max(0, max_passages)]
    return write_block(shown, title, WORDS[language]) if shown else f"[{title}: {texts(language).nothing_found}]"


def wrap_with_context_faithful_prompt(
    user_message: str,
    passages: Sequence[Passage] | None,
    question: str | None = None,
    use_rag_template: bool = True,
    *,
    max_passages: int = 10,
    language: str = "en",
    cite: bool = True,
    rate: bool = True,
) -> tuple[str, str]:
    """``(system_suffix, wrapped_user_message)``: the rules for the system message's end, and the message with its passages.

    `question` is what is asked, if it is not all of `user_message`; nothing of the message is left out. Without passages the message says
    that none were retrieved. `cite` and `rate`: whether citations, and a rating at the end, are asked for.
    """
    words = texts(language)
    block = build_context_block(passages, max_passages, language=language)
    asked = user_message if not question or question in user_message else f"{user_message}\n\n{question}".strip()
    suffix = words.suffix(cite=cite, rate=rate)
    if use_rag_template:
        return suffix, words.template(cite=cite, rate=rate).format(context_block=block, question=asked)
    return suffix, f"{words.prefix(cite=cite)}{block}\n\n{words.question_label}: {asked}"


def readable(passages: Any) -> list[tuple[str, str, float | None]]:
    """``(content, source, score)`` of each passage that has content, in order: the N-th is ``[Passage N]``."""
    if isinstance(passages, str | Mapping | Evidence):
        passages = [passages]
    found = [_passage(item) for item in passages or () if item is not None] if isinstance(passages, Sequence | None) else []
    return [passage for passage in found if passage[0].strip()]


def _passage(item: object) -> tuple[str, str, float | None]:
    if isinstance(item, str):
        return item, "", None
    if isinstance(item, Evidence):
        return item.content, item.source, item.score
    if not isinstance(item, Mapping):
        return "", "", None
    metadata = item.get("metadata")
    layers = (item, metadata) if isinstance(metadata, Mapping) else (item,)
    content = _text(layers[:1], ("content", "text", "page_content", "passage", "chunk", "snippet", "body"))
    score = next(
        (n for layer in layers for key in ("score", "relevance", "relevance_score", "similarity") if (n := _score(layer, key))), None
    )
    return content, _text(layers, ("source", "url", "path", "file", "filename", "title", "name")), score[0] if score else None


def _text(layers: Sequence[Mapping[str, Any]], keys: Sequence[str]) -> str:
    return next((text for layer in layers for key in keys if isinstance(text := layer.get(key), str) and text.strip()), "")


def _score(layer: Mapping[str, Any], key: str) -> tuple[float] | None:
    value = layer.get(key)
    number = None if isinstance(value, bool) or not isinstance(value, int | float | str) else number_in(str(value))
    return None if number is None else (number,)


# ---- reading an answer ----

_PASSAGE = r"(?:(?:context|kontext)[ -]?)?(?:passages?|passagen|pasajes?(?: del? contexto)?)"
_SOURCE = r"sources?|retrieved from|quellen?|abgerufen (?:von|aus)|fuentes?|recuperado de|extrait de"
_CITATION = LazyPattern(
    rf"[\[【][ \t]{{0,4}}(?:{_PASSAGE}[ \t]{{0,4}}(?:nr\.?|no\.?|n\.?º|#)?[ \t]{{0,4}}(?P<numbers>\d[^\[\]【】\n]{{0,200}})"
    rf"|(?:{_SOURCE})[ \t]{{0,4}}:(?P<source>[^\[\]【】\n]{{1,500}})"
    r"|(?:context|kontext|contexto|contexte)[ \t]{0,4}:(?P<reference>[^\[\]【】\n]{1,500}))[\]】]",
    re.I,
)
_NUMBER_MARK = LazyPattern(
    r"(?<![=$`\[])[\[【][ \t]{0,4}(?:(?:documents?|docs?|dokumente?|documentos?|sources?|quellen?|fuentes?|ref|references?)"
    r"[ \t]{0,4}(?:nr\.?|no\.?|#)?[ \t]{0,4}|\^)?(?P<numbers>[1-9]\d?(?:[ \t]{0,2}(?:,|;|-|–|and|und|y|et)[ \t]{0,2}[1-9]\d?){0,9})"
    r"(?:†[^\[\]【】\n]{0,80})?[\]】](?![(\]=:])",
    re.I,
)
"""``[1]``, ``[2, 3]``, ``[^1]``, ``[Document 2]``, ``【3†source】``; no link, no reference's definition."""
_NO_CITATION = LazyPattern(
    r"(?:range|interval|array|list|vector|matrix|bereich|intervall|liste|rango|intervalo|lista|intervalle)s? ?$", re.I
)
"""Before a bracket with numbers that is none."""
_INLINE_CODE = LazyPattern(r"`[^`\n]{1,300}`")
_NUMBERS = LazyPattern(
    rf"[ \t,;&]{{0,4}}(?:(?:and|und|y|et|,)[ \t])?(?:{_PASSAGE})?[ \t#]{{0,4}}(?P<first>\d{{1,4}})"
    r"(?:[ \t]{0,2}(?:-|–|—|to|bis|hasta|a)[ \t]{0,2}(?P<last>\d{1,4}))?",
    re.I,
)
_RATING = "|".join(sorted((word for words in RATINGS.values() for word in words), key=len, reverse=True))
_RATED_WORD = r"(?:confidence|vertrauen|konfidenz|zuversicht|sicherheit|confianza|certeza|confiance)"
_CONFIDENCE = LazyPattern(
    rf"\b{_RATED_WORD}(?:s?[ \t-]?(?:level|rating|score|stufe|grad|wert))?[^\w\n]{{0,12}}"
    rf"(?:(?:is|ist|es|est|level|rating)\b[^\w\n]{{0,8}}){{0,2}}(?P<rating>{_RATING})\b"
    rf"(?![ \t]{{0,3}}(?:/|\||,|or\b|oder\b|o\b)[ \t*_\"]{{0,6}}(?:{_RATING})\b)",
    re.I,
)
_RATING_LINE = LazyPattern(
    r"\b(?P<rating>HIGH|MEDIUM|LOW|HOHES?|MITTLERES?|NIEDRIGES?|ALTA|MEDIA|BAJA)"
    r" (?:CONFIDENCE|[cC]onfidence|VERTRAUEN|Vertrauen|CONFIANZA|[cC]onfianza)\b"
)
_LAST_WORD = re.compile(
    rf"(?:^|[.!?…:;)\]\n—–-])[ \t*_(\[]{{0,4}}(?P<rating>{'|'.join(word.upper() for words in RATINGS.values() for word in words)})"
    r"[*_)\]]{0,4}\.?\s*$"
)
"""A rating in capitals that stands alone at an answer's end; "The river is HIGH." is a statement."""
_RATED_WORD_PARTS = ("onf", "vertrauen", "zuver", "cherhe", "certeza")
"""One in each `_RATED_WORD`, in lower case, without a letter that stands for others where case is ignored."""
_ADMISSION = LazyPattern("|".join(f"(?:{phrase})" for phrase in ADMISSIONS))
_ADMISSION_IN_CHINESE = LazyPattern(ADMISSIONS_IN_CHINESE)
_PHRASE = re.compile(r"[^.!?\n]+")
_NEGATION = LazyPattern(
    r"\b(?:no(?:t|r|thing)?\b|never|cannot|unable|lack|insufficient|nicht|kein|unzureichend|pas\b|aucun|ni\b|rien\b)|n't\b"
)
"""Within each phrase of `ADMISSIONS`, in what `_PHRASE` matches: to look for it takes a tenth of the time."""


def extract_citations(response: str, *, numbered: bool = False) -> list[dict[str, Any]]:
    """The citations in `response`, in order, each with its ``span`` ``(start, end)`` and its ``type``.

    ``passage`` with ``number`` (one for each of ``[Passage 1, 3]`` or ``[Passages 1-3]``), ``source`` with ``source``, ``context`` with
    ``reference``. With `numbered`, a bare ``[1]`` or ``[Document 1]`` is a passage too: for answers to a prompt that has passages.
    """
    if not isinstance(response, str) or not ("[" in response or "【" in response):
        return []
    found: list[dict[str, Any]] = _number_marks(response) if numbered else []
    for match in _each(_CITATION, response):
        span = match.span()
        if match["numbers"]:
            found += [{"type": "passage", "number": number, "span": span} for number in _cited_numbers(match["numbers"])]
        elif match["source"] and match["source"].strip():
            found.append({"type": "source", "source": match["source"].strip(), "span": span})
        elif match["reference"] and match["reference"].strip():
            found.append({"type": "context", "reference": match["reference"].strip(), "span": span})
    return _without_link_labels(response, sorted(found, key=lambda citation: citation["span"])) if numbered else found


def _without_link_labels(response: str, found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """`found` but for the ``[2]`` of Markdown's ``[the page][2]``; behind another citation it is one itself."""
    kept: list[dict[str, Any]] = []
    for citation in found:
        start, end = citation["span"]
        behind_words = start > 0 and response[start - 1] == "]" and response[start:end].strip("[]^").isdigit()
        if not behind_words or any(other["span"][1] == start for other in kept):
            kept.append(citation)
    return kept


def _number_marks(response: str) -> list[dict[str, Any]]:
    """The bare ones, outside of code."""
    code = [match.span() for match in _INLINE_CODE.finditer(response)]
    starts = [start for start, _ in code]
    return [
        {"type": "passage", "number": number, "span": match.span()}
        for match in _NUMBER_MARK.finditer(response)
        if not ((before := bisect_left(starts, match.start())) and match.start() < code[before - 1][1])
        and not _NO_CITATION.search(response, max(0, match.start() - 12), match.start())
        for number in _cited_numbers(match["numbers"])
    ]


def _cited_numbers(numbers: str) -> Iterator[int]:
    """Numbers of a list with ranges, each once; what follows the list (a title, a page) is not read."""
    at, seen = 0, set()
    while (match := _NUMBERS.match(numbers, at)) is not None:
        first, at = int(match["first"]), match.end()
        last = int(match["last"] or first)
        for number in range(first, last + 1) if first <= last < first + MAX_RANGE else (first, last):
            if number not in seen:
                seen.add(number)
                yield number


def extract_confidence(response: str) -> str | None:
    """The answer's own rating, HIGH, MEDIUM or LOW: the last one that it gives; None without one."""
    if not isinstance(response, str):
        return None
    said, patterns = list[str](), (_CONFIDENCE, _RATING_LINE) if any(map(response.lower().__contains__, _RATED_WORD_PARTS)) else ()
    for pattern in patterns:
        said = said or [m["rating"].lower() for m in _each(pattern, response)]
    if not said and (last := _LAST_WORD.search(response[-_LAST_CHARS:])) is not None:
        said = [last["rating"].lower()]
    return next((rating for rating, words in RATINGS.items() if said and said[-1] in words + _INFLECTED_RATINGS[rating]), None)


_LAST_CHARS = 60
"""Of an answer's end, within which a rating that stands alone is looked for."""
_INFLECTED_RATINGS = {"HIGH": ("hohe", "hohes"), "MEDIUM": ("mittlere", "mittleres"), "LOW": ("niedrige", "niedriges")}


def admits_ignorance(response: str) -> bool:
    """Whether `response` says that it does not know, or that the context does not say."""
    if not isinstance(response, str):
        return False
    text = response.lower().replace("’", "'")
    if not text.isascii() and next(_each(_ADMISSION_IN_CHINESE, text), None) is not None:
        return True
    for start, end in stretches(text):
        for phrase in each(_PHRASE.finditer(text, start, end)):
            span = phrase.span()
            if _NEGATION.search(text, *span) is not None and _ADMISSION.search(text, *span) is not None:
                return True
    return False


def _each(pattern: LazyPattern, text: str) -> Iterator[re.Match[str]]:
    """Where `pattern` matches."""
    for start, end in stretches(text):
        check()
        yield from pattern.finditer(text, start, end)


def detect_context_ignoring(response: str, context_block: str) -> dict[str, Any]:
    """Whether `response` seems to pass over `context_block`: it says something, cites nothing, and does not admit to not knowing.

    ``{"likely_ignored", "has_citation", "has_idk", "confidence", "details"}``. Without context there is nothing to ignore.
    """
    response = response if isinstance(response, str) else ""
    cited, admitted = bool(extract_citations(response)), admits_ignorance(response)
    substantive = len(response.strip()) > SUBSTANTIVE_CHARS
    has_context = isinstance(context_block, str) and bool(context_block.strip())
    reasons = (
        (not has_context, "there is no context"),
        (cited, "the answer cites the context"),
        (admitted, "the answer says what it does not know"),
        (not substantive, f"the answer is not longer than {SUBSTANTIVE_CHARS} characters"),
    )
    details = next(
        (reason for holds, reason in reasons if holds), "a substantive answer with neither a citation nor an admission of not knowing"
    )
    return {
        "likely_ignored": has_context and substantive and not cited and not admitted,
        "has_citation": cited,
        "has_idk": admitted,
        "confidence": extract_confidence(response),
        "details": details,
    }
