"""Does a person correct the agent? A user's message in, the correction it makes out, or None.

Two kinds. ``rejected``: what the agent said or did is wrong ("no, that is wrong, I said…"). ``override``: an instruction on how the agent
is to work that replaces what it does: a tool it may not call any more or is to call instead, a highest number of results or calls, sources
to keep to, an end to repeating. Where a message does both, it is an override, the more useful of the two.

Not corrections: an answer to the assistant's question ("No, both of us"), thanks and refusals of an offer, a change of mind ("actually,
make it Tuesday") and a new wish about the subject matter, a mistake of the user's own or somebody else's, questions, quotations, code,
material handed over to be worked on. Precision comes first. Rules look for a clause that begins with a cue, near the beginning of the
message, and read from it what an override asks for; what no rule expects counts if `correction_model` is sure of the message as a whole.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from msgspec import Struct

from proxy.language.patterns import LazyPattern
from proxy.stages.reflection.signals.correction_model import likelihood, threshold
from proxy.stages.reflection.signals.correction_words import CALLS, NUMBERS, TOOL_MARK, WORDS, CorrectionWords

HEAD_CHARS = 400
"""Of a message that are looked at: a person who corrects begins with it."""
LONG_CHARS = 2000
"""A longer message is a document; only its first line may be the person's own."""
MAX_FIRST_LINE_CHARS = 200
MAX_TOOLS = 512
CACHED = 4096
"""Messages whose reading is kept."""
MAX_WORDS = 40
"""Of a message judged as a whole: those that the model learnt from have 27 at most, and of a report it says anything."""
MAX_OPENERS = 8
"""That are taken off one clause: "oh no, sorry, but"."""
_EDGES = " \t\"'¡¿([*_-"
"""May stand before a clause's first word."""
MAX_CAP = 10_000
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
_FAINT_PRAISE = LazyPattern(
    r"\b(?:(?:not|never|nothing|no|n't) (?:\w{1,12} )?(?:wrong|incorrect|bad|mistaken|untrue|false)"
    r"|nicht (?:\w{1,12} )?(?:falsch|verkehrt|schlecht|ubel)"
    r"|no (?:es|esta|estas|esta[ns]|va|vas) (?:\w{1,8} )?(?:mal|falso|incorrecto|equivocad[oa])"
    r"|pas (?:\w{1,8} ){0,2}(?:faux|mal|tort|mauvais))\b"
)
"""What is denied is the fault; a model of words sees the fault alone."""
_SEPARATORS = re.compile(r"[_\-.\s]")
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_CALL_OF = re.compile(
    r"(?:use|using|call|calling|run|running|with|the|that|tool|function|instead of|to|via|of|sollst|musst|con|avec|utiliser|"
    r"benutz\w{0,2}|nutz\w{0,2}|verwend\w{0,2}|nimm|den|die|das|statt|mit|"
    r"usa|uses|usar|utiliza|llama a|llamar a|la|el|de|utilise\w?|appelle\w?|d'appeler|l'outil|le|l')\s{0,2}$"
)


class Correction(Struct, frozen=True, kw_only=True):
    """What a person corrected."""

    kind: Literal["rejected", "override"]
    language: str
    """Of the cue: ``en``, ``de``, ``es`` or ``fr``; "" where the message as a whole says it and no cue."""
    forbidden_tool: str = ""
    wanted_tool: str = ""
    """Both as they are spelt in `tools`."""
    cap: int | None = None
    cap_of: Literal["results", "calls"] = "results"
    """What `cap` counts."""
    span: tuple[int, int]
    """Of the cue in the message, or of what was looked at."""


class _Clause(NamedTuple):
    """A piece of a sentence."""

    start: int
    text: str
    before: str
    """What stands before it in its sentence."""
    question: bool
    sentence: str
    at: int
    """Where its first word begins in `text`."""
    languages: Sequence[str]
    """Those in which something may begin there."""


class _Found(NamedTuple):
    language: str
    start: int
    end: int
    groups: Mapping[str, tuple[int, int]]
    """Named groups that matched, with their places in the message."""


def read_correction(text: str, *, tools: Sequence[str] = (), after_assistant: bool = True, said: str = "") -> Correction | None:
    """The correction in a user's message `text`, after an assistant's turn that ended with the text `said`; `tools` are the request's."""
    head = _head(text) if after_assistant else ""
    return _read(head, tuple(tools[:MAX_TOOLS]), said[-HEAD_CHARS:]) if head.strip() else None


def prepared(text: str, tools: Sequence[str] = (), said: str = "") -> tuple[str, str]:
    """A message and what was said before it as `correction_model` takes them."""
    return _mark_tools(_folded(_own_words(_head(text), tools)), tools)[0], _folded(said[-HEAD_CHARS:])


@lru_cache(maxsize=CACHED)
def _read(head: str, tools: tuple[str, ...], said: str) -> Correction | None:
    """Every request brings its whole conversation: a message is read again and again."""
    marked, names = _mark_tools(_folded(_own_words(head, tools)), tools)
    if _task().match(marked.lstrip()):
        return None
    clauses = list(_clauses(marked))
    return _override(clauses, names, marked) or _rejected(clauses) or _as_a_whole(marked, _folded(said))


def _as_a_whole(marked: str, said: str) -> Correction | None:
    """What the message says where no cue of it does."""
    if not any(c.isalpha() for c in marked) or len(marked.split()) > MAX_WORDS or _FAINT_PRAISE.search(marked):
        return None
    likely = likelihood(marked, said)
    if likely.correction < threshold():
        return None
    kind: Literal["rejected", "override"] = "rejected" if likely.rejected >= likely.override else "override"
    return Correction(kind=kind, language="", span=(len(marked) - len(marked.lstrip()), len(marked.rstrip())))


