"""Sentences of answers as examples: what is shown, in which set, and how well they are told from their edits."""

import gzip
import json
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from training.grounding.data import CONTRADICTED, SUPPORTED, UNSUPPORTED, Example
from training.judge import answers, curve, described, mix, packed

LONG = "".join(f"Filler line {i} about the weather of the day and of many other things.\n" for i in range(30))
TABLE = (
    "| Site | Dose | Checked by |\n| --- | --- | --- |\n| North | 2.4 kg | Imre |\n| South | 3.1 kg | Oona |\n\n"
    f"{LONG}Pump awaits repair.\n"
)
ROW = "| South | 3.1 kg | Oona |"


def row(**changed: object) -> answers.Row:
    given = {
        "document": "d1",
        "context": TABLE,
        "question": "Who checked the doses?",
        "before": ("Imre checked the northern dose.",),
        "claim": "Oona checked that of the south, 3.1 kg.",
        "language": "en",
        "target": SUPPORTED,
        "sentence": "1",
        "structured": True,
        "deciding": (ROW,),
        "held_out": False,
        **changed,
    }
    return answers.Row(**given)  # type: ignore[arg-type]


def by_way(found: list[Example]) -> dict[str, Example]:
    return {e.source: e for e in found}


def test_a_sentence_is_shown_alone_beside_little_else_and_behind_what_it_follows() -> None:
    found = by_way(answers.training([row()]))
    assert {f"{way}/structured" for way in (answers.ALONE, answers.NEAR, answers.AFTER)} == set(found)
    assert len(found[f"{answers.NEAR}/structured"].evidence) < len(found[f"{answers.ALONE}/structured"].evidence)
    assert row().claim == found[f"{answers.ALONE}/structured"].claim
    behind = found[f"{answers.AFTER}/structured"].claim
    assert behind == "Who checked the doses? Imre checked the northern dose. » Oona checked that of the south, 3.1 kg."


def test_a_long_question_and_a_long_sentence_before_leave_room_for_the_claim() -> None:
    given = row(question="Why? " * 300, before=("first", "so " * 400))
    shown = answers.presented(given)
    assert len(shown) < 700 - len(given.claim)
    assert shown.endswith(answers.MARK + given.claim)
    assert "first" not in shown


def test_rows_keep_the_names_of_their_columns() -> None:
    assert all("Checked by" in e.evidence and "Oona" in e.evidence for e in answers.training([row()]))


def test_what_decides_is_shown_in_training_where_retrieval_loses_it_and_not_in_what_is_measured() -> None:
    given = {"claim": "The filler line of many other things about the weather.", "deciding": ("Pump awaits repair.",)}
    trained = by_way(answers.training([row(**given)]))[f"{answers.ALONE}/structured"]
    measured = by_way(answers.development([row(**given, held_out=True)]))[f"{answers.ALONE}/structured"]
    assert (True, False) == ("awaits repair" in trained.evidence, "awaits repair" in measured.evidence)


def test_forms_of_one_sentence_share_a_set_and_other_sentences_do_not() -> None:
    found = answers.training([row(), row(claim="Imre checked the south.", target=CONTRADICTED), row(sentence="2")])
    assert {"d1/1": 6, "d1/2": 3} == Counter(e.contrast for e in found)


def test_an_edit_that_nothing_decides_stands_beside_what_its_sentence_is_about() -> None:
    edit = row(claim="Oona checked that of the south at noon.", target=UNSUPPORTED, deciding=())
    near = [e for e in answers.training([row(), edit]) if e.source.startswith(answers.NEAR)]
    assert [SUPPORTED, UNSUPPORTED] == [e.target for e in near]
    assert all("Oona" in e.evidence for e in near)


def test_an_edit_of_a_value_is_right_beside_a_document_in_which_the_values_have_changed_places() -> None:
    edit = row(claim="Oona checked that of the south, 2.4 kg.", target=CONTRADICTED)
    was, now = answers.mirrored([row(), edit])
    assert ((row().claim, CONTRADICTED), (edit.claim, SUPPORTED)) == ((was.claim, was.target), (now.claim, now.target))
    assert was.context == now.context == TABLE.replace("2.4", "…").replace("3.1", "2.4").replace("…", "3.1")
    assert ("| South | 2.4 kg | Oona |",) == now.deciding
    shown = [e for e in answers.training([row(), edit]) if e.source.startswith(answers.ALONE)]
    assert [SUPPORTED, CONTRADICTED, CONTRADICTED, SUPPORTED] == [e.target for e in shown]
    assert [True, True, False, False] == ["South; Dose: 3.1 kg" in e.evidence for e in shown]


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Oona checked that of the south.", "Nobody but Imre has checked any."),
        ("It is at 3.1 kg.", "It was at 3.1 kg."),
        ("The south has a dose of 1 kg.", "The south has a dose of 4 kg."),
        ("Oona checked the south.", "Oona checked the south at noon."),
        ("The southern dose is larger.", "The southern dose is smaller."),
        ("Filler line is about weather.", "Filler line is about money."),
    ],
    ids=["much differs", "short words", "part of a number", "added", "not in the document", "often there"],
)
def test_nothing_else_changes_places(right: str, wrong: str) -> None:
    deciding = (ROW, LONG) if "Filler" in right else (ROW,)
    assert not answers.mirrored([row(claim=right, deciding=deciding), row(claim=wrong, target=CONTRADICTED, deciding=deciding)])


