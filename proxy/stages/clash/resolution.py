"""A clash and a strategy -> what becomes of it: which statement leaves, what takes its place, or what the user is asked.

Pure: the stage `clash` carries it out. A change of mind that was said as such is followed under every strategy, because nothing is left
to ask; only a critical clash with a strategy of its own is treated by that one all the same. What cannot be resolved stays as it is, and
is reported: the older statement keeps its place, the newer one is not taken for granted.
"""

from __future__ import annotations

import re
import time
import unicodedata
from collections.abc import Sequence
from typing import Literal, get_args

from msgspec import Struct

from proxy.exchange import Exchange, Message
from proxy.grounding.clashes.kinds import Resolution, Statement, StatementClash, Strategy
from proxy.grounding.clashes.plain import opened
from proxy.grounding.clashes.values import values_in
from proxy.language.patterns import LazyPattern, wordings
from proxy.language.text import fold, text_of

_OWN = ("user", "memory")
"""What the user said, or what is remembered of it."""
_UNITS = ((86_400.0, "d"), (3_600.0, "h"), (60.0, "min"), (1.0, "s"))
_MAX_DAYS_IN_HOURS = 72.0
"""Up to three days are told in hours: "48 h"."""
_ALTERNATIVES = frozenset(("seat", "price level"))
"""Attributes of which several values can be welcome: "window or aisle"."""
_MAX_WORDS = 10
"""More words than this are no item of a list."""
_PIECE = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*|\S")


def resolve_clash(
    clash: StatementClash,
    strategy: Strategy | str = "prefer_recent",
    *,
    now: float | None = None,
    critical_strategy: Strategy | str | None = None,
    language: str = "",
) -> Resolution:
    """What becomes of `clash`.

    A strategy may be written in capital letters, too (``PREFER_RECENT``). `now` is in seconds since the epoch, the present without it;
    `critical_strategy` is for critical clashes; a question is put in `language` (ISO 639-1), or else the newer statement's. Raises
    `ValueError` for a strategy that is none.
    """
    general, special = _strategy(strategy), _strategy(critical_strategy) if critical_strategy is not None else None
    special = special if clash.critical else None
    chosen = special or general
    if clash.type == "DUPLICATE_FACTS":
        return _keep_one_duplicate(clash, chosen)
    if chosen == "keep_existing":
        return _keep_existing(clash, "the policy keeps the existing statement")
    if clash.older.origin == "system":
        return _keep_existing(clash, "a system message is not overruled")
    if chosen == "prefer_recent" or (clash.update and special is None):
        return _prefer_recent(clash, time.time() if now is None else now, language)
    if chosen == "merge":
        text = _merge_statements(clash.older, clash.newer, clash.topic)
        if text is None:
            return _ask(clash, "the two statements cannot both hold: only the user can tell", language)
        return Resolution("merge", (), (clash.older, clash.newer), "both statements hold together", text=text)
    return _ask(clash, "only the user can tell", language)


def _strategy(name: str) -> Strategy:
    found: Strategy | None = next((one for one in get_args(Strategy) if one == name.lower()), None)
    if found is None:
        raise ValueError(f"strategy: expected one of {', '.join(get_args(Strategy))}, got {name!r}")
    return found


def _prefer_recent(clash: StatementClash, now: float, language: str) -> Resolution:
    if clash.simultaneous and not clash.update:
        return _ask(clash, "neither statement is more recent", language)
    if clash.older.origin in _OWN and clash.newer.origin not in _OWN:
        return _keep_existing(clash, f"what the user said is not overruled by a {clash.newer.origin.replace('_', ' ')}")
    return Resolution("prefer_recent", (clash.newer,), (clash.older,), _recency(clash, now))


def _keep_one_duplicate(clash: StatementClash, strategy: Strategy) -> Resolution:
    """Nothing is wrong: of memories and passages once is enough; people may say things twice, and so may records."""
    if clash.older.origin in ("memory", "passage"):
        return Resolution(strategy, (clash.newer,), (clash.older,), "the statements say the same")
    return Resolution(strategy, (clash.older, clash.newer), (), "the statements say the same")


