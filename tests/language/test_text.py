import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.language.text import MAX_HELD_CHARS, SentenceSplitter, remembered, replaced, split_sentences, whole_characters


@pytest.mark.parametrize(
    "sentences",
    [
        ["It rains.", " Take a coat!", " Really?", " Yes"],
        ["Dr. Smith paid 3.50 dollars, e.g. in cash.", " He left."],
        ["Am 3. Mai, d.h. z.B. gestern, kam Dr. Weiß.", " Er ging."],
        ["El Sr. López llegó.", " ¿Cuándo?", " Ayer."],
        ["M. Dupont est là.", " Oui."],
        ["東京は首都です。", "人口は多い！", "はい"],
        ["First paragraph\n\n", "Second one."],
        ["It ends.\n\n", "Second one."],
        ["Shopping:\n", "- milk\n", "- bread\n", "Done."],
        ["Steps:\n", "1. Go. \n", "2. Stay."],
        ['He said "no."', " Then he left."],
        ["See No. 5 for more.", " He said no.", " Well."],
        ["Wait...", " What?!", " Fine."],
        ["It opens at nine. [Passage 1]", " It closes at five. [2]\n", "It moved.[3]", " [He left.]", " Well."],
        ["See it.", " [1](https://x.de) is a link.", " Well."],
        ["> 1. Ada was born. \n", "> 2. Bob was not."],
        ["| Dr. A. is here. Now. | b |\n", "| c | d |\n", "Well."],
        ["Er lebte im 19. Jahrhundert.", " Es waren 3 Mio. Menschen, d. h. viele, z. B. Bauern.", " „Ja.“", " Gut."],
        ["Hay fruta, p. ej. Manzanas.", " Los EE. UU. son grandes.", " Bien."],
        ["Il dit : « Oui. »", " Puis il part.", " En 52 av. J.-C. César gagne."],
        ["It opens at 9 a.m.", " The bar is shut.", " On Jan. 5 it rains."],
    ],
)
def test_sentences_of_several_languages(sentences: list[str]) -> None:
    assert sentences == split_sentences("".join(sentences))


@given(st.text(alphabet="ab .!?\n\"'1。-[]»|", max_size=200), st.data())
def test_the_same_sentences_however_the_text_is_cut(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=10)))
    splitter = SentenceSplitter()
    found = [s for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True) for s in splitter.feed(text[a:b])]
    rest = splitter.flush()
    assert split_sentences(text) == ([*found, rest] if rest else found)


@given(st.text())
def test_nothing_is_lost(text: str) -> None:
    assert text == "".join(split_sentences(text))


def test_text_without_full_stops_does_not_wait_for_ever() -> None:
    splitter = SentenceSplitter()
    found = [sentence for _ in range(1000) for sentence in splitter.feed("word ")]
    assert found
    assert max(map(len, found)) <= MAX_HELD_CHARS


@pytest.mark.parametrize(
    ("old", "new", "expected"), [(" Old.", "New.", " New."), ("Old.\n\n", "N", "N\n\n"), (" Old. ", "", ""), ("", "N", "N")]
)
def test_a_replacement_keeps_the_white_space(old: str, new: str, expected: str) -> None:
    assert expected == replaced(old, new)


def test_a_citation_that_a_lower_case_word_follows_begins_the_next_sentence() -> None:
    text = "The tower is 300 m tall. [Passage 2] adds that it is repainted. [Passage 3] It stands in Paris."
    expected = ["The tower is 300 m tall.", " [Passage 2] adds that it is repainted. [Passage 3]", " It stands in Paris."]
    assert expected == split_sentences(text)
    splitter = SentenceSplitter()
    assert expected == [sentence for character in text for sentence in splitter.feed(character)] + [splitter.flush()]


@given(st.text(st.characters(codec=None), max_size=30))
def test_any_text_becomes_whole_characters(text: str) -> None:
    whole = whole_characters(text)
    whole.encode()
    assert len(whole) <= len(text)


def test_a_pair_of_surrogates_becomes_its_character_and_a_lone_one_is_replaced() -> None:
    assert whole_characters("\ud83d\ude00\ud83d") == "😀�"


def test_a_reading_of_short_texts_is_remembered_and_one_of_long_ones_is_not():
    """So that a stage reads a sentence once that another has read, and long texts take no memory."""
    read: list[str] = []

    @remembered
    def size(text: str) -> int:
        read.append(text)
        return len(text)

    assert [3, 3, 301, 301] == [size("abc"), size("abc"), size("x" * 301), size("x" * 301)]
    assert ["abc", "x" * 301, "x" * 301] == read
