"""What has to be known of two statements before it can be told whether they clash: asked of a verifier, and of an embedder.

In: two statements. Out: the pairs of texts to compare. A wish is not compared as a whole: "I prefer trains and never fly" is for one thing
and against another, so what one statement is against is looked for in the other.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from msgspec import Struct

from proxy.exchange.judgements import ClaimPair
from proxy.grounding.clashes.kinds import Statement
from proxy.grounding.clashes.statements import categories
from proxy.grounding.clashes.statements.cues import is_first_person
from proxy.grounding.clashes.statements.stance import read_stance

MAX_TARGETS = 2
"""Likes and dislikes of each statement that the verifier is asked about."""
LEFT_OUT: Mapping[str, str] = {
    "vegan": "meat, fish or dairy",
    "vegetarian": "meat or fish",
    "pescatarian": "meat",
    "halal": "pork or alcohol",
    "kosher": "pork or shellfish",
    "gluten_free": "gluten",
    "lactose_free": "dairy",
    "keto": "bread, pasta or sugar",
}
"""What a diet leaves out."""


class Targets(Struct, frozen=True):
    """What of two statements is compared."""

    conflicts: tuple[tuple[str, str], ...] = ()
    """``(what one is against, what the other is for)``; not where the other is for something without it."""
    agreements: tuple[tuple[str, str], ...] = ()
    """What both are for, or both against."""


class Sides(Struct, frozen=True):
    """What a statement is for and against, in its words."""

    liked: tuple[str, ...]
    disliked: tuple[str, ...]


def questions(older: Statement, newer: Statement) -> list[ClaimPair]:
    """What a verifier is asked of a pair that no rule decides: does one support the other, both ways round; then, target by target."""
    compared = targets(older, newer)
    return list(
        dict.fromkeys(
            (
                forward(older, newer),
                backward(older, newer),
                *(ClaimPair(what, where, newer.language) for what, where in (*compared.conflicts, *compared.agreements)),
            )
        )
    )


def is_answered(older: Statement, newer: Statement, answers: Collection[ClaimPair]) -> bool:
    """Whether a verifier had an answer to both main questions, so that the two can be judged."""
    return forward(older, newer) in answers and backward(older, newer) in answers


def forward(older: Statement, newer: Statement) -> ClaimPair:
    """The newer statement as a claim, the older one as what it has to rest on."""
    return ClaimPair(newer.text, older.text, newer.language)


def backward(older: Statement, newer: Statement) -> ClaimPair:
    """The older statement as a claim."""
    return ClaimPair(older.text, newer.text, older.language)


def texts(older: Statement, newer: Statement) -> list[str]:
    """What an embedder is asked of such a pair."""
    compared = targets(older, newer)
    return list(dict.fromkeys((older.text, newer.text, *(text for both in (*compared.conflicts, *compared.agreements) for text in both))))


def targets(older: Statement, newer: Statement) -> Targets:
    """What to compare in two statements; nothing in two facts."""
    if not (is_wish(older) or is_wish(newer)):
        return Targets()
    one, other = sides(older), sides(newer)
    against = [(no, yes) for no in one.disliked for yes in other.liked] + [(no, yes) for no in other.disliked for yes in one.liked]
    conflicts = [(no, yes) for no, yes in against if not categories.is_without(yes, no)]
    agreements = [(a, b) for a in one.liked for b in other.liked] + [(a, b) for a in one.disliked for b in other.disliked]
    limit = 2 * MAX_TARGETS
    return Targets(tuple(conflicts[:limit]), tuple(agreements[:limit]))


def sides(statement: Statement) -> Sides:
    """What a statement is for and against. A diet is against what it leaves out; a fact is a proposal, for all that it does not exclude."""
    stance = read_stance(statement.text)
    left_out = [LEFT_OUT[slot.value] for slot in statement.slots if slot.slot == "diet" and not slot.negated and slot.value in LEFT_OUT]
    disliked = (*left_out, *stance.disliked)[:MAX_TARGETS]
    if is_wish(statement) and (stance.liked or stance.disliked):
        return Sides(stance.liked[:MAX_TARGETS], disliked)
    offered = statement.text
    for without in stance.disliked:
        offered = offered.replace(without, " ")
    return Sides((offered,) if offered.strip() else (), disliked)


def is_wish(statement: Statement) -> bool:
    """Whether it says what somebody wants, and not only what is so."""
    return statement.kind != "fact"


def is_proposal(older: Statement, newer: Statement) -> bool:
    """Whether one says what somebody wants and the other what there is: an offer, an answer, and no word of the speaker's on themselves."""
    if is_wish(older) == is_wish(newer):
        return False
    return not is_first_person((newer if is_wish(older) else older).text)
