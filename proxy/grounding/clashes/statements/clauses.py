"""Sentences that say several things -> each as a statement of its own: "I am allergic to nuts and I live in Berlin".

What leaves the context when somebody moves is where they lived, and not their allergy. In: pieces. Out: the statements of
`clashes.statements.reading`; one that gives a value is cut where its parts state everything that it states, and is left whole
otherwise. Of a request that cannot be cut, `value_span` finds the words that say one value.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import islice

from msgspec.structs import replace

from proxy.grounding.clashes.kinds import StatedPiece, Statement
from proxy.grounding.clashes.statements.cues import is_first_person
from proxy.grounding.clashes.statements.reading import Read, read_piece, read_statements
from proxy.language.patterns import LazyPattern

_BETWEEN = LazyPattern(r"\s*[,;]\s+(?:(?:and|but|und|aber|y|e|pero|et|mais)\s+)?|\s+(?:and|but|und|aber|y|e|pero|et|mais)\s+", re.I)
_ENDS = " .!;,"
_MAX_CUTS = 6
"""Places at which a sentence is tried to be cut; one with more of them is a list."""


def read_clauses(pieces: Sequence[StatedPiece]) -> list[Statement]:
    """The statements of all pieces, in order, one for each thing that is said."""
    return [part for statement in read_statements(pieces) for part in _parts(statement)]


def read_piece_clauses(piece: StatedPiece, *, limit: int | None = None) -> Read:
    """The same of one piece, of which `limit` bounds how much is read (`proxy.grounding.clashes.statements.reading.read_piece`).

    With a limit only what declares several things is cut: nothing leaves the context that declares none.
    """
    read = read_piece(piece, limit=limit)
    parts = ([statement] if limit is not None and len(statement.declares) < 2 else _parts(statement) for statement in read.statements)
    return Read(tuple(part for some in parts for part in some), read.skipped, read.full)


def _parts(statement: Statement) -> list[Statement]:
    """What a statement says, in one statement each."""
    if not statement.slots or statement.slot.startswith("field:"):
        return [statement]
    for cut in islice(_BETWEEN.finditer(statement.text), _MAX_CUTS):
        one, other = _read(statement, 0, cut.start()), _read(statement, cut.end(), len(statement.text.rstrip(_ENDS)))
        if one is not None and other is not None and _values(one) | _values(other) >= _values(statement):
            said_so = one.update or (statement.update and not other.update)  # "actually" at its beginning is said of all that follows
            return [*_parts(replace(one, update=said_so)), *_parts(replace(other, update=other.update or said_so))]
    return [statement]


def _read(statement: Statement, start: int, end: int) -> Statement | None:
    """``statement.text[start:end]`` as a statement; None where it is none, or more than one."""
    found = read_statements([StatedPiece(statement.text[start:end], statement.origin)], statement.language)
    if len(found) != 1 or (found[0].start, found[0].end) != (0, end - start):
        return None
    own = is_first_person(found[0].text) or found[0].subject not in ("user", "")
    says = tuple(
        replace(one, start=one.start - start, end=one.end - start) for one in statement.declares if start <= one.start and one.end <= end
    )
    return replace(
        found[0],
        declares=says,
        piece=statement.piece,
        start=statement.start + start,
        end=statement.start + end,
        message=statement.message,
        timestamp=statement.timestamp,
        source=statement.source,
        subject=found[0].subject if own else statement.subject,
    )


def _values(statement: Statement) -> set[tuple[str, str, bool]]:
    return {(value.slot, value.value, value.negated) for value in statement.slots}


# ---- what a value is said with ----

_REQUEST = LazyPattern(
    r"\s*(?:please |bitte |por favor,? )?(?:(?:can|could) you |"
    r"(?:i|we)(?:['’]d| would)? (?:want|need|like)(?: to)? (?=an? |two |some |go|see|visit|book|travel)|"
    r"(?:i['’]m |i am |we are |we['’]re )?(?:looking|searching) for|find|plan|book|search|recommend|suggest|organi[sz]e|reserve|"
    r"such\w{0,2}|finde|buch\w{0,2}|plane|empfiehl|(?:ich|wir) (?:suche|brauche|suchen|brauchen|möchten? ein)|"
    r"busca\w*|encuentra\w*|reserva\w*|planea|recomienda\w*|necesito|quiero un|queremos un|"
    r"cherche\w*|trouve\w*|réserve\w*|planifie\w*|recommande\w*|je (?:cherche|voudrais un|veux un)|nous cherchons)\b",
    re.I,
)
_OF_REQUESTS = frozenset(("budget", "destination", "departure", "date", "time", "people", "children"))
_SMALL_WORDS = (
    "to in for at on from with within under below up of a an my our the max maximum most least less than about around budget total "
    "nach für um am ab von bis mit unter höchstens maximal einem meinem unserem zu ein "
    "en por para con hasta menos de un una mi nuestro presupuesto máximo como "
    "à au pour avec sous moins une mon notre jusqu'à"
)
_LED_UP_TO = LazyPattern(rf"(?:,?\s+(?:{'|'.join(map(re.escape, _SMALL_WORDS.split()))}))*\s*$", re.I)


def value_span(statement: Statement, topic: str) -> tuple[int, int] | None:
    """Where in its piece a request says the value of a slot: "for under 500 €" of "Find me a hotel in Rome for under 500 €".

    `topic` is the slot's name, as a clash has it. None where the statement says nothing else, and may leave as a whole.
    """
    value = next((value for value in statement.slots if value.slot.replace("_", " ") == topic), None)
    if value is None or value.slot not in _OF_REQUESTS:
        return None
    if len({value.slot for value in statement.slots}) == 1 and not _REQUEST.match(statement.text):
        return None
    led = _LED_UP_TO.search(statement.text, 0, value.start)
    start = led.start() if led is not None else value.start
    return (statement.start + start, statement.start + value.end) if start > 0 else None
