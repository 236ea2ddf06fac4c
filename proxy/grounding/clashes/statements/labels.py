"""A line that labels a value of the user and says whose it is: "User location: New York", "Wohnort der Kundin: Köln".

In: a line. Out: the value as a slot's. Whoever writes such a line speaks of one person, so that no first person is needed. The attributes
are those of `clashes.statements.plain`, but what somebody can have several of.
"""

from __future__ import annotations

import re

from proxy.grounding.clashes.kinds import SlotValue
from proxy.grounding.clashes.statements.plain import read_clause
from proxy.language.patterns import LazyPattern

_MARKS = " \t\n.*_-•"
_LABELLED = re.compile(r"(?P<label>[^\W\d][^:\n]{2,40}?)\s?: ?(?P<value>[^:\n]{1,80})")
_WHOSE = LazyPattern(
    r"\b(?:of the )?(?:user|customer|client)(?:['’]s)?\b|\b(?:des |der )(?:nutzers?|nutzerin|kunden|kundin)\b|"
    r"\b(?:del |de la )(?:usuari[oa]|cliente)\b|\b(?:de l['’]utilisat(?:eur|rice)|d[ue] (?:la )?cliente?)\b",
    re.I,
)
"""In a label: of whom its value is said."""
_SEVERAL = frozenset(("allergy",))


def labelled(line: str, language: str = "en") -> SlotValue | None:
    """The value that a line gives for the user; None where it is no such line."""
    match = _LABELLED.fullmatch(line.strip(_MARKS))
    if match is None or (whose := _WHOSE.search(match["label"])) is None:
        return None
    label = f"{match['label'][: whose.start()]} {match['label'][whose.end() :]}".strip()
    found = read_clause(f"{label}: {match['value']}", language, of_memory=True)
    if found is None or found.attribute in _SEVERAL:
        return None
    start = line.find(match["value"])
    said = SlotValue(found.attribute.replace(" ", "_"), found.value, start, start + len(match["value"]))
    if found.attribute != "budget":
        return said
    worth, _, unit = found.value.partition(" ")
    return SlotValue(said.slot, said.value, said.start, said.end, float(worth), float(worth), unit)
