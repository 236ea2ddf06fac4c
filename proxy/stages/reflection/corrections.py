"""Does a person correct the agent? A user's message in, the correction it makes out, or None. English, German, Spanish, French.

Two kinds. ``override``: an instruction on how the agent is to work, with a value: a tool it may not call any more or is to call instead, a
highest number of results or calls. ``rejected``: what the agent said is wrong, outright ("no, that is wrong"); the many other ways to say
so are for a judge to understand (`is_short`). Where a message does both, it is an override, the more useful of the two.

Not corrections: questions, quotations, code, somebody else's words, suppositions, material handed over to be worked on. Precision comes
first: what counts is a clause near the beginning of the message that begins with a cue.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from msgspec import Struct

from proxy.language.number_words import word_value
from proxy.language.patterns import LazyPattern
from proxy.stages.reflection.correction_words import (
    ASIDE,
    CALL,
    CALLS,
    CAPPING,
    INSTRUCTION,
    OPENER,
    POLITELY,
    QUESTION,
    REJECTION,
    TASK,
    TOOL_MARK,
)

HEAD_CHARS = 400
"""Of a message that are looked at: a person who corrects begins with it."""
LONG_CHARS = 2000
"""A longer message is a document; only its first line may be the person's own."""
MAX_FIRST_LINE_CHARS = 200
MAX_TOOLS = 512
CACHED = 4096
"""Messages whose reading is kept."""
MAX_WORDS = 40
"""Of a message that may be words to the agent and nothing else."""
MAX_OPENERS = 8
"""That are taken off one clause: "oh no, sorry, but"."""
MAX_CAP = 10_000
_LANGUAGES = ("en", "de", "es", "fr")
_EDGES = " \t\"'¡¿([*_-"
"""May stand before a clause's first word."""

# ---- the pieces of a message ----

_HIDDEN = re.compile(
    r"```.{0,400}?(?:```|$)|`([^`\n]{1,200})`|\"([^\"\n]{1,400})\"|“([^”\n]{1,400})”|„([^“”\n]{1,400})[“”]"
    r"|«([^»\n]{1,400})»|(?m:^[ \t]{0,8}>.{0,400}$)"
    r"|https?://\S{1,400}",
    re.S,
)
"""Code and what others said: groups hold what may be a tool's name instead."""
_HIDING = ("`", '"', "“", "„", "«", ">", "://")
"""Whatever `_HIDDEN` finds has one of them."""
_SENTENCE = re.compile(r"(?<!max)(?<!nr)[.!?…]{1,8}(?=[\s\"')\]]|$)|\n|;\s")
_CLAUSE = re.compile(
    r"(?:[,:;]|\s[-–—]{1,2})\s{1,8}(?!(?:was|dass|not|nicht|pas)\s)|,(?=[a-z])"
    r"|\s{1,8}(?=(?:but|and|aber|und|sondern|pero|sino|mais|et)\s)|\s{1,8}y\s(?=(?!no\b|a\b)[a-z])"
)
_SPEAKER = re.compile(
    r"\s{0,8}(?:user|assistant|customer|agent|bot|human|ai|me|him|her|them|kunde|kundin|nutzer|cliente|usuario|client|clients|q|a)\s?:"
)
_TAG = re.compile(r"(?:right|is it|isn't it|was it|no|correct|or|or not|oder|nicht wahr|richtig|verdad|cierto|n'est-ce pas|non|si)$")
_CONSENT = re.compile(r"(?:ok|okay|please|alright|got it|understood|bitte|klar|vale|por favor|de acuerdo|d'accord|s'il (?:te|vous) plait)$")
"""At an instruction's end: it is none the less one with a question mark."""
_SEPARATORS = re.compile(r"[_\-.\s]")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CALL_OF = re.compile(
    rf"(?:{CALL}|sollst|musst|with|the|that|tool|function|instead of|to|via|of|den|die|das|statt|mit|la|el|de|con|le|l'|avec)\s{{0,2}}$"
)
"""Before a tool's name that is an ordinary word."""


class Correction(Struct, frozen=True, kw_only=True):
    """What a person corrected."""

    kind: Literal["rejected", "override"]
    forbidden_tool: str = ""
    wanted_tool: str = ""
    """Both as they are spelt in `tools`."""
    cap: int | None = None
    cap_of: Literal["results", "calls"] = "results"
    """What `cap` counts."""
    span: tuple[int, int]
    """Of the cue in the message."""


