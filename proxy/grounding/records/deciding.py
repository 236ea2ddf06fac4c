"""A statement and the tables of the evidence -> what the cells say to it: supported, contradicted, or nothing. Exact, before any model.

Pure; a statement is read once, and looked up in at most `MAX_TABLES` tables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec import Struct

from proxy.grounding.records.aggregates import aggregates
from proxy.grounding.records.binding import Statement, bind
from proxy.grounding.records.clause import MAX_NAMED_ROWS, Clause, Finding, Place, Records
from proxy.grounding.records.states import booleans, numbers, relations, states, texts
from proxy.grounding.records.values import values
from proxy.offloop import each

MAX_CLAIM_CHARS = 600
_ADVERBIAL = 3
"""Words of a clause's beginning that a comma cuts off."""
_CLAUSE = re.compile(
    r"(?:[;:–—]|,(?!\d)|\s(?:but|while|whereas|because|since|although|though|aber|sondern|weil|während|obwohl|pero|aunque|porque|mientras|car"
    r"|tandis|alors que|puisque|ma|mentre|poiché|perché|enquanto|embora))\s"
)
_MARKED = re.compile(r"[`|=<>{}\[\]*#]|https?://|\w\(|:(?:\s|$)|; |\w\.\w{1,5}:\d")
"""Code and places in it, rows of the answer's own tables, headings and "Total: …": what these give is often the answer's own, and no
plain sentence."""
_FRENCH = re.compile(rf"{_CLAUSE.pattern}|\smais\s")


class Verdict(Struct, frozen=True):
    """What the cells say to a statement."""

    supported: bool
    claim: str
    """The statement's words for what differs."""
    evidence: str
    """The cell's."""
    place: Place | None
    """Where the cell's table stands; None where a sentence is a reason to doubt (`decide` with ``slack``)."""
    row: int
    kind: str = ""

    @property
    def is_doubt(self) -> bool:
        """Whether it goes by which rows were meant: how many, all, none. That is a reason to doubt a statement, and no more."""
        return not self.supported and self.kind in ("quantifier", "count")

    @property
    def replaces(self) -> bool:
        """Whether the cell's value may stand in place of the statement's."""
        return self.kind in ("number", "date", "time", "code", "relation", "sum", "difference")


def decide(text: str, records: Records, language: str, slack: int = 0) -> Verdict | None:
    """What the tables of `records` say to the statement `text`; None where they have nothing that decides it. With `slack` as many more of
    its words may name nothing: then what differs is a reason to doubt, and no more.
    """
    if len(text) > MAX_CLAIM_CHARS or not records.whole or _MARKED.search(text):
        return None
    parts = [Statement(part, language) for part in _clauses(text, language)]
    if not parts:
        return None
    right: set[tuple[str, str]] = set()
    wrong: list[Verdict] = []
    sound: list[Verdict] = []
    whole = Statement(text, language) if len(parts) > 1 else None
    for place in each(records.places):
        bound = [bind(statement, place.table) for statement in parts]
        mentioned = frozenset(r for one in bound if one.groups and len(one.rows) <= MAX_NAMED_ROWS for r in one.rows)
        for i, (statement, one) in enumerate(zip(parts, bound, strict=True)):
            clause = Clause(statement, one, records, mentioned, whole, slack)
            found = list(_findings(clause, first=not i))
            right |= {(finding.kind, finding.claim.casefold()) for finding in found if finding.right}
            wrong += [Verdict(False, f.claim, f.evidence, place, f.row, f.kind) for f in found if not f.right]
            if whole is None and found and all(f.right for f in found) and clause.says_only(found):
                sound.append(Verdict(True, found[0].claim, found[0].evidence, place, found[0].row, found[0].kind))
    if slack and not wrong and not right and whole is None:  # prose is a reason to doubt, and no more
        wrong += [Verdict(False, f.claim, f.evidence, None, f.row, f.kind) for f in numbers(parts[0], records)]
    against = next((verdict for verdict in wrong if (verdict.kind, verdict.claim.casefold()) not in right), None)
    return against or (sound[0] if sound and not wrong else None)


def _clauses(text: str, language: str) -> list[str]:
    parts = [part.strip() for part in (_FRENCH if language == "fr" else _CLAUSE).split(text)]
    if len(parts) > 1 and len(parts[0].split()) <= _ADVERBIAL:  # "In maths, …"
        parts[:2] = [f"{parts[0]} {parts[1]}"]
    return [part for part in parts if len(part) > 3]


def _findings(clause: Clause, *, first: bool) -> Iterator[Finding]:
    if first:
        yield from aggregates(clause)
    if clause.rows:
        for check in (values, states, booleans, relations, texts):
            yield from check(clause)
