"""The marks that the proxy asks for, taken out of an answer: whole, and sentence by sentence."""

import pytest

from proxy.language.text import SentenceSplitter
from proxy.stages.faithful.marks import MarkRemover, asks_for_citations, asks_for_rating, without_own_marks

BOTH = {"citations": True, "rating": True}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is in Paris [Passage 1].", "It is in Paris."),
        ("It is in Paris. [Passage 1] It is tall [Passages 1, 3].", "It is in Paris. It is tall."),
        ("It is in Paris [Source: guide.md].\n\nConfidence: HIGH", "It is in Paris."),
        ("It is in Paris.\n\n**Confidence: MEDIUM**\n", "It is in Paris.\n"),
        ("Er steht in Paris [Passage 1].\nVertrauen: HOCH", "Er steht in Paris."),
        ("Está en París [Pasaje 1] y es alta. Confianza: ALTA", "Está en París y es alta."),
        ("- one [Passage 1]\n- two [Passage 2]\n", "- one\n- two\n"),
        ("One. [Passage 1]\n\nTwo.", "One.\n\nTwo."),
        ("Use `a[Passage]` and [this](b).", "Use `a[Passage]` and [this](b)."),
        ("```\nx = [Passage 1]\n```", "```\nx = [Passage 1]\n```"),
        ("My confidence in him is high, he said.", "My confidence in him is high, he said."),
        ("Confidence: HIGH", "Confidence: HIGH"),
        ("Confidence: HIGH means that two sources agree. It is tall.", "Confidence: HIGH means that two sources agree. It is tall."),
        ("Vertrauen: HOCH bedeutet zwei Quellen. Er ist hoch.", "Vertrauen: HOCH bedeutet zwei Quellen. Er ist hoch."),
        ("Consumer confidence is high. It rose.", "Consumer confidence is high. It rose."),
        ("It rose. My confidence is high because it is stated.", "It rose."),
        ("It is in Paris.", "It is in Paris."),
    ],
)
def test_marks_go_and_the_rest_stays(text: str, expected: str) -> None:
    assert expected == without_own_marks(text, **BOTH)


def test_each_kind_goes_by_itself() -> None:
    text = "It is in Paris [Passage 1]. Confidence: HIGH"
    assert "It is in Paris. Confidence: HIGH" == without_own_marks(text, citations=True, rating=False)
    assert "It is in Paris [Passage 1]." == without_own_marks(text, citations=False, rating=True)


@pytest.mark.parametrize("size", [1, 2, 5, 11])
def test_a_stream_cut_anywhere_gives_the_same(size: int) -> None:
    text = "It is in Paris [Source: Dr. Smith]. It is tall. [Passages 1-2] It is old [Passage 3]!\n\nConfidence: HIGH"
    splitter, remover, left = SentenceSplitter(), MarkRemover(**BOTH), ""
    for i in range(0, len(text), size):
        for sentence in splitter.feed(text[i : i + size]):
            left += remover.read(sentence, final=False)
    left += remover.read(splitter.flush(), final=True)
    assert "It is in Paris. It is tall. It is old!" == left.strip()


def test_what_only_begins_like_a_mark_leaves_in_the_end() -> None:
    remover = MarkRemover(**BOTH)
    left = remover.read("See [Source: the Dr. ", final=False) + remover.read("of it.", final=True)
    assert "See [Source: the Dr. of it." == left


@pytest.mark.parametrize(
    ("text", "asks"),
    [
        ("Cite your sources.", True),
        ("Gib die Quellen an.", True),
        ("Cita las fuentes.", True),
        ("Donne tes références.", True),
        ("Indica la fonte.", True),
        ("Cita i riferimenti, per favore.", True),
        ("Indique as fontes.", True),
        ("Diz-me em que cláusula está isso e indica a cláusula.", True),
        ("Nenne den Abschnitt, in dem das steht.", True),
        ("Which page says so?", True),
        ("Précise l'article du règlement.", True),
        ("Menciona el apartado.", True),
        ("Qual è l'altezza della torre?", False),
        ("Qual é a altura da torre?", False),
        ("¿Qué altura tiene la torre?", False),
        ("Wie viele Seiten hat das Buch?", False),
        ("[1] The tower is tall.\n[2] It is old.", True),
        ("### Passage 1\nThe tower is tall.", True),
        ("Document 1: a", True),
        ("How tall is the tower?", False),
        ("You are a guide in Paris.", False),
    ],
)
def test_a_client_may_ask_for_citations_itself(text: str, asks: bool) -> None:
    assert asks == asks_for_citations([text])


@pytest.mark.parametrize(("text", "asks"), [("State your confidence.", True), ("Wie sicher bist du?", True), ("How tall is it?", False)])
def test_a_client_may_ask_for_a_rating_itself(text: str, asks: bool) -> None:
    assert asks == asks_for_rating([text])
