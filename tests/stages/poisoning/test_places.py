"""Hints are found in one pass."""

import re

from hypothesis import given
from hypothesis import strategies as st

from proxy.stages.poisoning.injections.addressed import _READER, _SYSTEM, READER_WORD
from proxy.stages.poisoning.injections.phrases.signal import AI_WORD, MODEL_WORDS
from proxy.stages.poisoning.injections.places import AROUND, MANY, STEP, PhraseHints, windows

HINTS = ("ignor", "ignore all", "tool", "<|")
TEXTS = st.text(alphabet="ab <|", max_size=300)


def test_a_word_is_found_by_its_beginning_and_every_hint_that_it_begins_with() -> None:
    assert PhraseHints(HINTS, {}).places("please ignore all tools <|x", HINTS) == {
        "ignor": [7],
        "ignore all": [7],
        "tool": [18],
        "<|": [24],
    }


def test_the_middle_of_a_word_is_no_place() -> None:
    assert PhraseHints(HINTS, {}).places("a stool, untooled", HINTS) == {}


def test_a_window_holds_a_hint_of_each_group() -> None:
    text = "ignore" + " x" * AROUND + " ignore the tool"
    places = PhraseHints(HINTS, {}).places(text, HINTS)
    assert windows(places, (("ignor",), ("tool",)), len(text)) == [(len(text) - len("ignore the tool") - AROUND, len(text))]


@given(st.lists(st.sampled_from(["ignore", "tool", "of", "all ", "\n"]), max_size=200))
def test_every_hint_lies_in_a_window(words: list[str]) -> None:
    text = " ".join(words)
    found = windows(PhraseHints(HINTS, {}).places(text, HINTS), (("ignor",),), len(text))
    assert all(any(a <= m.start() < b for a, b in found) for m in re.finditer("ignor", text))
    assert STEP < AROUND


@given(TEXTS)
def test_every_hint_that_has_a_place_is_present(text: str) -> None:
    hints = PhraseHints(some := ("ab", "aa bb", " b", "<|", "a<"), {})
    assert set(hints.places(text, some)) <= hints.present(text) == hints.present(text)


@given(TEXTS)
def test_many_hints_have_the_places_that_each_has_alone(text: str) -> None:
    some = ("ab", "aa bb", "b a", " b", "<|", *(f"a{'b' * n}" for n in range(2, MANY)))
    hints = PhraseHints(some, {})
    assert hints.places(text, some) == {hint: places for hint in some for places in hints.places(text, (hint,)).values()}


@given(st.one_of(st.from_regex(_READER.pattern), st.from_regex(_SYSTEM.pattern)))
def test_whoever_is_told_something_is_named_by_one_of_the_words(text: str) -> None:
    assert any(re.search(READER_WORD, word) for word in text.split())


@given(st.from_regex(MODEL_WORDS))
def test_every_name_of_a_model_begins_with_one_of_the_words(text: str) -> None:
    assert any(re.search(AI_WORD, word) for word in text.split())
