"""What two statements are to each other: a clash and of which type, a change of mind, the same fact twice, or nothing.

In: a `Pair`, what a verifier says of the questions that `questions` asks of it, and the cosine of the two. Out: a `Clash` or None. Slots
that hold one value are decided by rule, the rest by a logistic regression whose coefficients `training.clash` makes. Pure: who asks the
verifier is `proxy.verification.clashes`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

import msgspec
from msgspec import Struct

from proxy.clashes import categories
from proxy.clashes.candidates import Pair
from proxy.clashes.cues import is_addition, is_first_person
from proxy.clashes.kinds import Clash, ClashType, SlotValue, Statement
from proxy.clashes.slots import CRITICAL, SEVERAL, clashing
from proxy.clashes.stance import read_stance
from proxy.grounding.evidence.reading import FUNCTION_WORDS
from proxy.grounding.evidence.retrieval import terms
from proxy.grounding.values.consistency import differences
from proxy.grounding.values.negation import is_negated
from proxy.grounding.verdicts import ClaimPair, Support

COEFFICIENTS = Path(__file__).with_name("coefficients.json")
MIN_PROBABILITY = 0.5
"""From which a pair is a clash unless the coefficients say otherwise."""
DUPLICATE_SUPPORT = 0.8
"""Probability that each of two facts supports the other, from which they are the same."""
MAX_TARGETS = 2
"""Likes and dislikes of each statement that the verifier is asked about."""
_MAX_LOGIT = 4.0
_ODDS_OF_NOTHING = -2.0
"""Where there is nothing to ask."""
FEATURES: tuple[str, ...] = (
    "contradicted_forward", "contradicted_backward", "supported_forward", "supported_backward", "cosine", "shared_terms",
    "negation_differs", "numbers_differ", "names_differ", "opposites",
    "proposal", "conflict_support", "conflict_cosine", "conflict_terms", "conflict_member", "has_conflict",
    "agreement_support", "agreement_cosine", "agreement_terms", "has_agreement", "stance_margin",
)  # fmt: skip
"""What `features` returns, in order."""
LEFT_OUT: Mapping[str, str] = {
    "vegan": "meat, fish or dairy", "vegetarian": "meat or fish", "pescatarian": "meat", "halal": "pork or alcohol", "kosher": "pork or shellfish",
    "gluten_free": "gluten", "lactose_free": "dairy", "keto": "bread, pasta or sugar",
}  # fmt: skip
"""What a diet leaves out."""
Answers = Mapping[ClaimPair, Support]
Cosines = Mapping[tuple[str, str], float]


class Targets(Struct, frozen=True):
    """What of two statements is compared: what one is against with what the other is for, and what both are for, or against."""

    conflicts: tuple[tuple[str, str], ...]
    """``(what is disliked, where it may be found)``"""
    agreements: tuple[tuple[str, str], ...]


class Coefficients(Struct, frozen=True):
    """coefficients.json"""

    features: tuple[str, ...]
    statements: tuple[float, ...]
    proposals: tuple[float, ...]
    """Weights of `features`, then the intercept: for two statements, and for a wish beside a proposal."""
    statements_threshold: float = MIN_PROBABILITY
    proposals_threshold: float = MIN_PROBABILITY


# ---- what to ask ----


def targets(older: Statement, newer: Statement) -> Targets:
    """What to compare in two statements; one without likes of its own, a proposal, is taken as a whole but for what it says it is without."""
    one, other = sides(older), sides(newer)
    conflicts = [(no, yes) for no in one[1] for yes in other[0]] + [(no, yes) for no in other[1] for yes in one[0]]
    agreements = [(a, b) for a in one[0] for b in other[0]] + [(a, b) for a in one[1] for b in other[1]]
    limit = 2 * MAX_TARGETS
    return Targets(tuple(conflicts[:limit]), tuple(agreements[:limit]))


def sides(statement: Statement) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a statement is for and against; a diet is against what it leaves out."""
    stance = read_stance(statement.text)
    diets = [slot for slot in statement.slots if slot.slot == "diet" and not slot.negated]
    disliked = (*(LEFT_OUT[diet.value] for diet in diets if diet.value in LEFT_OUT), *stance.disliked)
    liked = stance.liked
    if not is_wish(statement) or not (liked or stance.disliked):
        rest = statement.text
        for without in stance.disliked:
            rest = rest.replace(without, " ")
        liked = (rest,) if rest.split() else ()
    return liked[:MAX_TARGETS], disliked[:MAX_TARGETS]


def questions(older: Statement, newer: Statement) -> list[ClaimPair]:
    """What a verifier is asked of a pair that no rule decides: both ways round, then whether each target is found in the other."""
    found = [ClaimPair(newer.text, older.text, newer.language), ClaimPair(older.text, newer.text, older.language)]
    if is_wish(older) or is_wish(newer):
        compared = targets(older, newer)
        found += [ClaimPair(what, where, newer.language) for what, where in (*compared.conflicts, *compared.agreements)]
    return list(dict.fromkeys(found))


