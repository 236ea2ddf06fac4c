"""Does a person correct the agent? A user's message in, the correction it makes out, or None. English, German, Spanish, French.

Two kinds. ``override``: an instruction on how the agent is to work, with a value: a tool it may not call any more or is to call instead, a
highest number of results or calls. ``rejected``: what the agent said is wrong, outright ("no, that is wrong"); the many other ways to say
so are for a judge to understand (`is_short`). Where a message does both, it is an override, the more useful of the two.

Not corrections: questions, quotations, code, somebody else's words, suppositions, material handed over to be worked on. Precision comes
first: what counts is a clause near the beginning of the message that begins with a cue.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Literal, NamedTuple

from msgspec import Struct

from proxy.language.number_words import word_value
from proxy.language.patterns import LazyPattern
from proxy.stages.reflection.correction_words import CALL, CAPPING, INSTRUCTION, OPENER, POLITELY, REJECTION, TASK, TOOL_MARK

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
_SEPARATORS = re.compile(r"[_\-.\s]")
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
    """Most results."""
    span: tuple[int, int]
    """Of the cue in the message."""


class _Clause(NamedTuple):
    """A piece of a sentence."""

    start: int
    text: str
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
    clauses = list(_clauses(marked))
    return _override(head, clauses, names) or _rejected(clauses)


def _override(head: str, clauses: Sequence[_Clause], names: Mapping[int, str]) -> Correction | None:
    """All instructions of the message as one; None where they name no tool and no number."""
    plain = [clause for clause in clauses if not clause.question or POLITELY.match(clause.text)]
    cues = [cue for clause in plain if (cue := _at_start(clause, (CAPPING, INSTRUCTION)))]
    groups = [(name, place) for cue in cues for name, place in cue.groups.items()]
    forbidden = next((names.get(start, "") for name, (start, _) in groups if name.startswith("no")), "")
    wanted = next((names.get(start, "") for name, (start, _) in groups if name.startswith("yes")), "")
    place = next((place for name, place in groups if name.startswith("cap")), None)
    cap = None if place is None else _number(head[slice(*place)])
    if not (forbidden or wanted or cap is not None):
        return None
    return Correction(
        kind="override",
        forbidden_tool=forbidden,
        wanted_tool=wanted if wanted != forbidden else "",
        cap=cap,
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
        name, start = _SEPARATORS.sub(" ", _folded(tool)), -1
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
    """Where a sentence asks, it is its last clause that does: "that's wrong, can you check?"."""
    at = 0
    for match in [*_SENTENCE.finditer(marked), None]:
        end = match.start() if match else len(marked)
        cuts = [(at, at), *((cut.start(), cut.end()) for cut in _CLAUSE.finditer(marked, at, end)), (end, end)]
        pieces = [(start, marked[start:stop].rstrip()) for (_, start), (stop, _) in itertools.pairwise(cuts)]
        asks = match is not None and "?" in match[0]
        yield from (_Clause(start, text, asks and i == len(pieces) - 1) for i, (start, text) in enumerate(pieces) if text)
        at = match.end() if match else end


def _number(word: str) -> int | None:
    values = [float(word)] if word.isdecimal() else [v for code in _LANGUAGES if (v := word_value(word.lower(), code)) is not None]
    return int(values[0]) if values and 0 < values[0] <= MAX_CAP else None