def _ask(clash: StatementClash, reason: str, language: str) -> Resolution:
    asked = question(clash.older, clash.newer, language)
    kept = (clash.older, clash.newer)
    return Resolution("ask_user", kept, (), reason, question=asked.text, options=asked.options, resolved=False)


def _keep_existing(clash: StatementClash, reason: str) -> Resolution:
    return Resolution("keep_existing", (clash.older,), (), reason, resolved=False)


# ---- merging ----


def _merge_statements(older: Statement, newer: Statement, topic: str) -> str | None:
    """One statement in place of two of which both can hold: with a range of two budgets, or a list of what is welcome; else None.

    The words are the newer one's; only what joins the two is new.
    """
    said, says = (without_lead_in(one.text.strip()).rstrip(" .!;,") for one in (older, newer))
    if older.language != newer.language or any(one.negated for one in (*older.declares, *newer.declares)):
        return None
    words = _WORDS[newer.language]
    if topic == "budget":
        one, other = (values_in(text, "budget", newer.language) for text in (said, says))
        if len(one) != 1 or len(other) != 1:
            return None
        ((value, place), (new_value, new_place)) = next(iter(one.items())), next(iter(other.items()))
        amounts = [(float(value), said[slice(*place)]), (float(new_value), says[slice(*new_place)])]
        return f"{says[: new_place[0]]}{words.between.format(*(text for _, text in sorted(amounts)))}{says[new_place[1] :]}."
    return _list(said, says, words.either) if topic in _ALTERNATIVES else None


def _list(older: str, newer: str, either: str) -> str | None:
    """Two sentences that differ in one item, as one that names both."""
    one, other = list(_PIECE.finditer(older)), list(_PIECE.finditer(newer))
    mine, its = ([match[0].casefold() for match in found] for found in (one, other))
    start = _common_prefix_length(mine, its)
    end = _common_prefix_length(mine[start:][::-1], its[start:][::-1])
    items = one[start : len(one) - end], other[start : len(other) - end]
    if not start or not all(0 < len(item) <= _MAX_WORDS for item in items):
        return None
    (first, last), (new_first, new_last) = ((item[0].start(), item[-1].end()) for item in items)
    return f"{newer[:new_first]}{either.format(older[first:last], newer[new_first:new_last])}{newer[new_last:]}."


