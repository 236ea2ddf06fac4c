import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.exchange import Evidence, Message
from proxy.grounding.citations.checking import CitationFinding, JudgedStatement, precision, recall, verified
from proxy.grounding.citations.citable import Citable
from proxy.grounding.citations.citing import CitationReader, CitedStatement, is_relevant, statements_of, without_marks
from proxy.grounding.citations.written_forms import Citation
from proxy.language.text import split_sentences


def cited(text: str) -> list[tuple[str, list[str]]]:
    """Each statement with what it cites."""
    return [(text[s.start : s.end], [c.label for c in s.cited]) for s in statements_of(text)]


# ---- which sentence cites ----


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("It is 330 m tall [Passage 1].", ["passage 1"]),
        ("Der Turm ist 330 m hoch [Quelle: guide.md].", ["source: guide.md"]),
        ("La torre mide 330 m [Pasajes 1-3].", ["passage 1", "passage 2", "passage 3"]),
        ("Abierto en 1889 [Contexto: historia].", ["context: historia"]),
        ("La tour mesure 330 m [Passages 2 et 4].", ["passage 2", "passage 4"]),
    ],
)
def test_every_form_belongs_to_its_sentence(text: str, expected: list[str]) -> None:
    assert [(text, expected)] == cited(text)


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("The tower is 330 m tall [1].", [1]),
        ("The tower is 330 m tall.[1][2]", [1, 2]),
        ("Der Turm ist 330 m hoch [Dokument 2].", [2]),
        ("La torre mide 330 m [1, 3-4].", [1, 3, 4]),
        ("The tower is 330 m tall【3†source】.", [3]),
        ("The tower is 330 m tall[^2].", [2]),
        ("The tower is [330](https://a.example) m tall.", []),
        ("The tower was built in [1889].", []),
        ("The value lies in the range [1, 3].", []),
        ("The first tower is `towers[1]`.", []),
    ],
)
def test_bare_numbers_cite_where_there_are_passages(text: str, numbers: list[int]) -> None:
    assert [numbers] == [[c.number for c in s.cited] for s in statements_of(text, numbered=True)]
    assert [[]] == [s.cited for s in statements_of(text)]


def test_a_citation_behind_the_full_stop_belongs_to_the_sentence_before() -> None:
    found = cited("The tower is 330 m tall. [Passage 1] It stands in Paris. [Passage 2]\n")
    assert [["passage 1"], ["passage 2"]] == [labels for _, labels in found]


def test_a_citation_alone_on_the_next_line_belongs_to_the_sentence_before() -> None:
    assert [("Der Turm ist 330 m hoch.", ["source: a.md"])] == cited("Der Turm ist 330 m hoch.\n[Quelle: a.md]\n")


def test_a_line_that_names_its_source_belongs_to_the_sentence_before() -> None:
    assert [("The tower is 330 m tall.", ["passage 1"])] == cited("The tower is 330 m tall.\nSource: [Passage 1]\n")


def test_a_citation_that_is_the_subject_belongs_to_its_own_sentence() -> None:
    found = cited("The tower is tall [Passage 1]. [Passage 2] adds that it stands in Paris.")
    assert [["passage 1"], ["passage 2"]] == [labels for _, labels in found]


def test_an_answer_that_cites_first_keeps_doing_so() -> None:
    found = cited("[Passage 1] The tower is 330 m tall. [Passage 2] It stands in Paris.")
    assert [["passage 1"], ["passage 2"]] == [labels for _, labels in found]


def test_a_lead_in_covers_the_items_that_cite_nothing_themselves() -> None:
    text = "The tower has these properties [Passage 1]:\n- It is 330 m tall.\n- It stands in Paris [Passage 2].\n\nIt opened in 1889.\n"
    assert [["passage 1"], ["passage 1"], ["passage 2"], []] == [labels for _, labels in cited(text)]
    assert [False, True, True, True] == [s.needs_citation for s in statements_of(text)]


def test_a_list_of_references_is_no_sentence() -> None:
    text = "The tower is 330 m tall.\n\nReferences:\n- [Passage 1] guide.md\n- [Source: https://x.org/a]\n"
    assert [[], ["passage 1"], ["source: https://x.org/a"]] == [labels for _, labels in cited(text)]
    assert [True, False, False] == [s.needs_citation for s in statements_of(text)]


