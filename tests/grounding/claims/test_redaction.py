import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.grounding.claims.claims import claims_of
from proxy.grounding.claims.redaction import redacted, redacted_sentence
from tests.cost import below


def _document(kinds: list[int]) -> str:
    """Blocks with words that occur only once."""
    out = []
    for k, kind in enumerate(kinds):
        a, b, c, d = (f"w{k}x{i}" for i in range(4))
        out.append(
            (
                f"The {a} is {b}. The {c} is {d} [1].\n\n",
                f"- The {a} is {b}.\n- {c}\n  - **{d}**: it is so.\n\n",
                f"| {a} | h{b} |\n|---|---|\n| {c} | {d} |\n| r{c} | r{d} |\n\n",
                f"```\n{a}. {b}\n```\n",
                f"> The {a} is {b}, and it was {c}.\n\n",
                f"The {a} is {b}; the {c} was {d}. Last {a}{b}.\n",
            )[kind]
        )
    return "".join(out)


DOCUMENTS = st.lists(st.integers(0, 5), min_size=1, max_size=6).map(_document)


def cut(text: str, *parts: str) -> str:
    return redacted(text, [(text.index(part), text.index(part) + len(part)) for part in parts])


@given(DOCUMENTS)
def test_nothing_to_remove_changes_nothing(text: str) -> None:
    assert text == redacted(text, [])


@given(DOCUMENTS, st.data())
def test_no_word_of_a_removed_claim_is_left(text: str, data: st.DataObject) -> None:
    claims = [claim for claim in claims_of(text) if claim.checkable]
    gone = [claim for claim in claims if data.draw(st.booleans())]
    left = set(re.findall(r"\w+", redacted(text, [(c.start, c.end) for c in gone])))
    unique = {word for c in gone for word in re.findall(r"\w*w\d+x\d\w*", text[c.start : c.end])}
    assert not unique & left


@given(DOCUMENTS, st.data())
def test_tables_keep_their_columns_and_text_its_form(text: str, data: st.DataObject) -> None:
    spans = [(c.start, c.end) for c in claims_of(text) if c.checkable and data.draw(st.booleans())]
    result = redacted(text, spans)
    assert all(line.count("|") == 3 for line in result.splitlines() if line.startswith("|"))
    assert result.count("**") % 2 == 0
    assert result.count("```") == text.count("```")
    assert "  " not in re.sub(r"(?m)^ +|\|  \|", "", result)
    assert result.count("\n\n\n") <= text.count("\n\n\n")


@given(DOCUMENTS)
def test_everything_removed_leaves_nothing(text: str) -> None:
    if "```" not in text:
        assert "" == redacted(text, [(0, len(text))])


def test_a_sentence_goes_with_its_citation() -> None:
    assert "A is one. C is three." == cut("A is one. B is two. [1] C is three.", "B is two.")


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (["- b two."], "L:\n- a one\n- c four\n\nEnd."),
        (["- a one", "- b two.", "- c four"], "L:\n\nEnd."),
    ],
)
def test_an_emptied_item_loses_its_line(gone: list[str], expected: str) -> None:
    assert expected == cut("L:\n- a one\n- b two.\n- c four\n\nEnd.", *gone)


@pytest.mark.parametrize(
    ("gone", "expected"),
    [
        (["| a | 1 |"], "T.\n\n| n | v |\n|---|---|\n| b | 2 |\n\nEnd."),
        (["| a | 1 |", "| b | 2 |"], "T.\n\nEnd."),
    ],
)
def test_a_table_stays_a_table(gone: list[str], expected: str) -> None:
    assert expected == cut("T.\n\n| n | v |\n|---|---|\n| a | 1 |\n| b | 2 |\n\nEnd.", *gone)


@pytest.mark.parametrize(
    ("text", "gone", "expected"),
    [
        ("The tower is in Paris, and it opened in 1900 [1]. Next.", "and it opened in 1900 [1].", "The tower is in Paris. Next."),
        ("The tower is in Paris, and it opened in 1900. Next.", "The tower is in Paris,", "Next."),
        ("The tower is in Paris; the river is long.", "The tower is in Paris;", "The river is long."),
        ("The tower stands in old Paris today.", "old Paris", ""),
    ],
)
def test_a_clause_goes_alone_only_where_the_rest_stands_by_itself(text: str, gone: str, expected: str) -> None:
    assert expected == cut(text, gone)


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        (" It is red.", ""),
        (" It is red.\n\n", "\n\n"),
        ("It is red.\n", ""),
        ("It is red.\n\n", "\n"),
    ],
)
def test_a_sentence_of_a_stream(sentence: str, expected: str) -> None:
    body = sentence.strip()
    start = sentence.index(body)
    assert expected == redacted_sentence(sentence, [(start, start + len(body))])


@given(st.text(max_size=60))
def test_an_untouched_sentence_stays(sentence: str) -> None:
    assert sentence == redacted_sentence(sentence, [])


@pytest.mark.parametrize(
    ("text", "gone", "left"),
    [
        ("- The tower is tall; the bridge is old.", "the bridge is old", "- The tower is tall."),
        ("> # 12. The tower is tall; the bridge is old.", "The tower is tall", "> # 12. The bridge is old."),
        ("**The tower is tall. The bridge** is old.", "The tower is tall.", "The bridge is old."),
        ("The tower is tall. – The bridge is old.", "The tower is tall.", "– The bridge is old."),
        ("A | B\n--|--\nx | y\n\nC | D\n--|--\nz | w\n", "x | y", "C | D\n--|--\nz | w\n"),
        ("A | B\n--|--\nx | y\n\nC | D\n--|--\nz | w\n", "z | w", "A | B\n--|--\nx | y\n"),
    ],
    ids=["a last clause", "a first clause behind marks", "half of what is bold", "a dash", "the first table", "the second table"],
)
def test_what_stays_stands_by_itself(text: str, gone: str, left: str) -> None:
    assert left == cut(text, gone)


@pytest.mark.cost
@pytest.mark.parametrize("line", ["{i}. The tower in Rome has {i} steps.\n", "1. a\n", "The tower in Rome has {i} steps. "])
def test_redaction_takes_time_that_grows_with_the_text(line: str) -> None:
    text = "".join(line.format(i=i) for i in range(8000))
    spans = [(claim.start, claim.end) for claim in claims_of(text)]
    with below(3.0):
        assert redacted(text, spans).strip() == ""
    with below(3.0):
        assert 0 < len(redacted(text, spans[::2])) < len(text)


def test_a_long_line_is_redacted_as_its_sentences_are() -> None:
    said = [f"The tower has {i} steps. " for i in range(600)]
    text, spans, at = "".join(said), list[tuple[int, int]](), 0
    for i, sentence in enumerate(said):
        spans += [(at, at + len(sentence.rstrip()))] if i % 3 == 0 else []
        at += len(sentence)
    assert redacted(text, spans).rstrip() == "".join(sentence for i, sentence in enumerate(said) if i % 3).rstrip()
