"""Which statements of an answer say that work was done: an account in, `WorkStatement`s out. Pure; words come from ``phrases.toml``.

A statement counts only where it says plainly, in a main clause of its own, that the speaker did the work or that it is done: no question,
condition, plan, quotation, example, report of somebody else's words, item of a list that is not said to be done. Where the account speaks
of trouble with the same work anywhere (it failed, it was not run, all but one passed), nothing is read of that work at all.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, Literal

from msgspec import Struct

from proxy.language.json.strings import looks_json
from proxy.language.lru import by_text
from proxy.language.number_words import word_value
from proxy.language.patterns import LazyPattern
from proxy.language.text import fold, is_negated, split_sentences

MAX_CHARS = 20_000
"""Of an answer that is read, from its end: an account stands there."""
MAX_SENTENCE_CHARS = 600
MAX_STATEMENTS = 40
"""Of an answer, the last: each is held against the whole run."""
_FENCE = re.compile(r"^[ \t]{0,8}(```|~~~).*?(?:^[ \t]{0,8}\1[`~]*[ \t]*$|\Z)", re.M | re.S)
_QUOTED = re.compile(r"[\"“„«][^\"“”„«»\n]{1,300}[\"”“»]")
_TAGGED = re.compile(r"<(\w+)>[^<]{0,400}</\1>")
_ITEM = re.compile(r"[ \t]*(?:[-*+•–]|\d{1,3}[.)])[ \t]+")
_EMPHASIS = re.compile(r"\*{1,3}|(?<!\w)_{1,2}|_{1,2}(?!\w)")
_CLAUSE = re.compile(r"[;:—!.]\s|\s[–-]\s|,\s(?:and\s|but\s)?|\s(?:and|but|so|und|aber|et|mais|y|pero|e|ed|ma|mas)\s")
_WORD = re.compile(r"[^\W_]+")
_BARE = re.compile(r"\W{0,4}(?:(?:done|successfully|also|erledigt|fait|listo|fatto|pronto)\W{1,3})?$")
"""Before a participle that begins its clause."""
_OBJECT = re.compile(
    r"\s*(?:$|[.!(`'\"]|(?:the|your|both|all|it|them|to|as|on|in|with|for|and|everything|\d|al?|auf|nach|als|sur|en|su|em)\b)"
)
"""Behind it: "Pushed to main", not "Cancelled orders are…"."""
_FILE = re.compile(
    r"(?<![\w/@:.])((?:~?/)?(?:[\w.@+-]+/){0,12}[\w.@+-]*[\w-]\.(?:py|pyi|js|jsx|mjs|cjs|ts|tsx|vue|svelte|rs|go|java|kts?|"
    r"scala|c|h|cc|cpp|hpp|cs|fs|rb|php|pl|lua|swift|m|mm|r|jl|ex|exs|erl|hs|clj|dart|sql|sh|bash|zsh|ps1|html?|css|scss|less|md|mdx|rst|txt|adoc|tex|json|jsonc|jsonl|"
    r"ya?ml|toml|ini|cfg|conf|env|xml|csv|tsv|proto|graphql|tf|gradle|lock|service|ipynb))(?![\w/])",
    re.I,
)
_FILES = r"`?[\w./@+-]+\.\w{1,8}`?"
_ID = re.compile(r"(?<![\w.-])#?(?=[\w-]*\d)([\w][\w-]{2,40})(?![\w-])")
_COUNT = re.compile(
    r"\s(?:(?:all|the|these|exactly|alle|die|les|los|i|os)\s)?(\w{1,12}) (?:(\w{1,20}) )?"
    r"(?:files|dateien|fichiers|archivos|ficheros|file|arquivos)\b"
)


Act = Literal["own", "bare", "passive", "state"]
"""Whether a statement tells of the speaker's own act ("I have cancelled it"; bare: "cancelled it"), of an act ("it has been cancelled"), or
of a state ("it is")."""


class Work(Struct, frozen=True):
    """A kind of work."""

    name: str
    what: str
    never: bool
    aside: bool
    """Another change never does it along the way without saying so."""
    tools: LazyPattern | None
    things: LazyPattern | None
    """Words of what such work is done to, in the name, the arguments or the result of a tool that may do it."""
    commands: LazyPattern | None
    proof: LazyPattern | None
    topic: LazyPattern | None
    words: Mapping[str, LazyPattern]
    """By language."""
    preterite: LazyPattern
    """With its accents, without which it is an order."""
    any_words: LazyPattern


class WorkStatement(Struct, frozen=True):
    """One sentence that says that work of a kind was done."""

    work: Work
    sentence: str
    """As it stands in the answer."""
    folded: str
    act: Act
    ids: frozenset[str] = frozenset()
    """Numbers and codes in it."""
    files: tuple[str, ...] = ()
    """Paths in it."""
    count: int | None = None
    """How many files."""
    everything: bool = False


class AccountSentence(Struct, frozen=True):
    """A sentence that states something as so: no question, condition, plan, quotation or item of an open list."""

    text: str
    folded: str
    """Without what is quoted."""
    done: bool
    """It tells of an act."""


class _Language(Struct, frozen=True):
    did: LazyPattern
    state: LazyPattern
    perfect: LazyPattern


@cache
def phrases() -> Mapping[str, Any]:
    """The file's tables."""
    return tomllib.loads((Path(__file__).parent / "phrases.toml").read_text(encoding="utf-8"))


