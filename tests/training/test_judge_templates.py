"""Documents and statements made of templates: every slot filled, labels that the cells bear out, rules that harm next to none."""

import random
from collections import Counter

import pytest
from msgspec.structs import replace

from benchmarks.records_values import figures, judged, made
from training.grounding.data import CONTRADICTED, SUPPORTED, UNSUPPORTED
from training.judge.templates import examples, reading, tables, topics
from training.judge.templates.reading import Attribute, Item, TableTemplate, TopicTemplate

EGGS = Attribute(
    "eggs",
    ("eggs",),
    "number",
    ("4", "6", "9"),
    ("{e} lays {v} eggs.",),
    ("{e} does not lay {v} eggs.",),
    more=("{e} lays more than {f}.",),
)
STATE = Attribute(
    "state", ("state",), "state", ("ringed", "free"), ("{e} is {v}.",), means={"ringed": ("{e} has a ring.",), "free": ("{e} has none.",)}
)
BIRDS = TableTemplate("birds", "en", ("bird",), ("Wren", "Rook", "Teal", "Finch"), (EGGS, STATE), ("{e} sang.",))
RULES = TopicTemplate(
    "rules",
    "en",
    tuple(
        Item(f"Gate {i} opens at {{h}}.", (f"Gate {i}: {{h}}.",), (f"Gate {i}: {{h!}}.",), ("It rains.",), {"h": ("6", "7")})
        for i in range(5)
    ),
)


@pytest.mark.parametrize("seed", range(30))
def test_statements_of_a_table_say_what_its_cells_do_or_do_not(seed: int) -> None:
    birds = replace(BIRDS, attributes=(EGGS,), absent=())
    for statement in tables.filled(birds, random.Random(seed)).statements:
        ((name, value), *_) = statement.cells or (("", ""),)
        if statement.contrast.startswith("value"):
            says = f"{value} eggs" in statement.text
            assert statement.text.startswith(name)
            assert (statement.target == SUPPORTED) is (says is not ("not" in statement.text))


def test_what_a_table_does_not_have_is_unsupported() -> None:
    found = [s for seed in range(60) for s in tables.filled(BIRDS, random.Random(seed)).statements if not s.cells]
    assert {UNSUPPORTED} == {s.target for s in found}
    assert any("sang" in s.text for s in found)


def test_of_two_rows_the_larger_has_more() -> None:
    found = [s for seed in range(80) for s in tables.filled(BIRDS, random.Random(seed)).statements if s.contrast == "more"]
    assert found
    for s in found:
        (more, most), (less, least) = s.cells
        assert int(most) > int(least)
        assert f"{more} lays more than {less}." == s.text if s.target == SUPPORTED else f"{less} lays more than {more}." == s.text


def test_a_topics_sentence_that_is_left_out_supports_nothing() -> None:
    for seed in range(40):
        document = topics.filled(RULES, random.Random(seed))
        for s in document.statements:
            gate = s.text.split(":")[0]
            if s.target != UNSUPPORTED:
                right = f"{gate} opens at {s.text[-2]}." in document.text
                assert (s.target == SUPPORTED) is right
            elif s.text != "It rains.":
                assert f"{gate} opens" not in document.text


def test_of_a_topics_statements_those_shown_least_come_first() -> None:
    item = Item("A.", tuple("bcdefg"), ("h", "i"), ("j",))
    shown: topics.Shown = Counter()
    for seed in range(3):
        topics.filled(TopicTemplate("t", "en", (item, item, item)), random.Random(seed), shown)
    assert {3} == {shown["t", template] for template in "bcdefg"}


def test_values_are_written_as_people_write_them() -> None:
    said = {
        reading.reworded(value, kind, "es", random.Random(seed))
        for value, kind in (("09:40", "time"), ("2026-03-04", "date"))
        for seed in range(40)
    }
    assert {"09:40", "9.40", "2026-03-04", "4 de marzo de 2026", "4 de marzo"} == said
    assert (580.0, 4.5, None) == (reading.order_of("9:40", "time"), reading.order_of("4.5 kg", "number"), reading.order_of("4 May", "date"))


def test_the_written_templates_are_whole() -> None:
    every, prose = reading.read()
    apart = len(reading.parts(every, apart=True)) + len(reading.parts(prose, apart=True))
    assert 0.1 < apart / (len(every) + len(prose)) < 0.2
    rng = random.Random(4)
    for made_of in (*(tables.filled(one, rng) for one in every), *(topics.filled(one, rng) for one in prose)):
        assert {SUPPORTED, CONTRADICTED} <= {s.target for s in made_of.statements}
        assert not any("{" in s.text for s in made_of.statements)


def test_exact_rules_contradict_next_to_no_right_statement() -> None:
    found = figures(judged(made(documents=80)))
    assert found["harmed"]["share"] < 0.01
    assert found["precision"]["share"] > 0.96
    assert found["passed"]["share"] < 0.005


def test_a_made_statement_is_shown_beside_what_decides_it() -> None:
    shown = [e for seed in range(20) for e in examples.examples_of(tables.filled(BIRDS, random.Random(seed)), random.Random(seed))]
    assert set(examples.SOURCES) == {e.source for e in shown}
    decided = [e for e in shown if e.target != UNSUPPORTED and " " in e.claim]
    assert decided
    assert all(e.claim.split()[0] in e.evidence for e in decided if e.contrast.endswith(("value 0", "value 1", "value 2")))
    assert len({e.group for e in shown}) == 20
