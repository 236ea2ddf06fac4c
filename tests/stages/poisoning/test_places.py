"""Hints are found in one pass."""

import re

from hypothesis import given
from hypothesis import strategies as st

from proxy.stages.poisoning.injections.places import AROUND, STEP, PhraseHints, windows

HINTS = ("ignor", "ignore all", "tool", "<|")


def test_a_word_is_found_by_its_beginning_and_every_hint_that_it_begins_with() -> None:
    assert PhraseHints(HINTS, {}).places("please ignore all tools <|x") == {"ignor": [7], "ignore all": [7], "tool": [18], "<|": [24]}


def test_the_middle_of_a_word_is_no_place() -> None:
    assert PhraseHints(HINTS, {}).places("a stool, untooled") == {}


def test_a_window_holds_a_hint_of_each_group() -> None:
    text = "ignore" + " x" * AROUND + " ignore the tool"
    places = PhraseHints(HINTS, {}).places(text)
    assert windows(places, (("ignor",), ("tool",)), len(text)) == [(len(text) - len("ignore the tool") - AROUND, len(text))]


@given(st.lists(st.sampled_from(["ignore", "tool", "of", "all ", "\n"]), max_size=200))
def test_every_hint_lies_in_a_window(words: list[str]) -> None:
    text = " ".join(words)
    found = windows(PhraseHints(HINTS, {}).places(text), (("ignor",),), len(text))
    assert all(any(a <= m.start() < b for a, b in found) for m in re.finditer("ignor", text))
    assert STEP < AROUND
