"""The grounding benchmark's composed answers keep their rule, and its baselines are fitted as they say."""

import json
from itertools import pairwise

import numpy as np
import pytest

from benchmarks import grounding_answers as answers
from benchmarks import grounding_baselines as baselines
from benchmarks import grounding_tables as tables
from benchmarks import readme
from benchmarks.grounding_data import Pair, kinds_of, length_class

SUBJECTS = ("bridge", "harbour", "library", "orchard", "railway", "theatre", "factory", "lighthouse", "monastery", "hospital")


def words(text):
    return len(text.split())


def pairs():
    found = []
    for i in range(60):
        subject = SUBJECTS[i % len(SUBJECTS)]
        context = f"Passage{i:04} about the {subject}. " + f"Detail{i:04} stands here again and again. " * 40
        found.append(Pair(f"The {subject} number{i:04} was built long ago.", context, label="supported", source=f"s{i % 3}"))
        found.append(
            Pair(f"Wrongly{i:04} claimed{i:04} elsewhere{i:04} somehow{i:04} today.", context, label="unsupported", source=f"s{i % 3}")
        )
    return found


@pytest.fixture(scope="module")
def made():
    return answers.composed(40, 3, words, pairs())


def test_the_same_seed_makes_the_same_answers(made):
    assert made == answers.composed(40, 3, words, pairs())
    assert made != answers.composed(40, 4, words, pairs())


def test_every_other_answer_is_positive_and_says_where(made):
    assert [i % 2 == 0 for i in range(40)] == [answer.positive for answer in made]
    for answer in made:
        assert all(answer.text[a:b].startswith("Wrongly") for a, b in answer.gold)
        assert answer.text.count("Wrongly") == len(answer.gold)


def test_parts_cover_the_answer_in_order(made):
    for answer in made:
        assert answers.SENTENCES[0] <= len(answer.parts) <= answers.SENTENCES[1]
        assert (0, len(answer.text)) == (answer.parts[0].start, answer.parts[-1].end)
        assert all(before.end + 1 == after.start for before, after in pairwise(answer.parts))


def test_a_context_holds_the_claims_own_passages_and_no_more_than_the_limit(made):
    own = {pair.claim: pair.context for pair in pairs()}
    for answer in made:
        assert words(answer.context) <= answers.CONTEXT_TOKENS[1]
        assert all(own[answer.text[part.start : part.end]] in answer.context for part in answer.parts)


def test_a_passage_that_could_support_a_planted_claim_does_not_join():
    planted = Pair("The harbour opened again after seven winters.", "Nothing about that.", label="unsupported")
    assert not answers._harmless("In spring the harbour opened after winters of waiting, once again.", [planted])
    assert answers._harmless("The library is closed on Mondays.", [planted])


def test_claims_with_two_labels_and_wrong_ones_of_several_sentences_are_not_used():
    both = [Pair("The tower is very tall indeed.", "a", label=label) for label in ("supported", "unsupported")]
    long = Pair("The tower is tall today. It was built in a year.", "b", label="unsupported")
    right = Pair("The mill is old and small. It stands near the wide river.", "c")
    assert ["The mill is old and small.", "It stands near the wide river."] == [p.claim for p in answers.usable([*both, long, right])]


def test_a_fitted_baseline_turns_what_it_measures_into_a_probability():
    training = [Pair(str(i), "", label="supported" if i >= 5 else "unsupported") for i in range(10)] * 8
    system = baselines.Fitted("size", lambda some: np.array([[float(p.claim)] for p in some]), training)
    said = system.score([Pair("0", ""), Pair("9", "")])[:, 0]
    assert said[0] < 0.2 < system.threshold < 0.8 < said[1]


def test_logistic_regression_finds_the_share_where_nothing_is_measured():
    weights = baselines.logistic_regression(np.zeros((8, 1)), np.array([True] * 2 + [False] * 6))
    assert 0.25 == pytest.approx(1 / (1 + np.exp(-weights[0])))


def test_kinds_of_errors_are_named_alike_within_a_source():
    assert (
        ("intrinsic entity",)
        == kinds_of("bump", "Intrinsic Entity Error", "unsupported")
        == kinds_of("bump", "Intrinsic Entity", "unsupported")
    )
    assert ("antonym_swap", "entity_modification") == kinds_of(
        "summedits", "inconsistent: antonym_swap, entity_modification", "unsupported"
    )
    assert () == kinds_of("bump", "reference summary sentence", "supported")


def test_contexts_are_told_apart_by_tokens():
    assert ["below 300", "300 to 1000", "1000 and more"] == [length_class(n) for n in (299, 300, 1000)]


def test_a_table_of_measurements_stays_as_it_is_where_none_were_made(monkeypatch):
    text = "<!-- generated: grounding -->\n| 0.9 |\n<!-- end -->"
    monkeypatch.setitem(readme.TABLES, "grounding", lambda: None)
    assert text == readme.filled(text)
    monkeypatch.setitem(readme.TABLES, "grounding", lambda: "| 0.8 |")
    assert text.replace("0.9", "0.8") == readme.filled(text)


def test_the_readmes_table_is_made_of_the_written_figures(tmp_path):
    mean = {"systems": {"a": {"estimates": {"balanced": [0.8, 0.7, 0.9], "auroc": [None, None, None]}}}}
    group = {"sources": {"x": {}}, "mean of sources": mean}
    told = {"answers": {"f1": [0.5, 0.4, 0.6], "balanced": [0.6, 0.5, 0.7]}, "spans": {"f1": [0.3, 0.2, 0.4]}}
    report = {"groups": {"trained on": group, "held out": group}, "answers": {"composed": {"a": told}}, "systems": {"a": {}}}
    (tmp_path / "grounding.json").write_text(json.dumps(report))
    last = tables.readme_table(tmp_path / "grounding.json").splitlines()[-1]
    assert "| a | 0.80 [0.70, 0.90] | 0.80 [0.70, 0.90] | - | - | 0.50 [0.40, 0.60] | 0.60 [0.50, 0.70] | 0.30 [0.20, 0.40] |" == last
    assert tables.readme_table(tmp_path / "missing.json") is None