def test_code_cites_nothing() -> None:
    assert [[], []] == [labels for _, labels in cited("```\nprint('[Passage 1]')\n```\nThat was it.")][-2:]


def test_a_mark_with_a_full_stop_in_it_is_read_whole() -> None:
    text = "The tower is 330 m tall [Source: The Tower. A guide]."
    assert ["source: The Tower. A guide"] == [label for _, labels in cited(text) for label in labels]


def test_what_follows_a_sentence_that_is_gone_is_an_orphan() -> None:
    reader = CitationReader()
    reader.read("The tower is 330 m tall.", 0, 0)
    (touched, *_) = reader.read(" [Passage 1] It stands in Paris.", 60, 2)
    assert (True, []) == (touched.orphan, reader.statements[0].citations)


PIECES = [
    "The tower is 330 m tall",
    ". ",
    "[Passage 1]",
    "\n",
    "- ",
    "[Source: a.md] ",
    "It stands in Paris. ",
    ":",
    "Sources:\n",
    "[Passages 1, 9]",
]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_each_citation_belongs_to_one_statement_and_stands_where_it_says(text: str) -> None:
    own = [c for s in statements_of(text) for c in s.citations]
    assert len({(c.start, c.end, c.label) for c in own}) == len(own)
    assert all(text[c.start] == "[" and text[c.end - 1] == "]" for c in own)


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_taking_all_marks_out_leaves_every_other_word(text: str) -> None:
    marks = [c for s in statements_of(text) for c in s.citations]
    left = without_marks(text, 0, marks, [])
    expected = text
    for c in sorted({(c.start, c.end) for c in marks}, reverse=True):
        expected = expected[: c[0]] + expected[c[1] :]
    assert "".join(expected.split()) == "".join(left.split())


# ---- taking marks out ----


@pytest.mark.parametrize(
    ("text", "bad", "expected"),
    [
        ("It is tall [Passage 9]. Yes.", {9}, "It is tall. Yes."),
        ("It is tall. [Passage 9] It stands.", {9}, "It is tall. It stands."),
        ("It is tall [Passages 1-3].", {2}, "It is tall [Passages 1, 3]."),
        ("It is tall [Pasaje 1] [Pasaje 9].", {9}, "It is tall [Pasaje 1]."),
        ("[Passage 9] It is tall.", {9}, "It is tall."),
        ("It is tall.\n[Passage 9] So it is.", {9}, "It is tall.\nSo it is."),
    ],
)
def test_a_mark_goes_with_the_space_before_it(text: str, bad: set[int], expected: str) -> None:
    marks = [c for s in statements_of(text) for c in s.citations]
    assert expected == without_marks(text, 0, [c for c in marks if c.number in bad], [c for c in marks if c.number not in bad])


# ---- what is cited ----

GUIDE = Evidence("# Opening hours\nThe tower is 330 m tall.", "https://example.org/docs/guide.md?v=2")
REPORT = Evidence("Visitors came.", "annual_report_2023.pdf", fields={"title": "How many came"})


def find(name: str, kind: str = "source") -> list[str]:
    citable = Citable([], [GUIDE, REPORT], [])
    return [evidence.content for evidence in citable.find(Citation(0, 1, kind, None, name))]


@pytest.mark.parametrize(
    "name",
    [
        "https://example.org/docs/guide.md?v=2",
        "http://www.example.org/docs/guide.md#top",
        "docs/guide.md",
        "guide.md",
        "Guide",
        "guide.md, page 3",
        "guide.md (section 2)",
        "example.org",
        "Opening hours",
    ],
)
def test_a_source_is_found_however_it_is_written(name: str) -> None:
    assert [GUIDE.content] == find(name)


@pytest.mark.parametrize("name", ["Annual Report 2023", "annual-report-2023", "How many came"])
def test_a_title_is_found(name: str) -> None:
    assert [REPORT.content] == find(name)


