"""Phrases are tried only around their hints, and every one that is there is found all the same."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks import injection_data
from proxy.stages.poisoning.hidden import fold
from proxy.stages.poisoning.phrases import AROUND_CHARS, _signals, _windows, find_phrases, prepare

ATTACKS = [fold(attack.text).text for split in ("train", "test") for attack in injection_data.attacks(split, 3)]
WORDS = ["ignore", "all previous", "instructions", "you are now", "dan", "note to the ai:", "<|im_start|>", "system", ":", "\n", "of it"]


def everywhere(text: str) -> set[tuple[int, int, str]]:
    """By each expression over the whole text."""
    return {(*match.span(), signal.category) for signal in _signals() for match in signal.pattern.finditer(text)}


def found(text: str) -> set[tuple[int, int, str]]:
    return {(start, end, category) for start, end, category, _ in find_phrases(text)}


def test_every_expression_can_be_compiled() -> None:
    prepare()


@pytest.mark.parametrize("start", range(0, len(ATTACKS), 50))
def test_what_an_expression_finds_in_an_attack_stands_near_its_hints(start: int) -> None:
    for text in ATTACKS[start : start + 50]:
        assert everywhere(text) <= found(text)


@given(st.lists(st.sampled_from(WORDS), max_size=60).map(" ".join))
def test_what_an_expression_finds_in_any_text_stands_near_its_hints(text: str) -> None:
    assert everywhere(text) <= found(text)


@given(st.lists(st.integers(0, 5000), max_size=30).map(sorted))
def test_windows_hold_every_place_and_do_not_touch(places: list[int]) -> None:
    windows = _windows(places, 5000 + 2 * AROUND_CHARS)
    assert all(any(start <= at < end for start, end in windows) for at in places)
    assert all(one[1] < two[0] for one, two in pairwise(windows))
