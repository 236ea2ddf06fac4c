"""Which words of a request say one of its values: "for under 500 €" of "Find me a hotel in Rome for under 500 €".

What leaves the context when a budget changes is the budget, and not the request. In: a statement and a slot's name. Out: a span, or None
where the statement says nothing else.
"""

from __future__ import annotations

import re

from proxy.grounding.clashes.kinds import Statement
from proxy.language.patterns import LazyPattern

_REQUEST = LazyPattern(
    r"\s*(?:please |bitte |por favor,? )?(?:(?:can|could) you |"
    r"(?:i|we)(?:['’]d| would)? (?:want|need|like)(?: to)? (?=an? |two |some |go|see|visit|book|travel)|"
    r"(?:i['’]m |i am |we are |we['’]re )?(?:looking|searching) for|find|plan|book|search|recommend|suggest|organi[sz]e|reserve|"
    r"such\w{0,2}|finde|buch\w{0,2}|plane|empfiehl|(?:ich|wir) (?:suche|brauche|suchen|brauchen|möchten? ein)|"
    r"busca\w*|encuentra\w*|reserva\w*|planea|recomienda\w*|necesito|quiero un|queremos un|"
    r"cherche\w*|trouve\w*|réserve\w*|planifie\w*|recommande\w*|je (?:cherche|voudrais un|veux un)|nous cherchons)\b",
    re.I,
)
_OF_REQUESTS = frozenset(("budget", "date", "time"))
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
