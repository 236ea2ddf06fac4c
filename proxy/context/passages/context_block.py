"""The block of numbered passages that this project puts into a prompt: written here, and read here again."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from msgspec import Struct

from proxy.context.faithful_texts import TEXTS
from proxy.language.patterns import LazyPattern, wordings


class PassageBlock(Struct, frozen=True):
    """One passage in a text."""

    content: str
    start: int
    """Offset of `content` in the text."""
    source: str = ""
    score: float | None = None
    number: int | None = None
    """The number that it bears in the text; None where it bears none."""


class BlockWords(Struct, frozen=True):
    """The words of a written block in one language."""

    passage: str
    counted: tuple[str, str]
    """How one and how several are counted."""
    source: str
    relevance: str
    end: str


WORDS = wordings(__file__, BlockWords)
_OWN_HEAD = re.compile(
    r"^### (?:Passage|Pasaje) (?P<number>\d+)(?: \[(?:Source|Quelle|Fuente): (?P<source>.*?)\])?"
    r"(?: \((?:relevance|Relevanz|relevancia|pertinence): (?P<score>-?[\d.]{1,20})\))?$",
    re.M,
)
_OWN_TITLE = re.compile(r"^## .+\n\n(?=### (?:Passage|Pasaje) 1(?: \[| \(|$))", re.M)
_OWN_END = re.compile(r"^## (?:End of|Ende:|Fin de|Fin :) .+$", re.M)
_RULE = "\n---\n"
_NOTHING = LazyPattern(rf"\[[^\[\]\n]{{1,200}}: (?:{'|'.join(re.escape(words.nothing_found) for words in TEXTS.values())})\]")
"""What stands in the block's place where nothing was retrieved."""
_OWN_LINE = re.compile(r"^\\*(?=### (?:Passage|Pasaje) \d|## (?:End of|Ende:|Fin de|Fin :) )", re.M)


def write_block(passages: Iterable[tuple[str, str, float | None]], title: str, words: BlockWords = WORDS["en"]) -> str:
    """Numbered passages, each ``(content, source, score)``, under `title` and their number. `read_written` gives them back as they are.

    A line of a passage that looks like a passage's head or the block's end gets a backslash, so that content cannot pass for another
    passage.
    """
    parts = []
    for number, (content, source, score) in enumerate(passages, 1):
        head = f"### {words.passage} {number}"
        if source := _line(source):
            head += f" [{words.source}: {source}]"
        if score is not None and math.isfinite(score):
            head += f" ({words.relevance}: {score:.2f})"
        parts.append(head + "\n" + _OWN_LINE.sub(lambda match: "\\" + match[0], content))
    many = words.counted[len(parts) != 1]
    return "\n\n".join([f"## {_line(title)} ({len(parts)} {many})", *parts, f"## {words.end} {_line(title)}"])


def _line(text: str) -> str:
    return " ".join(text.split())


def read_written(text: str) -> tuple[list[PassageBlock], list[tuple[int, int]]]:
    """The passages that `write_block` wrote into `text`, and the spans of its blocks. One without its end reaches to the last rule
    (``---``) behind it, as in a template that puts the question there, or else to the text's end.

    The line that says that there are none is a passage without content.
    """
    blocks: list[PassageBlock] = []
    spans: list[tuple[int, int]] = []
    at = 0
    while (title := _OWN_TITLE.search(text, at)) is not None:
        end = _OWN_END.search(text, title.end())
        rule = text.rfind(_RULE, title.end()) if end is None else -1
        last = end.start() if end else rule if rule >= 0 else len(text)
        at = end.end() if end else last
        heads = list(_OWN_HEAD.finditer(text, title.end(), last))
        stops = [head.start() for head in heads[1:]] + [last]
        for head, stop in zip(heads, stops, strict=True):
            content = text[head.end() + 1 : stop].removesuffix("\n\n")
            content = _OWN_LINE.sub(lambda match: match[0][1:], content)
            blocks.append(PassageBlock(content, head.end() + 1, head["source"] or "", number_in(head["score"]), int(head["number"][:9])))
        spans.append((title.start(), at))
    for nothing in _NOTHING.finditer(text) if not spans else ():
        blocks.append(PassageBlock("", nothing.start()))
        spans.append(nothing.span())
    return blocks, spans


def number_in(text: str | None) -> float | None:
    """A finite number, or a percentage as a share."""
    try:
        number = float((text or "").strip().rstrip("%")) / (100 if "%" in (text or "") else 1)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


# ---- the sentence that leads to passages ----
#
# By which a prompt leads to its passages without a mark: "Use the following pieces of context to answer the question".

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
