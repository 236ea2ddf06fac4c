"""Where a text's pieces stand in what was made of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.language.alignment import moved, shared_runs

WORDS = st.lists(st.sampled_from(["tower", "Paris", "is", "in", "old.", "new!", "[1]", "\n", "330", "m.", "日本。"]), max_size=60)


def found(before: str, after: str, piece: str) -> str | None:
    start = before.index(piece)
    place = moved(before, start, start + len(piece), shared_runs(before, after))
    return None if place is None else after[slice(*place)]


@given(WORDS, st.sets(st.integers(0, 59)), st.sampled_from(["", "[…]", "no. "]))
def test_a_run_is_the_same_in_both_and_runs_keep_their_order(words: list[str], out: set[int], marker: str) -> None:
    before = " ".join(words)
    after = " ".join(marker if i in out else word for i, word in enumerate(words))
    end = end_after = 0
    for start, last, at in shared_runs(before, after):
        assert before[start:last] == after[at : at + last - start]
        assert start >= end
        assert at >= end_after
        end, end_after = last, at + last - start


@given(st.text())
def test_a_text_shares_all_with_itself(text: str) -> None:
    assert [(0, len(text), 0)] * bool(text) == shared_runs(text, text)


@pytest.mark.parametrize(
    ("before", "after", "pieces"),
    [
        (
            "The lease ends in May [1]. The rent is 900 euros [2]. Pets are allowed. Notice is three months.\nConfidence: HIGH",
            "The lease ends in May. The rent is 900 euros. […] Notice is three months.",
            {
                "The lease ends in May [1].": "The lease ends in May.",
                "The rent is 900 euros [2].": "The rent is 900 euros.",
                "Pets are allowed.": None,
                "Notice is three months.": "Notice is three months.",
                "Confidence: HIGH": None,
            },
        ),
        (
            "Die Schicht beginnt um 6 Uhr. Die Schicht beginnt um 7 Uhr.",
            "Die Schicht beginnt um 7 Uhr.",
            {"Die Schicht beginnt um 6 Uhr.": None, "Die Schicht beginnt um 7 Uhr.": "Die Schicht beginnt um 7 Uhr."},
        ),
        (
            '{"city": "Lyon", "note": "El plazo vence el lunes y no se amplía."}',
            '{"city": "Lyon", "note": ""}',
            {'"Lyon"': '"Lyon"', '"El plazo vence el lunes y no se amplía."': None},
        ),
        ("- milk\n- eggs\n- flour\n", "- milk\n- flour\n", {"- milk": "- milk", "- eggs": None, "- flour": "- flour"}),
        ("It is so. It is so. It is not.", "It is so. It is not.", {"It is not.": "It is not."}),
        ("All of it.", "I could not find that in the context.", {"All of it.": None}),
        ("All of it.", "", {"All of it.": None}),
    ],
)
def test_a_sentence_is_found_where_it_stands_now(before: str, after: str, pieces: dict[str, str | None]) -> None:
    assert pieces == {piece: found(before, after, piece) for piece in pieces}


def test_a_long_text_is_compared_too() -> None:
    sentences = [f"Line {i} of the log has {i * 7} entries [{i}]. " for i in range(3000)]
    before, after = "".join(sentences), "".join(s.replace(f" [{i}]", "") for i, s in enumerate(sentences) if i % 9)
    assert "Line 2000 of the log has 14000 entries." == found(before, after, "Line 2000 of the log has 14000 entries [2000].")
    assert found(before, after, "Line 1800 of the log has 12600 entries [1800].") is None
