"""Folding keeps the way back; layers are what people do not see."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.stages.poisoning import hidden
from proxy.stages.poisoning.hidden import fold, layers


def test_ascii_is_only_lowered() -> None:
    assert fold("Ignore ALL").text == "ignore all"


def test_diacritics_lookalikes_and_full_width_letters_become_plain() -> None:
    assert fold("Ｉgnörе Straße").text == "ignore strase"  # full width I, umlaut, Cyrillic e


def test_positions_lead_back_behind_what_was_removed() -> None:
    folded = fold("a\u200bb\u200b\u200bc")
    assert [folded.original(i) for i in range(3)] == [0, 2, 5]


@given(st.text(max_size=200))
def test_every_folded_character_has_its_own_original(text: str) -> None:
    folded = fold(text)
    places = [folded.original(i) for i in range(len(folded.text))]
    assert places == sorted(set(places))
    assert all(0 <= place < len(text) for place in places)


def test_a_comment_is_a_layer_with_its_place() -> None:
    (layer,) = layers("before <!-- secret &amp; more --> after")
    assert (layer.kind, layer.text.strip(), layer.start, layer.end) == ("comment", "secret & more", 7, 33)


def test_a_hash_is_no_layer() -> None:
    assert list(layers("sha256 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08")) == []


@given(st.text("a,.>< \n\r\tb/", max_size=40))
def test_no_gap_is_passed_over(text: str) -> None:
    assert hidden._GAPS.search(text) is None or any(mark in text for mark in hidden._GAP_MARKS)