class _Clause(NamedTuple):
    """A piece of a sentence."""

    start: int
    text: str
    before: str
    """What stands before it in its sentence."""
    question: bool


class _Cue(NamedTuple):
    start: int
    end: int
    groups: Mapping[str, tuple[int, int]]
    """Named groups that matched, with their places in the message."""


def read_correction(text: str, tools: Sequence[str] = ()) -> Correction | None:
    """The correction in a user's message `text` that follows a turn of the assistant's; `tools` are the request's."""
    head = _head(text)
    return _read(head, tuple(tools[:MAX_TOOLS])) if head.strip() else None


def is_short(text: str) -> bool:
    """Whether a message may be words to the agent about what it did, and nothing else."""
    return len(text) <= HEAD_CHARS and len(text.split()) <= MAX_WORDS and any(c.isalpha() for c in text)


@lru_cache(maxsize=CACHED)
def _read(head: str, tools: tuple[str, ...]) -> Correction | None:
    """Every request brings its whole conversation: a message is read again and again."""
    marked, names = _mark_tools(_folded(_own_words(head, tools)), tools)
    if TASK.match(marked.lstrip()):
        return None
    clauses = [clause for clause in _clauses(marked) if not ASIDE.match(clause.before)]
    return _override(head, clauses, names) or _rejected(clauses)


def _override(head: str, clauses: Sequence[_Clause], names: Mapping[int, str]) -> Correction | None:
    """All instructions of the message as one; None where they name no tool and no number."""
    plain = [clause for clause in clauses if not clause.question or POLITELY.match(clause.text)]
    cues = [cue for clause in plain if (cue := _at_start(clause, (CAPPING, INSTRUCTION)))]
    groups = [(name, place) for cue in cues for name, place in cue.groups.items()]
    forbidden = next((names.get(start, "") for name, (start, _) in groups if name.startswith("no")), "")
    wanted = next((names.get(start, "") for name, (start, _) in groups if name.startswith("yes")), "")
    if forbidden and not wanted:  # "not A, B"
        wanted = next((tool for c in clauses if (tool := _only_a_tool(c, names)) and tool != forbidden), "")
    place = next((place for name, place in groups if name.startswith("cap")), None)
    cap = None if place is None else _number(head[slice(*place)])
    if not (forbidden or wanted or cap is not None):
        return None
    calls = place is not None and re.search(rf"\b{CALLS}", _around(_folded(head), clauses, place)) is not None
    return Correction(
        kind="override",
        forbidden_tool=forbidden,
        wanted_tool=wanted if wanted != forbidden else "",
        cap=cap,
        cap_of="calls" if calls else "results",
        span=(cues[0].start, cues[0].end),
    )


def _rejected(clauses: Sequence[_Clause]) -> Correction | None:
    cues = (_at_start(clause, (REJECTION,)) for clause in clauses if not clause.question)
    return next((Correction(kind="rejected", span=(cue.start, cue.end)) for cue in cues if cue), None)


def _at_start(clause: _Clause, patterns: Sequence[LazyPattern]) -> _Cue | None:
    """The cue with which the clause begins, openers taken off one by one."""
    text = clause.text
    at = len(text) - len(text.lstrip(_EDGES))
    for _ in range(MAX_OPENERS):
        for pattern in patterns:
            if match := pattern.match(text, at):
                groups = {
                    name: (clause.start + match.start(name), clause.start + match.end(name)) for name, v in match.groupdict().items() if v
                }
                return _Cue(clause.start + at, clause.start + match.end(), groups)
        skipped = OPENER.match(text, at)
        if not skipped:
            break
        at = len(text) - len(text[skipped.end() :].lstrip(" ,"))
    return None


def _head(text: str) -> str:
    """The part of the message that may be the person's own words to the agent."""
    head = text[:HEAD_CHARS]
    if len(text) <= LONG_CHARS:
        return head
    line = head.lstrip().partition("\n")[0]
    return head[: head.index(line) + len(line)] if len(line) <= MAX_FIRST_LINE_CHARS else ""


def _own_words(head: str, tools: Sequence[str]) -> str:
    """The same with code and quotations blanked; each character keeps its place."""
    if not any(mark in head for mark in _HIDING):
        return head
    names = set(tools)

    def blank(match: re.Match[str]) -> str:
        inner = next((group for group in match.groups() if group), "")
        return match[0] if inner.strip() in names else "".join("\n" if c == "\n" else " " for c in match[0])

    return _HIDDEN.sub(blank, head)