def pattern(text: str) -> LazyPattern:
    """Of an expression, whose lines are joined."""
    return LazyPattern(text.replace("\n", ""))


@cache
def expression(table: str, name: str) -> LazyPattern:
    """One of the file's."""
    return pattern(phrases()[table][name])


@cache
def works() -> Mapping[str, Work]:
    """Every kind, by name."""
    return {name: _work(name, table) for name, table in phrases()["work"].items()}


def _work(name: str, table: Mapping[str, Any]) -> Work:
    words = {language: _with_noun(language, table) for language in _languages() if language in table}
    preterite = table.get("preterite", "(?!)")
    if "nouns" in table:
        preterite = f"(?:{preterite}|(?:{phrases()['light']['preterite']})(?= (?:\\w+ ){{0,3}}(?:{table['nouns']})\\b))"
    every = "|".join([*words.values(), fold(preterite)])
    optional = ("tools", "things", "commands", "proof", "topic")
    tools, things, commands, proof, topic = (pattern(table[key]) if key in table else None for key in optional)
    compiled = {language: pattern(rf"\b(?:{text})\b") for language, text in words.items()}
    first, any_words = pattern(rf"\b{preterite}\b"), pattern(rf"\b(?:{every})\b")
    return Work(
        name,
        table["what"],
        table.get("never", False),
        table.get("aside", False),
        tools,
        things,
        commands,
        proof,
        topic,
        compiled,
        first,
        any_words,
    )


def _with_noun(language: str, table: Mapping[str, Any]) -> str:
    """A language's words for a kind of work, "issued a refund" among them."""
    if "nouns" not in table:
        return str(table[language])
    light, nouns = phrases()["light"][language], table["nouns"]
    if language == "de":
        return rf"{table[language]}|(?:{nouns})\b(?: [^\s,.]+){{0,6}} (?:{light})"
    return rf"{table[language]}|(?:{light})(?= (?:\w+ ){{0,3}}(?:{nouns})\b)"


@cache
def _languages() -> Mapping[str, _Language]:
    return {name: _Language(*(pattern(table[key]) for key in ("did", "is", "perfect"))) for name, table in phrases()["languages"].items()}


def _open(name: str) -> LazyPattern:
    return expression("open", name)


def plain_german(text: str) -> str:
    """Folded text without the second letter of an umlaut that is written as two: "ueberwiesen" and "überwiesen" are one."""
    return text.replace("ue", "u").replace("ae", "a").replace("oe", "o")


def mentions(work: Work, text: str) -> bool:
    """Whether folded `text` speaks of such work as done, by whomever."""
    if work.any_words.search(text) is None and work.words["de"].search(plain_german(text)) is None:
        return False
    return work.topic is None or work.topic.search(text) is not None


def tells_of(work: Work, text: str) -> bool:
    """Whether somebody's words may say that such work is done: every form of it counts, whatever stands around."""
    text = text[-MAX_CHARS:]
    if not mentions(work, fold(text)):
        return False
    clauses = [clause.strip().lower() for line in text.splitlines() for clause in _CLAUSE.split(line.replace("’", "'"))]
    return any((work.topic is not None and mentions(work, clause)) or next(_forms(work, clause), None) is not None for clause in clauses)


