"""What two statements are to each other: a clash and of which type, a change of mind, the same fact twice, or nothing.

In: a `Pair` and, where no rule decides it, what a verifier says of each as a claim that the other is evidence for. Out: a `StatementClash`
or None. Rules decide what both plainly say of one attribute. For everything else the built-in answer to "can both be true of the same
person now?" is whether the verifier calls one contradicted by the other. A clash is certain where it can be acted on: what holds only for
a task (a budget, a number of guests) clashes only while nothing else has come up, or where the change is said as such; "make it 8 pm" where
one time only was spoken of. Pure: who asks is `clashes.detector`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct

from proxy.exchange.judgements import ClaimPair, Support
from proxy.grounding.clashes.kinds import ClashType, Declaration, Pair, Statement, StatementClash
from proxy.grounding.clashes.plain import UNNAMED_ATTRIBUTE
from proxy.grounding.clashes.reading import is_one_of_several
from proxy.grounding.clashes.values import PRODUCT_PLACES, REPLY_LANGUAGE, contradict, values_in, whole
from proxy.grounding.evidence.retrieval import FUNCTION_WORDS, terms
from proxy.language.detection import language
from proxy.language.number_words import MAIN_LANGUAGES
from proxy.language.text import fold

CONTRADICTED = 0.93
"""Probability that each of two statements contradicts the other, from which they clash: with the built-in verifier none of the 7,839
held-out pairs of `training.clash` that go together goes so far; of those that clash none of 874 turns, 8 of 664 edited sentences, 3 of 781
inference pairs."""
DUPLICATE_SUPPORT = 0.8
"""Probability that each of two facts supports the other, from which they are the same."""
CRITICAL = frozenset(("diet", "allergy", "budget", "email", "phone"))
"""A wrong value costs health, money, or sends something to somebody else."""
CRITICAL_SHARE = 0.1
"""Budgets that differ by more than this share of the larger one are critical."""
MAX_SCANNED_CHARS = 20_000
"""Of the conversation, in which another value of the same sort is looked for; in a longer one it is not told what "it" is."""
OF_A_TASK = frozenset(("budget", "people")) | PRODUCT_PLACES
"""What holds for one thing that somebody plans or runs, and not for them."""
_LONG_WORD = re.compile(r"[^\W\d_]{4,}")
_SMALL_WORDS = frozenset(
    [
        "please",
        "thanks",
        "thank",
        "what",
        "there",
        "hello",
        "okay",
        "bitte",
        "danke",
        "gibt",
        "hallo",
        "gracias",
        "favor",
        "hola",
        "merci",
        "bonjour",
        "voila",
    ]
)
_VITAL = ("allerg", "alérg", "alergi", "intoler", "intolér", "medic", "medik", "médic")
_FROM_SOURCES = frozenset(("tool_result", "passage", "memory"))


class ConversationText(Struct, frozen=True):
    """A user's, or the model's, message, as far as it bears on a clash."""

    position: int
    text: str
    of_user: bool = True


def by_rule(pair: Pair) -> StatementClash | None:
    """The clash that needs no judge; None where no rule says anything."""
    older, newer = pair.older, pair.newer
    if older.hash == newer.hash:
        return _duplicate(older, newer)
    return _declared_clash(older, newer) or _changed_value_clash(older, newer)


def questions(pair: Pair) -> tuple[ClaimPair, ClaimPair]:
    """What a verifier is asked of a pair: does the older one support the newer one, and the other way round."""
    older, newer = pair.older, pair.newer
    return ClaimPair(newer.text, older.text, newer.language), ClaimPair(older.text, newer.text, older.language)


def contradiction(pair: Pair, answers: Mapping[ClaimPair, Support]) -> float:
    """Probability that the two cannot both hold, by the verifier's answers to both `questions`: what the surer of them says."""
    return max(answers[question].contradicted for question in questions(pair))


