import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.grounding.claims.claims import ClaimReader, claims_of, parts
from proxy.language.text import SentenceSplitter
from tests.cost import below

MARKDOWN = st.lists(
    st.sampled_from(
        [
            "The tower is in Paris",
            "it opened in 1889",
            ", and ",
            "; ",
            ". ",
            "? ",
            "\n",
            "\n\n",
            "- ",
            "1. ",
            "| a | b |\n",
            "|---|---|\n",
            "    ",
            "```\n",
            "> ",
            "# ",
            "**",
            "[Passage 1]",
            "[2]",
            ":",
            "Ja. ",
            "(",
            '"',
            "z. B. ",
            " ",
        ]
    ),
    max_size=30,
).map("".join)


def texts(answer: str, question: str = "") -> list[str]:
    return [claim.text for claim in claims_of(answer, question) if claim.checkable]


def reasons(answer: str) -> list[str]:
    return [claim.reason for claim in claims_of(answer)]


@given(MARKDOWN)
def test_spans_lie_in_the_text_in_order_without_overlap(text: str) -> None:
    at = 0
    for claim in claims_of(text):
        assert at <= claim.start < claim.end <= len(text)
        assert text[claim.start : claim.end] == text[claim.start : claim.end].strip()
        at = claim.end


@given(MARKDOWN, st.data())
def test_a_stream_gives_the_claims_of_the_whole_text(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=8)))
    splitter, reader, offset, found = SentenceSplitter(), ClaimReader("Where?"), 0, []
    sentences = [s for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True) for s in splitter.feed(text[a:b])]
    for sentence in [*sentences, splitter.flush()]:
        found += reader.read(sentence, offset)
        offset += len(sentence)
    assert claims_of(text, "Where?") == found


@given(MARKDOWN)
def test_a_claim_is_checkable_exactly_when_it_has_no_reason(text: str) -> None:
    assert all(claim.checkable == (not claim.reason) for claim in claims_of(text))


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("The tower is in Paris; the bridge was built in 1900.", ["The tower is in Paris.", "The bridge was built in 1900."]),
        ("The tower is in Paris, and it opened in 1889.", ["The tower is in Paris.", "The tower: It opened in 1889."]),
        ("Der Turm steht in Paris, und er wurde 1889 eröffnet.", ["Der Turm steht in Paris.", "Der Turm: Er wurde 1889 eröffnet."]),
        ("La torre está en París, y el museo abre a las nueve.", ["La torre está en París.", "El museo abre a las nueve."]),
        ("La tour est à Paris, et le musée ouvre à neuf heures.", ["La tour est à Paris.", "Le musée ouvre à neuf heures."]),
    ],
)
def test_main_clauses_are_claims_of_their_own(sentence: str, expected: list[str]) -> None:
    assert expected == texts(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "It has a lobby, a bar, and a garden.",
        "The colours are red; green; and blue.",
        "If it rains, the museum is closed, and the tower is open.",
        "He said that the tower is in Paris, and the bridge was built in 1900.",
        'She wrote "the tower is tall, and it is grey" in 1900.',
        "The tower (it is tall; it is grey) stands in Paris.",
        "Wenn es regnet, ist das Museum zu, und der Turm ist offen.",
        "Neither is the museum open, and the tower is closed.",
    ],
)
def test_what_is_not_surely_two_statements_stays_whole(sentence: str) -> None:
    assert ((0, len(sentence)),) == parts(sentence)


@given(MARKDOWN)
def test_parts_cover_the_sentence(sentence: str) -> None:
    found = parts(sentence)
    assert "".join(sentence.split()) == "".join("".join(sentence[a:b] for a, b in found).split())


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("It opens at nine [Passage 1], daily [2, 3].", "It opens at nine, daily."),
        ("According to Passage 2, the office is in Berlin.", "The office is in Berlin."),
        ("According to [Source: faq.md], the office is in Berlin.", "The office is in Berlin."),
        ("Laut Passage 2 liegt das Büro in Berlin.", "Demnach liegt das Büro in Berlin."),
        ("Según el pasaje 2, la oficina está en Berlín.", "La oficina está en Berlín."),
        ("Selon le passage 2, le bureau est à Berlin.", "Le bureau est à Berlin."),
        ("According to NASA, the moon is grey.", "According to NASA, the moon is grey."),
        ("**Berlin** is the *capital* of [Germany](https://x.de).", "Berlin is the capital of Germany."),
        ("> 1. Ada was `born` in 1815.", "Ada was born in 1815."),
        ("5. Mai 1945 war ein Samstag.", "5. Mai 1945 war ein Samstag."),
        ("The area is 3 * 4 metres and 2*2 more.", "The area is 3 × 4 metres and 2×2 more."),
        ("Although the context does not say when, the tower is tall and grey.", "The tower is tall and grey."),
        ("It snows.[1]", "It snows."),
    ],
)
def test_a_claim_is_the_statement_without_its_marks(sentence: str, expected: str) -> None:
    assert [expected] == texts(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "It costs 3.5 million dollars.",
        "Es sind 1.234,5 km.",
        "Er mag Obst, z. B. Äpfel.",
        "Hay fruta, p. ej. Manzanas rojas.",
        "See No. 5 for it.",
    ],
)
def test_numbers_and_abbreviations_are_not_cut(sentence: str) -> None:
    assert [sentence] == texts(sentence)