@by_text(2048)
def is_summary(text: str) -> bool:
    """Whether a message stands for a conversation before it."""
    return _open("summary").search(fold(text[:2000])) is not None


def is_cleared(result: str) -> bool:
    """Whether a result is not there any more, by the words that stand for it."""
    return len(result) < 200 and _open("cleared").search(fold(result)) is not None


def is_own_look(said: str) -> bool:
    """Whether a user tells what they see themselves: "7/7 here", "runs on my machine"."""
    return _open("own_look").search(fold(said[-MAX_CHARS:])) is not None


def was_done_before(work: Work, result: str) -> bool:
    """Whether a failure says that the work was done before."""
    folded = fold(result[:2000])
    return work.any_words.search(folded) is not None and _open("done_before").search(folded) is not None


def statements_of(answer: str) -> list[WorkStatement]:
    """All of an answer's statements of work done, in order."""
    text = answer[-MAX_CHARS:]
    folded_text = fold(text)
    spoken_of = [work for work in works().values() if mentions(work, folded_text)]
    if not spoken_of or looks_json(answer):
        return []
    sentences = list(_sentences(text))
    untroubled = [work for work in spoken_of if not any(_is_trouble(work, folded) for _, folded, _ in sentences)]
    plain = [one for one in sentences if not _open("sentence").search(one[1])]
    found = (_read(work, *sentence) for sentence in dict.fromkeys(plain) for work in untroubled)
    return [statement for statement in found if statement is not None][-MAX_STATEMENTS:]


def account_of(answer: str, *, every: bool = False) -> list[AccountSentence]:
    """The sentences of an answer that may tell of work, whatever work it is, in order; the last of a long one. With `every`, all but
    questions: what may be a plan or a quotation, too.
    """
    if looks_json(answer):
        return []
    said_once = dict.fromkeys((said, folded) for said, folded, open_item in _sentences(answer[-MAX_CHARS:]) if every or not open_item)
    plain = [one for one in said_once if not (one[1].endswith("?") if every else _open("sentence").search(_open("alone").sub(" ", one[1])))]
    return [AccountSentence(said, folded, _open("done").search(_unquoted(said).lower()) is not None) for said, folded in plain][
        -MAX_STATEMENTS:
    ]


def split_clauses(sentence: str) -> list[str]:
    """Without what is quoted."""
    return [clause for clause in _CLAUSE.split(_unquoted(sentence)) if clause.strip()]


def file_names(text: str) -> tuple[str, ...]:
    """The paths in it, each once."""
    return tuple(dict.fromkeys(_FILE.findall(text)))


def speaks_of_trouble(answer: str) -> bool:
    """Whether an account says anywhere that something went wrong."""
    return _open("trouble").search(_open("mended").sub(" ", fold(_unquoted(answer[-MAX_CHARS:])))) is not None


def _sentences(text: str) -> Iterator[tuple[str, str, bool]]:
    """Each sentence, folded, and whether it is an item of a list that does not say of itself that its items are done."""
    text, lead = _TAGGED.sub(" ", _FENCE.sub("\n", text)), ""
    for line in text.splitlines():
        if not line.strip():
            continue
        mark = _ITEM.match(line)
        if mark is None:
            lead = line.strip()
        heads = lead.rstrip("*_ ").endswith(":") or lead.startswith(("#", "**"))
        open_item = mark is not None and heads and not _open("lead").search(fold(lead))
        for sentence in split_sentences(line[mark.end() :] if mark is not None else line):
            said = _EMPHASIS.sub("", sentence).strip()
            if said and len(said) <= MAX_SENTENCE_CHARS and not line.lstrip().startswith(("#", "|", ">")):
                yield said, fold(_unquoted(said)), open_item


def _unquoted(sentence: str) -> str:
    return _QUOTED.sub("…", sentence).replace("’", "'")


def _is_trouble(work: Work, folded: str) -> bool:
    """Whether a sentence, or of work that is done once a clause, speaks of the work and of trouble."""
    if work.topic is None and len(clauses := _CLAUSE.split(folded)) > 1:
        return any(_is_trouble(work, clause) for clause in clauses)
    topic = work.any_words if work.topic is None else work.topic
    if topic.search(folded) is None and not (work.tools is not None and any(work.tools.fullmatch(w) for w in _WORD.findall(folded))):
        return False
    return _open("trouble").search(work.any_words.sub(" ", _open("mended").sub(" ", folded))) is not None