def texts(older: Statement, newer: Statement) -> list[str]:
    """What an embedder is asked of such a pair."""
    compared = targets(older, newer) if is_wish(older) or is_wish(newer) else Targets((), ())
    return list(dict.fromkeys((older.text, newer.text, *(text for pair in (*compared.conflicts, *compared.agreements) for text in pair))))


def is_proposal(older: Statement, newer: Statement) -> bool:
    """Whether one says what somebody wants and the other what there is: an offer, an answer, and no word of the speaker's on themselves."""
    wishes = [is_wish(older), is_wish(newer)]
    return wishes[0] != wishes[1] and not is_first_person((newer if wishes[0] else older).text)


def is_wish(statement: Statement) -> bool:
    """Whether it says what somebody wants, and not only what is so."""
    return statement.kind != "fact"


# ---- features ----


def features(older: Statement, newer: Statement, answers: Answers, cosines: Cosines) -> tuple[float, ...]:
    """`FEATURES` of a pair. What nobody could answer counts as unknown."""
    forward = answers.get(ClaimPair(newer.text, older.text, newer.language))
    backward = answers.get(ClaimPair(older.text, newer.text, older.language))
    wish = is_wish(older) or is_wish(newer)
    compared = targets(older, newer) if wish else Targets((), ())
    conflict = _compared(compared.conflicts, answers, cosines, newer.language)
    agreement = _compared(compared.agreements, answers, cosines, newer.language)
    kinds = {d.kind for d in (*differences(newer.text, older.text, newer.language), *differences(older.text, newer.text, older.language))}
    return (
        _logit(forward, "contradicted"), _logit(backward, "contradicted"), _logit(forward, "supported"), _logit(backward, "supported"),
        cosines.get((older.text, newer.text), 0.0), shared_terms(older.text, newer.text),
        float(is_negated(older.text, older.language) != is_negated(newer.text, newer.language)),
        float(bool(kinds & {"number", "date", "unit"})), float("name" in kinds),
        float(categories.are_opposites(older.text, newer.text) or any(categories.are_opposites(a, b) for a, b in compared.agreements)),
        float(is_proposal(older, newer)), *conflict, float(bool(compared.conflicts)), agreement[0], agreement[1], agreement[2], float(bool(compared.agreements)),
        conflict[0] - agreement[0],
    )  # fmt: skip


def _compared(
    pairs: Sequence[tuple[str, str]], answers: Answers, cosines: Cosines, language: str
) -> tuple[float, float, float, float]:
    """The most that any pair has of support (log odds), cosine, shared terms, and whether one names a kind of the other."""
    if not pairs:
        return (_ODDS_OF_NOTHING, 0.0, 0.0, 0.0)
    return (
        max(_logit(answers.get(ClaimPair(what, where, language)), "supported") for what, where in pairs),
        max(cosines.get(pair, 0.0) for pair in pairs),
        max(shared_terms(what, where) for what, where in pairs),
        max(float(categories.names_member(what, where)) for what, where in pairs),
    )


def _logit(support: Support | None, which: str) -> float:
    if support is None:
        return _ODDS_OF_NOTHING
    p = min(max(support.supported if which == "supported" else support.contradicted, 1e-6), 1 - 1e-6)
    return max(-_MAX_LOGIT, min(_MAX_LOGIT, math.log(p / (1 - p))))


def shared_terms(what: str, where: str) -> float:
    """Share of the first text's terms that stand in the second."""
    wanted = frozenset(term for term in terms(what) if len(term) > 2) - FUNCTION_WORDS
    return len(wanted & frozenset(terms(where))) / len(wanted) if wanted else 0.0


@cache
def coefficients() -> Coefficients:
    """Those that this package carries. Raises `ValueError` where they were fitted on other features."""
    found = msgspec.json.decode(COEFFICIENTS.read_bytes(), type=Coefficients)
    if found.features != FEATURES or not len(found.statements) == len(found.proposals) == len(FEATURES) + 1:
        raise ValueError(f"{COEFFICIENTS} was made for other features; run python -m training.clash")
    return found


def probability(found: Sequence[float]) -> float:
    """Calibrated probability, at even odds before, that a pair with these features clashes."""
    given = coefficients()
    weights = given.proposals if found[FEATURES.index("proposal")] else given.statements
    z = sum(weight * value for weight, value in zip(weights, (*found, 1.0), strict=True))
    return 1 / (1 + math.exp(-max(-30.0, min(30.0, z))))


def threshold(found: Sequence[float]) -> float:
    """From which probability such a pair is a clash."""
    given = coefficients()
    return given.proposals_threshold if found[FEATURES.index("proposal")] else given.statements_threshold


# ---- what it is ----


