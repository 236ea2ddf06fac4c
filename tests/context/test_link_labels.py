"""Numbers in brackets that are the label of a Markdown link, and those that cite."""

import pytest

from proxy.context.faithful import extract_citations


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("The tower is high, as [the page][2] says.", []),
        ("See [docs][guide] and [the *other* page][12].", []),
        ("It is high [Passage 1][2].", [1, 2]),
        ("It is high [1][2].", [1, 2]),
        ("It is high [^1][^2].", [1, 2]),
        ("It is high 【1】[2].", [1, 2]),
        ("See [docs] [3].", [3]),
        ("[the page][2] says so [1].", [1]),
    ],
)
def test_a_links_label_is_no_citation_and_a_second_citation_is_one(text: str, numbers: list[int]) -> None:
    assert [c["number"] for c in extract_citations(text, numbered=True)] == numbers
