"""Features and probabilities, as pure functions."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.grounding import relevance_scoring as scoring
from proxy.language.words import Vocabulary, content_words, fold, words


def coverage(question: str, passage: str) -> float:
    return Vocabulary(passage).coverage(content_words(question))


def test_case_and_accents_do_not_matter() -> None:
    assert "uber strasse 한국" == fold("Über Straße 한국")


def test_function_words_are_not_looked_for() -> None:
    assert ("tall", "eiffel", "tower") == content_words("How tall is the Eiffel Tower?")


def test_all_words_found_is_one_and_none_is_zero() -> None:
    assert 1.0 == coverage("Wie hoch ist der Turm?", "Der Turm ist hoch.")
    assert 0.0 == coverage("Wie hoch ist der Turm?", "Brot backen")


@pytest.mark.parametrize(
    ("question", "passage"),
    [
        ("Bevölkerungszahl", "Die Bevölkerung wuchs."),
        ("¿Quién gobernaba?", "El rey gobernó hasta 1700."),
        ("invented", "an invention of the century"),
    ],
)
def test_compounds_and_inflected_forms_are_found_in_part(question: str, passage: str) -> None:
    assert 0.2 < coverage(question, passage) < 1


def test_numbers_are_found_whole_or_not_at_all() -> None:
    assert (1.0, 0.0) == (coverage("19055", "model 19055"), coverage("19055", "model 190557"))


def test_chinese_is_compared_by_pairs_of_characters() -> None:
    assert ["法国", "国的", "的首", "首都"] == words("法国的首都")
    assert 1.0 == coverage("法国的首都是哪里？", "法国首都位于巴黎。")
    assert 0.0 == coverage("法国的首都是哪里？", "面包需要烤四十分钟。")


def test_a_short_passage_is_one_window() -> None:
    assert ["One. Two."] == scoring.windows("One. Two.\n")


def test_a_long_one_is_cut_between_sentences() -> None:
    text = "This is a sentence of some length about nothing. " * 100
    found = scoring.windows(text)
    assert all(len(window) <= scoring.WINDOW_CHARS and window.endswith(".") for window in found)
    assert text.strip() == " ".join(found)


@given(st.text(alphabet="ab .\n", max_size=6000))
def test_windows_lose_nothing_but_white_space(text: str) -> None:
    assert "".join(text.split()) == "".join("".join(scoring.windows(text)).split())


def test_of_too_many_windows_those_with_the_question_s_words_stay() -> None:
    passages = ["Bread.", "The pump has seals.", "Oil.", "A seal."]
    found = scoring.cut("How many seals has the pump?", passages, 2)
    assert [1, 3] == [window.passage for window in found]


def test_a_passage_in_another_language_is_known_as_such() -> None:
    question = "Wie oft muss die Dichtung der Pumpe gewechselt werden?"
    found = scoring.cut(question, ["Replace the seal of the pump every year.", "Die Dichtung muss jedes Jahr gewechselt werden."], 9)
    assert [False, True] == [window.same_language for window in found]


@given(st.floats(-1, 1), st.floats(0, 1), st.floats(0.001, 0.5), st.booleans())
def test_more_similarity_or_more_words_never_lower_the_probability(cosine: float, share: float, step: float, same: bool) -> None:
    def logit(cosine: float, share: float) -> float:
        return scoring.window_logit(scoring.Window(0, "", same, share, 4), cosine)

    assert logit(cosine, share) < logit(cosine + step, share)
    assert logit(cosine, share) < logit(cosine, share + step)


def test_a_short_question_is_refused_less_readily() -> None:
    short, long = (scoring.window_logit(scoring.Window(0, "", True, 0.0, words), 0.1) for words in (1, 8))
    assert long < short


def test_a_record_is_told_from_prose_by_its_characters() -> None:
    record, prose = '{"id": 17, "state": "open"}', "The ticket is open."
    assert scoring.Window(0, prose, True, 0).structure < 0.1 < scoring.Window(0, record, True, 0).structure


def test_the_best_window_speaks_for_its_passage_and_the_best_passage_for_all() -> None:
    windows = [scoring.Window(i, "", True, share) for i, share in ((0, 0.1), (0, 0.9), (1, 0.5))]
    found = scoring.score(np.array([1, 0], np.float32), windows, np.array([[0, 1]] * 3, np.float32))
    assert [(0, 0.9), (1, 0.5)] == [(p.passage, p.coverage) for p in found.ranked]
    assert scoring.context_probability(found.ranked[0].logit, 3) == found.probability


def test_among_more_windows_a_good_one_counts_less() -> None:
    assert scoring.context_probability(1.0, 20) < scoring.context_probability(1.0, 1)


def test_no_windows_no_help() -> None:
    assert 0.0 == scoring.score(np.zeros(2, np.float32), [], np.zeros((0, 2), np.float32)).probability


def test_extreme_logits_do_not_overflow() -> None:
    assert (0.0, 1.0) == (pytest.approx(scoring.probability(-1e9)), scoring.probability(1e9))
