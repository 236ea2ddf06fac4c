"""What two statements are to each other: a clash and of which type, a change of mind, the same fact twice, or nothing.

In: a `Pair` and, where rules do not decide it, what a verifier and an embedder said (`proxy.grounding.clashes.detecting.questions`). Out: a
`StatementClash` or None. Rules decide values of one slot, and the same thing loved and hated; the rest is a probability
(`proxy.grounding.clashes.detecting.features`). Pure: who asks the verifier is `proxy.grounding.clashes.detecting.judging`.
"""

from __future__ import annotations

import re

from proxy.grounding.clashes.detecting.candidates import Pair
from proxy.grounding.clashes.detecting.certainty import clash_declared
from proxy.grounding.clashes.detecting.features import Answers, Cosines, features, regression, shared_terms
from proxy.grounding.clashes.detecting.questions import LEFT_OUT, backward, forward, is_wish, sides, targets
from proxy.grounding.clashes.kinds import ClashType, Declared, SlotValue, Statement, StatementClash
from proxy.grounding.clashes.statements import categories
from proxy.grounding.clashes.statements.cues import is_addition
from proxy.grounding.clashes.statements.plain import IT
from proxy.grounding.clashes.statements.slot_cues import SEVERAL_OF_THEM
from proxy.grounding.clashes.statements.slots import CRITICAL, clashing
from proxy.grounding.evidence.retrieval import FUNCTION_WORDS, terms
from proxy.language.patterns import LazyPattern

DUPLICATE_SUPPORT = 0.8
"""Probability that each of two facts supports the other, from which they are the same."""
CERTAIN = 0.95
"""Probability that each of two statements contradicts the other, from which they clash whatever else is known of them: with the built-in
verifier none of the pairs of `training.clash` that do not clash has it."""
CRITICAL_SHARE = 0.1
"""Budgets that differ by more than this share of the larger one are critical."""
_NEVER = LazyPattern(
    r"\b(?:never|nie(?:mals)?|nunca|jamais|(?:do ?n['’]?t|do not|can(?:no|['’])?t) (?:eat|drink|have)|"
    r"(?:esse|trinke|essen|trinken|vertrage) kein\w*|"
    r"(?:no|nunca) (?:como|bebo|comemos|bebemos|puedo (?:comer|beber|tomar))|ne (?:mange|bois|mangeons|buvons))\b",
    re.I,
)
_VITAL = ("allerg", "alérg", "alergi", "intoler", "intolér", "medic", "medik", "médic")
_VITAL_ATTRIBUTES = CRITICAL | {"allergy"}
_TOLD = frozenset(("tool_result", "passage", "memory"))


def by_rule(pair: Pair) -> StatementClash | None:
    """The clash that needs no verifier; None where no rule says anything."""
    older, newer = pair.older, pair.newer
    if older.hash == newer.hash:
        return _said_twice(older, newer)
    return _declared(older, newer) or _made(older, newer) or _two_values(older, newer) or _loved_and_hated(older, newer)


def settled(pair: Pair) -> bool:
    """Whether rules know all about a pair, and nobody need be asked."""
    older, newer = pair.older, pair.newer
    if (
        clash_declared(older, newer) is not None
        or older.hash == newer.hash
        or {slot.slot for slot in older.slots} & {slot.slot for slot in newer.slots}
    ):
        return True
    return by_rule(pair) is not None


def judged(pair: Pair, answers: Answers, cosines: Cosines) -> StatementClash | None:
    """The clash that the verifier's answers make of a pair, or the same fact twice; None for neither."""
    older, newer = pair.older, pair.newer
    if plainly_compatible(pair):
        return None
    certain, score = _contradicted(older, newer, answers), probability(pair, answers, cosines)
    if certain >= CERTAIN or score >= regression(older, newer).threshold:
        return incompatible(pair, score)
    return _same_in_other_words(older, newer, answers)


def plainly_compatible(pair: Pair) -> bool:
    """Whether the newer one adds something, or the two go together, whatever anybody thinks of them."""
    return (is_wish(pair.newer) and is_addition(pair.newer.text)) or _go_together(pair.older, pair.newer)