# ---- the two kinds ----


def _override(clauses: Sequence[_Clause], names: Mapping[int, str], marked: str) -> Correction | None:
    """All instructions of the message as one."""
    found = [hit for clause in clauses if (hit := _instruction(clause))]
    if not found:
        return None
    groups = [(name, place) for hit in found for name, place in hit.groups.items()]
    forbidden = next((names.get(start, "") for name, (start, _) in groups if name.startswith("no")), "")
    wanted = next((names.get(start, "") for name, (start, _) in groups if name.startswith("yes")), "")
    if forbidden and not wanted:  # "not A, B"
        wanted = next((tool for c in clauses if (tool := _only_a_tool(c, names)) and tool != forbidden), "")
    cap_place = next((place for name, place in groups if name.startswith("cap")), None)
    cap = _number(marked[cap_place[0] : cap_place[1]]) if cap_place else None
    first = found[0]
    calls = cap_place is not None and CALLS.search(_around(marked, clauses, cap_place)) is not None
    return Correction(
        kind="override",
        language=first.language,
        forbidden_tool=forbidden,
        wanted_tool=wanted if wanted != forbidden else "",
        cap=cap,
        cap_of="calls" if calls else "results",
        span=(first.start, first.end),
    )


def _instruction(clause: _Clause) -> _Found | None:
    for language in clause.languages:
        words = WORDS[language]
        if (clause.question and not words.polite.match(clause.text)) or words.aside.match(clause.before):
            continue
        if hit := _at_start(clause, words, [words.override, words.cap]):
            return hit._replace(language=language)
    return None


def _rejected(clauses: Sequence[_Clause]) -> Correction | None:
    for clause in clauses:
        for language in clause.languages:
            words = WORDS[language]
            if clause.question or words.aside.match(clause.before) or words.ask.match(clause.sentence):
                continue
            if hit := _at_start(clause, words, [words.rejected]):
                return Correction(kind="rejected", language=language, span=(hit.start, hit.end))
    return None


def _at_start(clause: _Clause, words: CorrectionWords, patterns: Sequence[LazyPattern]) -> _Found | None:
    """The cue with which the clause begins, openers taken off one by one."""
    text, at = clause.text, clause.at
    for _ in range(MAX_OPENERS):
        for pattern in patterns:
            if match := pattern.match(text, at):
                places = {
                    name: (clause.start + match.start(name), clause.start + match.end(name)) for name, v in match.groupdict().items() if v
                }
                return _Found("", clause.start + at, clause.start + match.end(), places)
        skipped = words.denial.match(text, at) or words.opener.match(text, at)
        if not skipped:
            break
        rest = text[skipped.end() :]
        at = len(text) - len(rest.lstrip(" ,"))
    return None


@cache
def _task() -> re.Pattern[str]:
    """How a message begins whose rest is material, in any language."""
    return re.compile("|".join(words.task.pattern for words in WORDS.values()))


@cache
def _beginnings() -> tuple[tuple[str, re.Pattern[str]], ...]:
    """For each language all that a clause can be read by, in one pattern: most clauses are ordinary words, and match nothing."""
    return tuple((language, _any_of(words)) for language, words in WORDS.items())


def _any_of(words: CorrectionWords) -> re.Pattern[str]:
    patterns = (words.override, words.cap, words.rejected, words.denial, words.opener)
    return re.compile(re.sub(r"\(\?P<\w+>", "(?:", "|".join(one.pattern for one in patterns)))


# ---- the message's pieces ----


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
    tail = _question_from(sentence, starts) if question else len(sentence)
    for start, end in zip(starts, ends, strict=True):
        if text := sentence[start:end].rstrip():
            at = len(text) - len(text.lstrip(_EDGES))
            languages = [language for language, begins in _beginnings() if begins.match(text, at)]
            if languages or TOOL_MARK in text:
                yield _Clause(offset + start, text, sentence[:start], whole or start >= tail, sentence.lstrip(), at, languages)


def _question_from(sentence: str, starts: Sequence[int]) -> int:
    """Where the question in a sentence begins: "that's wrong, can you check?" is one only from "can you" on."""
    for start in starts[1:]:
        rest = sentence[start:].lstrip()
        if any(words.ask.match(rest) or words.polite.match(rest) for words in WORDS.values()):
            return start
    return 0


# ---- numbers and names ----


def _only_a_tool(clause: _Clause, names: Mapping[int, str]) -> str:
    bare = clause.text.strip(" \"'`*_")
    bare = bare.removeprefix("but ").removeprefix("sondern ").removeprefix("sino ").removeprefix("mais ").strip(" \"'`*_")
    if not bare or bare.strip(TOOL_MARK):
        return ""
    return names.get(clause.start + clause.text.index(bare), "")


def _number(word: str) -> int | None:
    found = int(word) if word.isdecimal() else NUMBERS.get(word)
    return found if found is not None and found <= MAX_CAP else None


def _around(marked: str, clauses: Sequence[_Clause], place: tuple[int, int]) -> str:
    """The clause of a number from its verb to the word behind the number."""
    clause = next((c for c in clauses if c.start <= place[0] < c.start + len(c.text)), None)
    behind = " ".join(marked[place[1] : place[1] + 40].split()[:2])
    return (marked[clause.start : place[0]] if clause else "") + " " + behind