def _folded(text: str) -> str:
    """Lower case without accents, character by character."""
    return text.lower() if text.isascii() else "".join(map(_fold, text))


@lru_cache(maxsize=4096)
def _fold(char: str) -> str:
    if char in "’‘´ʼ":
        return "'"
    base = unicodedata.normalize("NFD", char)[0] if char.isalpha() else char
    lowered = base.lower()
    return " " if char == "\xa0" or char == TOOL_MARK else lowered if len(lowered) == 1 else base


def _mark_tools(folded: str, tools: Sequence[str]) -> tuple[str, dict[int, str]]:
    """Names of tools replaced by as many `TOOL_MARK`s, whatever separates their parts; which name stood where."""
    if not tools:
        return folded, {}
    plain = _SEPARATORS.sub(" ", folded)
    names: dict[int, str] = {}
    marked = folded
    for tool in sorted({t for t in tools if 2 <= len(t) <= 96}, key=lambda t: (-len(t), t)):
        spelt = {_SEPARATORS.sub(" ", _folded(tool)), _folded(_CAMEL.sub(" ", tool))}
        for name in sorted(spelt):
            start = -1
            while (start := plain.find(name, start + 1)) >= 0:
                end = start + len(name)
                if _is_name(marked, start, end, " " in name or not tool.isalpha() or not tool.islower()):
                    marked = marked[:start] + TOOL_MARK * len(name) + marked[end:]
                    names[start] = tool
    return marked, names


def _is_name(marked: str, start: int, end: int, telling: bool) -> bool:
    """Whether a tool is meant: a name of one ordinary word ("search") only behind a word that calls or points."""
    around = marked[start - 1 : start] + marked[end : end + 1]
    if TOOL_MARK in marked[start:end] or any(c.isalnum() or c == "_" for c in around):
        return False
    return telling or _CALL_OF.search(marked[max(0, start - 24) : start]) is not None


def _clauses(marked: str) -> Iterator[_Clause]:
    at = 0
    for match in [*_SENTENCE.finditer(marked), None]:
        end = match.start() if match else len(marked)
        sentence = marked[at:end]
        if sentence.strip() and not _SPEAKER.match(sentence):
            yield from _pieces(sentence, at, "?" in match[0] if match else False)
        at = match.end() if match else end


def _pieces(sentence: str, offset: int, question: bool) -> Iterator[_Clause]:
    cuts = [(m.start(), m.end()) for m in _CLAUSE.finditer(sentence)]
    starts = [0, *(end for _, end in cuts)]
    ends = [*(start for start, _ in cuts), len(sentence)]
    last = sentence[starts[-1] :].strip()
    question = question and _CONSENT.match(last) is None
    whole = question and (len(starts) == 1 or _TAG.match(last) is not None or sentence.lstrip().startswith("¿"))
    # "that's wrong, can you check?" is a question only from "can you" on
    asked_at = next((start for start in starts[1:] if QUESTION.match(sentence[start:].lstrip())), 0) if question else len(sentence)
    for start, end in zip(starts, ends, strict=True):
        if text := sentence[start:end].rstrip():
            yield _Clause(offset + start, text, sentence[:start], whole or start >= asked_at)


def _only_a_tool(clause: _Clause, names: Mapping[int, str]) -> str:
    bare = clause.text.strip(" \"'`*_")
    bare = re.sub(r"^(?:but|sondern|sino|mais) ", "", bare).strip(" \"'`*_")
    if not bare or bare.strip(TOOL_MARK):
        return ""
    return names.get(clause.start + clause.text.index(bare), "")


def _number(word: str) -> int | None:
    values = [float(word)] if word.isdecimal() else [v for code in _LANGUAGES if (v := word_value(word.lower(), code)) is not None]
    return int(values[0]) if values and 0 < values[0] <= MAX_CAP else None


def _around(folded: str, clauses: Sequence[_Clause], place: tuple[int, int]) -> str:
    """The clause of a number from its verb to the word behind the number."""
    clause = next((c for c in clauses if c.start <= place[0] < c.start + len(c.text)), None)
    behind = " ".join(folded[place[1] : place[1] + 40].split()[:2])
    return (folded[clause.start : place[0]] if clause else "") + " " + behind
