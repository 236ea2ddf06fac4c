"""Words that tell something are found, whatever was read before."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.language.telling_words import TellingWords


@given(st.lists(st.text("ab ", max_size=12), max_size=8))
def test_a_text_tells_where_one_of_its_words_does(texts: list[str]) -> None:
    words = TellingWords(lambda word: "ab" in word)
    assert [any("ab" in word for word in text.split()) for text in texts] == [words.any_in(text) for text in texts]