def judged(pair: Pair, answers: Mapping[ClaimPair, Support]) -> StatementClash | None:
    """The clash that the verifier's answers make of a pair, or the same fact twice; None for neither."""
    score = min(answers[question].contradicted for question in questions(pair))
    if score >= CONTRADICTED:
        return None if is_addition(pair) else incompatible(pair, score)
    support = min(answers[question].supported for question in questions(pair))
    if "preference" in (pair.older.kind, pair.newer.kind) or support < DUPLICATE_SUPPORT:
        return None
    return _clash(pair, "DUPLICATE_FACTS", _words_of_both(pair), "both say the same", score=support)


def incompatible(pair: Pair, score: float, reason: str = "") -> StatementClash:
    """The clash of a pair that somebody says cannot both hold."""
    topic = _words_of_both(pair)
    reason = reason or f"{topic}: the two cannot both hold"
    return _clash(pair, None, topic, reason, score=score, critical=_is_vital(pair.older) or _is_vital(pair.newer))


def is_addition(pair: Pair) -> bool:
    """Whether the newer one adds to what was wanted: "I'd also like to see Naples"."""
    return pair.newer.kind == "preference" and is_one_of_several(pair.newer.text)


def settled(pair: Pair) -> bool:
    """Whether rules know all about a pair, and nobody need be asked."""
    same = {whole(one.attribute) for one in pair.older.declares} & {whole(one.attribute) for one in pair.newer.declares}
    return bool(same) or by_rule(pair) is not None


def _clash(pair: Pair, kind: ClashType | None, topic: str, reason: str, *, score: float = 1.0, critical: bool = False) -> StatementClash:
    """A clash with what follows from who said its statements, and when; `kind` is for what is said twice."""
    older, newer = pair.older, pair.newer
    update = newer.update and kind is None
    return StatementClash(
        older,
        newer,
        type=kind or ("OUTDATED_INFORMATION" if update else _type(older, newer)),
        topic=topic,
        score=round(score, 4),
        reason=reason,
        critical=critical,
        simultaneous=not update and _simultaneous(older, newer),
        update=update,
    )


def _is_vital(statement: Statement) -> bool:
    """Whether somebody's health depends on it."""
    return statement.kind == "preference" and any(word in statement.text.lower() for word in _VITAL)


def _words_of_both(pair: Pair) -> str:
    """The words that both have, up to three."""
    shared = frozenset(terms(pair.older.text)) - FUNCTION_WORDS
    words = [word.strip(".,;:!?\"'()") for word in pair.newer.text.split()]
    common = [word.lower() for word in words if len(word) > 2 and shared & frozenset(terms(word))]
    return " ".join(list(dict.fromkeys(common))[:3]) or pair.older.kind


def _excluding(older: Statement, newer: Statement) -> tuple[Declaration, Declaration] | None:
    """The first two declarations of `older` and `newer` that exclude each other."""
    found = ((old, new) for new in newer.declares for old in older.declares if contradict(old, new))
    return next(found, None)


def _duplicate(older: Statement, newer: Statement) -> StatementClash | None:
    if older.kind != "fact" and not older.declares:
        return None  # nobody minds that a wish is repeated
    return _clash(Pair(older, newer), "DUPLICATE_FACTS", newer.topic or "statement", "the same is said twice")


def _declared_clash(older: Statement, newer: Statement) -> StatementClash | None:
    """Both plainly say the same of the same, and the two values exclude each other."""
    values = _excluding(older, newer)
    if values is None:
        return None
    old, new = values
    topic = old.attribute.replace("_", " ")
    critical = _far(old, new) if old.attribute == "budget" else old.attribute in CRITICAL
    return _clash(Pair(older, newer), None, topic, f"{topic}: {_value_text(old)} against {_value_text(new)}", critical=critical)


def _changed_value_clash(older: Statement, newer: Statement) -> StatementClash | None:
    """ "Make it 8 pm", where the older one names another time."""
    made = next((one for one in newer.declares if one.attribute == UNNAMED_ATTRIBUTE), None)
    old = list(values_in(older.text, made.scope, older.language)) if made is not None and older.origin == "user" else []
    if made is None or len(old) != 1 or old[0] == made.value:
        return None
    return _clash(Pair(older, newer), None, made.scope, f"{made.scope}: {old[0]} is now {made.value}")


def _value_text(value: Declaration) -> str:
    return f"not {value.value}" if value.negated else value.value


