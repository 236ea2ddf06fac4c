"""What is said in passing is read clause by clause, and a clash of it is reported, never certain."""

import pytest

from proxy.grounding.clashes.detecting.candidates import Pair
from proxy.grounding.clashes.detecting.certainty import SaidSentence, is_certain
from proxy.grounding.clashes.detecting.detection import by_rule
from proxy.grounding.clashes.kinds import StatedPiece
from proxy.grounding.clashes.statements.in_passing import told
from proxy.grounding.clashes.statements.reading import read_statements

TOLD = [
    ("As I live in Oslo, is it cold there in May?", "location", "oslo"),
    ("da ich in Graz wohne, wie komme ich hin", "location", "graz"),
    ("como vivo en Sevilla, qué me pongo", "location", "seville"),
    ("puisque j'habite à Nantes, quel train ?", "location", "nantes"),
    ("btw my birthday's on 9 June, any ideas?", "birthday", "06-09"),
    ("could we get a band? we've got 700 in total for the evening", "budget", "700"),
    ("ok, it's 0171 5550 134", "phone", "5550134"),
    ("tengo tres hijos pequeños, así que nada caro", "children", "3"),
    ("meine Mutter ist 71, geht das noch?", "age", "71"),
]
CLASHING = [
    ("I'm allergic to kiwi, what can I bake?", "I have no allergies at all, so anything goes"),
    ("ich trinke keinen Alkohol", "zum Fisch trinke ich ein Glas Wein"),
    ("no conduzco, cómo llego", "conduzco desde hace dos años"),
    ("je suis droitier", "comme je suis gaucher, lesquels ?"),
]


@pytest.mark.parametrize(("sentence", "attribute", "value"), TOLD)
def test_a_clause_tells_something_beside_whatever_else_is_said(sentence: str, attribute: str, value: str) -> None:
    (one,) = told(sentence)
    assert (one.attribute, one.value) == (attribute, value)


@pytest.mark.parametrize(
    "sentence",
    ["If I live in Oslo, what do I pay?", "My friend says I live in Oslo", "I lived in Oslo years ago", "Is it cold in Oslo?", ""],
)
def test_what_is_supposed_quoted_past_or_asked_tells_nothing(sentence: str) -> None:
    assert told(sentence) == ()


@pytest.mark.parametrize(("older", "newer"), CLASHING)
def test_two_things_told_that_exclude_each_other_are_a_clash_and_never_certain(older: str, newer: str) -> None:
    one, other = read_statements([StatedPiece(older, message=0), StatedPiece(newer, message=2)])
    clash = by_rule(Pair(one, other))
    assert clash is not None
    assert not is_certain(clash, [SaidSentence(0, older), SaidSentence(2, newer)])
