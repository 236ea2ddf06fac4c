"""What is false about a statement: its type, by what differs from the evidence against it.

In: a statement, what the evidence says to it, and the statement's language. Out: one word for records, metrics and the person who reviews
it. The comparison is that of the grounding library (`proxy.grounding.values.consistency`): values first, as they are certain, then
negation.
"""

from __future__ import annotations

import re
from typing import Literal

Kind = Literal[
    "wrong_location",
    "wrong_date",
    "invented_date",
    "wrong_number",
    "wrong_unit",
    "wrong_name",
    "false_capability",
    "contradiction",
    "unsupported_claim",
    "outdated",
    "hidden_instruction",
]
"""``invented_date`` is a date of which the evidence knows nothing, ``wrong_date`` one that it knows otherwise; ``false_capability`` says
that something can or cannot be done; ``contradiction`` is any other statement that the evidence contradicts."""
KINDS: tuple[Kind, ...] = (
    "wrong_location",
    "wrong_date",
    "invented_date",
    "wrong_number",
    "wrong_unit",
    "wrong_name",
    "false_capability",
    "contradiction",
    "unsupported_claim",
    "outdated",
    "hidden_instruction",
)

_ABLE = re.compile(
    r"\b(?:can(?:not|['’]t)?|could(?:n['’]t)?|able|unable|capable|supports?|allows?|enables?|includes?|offers?|"
    r"provides?|compatible|works? with|"
    r"available|possible|kann|können|unterstützt|ermöglicht|erlaubt|bietet|fähig|möglich|puede|pueden|permite|soporta|admite|ofrece|capaz|"
    r"peut|peuvent|permet|prend en charge|supporte|offre)\b",
    re.I,
)
_PLACED = re.compile(
    r"\b(?:in|into|at|near|from|to|toward|towards|outside|inside|around|aus|nach|bei|im|en|à|au|aux|dans|vers|près de|"
    r"cerca de|desde|hacia)\s(?:the |der |dem |die |den |das |la |le |los |las |el |l['’])?$",
    re.I,
)
_OF = re.compile(r"\b(?:of|von|de|del|du|des|d['’])\s?(?:the |der |la |le |los |las |el |l['’])?$", re.I)
_PLACE = re.compile(
    r"\b(?:capital|city|town|village|country|state|province|region|district|continent|island|located|location|lies|"
    r"situated|headquarter\w*|based|flows?|mündet|fließt|desemboca|se jette|"
    r"born|died|lives?|lived|buried|built|hauptstadt|stadt|land|insel|liegt|gelegen|geboren|wohnt|capital|ciudad|país|"
    r"isla|ubicad[oa]|situad[oa]|"
    r"nació|capitale|ville|pays|île|situé\w*|né\w*|siège|sitz)\b",
    re.I,
)
_BEFORE_CHARS = 24


def kind_of(statement: str, evidence: str, *, contradicted: bool, language: str = "en", conflict: tuple[str, str] | None = None) -> Kind:
    """The type of a statement that `evidence` (``""`` where there is none) contradicts or, if not `contradicted`, does not bear out.

    `conflict` is what a fact has otherwise (its kind, and the statement's words for it) where that is known, two times ``""`` where nothing
    is: what the evidence merely lacks makes nothing wrong then.
    """
    if conflict is not None and conflict[0] != "negation":
        return _of_conflict(statement, *conflict, contradicted=contradicted)
    if not evidence.strip():
        return "contradiction" if contradicted else "unsupported_claim"
    from proxy.grounding.values.consistency import differences  # some 20 ms to import: only where something is wrong

    found = {difference.kind: difference for difference in reversed(differences(statement, evidence, language))}
    if "date" in found:
        return "wrong_date" if found["date"].evidence else "invented_date"
    if "unit" in found:
        return "wrong_unit"
    if "number" in found:
        return "wrong_number"
    if "name" in found:
        return "wrong_location" if _is_place(statement, found["name"].claim) else "wrong_name"
    if ("negation" in found or contradicted) and _ABLE.search(statement):
        return "false_capability"
    if "negation" in found or contradicted:
        return _replaced(statement, evidence, language)
    return "unsupported_claim"


def _of_conflict(statement: str, kind: str, words: str, *, contradicted: bool) -> Kind:
    if kind == "name":
        return "wrong_location" if _is_place(statement, words) else "wrong_name"
    if kind:
        return {"number": "wrong_number", "unit": "wrong_unit"}.get(kind, "wrong_date")  # type: ignore[return-value]
    if not contradicted:
        return "unsupported_claim"
    return "false_capability" if _ABLE.search(statement) else "contradiction"


def _replaced(statement: str, evidence: str, language: str) -> Kind:
    """What stands in another's place where no value is missing: a name that the evidence has elsewhere, or other words."""
    from proxy.grounding.values.consistency import instead

    other = instead(statement, evidence, language)
    name = other[:1].isupper() and (language != "de" or _PLACE.search(statement) is not None)  # German has capitals everywhere
    if name and _PLACED.search(evidence[: max(0, evidence.find(other))][-_BEFORE_CHARS:]):
        return "wrong_location"
    return "contradiction"


def _is_place(statement: str, name: str) -> bool:
    """Whether `name` is said to be where something is: by the word before it, or because the sentence speaks of places."""
    at = statement.find(name)
    before = statement[max(0, at - _BEFORE_CHARS) : max(0, at)]
    if _PLACED.search(before):
        return True
    return _PLACE.search(statement) is not None and (
        _OF.search(before) is not None or at <= 4 or bool(re.search(r"\b(?:is|ist|es|est)\s$", before))
    )