def _common_prefix_length(one: Sequence[str], other: Sequence[str]) -> int:
    """How many items two sequences have in common at the start."""
    pairs = zip(one, other, strict=False)
    return next((i for i, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


# ---- reasons ----


def _recency(clash: StatementClash, now: float) -> str:
    """Why the newer one is: ages where both times are known and far enough apart to tell, else their places."""
    old, new = clash.older.timestamp, clash.newer.timestamp
    if old is not None and new is not None and new > old and _age(now - new) != _age(now - old):
        return f"new statement is more recent ({_age(now - new)} against {_age(now - old)})"
    if clash.update:
        return "new statement is more recent (said as a change of mind)"
    return f"new statement is more recent ({_place(clash.newer)} after {_place(clash.older)})"


def _place(statement: Statement) -> str:
    """As the pages number messages, from 1."""
    return f"message {statement.message + 1}" if statement.message is not None else statement.origin.replace("_", " ")


def _age(seconds: float) -> str:
    """In its largest unit, with one decimal where that says more: ``48 h``, ``1.5 h``, ``5 d``, ``30 s``."""
    seconds = max(seconds, 0.0)
    for size, unit in _UNITS:
        if unit == "d" and seconds < _MAX_DAYS_IN_HOURS * 3600 + 1:
            continue
        if seconds >= size or unit == "s":
            return f"{round(seconds / size, 1):g} {unit}"
    return "0 s"


# ---- the question that the proxy puts to the user, and what they reply to it ----
#
# The question has three numbered options, built from both sides. Its wording is a function of the two statements, so that it is found again
# in the history that the client sends with the next turn. A reply counts where it is an option's number or letter, or words that one option
# alone has and no others; anything else, a denial too, leaves the question open: the model reads the reply as well.

Choice = Literal["older", "newer", "both", "open"]
"""``open``: the reply does not answer."""
MAX_OPTION_CHARS = 140
"""A longer statement is cut at a word: the user knows what they said."""
_CHOICES: tuple[Choice, Choice, Choice] = ("older", "newer", "both")
_MARKUP = re.compile(r"[*_`#>|]{1,8}|^\s{0,8}(?:[-•–]|\(?\d{1,2}[.)])\s+", re.M)
_ORDINALS = (
    frozenset("1 a 1st first former erste erster erstes ersten eins primera primero uno premier premiere".split()),  # noqa: SIM905
    frozenset("2 b 2nd second two latter zweite zweiter zweites zweiten zwei segunda segundo dos deuxieme seconde deux".split()),  # noqa: SIM905
    frozenset("3 c 3rd third three dritte dritter drittes dritten drei tercera tercero tres troisieme trois".split()),  # noqa: SIM905
)
_FILLERS = frozenset(
    """
    i id ill m am s d ll will would like want prefer choose pick take go going with for the that this it is lets let us option one number no
    nr answer choice please thanks thank you ok okay well then rather my and so yes
    ich bin nehme mochte will wahle gerne gern lieber die der das den bitte danke nummer antwort also dann ja
    yo soy quiero prefiero elijo la el lo opcion numero por favor gracias si
    je suis veux prefere choisis prends plutot le l numero reponse s il vous te plait merci oui
    """.split()  # noqa: SIM905
)
_BRIEF_WORDS = 3
"""In more words a question is one, and no choice: "luxury?"."""
_NUMBERING = frozenset("option number nummer antwort opcion numero reponse".split())  # noqa: SIM905
"""With one of them a number is an option's."""
_LEADING_NUMBER = re.compile(r"\W{0,4}([123])\s{0,2}(?:[.):;,–-](?!\d)|$)(?!.*(?:^|\s)\d[.)]\s)", re.S)
"""A reply that begins with a number, and is no list."""
_WORD = re.compile(r"\d+(?:[.,]\d+)*(?:(?:st|nd|rd|th)\b)?|[^\W\d_]+")
_COURTESY = LazyPattern(
    r"\b(?:hi|hello|hey|hallo|hola|bonjour|salut|good (?:morning|afternoon|evening)|guten (?:morgen|tag|abend)|buen[oa]s (?:días|tardes)|"
    r"thanks?(?: you| a lot)?|thank you|danke(?: schön| sehr)?|(?:muchas )?gracias|merci(?: beaucoup)?|ok(?:ay)?|fine|great|good|"
    r"gut|bien|vale|and|but|also|actually|please|sorry|no|well|now|und|aber|bitte|y|pero|et|mais)\b",
    re.I,
)


class _Words(Struct, frozen=True):
    """One language's wording."""

    choice: str
    """Where the user said both."""
    facts: str
    """Where the context says both."""
    flexible: str
    error: str
    changed: str
    both: str
    end: str
    between: str
    """What joins two statements that both hold; `either` too."""
    either: str


_WORDS = wordings(__file__, _Words)


class ClashQuestion(Struct, frozen=True):
    """What the user is asked."""

    text: str
    """All of it, with the numbered options."""
    options: tuple[str, str, str]
    """The older side, the newer side, and that both are fine; of two facts, that the other one is an error, that it has changed, and that
    both are right."""

    @property
    def listed(self) -> str:
        """The options as they stand in the text: what tells one question from another."""
        return "\n".join(f"{number}. {option}" for number, option in enumerate(self.options, 1))


class Dialogue(Struct, frozen=True):
    """What the history has about one question."""

    times: int
    """How often it was asked."""
    reply: Choice | None = None
    """The first that was understood."""
    message: int | None = None
    """Position of that reply."""


def question(older: Statement, newer: Statement, language: str = "", options: Sequence[str] = ()) -> ClashQuestion:
    """Which of two statements counts, in `language` (ISO 639-1) or else the newer one's; with `options`, those that were put before."""
    words = _WORDS[language or newer.language]
    first, second, both = _option(older), _option(newer), words.flexible
    if older.kind == newer.kind == "fact":
        first, second, both = f"{first} ({words.error})", f"{second} ({words.changed})", words.both
    if options:
        first, second, both = options
    lead = words.choice if {older.origin, newer.origin} <= {"user", "memory"} else words.facts
    made = ClashQuestion("", (first, second, both))
    return ClashQuestion(f"{lead}\n\n{made.listed}\n\n{words.end}", made.options)


def without_lead_in(text: str) -> str:
    """A statement without the words by which it carries on from another: "Actually, make it luxury" -> "Make it luxury"."""
    start = opened(text)[0]
    return text[start : start + 1].upper() + text[start + 1 :] if start and text[start:] else text


def _option(statement: Statement) -> str:
    """A statement in one line, with its source where it is not the user's own word."""
    text = " ".join(_MARKUP.sub(" ", statement.text).split()).strip(" \"'“”„«»")
    text = without_lead_in(text)
    if len(text) > MAX_OPTION_CHARS:
        cut = text.rfind(" ", MAX_OPTION_CHARS // 2, MAX_OPTION_CHARS)
        text = text[: cut if cut > 0 else MAX_OPTION_CHARS].rstrip(" ,;:") + " …"
    source = " ".join(statement.source.split())[:60]
    return f"{text} ({source})" if source and statement.origin in ("tool_result", "passage") else text


# ---- the history ----


def dialogue_about(messages: Sequence[Message], about: ClashQuestion) -> Dialogue:
    """How often the question was asked, and what the user said to it."""
    times = 0
    for i, message in enumerate(messages):
        if message.get("role") != "assistant" or not asked(text_of(message.get("content")), about):
            continue
        times += 1
        at = _next_user(messages, i)
        reply = read_reply(text_of(messages[at].get("content")), about) if at is not None else "open"
        if reply != "open":
            return Dialogue(times, reply, at)
    return Dialogue(times)


def asked(text: str, about: ClashQuestion) -> bool:
    """Whether an assistant's message asks this question, whatever the client has done to its white space."""
    return _plain(about.listed) in _plain(text)


def _plain(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).casefold().split())


def _next_user(messages: Sequence[Message], i: int) -> int | None:
    """The user message that follows `i` before the assistant speaks again."""
    speakers = ((j, messages[j].get("role")) for j in range(i + 1, len(messages)))
    at, role = next(((j, role) for j, role in speakers if role in ("user", "assistant")), (None, None))
    return at if role == "user" else None


def read_reply(reply: str, about: ClashQuestion) -> Choice:
    """What the user's next message answers to the question: a number that is also what another option says is none."""
    plain = _words(reply)
    asks = "?" in reply and len(plain) > _BRIEF_WORDS
    words = [word for word in plain if word not in _FILLERS] if not asks else []
    options = [_words(option) for option in about.options]
    if plain in options:
        return _CHOICES[options.index(plain)]
    leading = _LEADING_NUMBER.match(reply)
    numbers = {int(leading[1]) - 1} if leading else {_ordinal(word) for word in words}
    named = {i for i, option in enumerate(options) if words and set(words) <= set(option)}
    if len(numbers) == 1 and None not in numbers and (named <= numbers or _NUMBERING & set(plain)):
        named = {number for number in numbers if number is not None}
    return _CHOICES[named.pop()] if len(named) == 1 and not (leading and named - numbers) else "open"


def _words(text: str) -> list[str]:
    return _WORD.findall(fold(text))


def _ordinal(word: str) -> int | None:
    return next((number for number, names in enumerate(_ORDINALS) if word in names), None)


# ---- whether to ask ----


def is_task(text: str, stated: Sequence[str]) -> bool:
    """Whether a user's message asks for something beside what it has `stated`: to answer it with a question would leave that undone."""
    for statement in stated:
        text = text.replace(statement, " ", 1)
    return any(c.isalnum() for c in _COURTESY.sub(" ", text))


def may_ask(exchange: Exchange) -> bool:
    """Whether a person can be asked now: they spoke last, and what they wait for is one text in words."""
    last, wants = exchange.original.messages[-1], exchange.wants
    return last.get("role") == "user" and wants.choices == 1 and wants.free_text