def probability(pair: Pair, answers: Answers, cosines: Cosines) -> float:
    """That the two cannot both hold, by verifier and embedder."""
    older, newer = pair.older, pair.newer
    return max(_contradicted(older, newer, answers), regression(older, newer).probability(features(older, newer, answers, cosines)))


def incompatible(pair: Pair, score: float, reason: str = "") -> StatementClash:
    """The clash of a pair that somebody says cannot both hold."""
    older, newer = pair.older, pair.newer
    topic, vital = topic_of(older, newer), _is_vital(older) or _is_vital(newer)
    reason = reason or f"{topic}: the two cannot both hold"
    return _clash(older, newer, _type(older, newer), topic, reason, score=score, critical=vital)


# ---- rules ----


def _said_twice(older: Statement, newer: Statement) -> StatementClash | None:
    if older.kind != "fact" and not older.slots:
        return None  # nobody minds that a wish is repeated
    return _clash(older, newer, "DUPLICATE_FACTS", newer.slot or "statement", "the same is said twice")


def _declared(older: Statement, newer: Statement) -> StatementClash | None:
    """Both plainly say the same of the same, and the two values exclude each other."""
    values = clash_declared(older, newer)
    if values is None:
        return None
    old, new = values
    reason = f"{old.attribute}: {_plainly(old)} against {_plainly(new)}"
    return _clash(older, newer, _type(older, newer), old.attribute, reason, critical=old.attribute in _VITAL_ATTRIBUTES or _far(old, new))


def _made(older: Statement, newer: Statement) -> StatementClash | None:
    """ "Make it 8 pm", where the older one names another time."""
    made = next((one for one in newer.declares if one.attribute == IT), None)
    old = next((slot for slot in older.slots if made is not None and slot.slot.replace("_", " ") == made.scope), None)
    if made is None or old is None or _same_made(old, made):
        return None
    return _clash(older, newer, "OUTDATED_INFORMATION", made.scope, f"{made.scope}: {old.value} is now {made.value}")


def _same_made(old: SlotValue, made: Declared) -> bool:
    if made.scope == "time":
        return old.value == "/".join(f"{int(m) // 60:02d}:{int(m) % 60:02d}" for m in made.value.split("/"))
    return old.value == made.value if made.scope == "price level" else old.high == float(made.value)


def _plainly(said: Declared) -> str:
    return f"not {said.value}" if said.negated else said.value


def _far(old: Declared, new: Declared) -> bool:
    """Whether two budgets differ by what is critical."""
    if old.attribute != "budget":
        return False
    one, other = float(old.value.split(" ")[0]), float(new.value.split(" ")[0])
    return abs(one - other) > CRITICAL_SHARE * max(one, other)


def _two_values(older: Statement, newer: Statement) -> StatementClash | None:
    """Two values of a slot that holds one."""
    values = clashing(older, newer)
    if values is None:
        return None
    old, new = values
    reason = f"{_name(old)}: {_shown(old)} against {_shown(new)}"
    return _clash(older, newer, _type(older, newer), _name(old), reason, critical=_is_critical(old, new))


def _loved_and_hated(older: Statement, newer: Statement) -> StatementClash | None:
    """One is for the very thing that the other is against: "I love sushi", "I don't like sushi".

    Of what somebody never has, also for one of its kind: "I don't eat meat", "I'd like a steak".
    """
    if not (is_wish(older) and is_wish(newer)) or older.subject != newer.subject:
        return None
    vital = _is_vital(older) or _is_vital(newer)
    strict = vital or _leaves_out(older) or _leaves_out(newer)
    for no, yes in targets(older, newer).conflicts:
        contained = shared_terms(no, yes) == 1.0
        same = contained and shared_terms(yes, no) == 1.0
        if same or (strict and (contained or categories.names_member(no, yes))):
            return _clash(older, newer, "CONTRADICTORY_PREFERENCES", no.lower(), f"for and against {no}", critical=vital)
    return None


def _go_together(older: Statement, newer: Statement) -> bool:
    """Whether somebody likes, or has, one thing and another: nothing says that it has to be one of them."""
    if not (is_wish(older) or is_wish(newer)):
        return all(SEVERAL_OF_THEM.search(statement.text) is not None for statement in (older, newer))
    if not (is_wish(older) and is_wish(newer)):
        return False
    one, other = sides(older), sides(newer)
    likes = one.liked and other.liked and not (one.disliked or other.disliked)
    dislikes = one.disliked and other.disliked and not (one.liked or other.liked)
    return bool(likes or dislikes)