def test_documents_are_held_out_whole(tmp_path: Path) -> None:
    fields = {"context": TABLE, "question": "q", "before": [], "claim": "c", "label": "unsupported", "evidence": []}
    given = [{**fields, "doc": f"x/{i // 3}", "lang": "pt", "sentence": i % 3, "shape": "log"} for i in range(900)]
    path = tmp_path / "rows.jsonl.gz"
    path.write_bytes(gzip.compress("\n".join(map(json.dumps, given)).encode()))
    found = answers.rows([path])
    apart = {each.document for each in found if each.held_out}
    assert 20 < len(apart) < 55
    assert not apart & {each.document for each in found if not each.held_out}
    assert apart == {e.group for e in answers.development(found)}
    assert not apart & {e.group for e in answers.training(found)}


def test_missing_rows_are_named() -> None:
    with pytest.raises(SystemExit, match="missing"):
        answers.rows([Path("nowhere.jsonl.gz")])


def test_a_wrong_sentence_whose_ground_is_nowhere_is_not_learnt_from_half_a_document() -> None:
    assert [] == answers.training([row(target=CONTRADICTED, deciding=("not in it",))])
    assert answers.training([row(target=UNSUPPORTED, deciding=())])


def test_both_bases_are_shown_answers() -> None:
    assert {mix.group_of(source) for source in answers.SOURCES} == {answers.ALONE, answers.NEAR, answers.AFTER}
    assert {mix.teacher_group_of(answers.SOURCES[0], language) for language in ("en", "it")} == {answers.ALONE, None}


def test_how_often_a_right_form_is_above_its_own_edit() -> None:
    sets = np.array([0, 0, 0, 1, 1, -1, -1])
    targets = np.array([SUPPORTED, SUPPORTED, CONTRADICTED, SUPPORTED, UNSUPPORTED, SUPPORTED, UNSUPPORTED])
    supported = np.array([0.9, 0.3, 0.5, 0.2, 0.2, 0.0, 1.0])
    assert 0.5 == curve.above_edits(sets, targets, supported)  # one above, one below, one alike
    assert np.isnan(curve.above_edits(sets[:2], targets[:2], supported[:2]))


@pytest.fixture(scope="module")
def own() -> list[dict[str, object]]:
    with gzip.open(answers.OWN, "rt", encoding="utf-8") as lines:
        return [json.loads(line) for line in lines]


def test_the_rows_that_lie_in_the_tree_name_what_decides(own: list[dict[str, object]]) -> None:
    found = answers.rows([answers.OWN])
    card = (answers.OWN.parent / "README.md").read_text(encoding="utf-8")
    assert f"{len(found):,} sentences over {len({each.document for each in found})} documents" in card
    assert [] == [each for each in found if bool(each.deciding) != (each.target != UNSUPPORTED)]
    assert [] == [text for each in found for text in each.deciding if text not in each.context]
    assert len(own) == len({each["id"] for each in own})
    assert {"en", "de", "fr", "es", "it", "pt"} == {each["lang"] for each in own}


def test_likeness_and_length_do_not_tell_the_label_of_the_rows_in_the_tree(own: list[dict[str, object]]) -> None:
    told = [{name: str(each[name]) for name in ("claim", "context", "label")} for each in own]
    assert 0.47 < described.likeness(told) < 0.55
    words = {side: [len(each["claim"].split()) for each in told if (each["label"] == "supported") == side] for side in (True, False)}
    assert abs(sum(words[True]) / len(words[True]) - sum(words[False]) / len(words[False])) < 0.6


def test_what_stands_before_a_sentence_is_what_its_answer_says(own: list[dict[str, object]]) -> None:
    said = {(each["doc"], each["sentence"]): each["claim"] for each in own if each["part"] == "answer"}
    for each in (each for each in own if each["part"] != "changed"):
        before = [said.get((each["doc"], place)) for place in range(int(str(each["sentence"])))]
        assert all(ours in (None, theirs) for ours, theirs in zip(before, each["before"], strict=True))  # type: ignore[call-overload]


def test_the_curve_tells_structured_documents_from_prose_and_languages_apart() -> None:
    sources = np.array([f"{answers.ALONE}/{form}" for form in (answers.STRUCTURED, answers.PROSE) for _ in range(4)])
    targets = np.array([SUPPORTED, CONTRADICTED] * 4, np.uint8)
    lengths = np.full(8, 3)
    languages, sets = np.array(["en", "en", "pt", "pt"] * 2), np.repeat(np.arange(4), 2).astype(np.int32)
    given = packed.Pack(
        np.zeros(24, np.uint16), np.cumsum([0, *lengths]), np.ones(8, np.uint16), targets, sources=sources, languages=languages, sets=sets
    )
    right = np.array([0.9, 0.1, 0.9, 0.1, 0.1, 0.9, 0.1, 0.9])  # of structured documents every one, of prose none
    found = curve.point(given, np.stack([right, 1 - right, np.zeros(8)], 1))
    assert (1.0, 0.0) == tuple(found[f"{answers.ALONE}/{form}"]["auroc"] for form in (answers.STRUCTURED, answers.PROSE))
    assert 0.5 == found[answers.ALONE]["above_own_edit"]
    assert {f"{answers.ALONE} en", f"{answers.ALONE} pt"} < set(found)
    assert answers.AFTER not in found