@pytest.mark.parametrize(
    "name", ["Annual Report 2024", "other.md", "https://example.com/docs/guide.html", "Wikipedia", "md", "https", "Führer"]
)
def test_an_invented_source_is_not_found(name: str) -> None:
    assert [] == find(name)


@pytest.mark.parametrize("name", ["opening hours", "the provided context", "how tall the tower is in m: 330"])
def test_a_part_of_the_context_is_found_by_its_words(name: str) -> None:
    assert GUIDE.content in find(name, "context")


def test_an_invented_part_of_the_context_is_not_found() -> None:
    assert [] == find("the architect's biography", "context")


def number(messages: list[Message], n: int) -> list[str]:
    return [e.content for e in Citable(messages, []).find(Citation(0, 1, "passage", n))]


def asking(text: str) -> Message:
    return {"role": "user", "content": text}


def test_numbers_are_those_that_the_prompt_shows() -> None:
    told = asking('<documents><document index="3">Three.</document><document index="5">Five.</document></documents>\nWhat?')
    assert (["Three."], ["Five."], []) == (number([told], 3), number([told], 5), number([told], 1))


def test_passages_without_numbers_count_by_their_place() -> None:
    told = asking("<documents><document>One.</document><document>Two.</document></documents>\nWhat?")
    assert (["One."], ["Two."], []) == (number([told], 1), number([told], 2), number([told], 3))


def test_the_newest_turn_that_has_the_number_counts() -> None:
    first, second = (
        asking("### Passage 1\nOld one.\n\n### Passage 2\nOld two.\n\nQuestion: x?"),
        asking("### Passage 1\nNew one.\n\nQuestion: y?"),
    )
    assert (["New one."], ["Old two."]) == (number([first, second], 1), number([first, second], 2))


def test_results_of_retrieval_tools_have_numbers_too() -> None:
    call = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "search_docs", "arguments": "{}"}}]}
    result = {"role": "tool", "tool_call_id": "c", "content": '[{"text": "First hit."}, {"text": "Second hit."}]'}
    citable = Citable([asking("What?"), call, result], [], retrieval_tools=["search_docs"])
    assert ["Second hit."] == [e.content for e in citable.find(Citation(0, 1, "passage", 2))]


# ---- ALCE ----


@pytest.mark.parametrize(
    ("together", "alone", "others", "relevant"),
    [(True, True, True, True), (True, False, False, True), (True, False, True, False), (False, True, False, False)],
)
def test_relevance_is_alces(together: bool, alone: bool, others: bool, relevant: bool) -> None:
    assert relevant == is_relevant(together=together, alone=alone, others=others)


def judged(supported: bool | None, *relevant: bool | None, exists: bool = True) -> JudgedStatement:
    (statement,) = statements_of("The tower is 330 m tall.")
    marks = [Citation(i, i + 1, "passage", i) for i in range(len(relevant))]
    statement.citations = list(marks)
    return JudgedStatement(statement, supported, tuple(CitationFinding(m, exists, r, r) for m, r in zip(marks, relevant, strict=True)))


def test_recall_counts_sentences_and_precision_counts_citations() -> None:
    answer = [judged(True, True, False), judged(False, False), judged(None)]
    assert (1 / 3, 1 / 3, (1, 3)) == (recall(answer), precision(answer), verified(answer))


def test_an_invented_citation_counts_against_precision() -> None:
    assert 0.5 == precision([judged(True, True), judged(False, None, exists=False)])


def test_what_could_not_be_checked_counts_for_neither() -> None:
    assert (None, None) == (recall([judged(None, None)]), precision([judged(None, None)]))


def test_a_statement_without_claims_needs_no_citation() -> None:
    assert None is recall([JudgedStatement(CitedStatement(0, 1))])


def test_reading_sentence_by_sentence_is_reading_the_whole() -> None:
    text, reader, offset = (
        "It has two [Passage 1]:\n- A tower is tall.\n- It is old. [Passage 2]\n\nIt stands. [Passage 3]",
        CitationReader(),
        0,
    )
    for index, sentence in enumerate(split_sentences(text)):
        reader.read(sentence, offset, index)
        offset += len(sentence)
    assert [s.cited for s in statements_of(text)] == [s.cited for s in reader.statements]