def _far(old: Declaration, new: Declaration) -> bool:
    one, other = float(old.value.split(" ")[0]), float(new.value.split(" ")[0])
    return abs(one - other) > CRITICAL_SHARE * max(one, other)


def _type(older: Statement, newer: Statement) -> ClashType:
    if older.kind == newer.kind == "preference":
        return "CONTRADICTORY_PREFERENCES"
    remembered = older.origin in _FROM_SOURCES and (newer.origin in _FROM_SOURCES or newer.origin == "user")
    later = remembered and not _simultaneous(older, newer) and _is_later(older, newer)
    return "OUTDATED_INFORMATION" if later else "CONFLICTING_FACTS"


def _is_later(older: Statement, newer: Statement) -> bool:
    """Whether the newer one is known to be newer: by its time, or as a tool's second answer."""
    if older.timestamp is not None and newer.timestamp is not None:
        return newer.timestamp > older.timestamp
    return older.origin == newer.origin == "tool_result" and older.message != newer.message


def _simultaneous(older: Statement, newer: Statement) -> bool:
    if older.timestamp is not None and newer.timestamp is not None:
        return older.timestamp == newer.timestamp
    return older.piece == newer.piece or (older.message is None and newer.message is None)


# ---- whether it is certain ----


def doubt_about(clash: StatementClash, said: Sequence[ConversationText]) -> str:
    """Why a clash cannot be acted on, given what the user and the model have said; "" where it can. Two of one message are certain only as
    a change.
    """
    older, newer = clash.older, clash.newer
    if clash.type == "DUPLICATE_FACTS":
        return "the same is said twice"
    if not {older.origin, newer.origin} <= {"user", "memory"}:
        return "one of the two is neither the user's nor a memory"
    if older.doubt or newer.doubt:
        return f"the newer one: {newer.doubt}" if newer.doubt else f"the older one: {older.doubt}"
    together = older.message == newer.message and older.message is not None and newer.origin == "user"
    both = _excluding(older, newer)
    if older.origin == newer.origin == "user" and len({tongue for one in (older, newer) if (tongue := _plain_language(one.text))}) > 1:
        return "they are in two languages"  # two texts
    if both is None:
        return "" if not together and _is_what_it_means(older, newer, said) else "they do not plainly give two values to one thing"
    if together and not both[1].change:
        return "both stand in one message, and the newer one is not said as a change"
    if both[0].attribute == REPLY_LANGUAGE:  # of one answer, or of all
        return "a language may be meant for one answer only"
    of_task = both[0].attribute in OF_A_TASK or both[0].of_task or both[1].of_task
    if of_task and not both[1].change and _something_new(older, newer, said):
        return "something else has come up since the older one, which may have been about another task"
    return ""


def _plain_language(text: str) -> str:
    """The language of a sentence, where it is one of the four and plain to see."""
    found = language(text, default="")
    return found if found in MAIN_LANGUAGES else ""


def _something_new(older: Statement, newer: Statement, said: Sequence[ConversationText]) -> bool:
    """Whether something came up since the older one was said that was not spoken of before."""
    if older.message is None or newer.message is None:
        return True
    before: set[str] = set()
    since: set[str] = set()
    for one in said:
        if one.of_user and one.position <= newer.message:
            (since if one.position > older.message else before).update(_words(one.text))
    return bool(since - before - set(_words(newer.text)))


def _words(text: str) -> Iterable[str]:
    return (word for found in _LONG_WORD.findall(text) if (word := fold(found)) not in FUNCTION_WORDS and word not in _SMALL_WORDS)


def _is_what_it_means(older: Statement, newer: Statement, said: Sequence[ConversationText]) -> bool:
    """Whether "make it 8 pm" can only mean the older statement's value: no other of its sort was spoken of."""
    made = next((one for one in newer.declares if one.attribute == UNNAMED_ATTRIBUTE), None)
    if made is None or older.origin != "user" or older.message is None or newer.message is None:
        return False
    before = [one.text for one in said if one.position < newer.message]
    if sum(map(len, before)) > MAX_SCANNED_CHARS:
        return False
    return len({value for text in before for value in values_in(text, made.scope, newer.language)}) == 1
