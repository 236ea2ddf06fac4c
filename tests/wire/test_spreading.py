from hypothesis import given
from hypothesis import strategies as st

from proxy.wire.answers import spread

TEXTS = st.lists(st.sampled_from(["The tide turns at noon. ", "Boats leave then.", " and return", "\n\n", ""]), max_size=5).map("".join)


def test_a_change_in_one_part_leaves_the_others_as_they_were() -> None:
    parts = ["The tide turns at noon. ", "Boats leave then. ", "They return by night."]
    assert [parts[0], "Ferries leave then. ", parts[2]] == spread(
        parts, "The tide turns at noon. Ferries leave then. They return by night."
    )


def test_a_sentence_that_is_taken_out_empties_its_part() -> None:
    assert ["One ends here. ", ""] == spread(["One ends here. ", "Two ends there."], "One ends here. ")


def test_what_takes_the_place_of_everything_stands_in_the_first_part() -> None:
    assert ["Nothing is known.", ""] == spread(["One ends here. ", "Two ends there."], "Nothing is known.")


@given(st.lists(TEXTS, min_size=1, max_size=4), TEXTS)
def test_the_parts_say_the_text(parts: list[str], text: str) -> None:
    found = spread(parts, text)
    assert (len(parts), text) == (len(found), "".join(found))


@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_an_unchanged_text_stays_in_its_parts(parts: list[str]) -> None:
    assert parts == spread(parts, "".join(parts))
