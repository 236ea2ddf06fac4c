"""Sentences that say plainly, and say nothing else, what one person has one of: "I live in Rome.", "Call me Tom.", "Ich bin kein Veganer."

In: a sentence. Out: `Declaration`s, of each its attribute and normalised value. The whole sentence has to be one of those of
``sentences.toml``: a condition, a time, a second thing, a wish, a supposition or another person makes it something else, without a list of
all of them. What stands around a sentence, and may take away from what it says, is `clashes.reading`'s to see.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from proxy.grounding.clashes import values
from proxy.grounding.clashes.kinds import Declaration
from proxy.grounding.clashes.values import LEXICON, REPLY_LANGUAGE, values_in, words_of
from proxy.language.patterns import LazyPattern
from proxy.language.text import fold

MAX_CHARS = 160
"""A longer sentence says more than one thing."""
_ENDS = " \t\n.!…*_"
_LEAD_IN = LazyPattern(
    r"(?:(?:hi|hello|hey|thanks|thank you|great|ok|okay|please note(?: that)?|note that|by the way|fyi|just so you know|well|yes|"
    r"hallo|guten (?:tag|morgen|abend)|danke|gut|übrigens|ja|hola|buenos días|gracias|por cierto|vale|sí|bonjour|salut|merci|au fait|oui)"
    r"(?: (?:there|again|you|everyone|zusammen|à tous))?(?:\s*[,!:–—-]\s*|\s+(?=i\b|i['’]|my\b|ich\b|mein|mi\b|je\b|j['’])))+",
    re.I,
)
_CHANGE = LazyPattern(
    r"(?:(?:no|oh|oops|(?:oh,? |no,? )?wait|actually|sorry|my mistake|correction|update|on second thoughts?|scratch that|never ?mind|"
    r"i(?:['’]ve)? changed my mind|change of plans?|i mean|i meant(?: to say)?|that (?:was|is) wrong|"
    r"forget what i said(?: before| earlier)?|"
    r"nein|ach nein|doch|moment|warte|nein,? warte|eigentlich|entschuldigung|korrektur|das war falsch|ich meinte|"
    r"ich habe (?:es mir anders überlegt|meine meinung geändert)|vergiss,? was ich(?: vorhin)? gesagt habe|"
    r"no,? espera|espera|en realidad|perdón|perdona|corrección|mejor dicho|quise decir|he cambiado de (?:opinión|idea)|"
    r"olvida lo que (?:he dicho|dije)|non|non,? attends|attends|en fait|finalement|pardon|désolée?|je voulais dire|"
    r"j['’]ai changé d['’]avis|oublie ce que j['’]ai dit)\s*[,.:;!–—-]+\s*|"
    r"(?:actually|instead|correction|update|i meant(?: to say)?|eigentlich|en realidad|en fait|finalement)\s+)+",
    re.I,
)
"""What says that something else was said before."""
_WORD = re.compile(r"\w*")
_OPENING = frozenset(LEXICON["opening"].split())
"""With one of these words begins whatever `_LEAD_IN` and `_CHANGE` match: few sentences do."""
_MAKING = frozenset(LEXICON["making"].split())
_SPEAKING = frozenset(LEXICON["speaking"].split())
"""How a sentence begins in which somebody speaks of themselves."""
_GROUP, _PART = re.compile(r"\(\?P<(\w+)>"), re.compile(r"\{([A-Z][A-Z_]+)\}")
UNNAMED_ATTRIBUTE = "it"
"""The attribute of "make it 8 pm": its scope says of what sort the value is, ``time``, ``budget`` or ``price level``."""
WISHES = frozenset((UNNAMED_ATTRIBUTE, REPLY_LANGUAGE, "budget", "diet", "allergy", "seat", "price level"))
"""Attributes by which somebody says what they want or may have, and not only what is so."""
_SCOPE_CHARS = 4
"""Letters that tell hotels from flights: hotel, hotels, hoteles."""


def may_declare(sentence: str) -> bool:
    """Whether `sentence` begins, behind greetings and words of change, as one of somebody's own that declares something."""
    said = sentence.rstrip(_ENDS)
    return len(said) <= MAX_CHARS and _may_speak(said[opened(sentence)[0] :])


def declared(sentence: str, language: str | Callable[[], str] = "en", *, of_memory: bool = False) -> tuple[Declaration, ...]:
    """What `sentence` declares, where that is all that it says.

    Of somebody's own words only sentences in the first person, or of a person by name, count; a memory also speaks of "the user".
    `language` may be a function, for where it is not known yet: few sentences come so far that it matters.
    """
    end = len(sentence.rstrip(_ENDS))
    if not 0 < end <= MAX_CHARS:
        return ()
    start, change = opened(sentence)
    if not of_memory and _is_change_order(sentence[start:]) and (made := _declared_change(sentence, start, end)):
        return made
    one = _read(sentence, start, end, language, of_memory=of_memory, change=change)
    return (one,) if one is not None else ()


def is_change(sentence: str) -> bool:
    """Whether it opens as a change of mind, a correction or news: "actually", "doch", "ya no", "finalement"."""
    return opened(sentence)[1]


def opened(sentence: str) -> tuple[int, bool]:
    """Where the statement begins behind greetings and words of change, and whether there are such."""
    at, change = 0, False
    while _may_open(sentence, at):
        lead, turn = _LEAD_IN.match(sentence, at), _CHANGE.match(sentence, at)
        change = change or turn is not None
        end = max((match.end() for match in (lead, turn) if match is not None), default=at)
        if end == at:
            break
        at = end
    return at, change