def _contradicted(older: Statement, newer: Statement, answers: Answers) -> float:
    """Probability that each contradicts the other, by the direction that says so less."""
    answered = [answers.get(forward(older, newer)), answers.get(backward(older, newer))]
    return min(answer.contradicted if answer is not None else 0.0 for answer in answered)


def _same_in_other_words(older: Statement, newer: Statement, answers: Answers) -> StatementClash | None:
    """Two facts of which each supports the other."""
    answered = [answers.get(forward(older, newer)), answers.get(backward(older, newer))]
    support = min(answer.supported if answer is not None else 0.0 for answer in answered)
    if is_wish(older) or is_wish(newer) or support < DUPLICATE_SUPPORT:
        return None
    return _clash(older, newer, "DUPLICATE_FACTS", topic_of(older, newer), "both say the same", score=support)


# ---- what kind of clash ----


def _clash(
    older: Statement, newer: Statement, kind: ClashType, topic: str, reason: str, *, score: float = 1.0, critical: bool = False
) -> StatementClash:
    update = newer.update and kind != "DUPLICATE_FACTS"
    return StatementClash(
        older,
        newer,
        type="OUTDATED_INFORMATION" if update else kind,
        topic=topic,
        score=round(score, 4),
        reason=reason,
        critical=critical,
        simultaneous=not update and _simultaneous(older, newer),
        update=update,
    )


def _type(older: Statement, newer: Statement) -> ClashType:
    if is_wish(older) and is_wish(newer):
        return "CONTRADICTORY_PREFERENCES"
    told = older.origin in _TOLD and (newer.origin in _TOLD or newer.origin == "user")
    return "OUTDATED_INFORMATION" if told and not _simultaneous(older, newer) and _is_later(older, newer) else "CONFLICTING_FACTS"


def _is_later(older: Statement, newer: Statement) -> bool:
    """Whether the newer one is known to be newer: by its time, or as a tool's second answer."""
    if older.timestamp is not None and newer.timestamp is not None:
        return newer.timestamp > older.timestamp
    return older.origin == newer.origin == "tool_result" and older.message != newer.message


def _simultaneous(older: Statement, newer: Statement) -> bool:
    if older.timestamp is not None and newer.timestamp is not None:
        return older.timestamp == newer.timestamp
    return older.piece == newer.piece or (older.message is None and newer.message is None)


def _is_critical(old: SlotValue, new: SlotValue) -> bool:
    if old.slot != "budget" or old.high is None or new.high is None:
        return old.slot in CRITICAL
    return abs(old.high - new.high) > CRITICAL_SHARE * max(old.high, new.high)


def _is_vital(statement: Statement) -> bool:
    """Whether somebody's health depends on it."""
    return statement.kind == "constraint" and any(word in statement.text.lower() for word in _VITAL)


def _leaves_out(statement: Statement) -> bool:
    """Whether somebody never eats, drinks or does something."""
    diets = [slot for slot in statement.slots if slot.slot == "diet" and slot.value in LEFT_OUT and not slot.negated]
    return bool(diets) or _NEVER.search(statement.text) is not None


def _name(value: SlotValue) -> str:
    return value.slot.removeprefix("field:").replace("_", " ")


def _shown(value: SlotValue) -> str:
    return f"not {value.value}" if value.negated else value.value


def topic_of(older: Statement, newer: Statement) -> str:
    """A slot that both fill, or else the words that both have, up to three."""
    slots = {slot.slot for slot in older.slots} & {slot.slot for slot in newer.slots}
    if slots:
        return min(slots).removeprefix("field:")
    said = frozenset(terms(older.text)) - FUNCTION_WORDS
    words = [word.strip(".,;:!?\"'()") for word in newer.text.split()]
    shared = [word.lower() for word in words if len(word) > 2 and said & frozenset(terms(word))]
    return " ".join(list(dict.fromkeys(shared))[:3]) or older.kind