def _read(work: Work, sentence: str, folded: str, open_item: bool) -> WorkStatement | None:
    """What a sentence states of one kind of work; None where nothing."""
    if not mentions(work, folded):
        return None
    for clause in _CLAUSE.split(_unquoted(sentence)):  # before folding, which would make "and" of an Italian "is"
        stated = _stated(work, clause.strip().lower(), folded, open_item)
        if stated is not None:
            return _statement(work, sentence, folded, stated)
    return None


def _stated(work: Work, clause: str, sentence: str, open_item: bool) -> Act | None:
    """What a clause, in lower case, says of the work; None where nothing. `sentence` is folded."""
    if work.topic is not None:
        return "state" if not open_item and _says_state(work, fold(clause)) else None
    for name, act, around in _forms(work, clause):
        if act == "bare":  # it goes on with what the clause before it says: "will be calculated and paid"
            around = work.any_words.sub(" ", sentence)
        if not is_negated(clause, name) and not _open("clause").search(around) and (act in ("own", "bare") or not open_item):
            return "own" if act == "bare" else act
    return None


def _forms(work: Work, clause: str) -> Iterator[tuple[str, Act, str]]:
    """The forms of the work's words that may say that it is done: their language, what they say, and what stands around them."""
    for match in work.preterite.finditer(clause):
        yield "es", "own", fold(f"{clause[: match.start()]} {clause[match.end() :]}")
    for name, words in work.words.items():
        language, folded = _languages()[name], plain_german(fold(clause)) if name == "de" else fold(clause)
        for match in words.finditer(folded):
            before, rest = folded[max(0, match.start() - MAX_SENTENCE_CHARS) : match.start()], folded[match.end() :][:MAX_SENTENCE_CHARS]
            if language.did.search(before):
                yield name, "passive" if _open("plural").search(before) else "own", f"{before} {rest}"
            elif language.state.search(before):
                yield name, "passive" if language.perfect.search(before) else "state", f"{before} {rest}"
            elif name != "fr" and _BARE.fullmatch(before) and _OBJECT.match(rest):  # in French an order may look so
                yield name, "bare", f"{before} {rest}"


def _says_state(work: Work, clause: str) -> bool:
    """Of work that is claimed by its result: topic and result in one clause, or "I ran the tests, and everything passes"."""
    assert work.topic is not None
    if not work.any_words.search(clause):
        return False
    around = work.any_words.sub(" ", clause)
    if _open("clause").search(around) or any(is_negated(around, language) for language in work.words):
        return False
    return work.topic.search(clause) is not None or _open("all").search(clause) is not None


def _statement(work: Work, sentence: str, folded: str, act: Act) -> WorkStatement | None:
    files = file_names(sentence)
    count = _count(work, folded) if work.name == "files" else None
    if work.name == "files" and not files and count is None:
        return None
    ids = frozenset(match.lower() for match in _ID.findall(sentence))
    return WorkStatement(work, sentence, folded, act, ids, files, count, _open("all").search(folded) is not None)


def _count(work: Work, folded: str) -> int | None:
    """How many files a sentence says were worked on."""
    for word in work.any_words.finditer(folded):
        if found := _COUNT.match(folded, word.end()):
            words = [part for part in (found[2], found[1]) if part]
            values = [float(part) if part.isdigit() else word_value(part, language) for part in words for language in _languages()]
            return next((int(value) for value in values if value and value > 1), None)
    return None


def is_object(statement: WorkStatement, file: str) -> bool:
    """Whether the sentence says of that very file that it was changed: "updated `a.py` and `b.py`", "`a.py` was updated"."""
    folded, name = statement.folded, re.escape(fold(file))
    words = statement.work.any_words.pattern
    listed = rf"(?:{_FILES}(?:,? (?:and|und|et|y|e) |, )){{0,12}}`?{name}"
    after = LazyPattern(rf"{words}[^.`/,]{{0,24}}{listed}")
    if after.search(folded) and not re.search(rf"\b(?:to|for|from|by|of|into|with|see|like|than|per) `?{name}", folded):
        return True
    return re.match(rf"\W{{0,3}}`?{name}`?,? (?:is|are|was|has been|wurde|ist|est|a ete|esta|ha sido|e stat|foi)\b", folded) is not None