def _may_open(sentence: str, at: int) -> bool:
    word = _WORD.match(sentence, at)
    return word is not None and word[0].lower() in _OPENING


def _declared_change(sentence: str, start: int, end: int) -> tuple[Declaration, ...]:
    """What "it" is to be."""
    match = _change_pattern().fullmatch(sentence[start:end])
    if match is None or match.lastgroup is None:
        return ()
    language, text = match.lastgroup, match[match.lastgroup]
    sort, value = sort_of(text, language)
    return (Declaration(UNNAMED_ATTRIBUTE, value, start, end, scope=sort, change=True),) if value else ()


def sort_of(text: str, language: str) -> tuple[str, str]:
    """Of what sort a value is that nothing is said of, and the value; "" for both where it is not just one."""
    for sort in ("time", "budget", "price level"):
        values = values_in(text, sort, language)
        if [(0, len(text))] == list(values.values()):
            return sort, next(iter(values))
    return "", ""


def _read(sentence: str, start: int, end: int, language: str | Callable[[], str], *, of_memory: bool, change: bool) -> Declaration | None:
    """``sentence[start:end]`` as a declaration."""
    said = sentence[start:end]
    if not of_memory and not _speaks_plainly(said):
        return None
    for attribute, pattern in _patterns().items():
        match = pattern.fullmatch(said)
        if match is None:
            continue
        groups = {name.partition("_")[0]: text for name, text in match.groupdict().items() if text is not None}
        value = values.value_of(attribute, groups["v"], language if isinstance(language, str) else language())
        if value is None:
            continue
        scope = fold(groups.get("who", "") or groups.get("scope", "")).strip()
        attribute, value, scope = _sorted_in(attribute, value, scope)
        before = values.place(fold(groups["frm"])) if "frm" in groups else ""
        change = change or "new" in groups
        negated, of_task = "no" in groups, "task" in groups
        return Declaration(attribute, value, start, end, scope=scope, negated=negated, change=change, before=before, of_task=of_task)
    return None


def _sorted_in(attribute: str, value: str, scope: str) -> tuple[str, str, str]:
    """A number by what is counted, a product by the place that it takes, a price level by what has it, whatever the grammar."""
    if attribute == "number":
        return f"number of {values.thing(scope)}", value, ""
    if attribute == "product":
        place, name = values.product(value)
        return place, name, "" if scope in values.PRODUCTION else scope
    return attribute, value, scope[:_SCOPE_CHARS] if attribute == "price level" else scope


# ---- how a sentence begins ----


def _speaks_plainly(sentence: str) -> bool:
    """Whether it begins as one in which somebody says something of themselves, or of somebody by name."""
    return _first(sentence) in _SPEAKING or _of_a_name().match(sentence) is not None


def _is_change_order(sentence: str) -> bool:
    """Whether it begins as one that has something be otherwise."""
    return _first(sentence) in _MAKING


def _may_speak(sentence: str) -> bool:
    """True wherever `_is_change_order` or `_speaks_plainly` is, of a sentence or of the first of its clauses."""
    words = sentence[:48].split(None, 1)
    first = _bare(words[0]) if words else ""
    return first in _SPEAKING or first in _MAKING or _of_a_name().match(sentence) is not None


def _first(sentence: str) -> str:
    return _bare(sentence[:24].split(" ", 1)[0])


def _bare(word: str) -> str:
    return word.lower().replace("’", "'").rstrip(",:;").partition("-")[0]


# ---- the patterns ----


@cache
def _table() -> dict[str, Any]:
    """``sentences.toml``, with the parts that the lists of `clashes.values` make."""
    table = tomllib.loads(Path(__file__).with_name("sentences.toml").read_text(encoding="utf-8"))
    lists = ((name, words_of(" ".join(LEXICON[listed].values()))) for name, listed in (("THING", "things"), ("TONGUE", "tongues")))
    table["parts"] |= {name: "|".join(sorted(set(words), key=len, reverse=True)) for name, words in lists}
    products = sorted(words_of(" ".join(LEXICON["products"].values())), key=len, reverse=True)
    table["parts"]["PRODUCT_NAME"] = "|".join(products)
    return table


def _fill_parts(alternatives: Sequence[str]) -> str:
    """One pattern of several, with the parts that they name."""
    pattern = "|".join(alternatives)
    while _PART.search(pattern) is not None:
        pattern = _PART.sub(lambda match: _table()["parts"][match[1]], pattern)
    return pattern


@cache
def _patterns() -> dict[str, LazyPattern]:
    """By attribute one pattern of all its sentences; its groups are numbered behind their names: ``v_1``, ``v_4``."""
    sentences = _table()["sentences"]
    return {attribute: LazyPattern(_number_groups(_fill_parts(alternatives)), re.I) for attribute, alternatives in sentences.items()}


@cache
def _change_pattern() -> LazyPattern:
    return LazyPattern(_fill_parts(_table()["others"]["make_it"]), re.I)


@cache
def _of_a_name() -> LazyPattern:
    return LazyPattern(_fill_parts(_table()["others"]["of_a_name"]))


def _number_groups(pattern: str) -> str:
    """`pattern` with each group's name made its own: a name may stand in it once."""
    numbers = count(1)
    return _GROUP.sub(lambda match: f"(?P<{match[1]}_{next(numbers)}>", pattern)