def by_rule(pair: Pair) -> Clash | None:
    """The clash of two values of one slot, or the same fact twice; None where no rule says anything."""
    older, newer = pair.older, pair.newer
    if older.hash == newer.hash:
        return _clash(older, newer, "DUPLICATE_FACTS", newer.slot or "statement", 1.0, "the same is said twice") if _worth_saying(older) else None
    values = clashing(older, newer)
    if values is None:
        return _loved_and_hated(older, newer)
    if _adds(newer, values[1]):
        return None
    old, new = values
    reason = f"{_name(old)}: {_shown(old)} against {_shown(new)}"
    return _clash(older, newer, _type(older, newer), _name(old), 1.0, reason, critical=_is_critical(old, new))


def _loved_and_hated(older: Statement, newer: Statement) -> Clash | None:
    """One is for the very thing that the other is against: "I love sushi", "I don't like sushi"."""
    if not (is_wish(older) and is_wish(newer)) or older.subject != newer.subject:
        return None
    for no, yes in targets(older, newer).conflicts:
        vital = _is_vital(older) or _is_vital(newer)
        same = shared_terms(no, yes) == 1.0 and (vital or shared_terms(yes, no) == 1.0)
        if same or (vital and categories.names_member(no, yes)):
            return _clash(older, newer, "CONTRADICTORY_PREFERENCES", no.lower(), 1.0, f"for and against {no}", critical=vital)
    return None


def settled(pair: Pair) -> bool:
    """Whether rules know all about a pair, and nobody need be asked: both give a value for one slot, or say the very same."""
    older, newer = pair.older, pair.newer
    return older.hash == newer.hash or bool({slot.slot for slot in older.slots} & {slot.slot for slot in newer.slots})


def judged(pair: Pair, answers: Answers, cosines: Cosines) -> Clash | None:
    """The clash that the verifier's answers make of a pair, or the same fact twice; None for neither."""
    older, newer = pair.older, pair.newer
    found = features(older, newer, answers, cosines)
    score = probability(found)
    if score >= threshold(found) and not (is_addition(newer.text) and is_wish(newer)):
        topic = topic_of(older, newer)
        return _clash(older, newer, _type(older, newer), topic, score, f"{topic}: the two cannot both hold", critical=_is_vital(older))
    both = [answers.get(question) for question in questions(older, newer)[:2]]
    if older.kind == newer.kind == "fact" and len(both) == 2 and all(s is not None and s.supported >= DUPLICATE_SUPPORT for s in both):
        score = min(s.supported for s in both if s is not None)
        return _clash(older, newer, "DUPLICATE_FACTS", topic_of(older, newer), score, "both say the same")
    return None


def _clash(older: Statement, newer: Statement, kind: ClashType, topic: str, score: float, reason: str, *, critical: bool = False) -> Clash:
    update = newer.update and kind != "DUPLICATE_FACTS"
    return Clash(
        older, newer, "OUTDATED_INFORMATION" if update else kind, topic, round(score, 4), reason, critical, not update and _simultaneous(older, newer), update
    )


def _type(older: Statement, newer: Statement) -> ClashType:
    if is_wish(older) and is_wish(newer):
        return "CONTRADICTORY_PREFERENCES"
    told = older.origin in ("tool_result", "passage", "memory") and newer.origin in ("tool_result", "passage", "memory", "user")
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


def _adds(newer: Statement, value: SlotValue) -> bool:
    """Whether a value comes to the others: "and then Naples"."""
    return value.slot in SEVERAL and is_addition(newer.text) and not newer.update


def _worth_saying(statement: Statement) -> bool:
    return statement.kind == "fact" or bool(statement.slots)


def _is_critical(old: SlotValue, new: SlotValue) -> bool:
    if old.slot != "budget" or old.high is None or new.high is None:
        return old.slot in CRITICAL
    return abs(old.high - new.high) > 0.1 * max(old.high, new.high)


def _is_vital(statement: Statement) -> bool:
    return statement.kind == "constraint" and any(word in statement.text.lower() for word in ("allerg", "alérg", "intoleran", "medic", "medik"))


def _name(value: SlotValue) -> str:
    return value.slot.removeprefix("field:").replace("_", " ")


def _shown(value: SlotValue) -> str:
    return f"not {value.value}" if value.negated else value.value


def topic_of(older: Statement, newer: Statement) -> str:
    """A slot that both fill, or else the words that both have, up to three."""
    slots = {slot.slot for slot in older.slots} & {slot.slot for slot in newer.slots}
    if slots:
        return min(slots).removeprefix("field:")
    said = set(terms(older.text)) - FUNCTION_WORDS
    shared = [word for word in newer.text.split() if set(terms(word)) & said and len(word) > 3]
    return " ".join(dict.fromkeys(word.strip(".,;:!\"'()").lower() for word in shared[:3])) or older.kind
