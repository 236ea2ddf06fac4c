"""The sentence by which a prompt leads to its passages without a mark: "Use the following pieces of context to answer the question"."""

from __future__ import annotations

import re

from proxy.language.patterns import LazyPattern

_EN = r"(?:context|documents?|passages?|excerpts?|search results|information|sources)"
_DE = r"(?:kontext\w{0,2}|dokument\w{0,2}|passagen?|text\w{0,12}|quellen|auszüg\w{1,2}|informationen|suchergebniss\w{1,2})"
_ES = r"(?:contexto|documentos?|pasajes?|fuentes|fragmentos?|información|resultados)"
_FR = r"(?:contexte|documents?|passages?|sources|extraits?|informations?|résultats)"
_INSTRUCTION = LazyPattern(
    r"\b(?:(?:us(?:e|ing)|given|based (?:\w{1,10} )?on|from|consult|consider) (?:only |solely )?(?:the |these )?"
    rf"(?:following\b[^\n\0.]{{0,40}}\b{_EN}|(?:\w{{1,20}} ){{0,2}}{_EN} (?:\w{{1,12}} )?below)"
    r"|here (?:is|are) (?:the |some )?(?:relevant |retrieved )?(?:context|documents|passages|excerpts|search results)"
    r"|(?:anhand|mit ?hilfe|auf (?:der )?(?:grundlage|basis)|nutze\w?|verwende\w?|basierend auf|aus|mit) (?:nur )?(?:d\w{2} )?"
    rf"(?:folgend|unten ?stehend|nachstehend)e\w? (?:\w{{1,20}} ){{0,2}}{_DE}"
    r"|(?:usa\w{0,3}|utiliza\w{0,3}|a partir de|bas\w{3,8} en|según|con) (?:sol[oa]mente )?(?:l[oa]s |el |la )?"
    rf"(?:siguientes? (?:\w{{1,20}} ){{0,3}}{_ES}|{_ES} (?:\w{{1,20}} ){{0,2}}(?:siguientes?|a continuación))"
    r"|(?:utilis\w{1,4}|à partir d(?:e|es|u)|bas\w{1,4} sur|d['’]après|selon|avec) (?:uniquement )?(?:les |le |la |l['’])?"
    rf"{_FR} (?:\w{{1,20}} ){{0,2}}(?:suivante?s?|ci-dessous))\b",
    re.I,
)
_TO_ANSWER = LazyPattern(
    r"\b(?:answer|questions?|query|assist|beantworte?n?|antworte?n?|fragen?|respon\w{1,6}|pregunta|répond\w{0,3}|question)\b", re.I
)
_PARAGRAPH_END = LazyPattern(r"[ \t]{0,8}\n(?:[ \t]{0,8}\n|[ \t]{0,8}[-=*_]{3,200}[ \t]{0,8}\n)\s{0,40}")
_MAX_PARAGRAPH, _MAX_BEFORE = 1200, 500


def passages_start(text: str) -> int | None:
    """Where the passages begin that a sentence leads to, behind its paragraph; None without such a sentence, in four languages."""
    instruction = _INSTRUCTION.search(text)
    end = _PARAGRAPH_END.search(text, instruction.end(), instruction.end() + _MAX_PARAGRAPH) if instruction is not None else None
    if instruction is None or end is None or not _TO_ANSWER.search(text, max(0, instruction.start() - _MAX_BEFORE), end.start()):
        return None
    return end.end()
