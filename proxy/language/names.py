"""Names in a claim: which words are capitalised for what they name, and whether the evidence has them in some form.

In: a text and its language. Out: its names with their place. Missing a name is better than a false alarm: a sentence's first word is none,
and in German, where every noun is capitalised, only what an ordinary noun cannot be. Used by `proxy.grounding.values.consistency`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import lru_cache
from itertools import pairwise

from msgspec import Struct

from proxy.language.text import fold
from proxy.language.words import FUNCTION_WORDS

WORD = re.compile(r"\w+(?:['’.]\w+)*\.?(?<=\w)")
_LINKS = frozenset("of the de la le les des du del der den dem van von und and & y et los las di da e zu zur am upon for".split())  # noqa: SIM905
_NO_FAMILY_NAME = (
    # Capitalised for other reasons than naming: first person, weekdays and months (dates are compared as such), titles.
    """
    i i'm i've i'd i'll ok tv mr mrs ms dr prof sir lord lady president king queen prince princess minister sie ihr ihre ihnen ihrem ihren
    january february march april may june july august september october november december monday tuesday wednesday thursday friday
    saturday sunday januar februar märz mai juni juli oktober dezember montag dienstag mittwoch donnerstag freitag samstag sonntag
    the a an this that these those it he she they we you in on at by for from with and but or as if when while after before during
    der die das ein eine einer er es sie wir im am zum zur und aber auch nach vor bei mit von seit als wenn el la los las un una en de por
    con para y pero según tras le les l' d' du des une il elle ils elles on dans par pour avec et mais selon après est sa son ses
    no not yes there his her its their our my your all some many most both each every one two three four five six seven eight nine ten
    here what who how why where which also however although though since because then thus so bc ad ce bce am pm internet god
    north south east west northern southern eastern western english
    """
)
_GERMAN_NOUN = re.compile(
    r".{2,}(?:ung|ungen|heit|heiten|keit|keiten|schaft|schaften|ion|ionen|tät|täten|ismus|ment|mente|nis|nisse|ling|tum|chen|lein|enz|anz|"
    r"ier|eur|ist|isten|or|oren|er|ern|erin|innen|in|e|en|el|eln|es|s|t|ts|d|g|f|l|r|m|z|h|k|p|ß)$"
)
_BEFORE_GERMAN_PLACES = frozenset("in aus nach von bei durch gegen für mit über".split())  # noqa: SIM905
_PREFIX_CHARS = 4
_MAX_NAMES = 40


class Name(Struct, frozen=True):
    """One name of a text."""

    text: str
    words: tuple[str, ...]
    """Folded, without the linking ones."""
    start: int
    end: int


def bare(word: str) -> str:
    """A folded word without its possessive: "curie's" is "curie", "l'angleterre" is "angleterre"."""
    if word.isalnum():
        return word
    word = word.replace("’", "'")
    if word.endswith(("'s", "'")):
        word = word[: word.rindex("'")]
    if len(word) > 3 and word[1:2] == "'" and word[0] in "ldsnmtc":
        word = word[2:]
    return word.replace(".", "")


_NOT_NAMES = frozenset(bare(fold(word)) for word in _NO_FAMILY_NAME.split())


def read_names(text: str, language: str = "en", *, every_capital: bool = False) -> list[Name]:
    """The names of `text`, in order; with `every_capital` also those that only may be names, for the side that is looked into."""
    found: list[Name] = []
    run: list[re.Match[str]] = []
    links: list[re.Match[str]] = []
    for match in WORD.finditer(text):
        gap = text[run[-1].end() if run and not links else links[-1].end() : match.start()] if run else ""
        joined = (" ", "-", "\u00a0", "’", "'", ". ") if run and len(run[-1][0]) == 1 else (" ", "-", "\u00a0", "’", "'")
        if run and gap not in joined:
            _close(found, run, text, language, every_capital)
            run, links = [], []
        word = match[0]
        if word[0].isupper() and bare(fold(word)) not in _NOT_NAMES:
            run = [*run, *links, match] if run else [match]
            links = []
        elif run and word.lower() in _LINKS and len(links) < 2:
            links.append(match)
        else:
            _close(found, run, text, language, every_capital)
            run, links = [], []
    _close(found, run, text, language, every_capital)
    return found


_SENTENCE_START = re.compile(r"(?:[.!?:;…\n]|^)[\s\"'“„»«(*\-]{0,3}$|[\"“„«‘(\[*•]$")


_MARKS_CHARS = 12


def _close(found: list[Name], run: Sequence[re.Match[str]], text: str, language: str, every_capital: bool) -> None:
    if not run or len(found) >= _MAX_NAMES:
        return
    words = [match[0] for match in run]
    if not every_capital and not _is_name(run, words, text, language):
        return
    start, end = run[0].start(), run[-1].end()
    kept = tuple(w for word in words if (w := bare(fold(word))) and w not in _LINKS)
    if kept:
        found.append(Name(text[start:end], kept, start, end))


def _is_name(run: Sequence[re.Match[str]], words: Sequence[str], text: str, language: str) -> bool:
    """Whether a run of capitalised words names something, as far as form and place tell."""
    start = run[0].start()
    marks = start < _MARKS_CHARS and not any(map(str.isalnum, text[:start]))  # an emoji, a bullet and a space
    begins = start < 2 or marks or _SENTENCE_START.search(text, max(0, start - 4), start) is not None
    capitals = [word for word in words if word[0].isupper()]
    if language == "de":
        return _is_german_name(words, capitals, text, start, begins)
    if len(capitals) == 1:
        return not begins and len(words[0]) > 2
    return True


def _is_german_name(words: Sequence[str], capitals: Sequence[str], text: str, start: int, begins: bool) -> bool:
    if begins:
        return False
    if len(words) == 1:
        if words[0].isupper() and 2 < len(words[0]) < 7:
            return True
        before = text[:start][-12:].split()
        return bool(before) and before[-1] in _BEFORE_GERMAN_PLACES and not _GERMAN_NOUN.match(words[0])
    return len(capitals) == len(words) == 2 and not any(_GERMAN_NOUN.match(word) for word in words[:1])


# ---- finding a name in the evidence ----


class NameWords(Struct, frozen=True):
    """The words of a text as names are looked up in it."""

    words: frozenset[str]
    prefixes: frozenset[str]
    initials: str
    """First letters of all its capitalised words, in order: acronyms are found in it."""
    followers: dict[str, frozenset[str]]
    """For each word, the capitalised ones that come right after it."""
    shortened: frozenset[str]
    """Capitalised beginnings of words, as "St" in "St 2" and "Dept" in "Dept. A"."""
    joined: str
    """All letters of the text, folded, without spaces: "New Yorker" and "NewYork" hold the same."""


_SHORTENED = re.compile(r"\b([A-ZÄÖÜÉ][a-zäöüßé]{1,4})(?:\.|(?= \d))")


def name_words(text: str) -> NameWords:
    """`text` made ready for `missing_name`."""
    raw = WORD.findall(text)
    words = [bare(fold(word)) for word in raw]
    parts = frozenset(words)
    followers: dict[str, set[str]] = {}
    for (a, b), written in zip(pairwise(words), raw[1:], strict=True):
        if written[0].isupper():
            followers.setdefault(a, set()).add(b)
    return NameWords(
        parts,
        frozenset(word[:_PREFIX_CHARS] for word in words if len(word) >= _PREFIX_CHARS),
        "".join(word[0] for word in raw if word[0].isupper()).lower(),
        {word: frozenset(after) for word, after in followers.items()},
        frozenset(fold(word) for word in _SHORTENED.findall(text)) - FUNCTION_WORDS,
        "".join(words)[:50_000],
    )


def missing_name(name: Name, evidence: NameWords) -> bool:
    """Whether the evidence names nothing that `name` could be: no word of it, or another one after its first word."""
    have = [_has(word, evidence) for word in name.words]
    if not any(have):
        return not _is_acronym(name, evidence)
    if have[-1] or not have[0]:
        return False
    if len(name.words) != 2:  # "University of Cambridge" in "Cambridge"
        return False
    followers = evidence.followers.get(name.words[0], frozenset()) - _NOT_NAMES
    return bool(followers) and name.words[0] not in _FIRST_WORDS_OF_PLACES


_FIRST_WORDS_OF_PLACES = frozenset(("new", "saint", "st", "san", "los", "united"))


def _has(word: str, evidence: NameWords) -> bool:
    """Whether `word` stands in the evidence, in another inflection or spelled almost so."""
    if word in evidence.words:
        return True
    if any(word.startswith(beginning) for beginning in evidence.shortened):
        return True
    if len(word) < _PREFIX_CHARS:
        return len(word) == 1 or word.rstrip("s") in evidence.words
    if word in evidence.joined:
        return True
    return (word[:_PREFIX_CHARS] in evidence.prefixes and _has_like(word, evidence.words)) or _is_misspelling(word, evidence.words)


def _has_like(word: str, words: Collection[str]) -> bool:
    """Inflections and near spellings: "german" for "germany", "putin" for "putins"."""
    return any(alike(word, other) for other in words if other[:_PREFIX_CHARS] == word[:_PREFIX_CHARS])


@lru_cache(maxsize=4096)
def alike(word: str, other: str) -> bool:
    """Whether two folded words are one in two inflections: they share all but their endings."""
    shared = 0
    for a, b in zip(word, other, strict=False):
        if a != b:
            break
        shared += 1
    short, long = sorted((len(word), len(other)))
    return shared >= max(_PREFIX_CHARS, min(0.6 * long, 0.75 * short))


def _is_misspelling(word: str, words: Collection[str]) -> bool:
    """Whether one of `words` is `word` with two letters exchanged or one replaced: "Melbroune", "Rumania"."""
    return len(word) > 4 and any(
        len(other) == len(word)
        and other[0] == word[0]
        and (sum(a != b for a, b in zip(word, other, strict=True)) == 1 or sorted(word) == sorted(other))
        for other in words
    )


def _is_acronym(name: Name, evidence: NameWords) -> bool:
    """ "WHO" for "World Health Organization", or the other way round."""
    if len(name.words) == 1:
        word = name.words[0]
        return len(word) >= 2 and name.text.replace(".", "").isupper() and word in evidence.initials
    initials = "".join(word[0] for word in name.words)
    return len(initials) >= 2 and initials in evidence.words


# ---- names of tools ----

_MCP_NAME = re.compile(r"mcp(__|--|[_-])(?P<server>.+?)\1(?P<name>.+)|(?P<id>\w+?)0mcp0(?P<of_id>.+)", re.ASCII)
_SERVER_NAME = re.compile(r"(?P<server>.+?)(?:__|[./:])(?!v?[0-9]+$)(?P<name>.+)", re.ASCII)
"""What follows is no version, as in ``send.v2``."""


def split_tool_name(name: str) -> tuple[str, str]:
    """The server's name, "" where the tool's name has none, and the rest.

    Clients of several tool servers put the server in front: ``mcp__server__tool`` (Claude Code, Codex), ``mcp_server_tool`` (Gemini CLI, VS
    Code), ``mcp--server--tool`` (Roo Code), ``<id>0mcp0tool`` (Cline), ``server__tool`` (goose), ``server.tool``, ``server/tool``.
    """
    if found := _MCP_NAME.fullmatch(name):
        return found["server"] or found["id"], found["name"] or found["of_id"]
    if found := _SERVER_NAME.fullmatch(name):
        return found["server"], found["name"]
    return "", name


def is_marked_as_server(name: str) -> bool:
    """Whether the name says itself that a tool server adds the tool (``mcp``)."""
    return _MCP_NAME.fullmatch(name) is not None
