"""Documents -> chunks."""

from hypothesis import given
from hypothesis import strategies as st

from proxy.grounding.knowledge.chunking import CHUNK_CHARS, chunks_of
from proxy.language.text import split_sentences

GUIDE = """---
title: hidden
---
# Lamp

It weighs 620 g.
It is **black**, see [here](http://x.invalid).

## Warranty & returns

- Three years on the frame.
- One year on the battery.

Setext title
------------

Last words.

## Warranty & returns

Again.
"""


def test_a_chunk_knows_the_headings_that_it_stands_under() -> None:
    found = [(chunk.headings, chunk.anchor, chunk.text) for chunk in chunks_of(GUIDE)]
    assert [
        (("Lamp",), "lamp", "It weighs 620 g. It is black, see here."),
        (("Lamp", "Warranty & returns"), "warranty--returns", "Three years on the frame."),
        (("Lamp", "Warranty & returns"), "warranty--returns", "One year on the battery."),
        (("Lamp", "Setext title"), "setext-title", "Last words."),
        (("Lamp", "Warranty & returns"), "warranty--returns-1", "Again."),
    ] == found


def test_a_chunk_knows_its_line() -> None:
    assert [6, 11, 11, 17, 21] == [chunk.line for chunk in chunks_of(GUIDE)]


def test_a_row_of_a_table_is_a_chunk_with_its_column_names() -> None:
    table = "| part | price |\n| --- | --- |\n| frame | 30 EUR |\n| Akku | 12 EUR |\n"
    assert ["part: frame; price: 30 EUR", "part: Akku; price: 12 EUR"] == [chunk.text for chunk in chunks_of(table)]


def test_a_long_paragraph_is_cut_between_sentences() -> None:
    sentences = [f"Satz Nummer {i} handelt von einem Turm in der Stadt Köln." for i in range(40)]
    found = [chunk.text for chunk in chunks_of(" ".join(sentences))]
    assert sentences == [s.strip() for text in found for s in split_sentences(text)]
    assert max(map(len, found)) <= CHUNK_CHARS


def test_plain_text_has_no_headings() -> None:
    assert [((), "# Not a heading")] == [(c.headings, c.text) for c in chunks_of("# Not a heading", markdown=False)]


def test_a_fence_is_no_heading() -> None:
    assert [()] == [chunk.headings for chunk in chunks_of("```\n# comment\nx = 1\n```\n")]


@given(st.lists(st.text(st.characters(categories=["Ll", "Lu"]), min_size=1, max_size=9), min_size=1, max_size=200))
def test_no_word_of_a_paragraph_is_lost(words: list[str]) -> None:
    text = " ".join(words)
    assert words == " ".join(chunk.text for chunk in chunks_of(text, markdown=False)).split()