def test_list_items_get_their_lead_in() -> None:
    answer = "The office is open on:\n- Monday\n- Friday [1]\n\nIt is closed in May."
    assert ["The office is open on: Monday", "The office is open on: Friday", "It is closed in May."] == texts(answer)


def test_nested_items_get_all_their_lead_ins() -> None:
    assert "The office is open on: Weekdays: 9 to 5" in texts("The office is open on:\n- Weekdays:\n  - 9 to 5\n- Sunday")


def test_a_lead_in_goes_with_the_items_under_it_alone() -> None:
    assert ["The office is open on: Monday", "It is closed in May.", "Sunday"] == texts(
        "The office is open on:\n- Monday\nIt is closed in May.\n- Sunday"
    )
    assert ["It has new stairs.", "Sunday"] == texts("The office is open on:\n  It has new stairs.\n- Sunday")
    nested = "- The office is open on:\n  - Monday\n  The stairs are new.\n  - Friday"
    assert ["The office is open on: Monday", "The stairs are new.", "The office is open on: Friday"] == texts(nested)


def test_a_short_line_with_a_colon_alone_is_a_lead_in() -> None:
    assert "Monday" == texts("The tower is old.\n- Monday")[-1]
    assert "Monday" == texts(f"{'very ' * 80}long is this:\n- Monday")[-1]


@pytest.mark.parametrize(
    ("sentence", "cut"),
    [
        ("Towers are tall; it is grey.", True),
        ("Towers rise; it is grey.", False),
        ("Towers are tall; it is.", False),
    ],
)
def test_a_clause_has_three_words_at_least(sentence: str, cut: bool) -> None:
    assert (2 if cut else 1) == len(parts(sentence))


@pytest.mark.parametrize(("words", "topic"), [(6, True), (7, False)])
def test_a_topic_has_six_words_at_most(words: int, topic: bool) -> None:
    subject = f"The {'old ' * (words - 2)}tower"
    assert (f"{subject}: It opened in 1889." if topic else "It opened in 1889.") == texts(f"{subject} is in Paris, and it opened in 1889.")[
        -1
    ]


def test_a_row_without_words_or_figures_says_nothing() -> None:
    assert ["empty", ""] == reasons("| Name | Free |\n|---|---|\n| ✓ | ✗ |\n| Ada | ✓ |")


def test_a_table_may_go_without_outer_bars() -> None:
    assert ["a: 1; b: 2"] == texts("a | b\n--|--\n1 | 2")


def test_an_indented_first_line_is_code_however_it_comes() -> None:
    assert ["code"] == reasons("    x = 1")
    reader = ClaimReader()
    assert [] == reader.read("    ", 0)
    assert ["code"] == [claim.reason for claim in reader.read("x = 1", 4)]


def test_a_row_is_told_with_its_columns() -> None:
    assert ["Name: Ada. L.; Born: 1815", "Name: Bob"] == texts("| Name | Born |\n|:--|--:|\n| **Ada. L.** | 1815 [1] |\n| Bob | – |\n")


def test_rows_without_a_separator_have_no_columns() -> None:
    assert ["Lyon; 0.5 million"] == texts("| Paris | 2 million |\n| Lyon | 0.5 million |\n")


def test_a_fragment_is_read_beside_its_question_which_is_no_part_of_it() -> None:
    question = "Where is the Eiffel Tower?"
    (claim,) = claims_of("Paris.", question)
    assert ("Paris.", question, f"{question} Paris.") == (claim.text, claim.asked, claim.question_and_text)
    assert ["It stands in Paris."] == texts("It stands in Paris.", question)
    assert ["Paris."] == texts("Paris.")


def test_only_the_question_of_a_long_message_is_used() -> None:
    (claim,) = claims_of("Paris.", "Some context. " * 100 + "Where is it?")
    assert "Where is it?" == claim.asked


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("```py\nx = 1. or 2\n```", ["code", "code", "code"]),
        ("It is:\n\n    x = 1\n    y = 2\n", ["lead_in", "code", "code"]),
        ("`ls -l`", ["code"]),
        ("## Title\n", ["heading"]),
        ("**Key points**\n", ["heading"]),
        ("---\n", ["empty"]),
        ("[Passage 1]", ["empty"]),
        ("Confidence: HIGH", ["rating"]),
        ("Vertrauen: HOCH", ["rating"]),
        ("Yes.", ["empty"]),
    ],
)
def test_what_is_no_claim(answer: str, expected: list[str]) -> None:
    assert expected == reasons(answer)


def test_an_indented_continuation_of_an_item_is_not_code() -> None:
    assert "" == claims_of("- Ada\n\n    She was born in 1815.\n")[-1].reason


def test_a_refusal_does_not_hide_the_statement_beside_it() -> None:
    assert ["refusal", ""] == reasons("The context does not mention the price, but the office is in Berlin.")


@pytest.mark.parametrize(
    "hostile",
    [
        "*" * 20_000,
        "." * 20_000,
        "[" * 20_000,
        "a, and " * 3000,
        "| " * 10_000,
        "( " * 10_000,
        " " * 20_000 + "x",
        "_a" * 10_000,
        "Yes. It is " + "1" * 20_000,
        "| a | b |\n|---|---|\n" + "| total | 1 |\n" * 1500,
    ],
)
@pytest.mark.cost
def test_hostile_text_is_read_quickly(hostile: str) -> None:
    with below(1.0):
        claims_of(hostile, "Why?")
