"""Links, and parts of a source behind a "#"."""

import pytest

from proxy.exchange import Evidence
from proxy.grounding.citations.citable import Citable
from proxy.grounding.citations.citing import statements_of
from proxy.grounding.citations.written_forms import Citation

PLAIN = [Evidence("The tower is 330 m tall.", "https://example.org/guide.md")]


def cited(text: str, sources: list[Evidence]) -> list[tuple[str, bool]]:
    """Each citation with whether it is of anything that is there."""
    citable = Citable([], sources, sources)
    found = [c for s in statements_of(text, numbered=True, sources=citable) for c in s.citations]
    return [(c.label, citable.knows(c)) for c in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("See the [guide](https://example.org/guide.md).", [("link: https://example.org/guide.md", True)]),
        ("See [this page](https://elsewhere.net/x).", []),
        ("It is tall, see [the page][1].\n\n[1]: https://elsewhere.net/x", []),
        ("It is tall [1].\n\n[1]: https://example.org/guide.md", [("link: https://example.org/guide.md", True)]),
        ("It is tall [1][2].", [("passage 1", True), ("passage 2", False)]),
        ("It is tall [Passage 1](https://elsewhere.net/x).", []),
    ],
)
def test_a_link_cites_only_what_is_there(text: str, expected: list[tuple[str, bool]]) -> None:
    assert expected == cited(text, PLAIN)


@pytest.mark.parametrize(
    ("name", "found"),
    [
        ("handbook#part-time", ["Half the days."]),
        ("handbook#Part time", ["Half the days."]),
        ("handbook#trainees", []),
        ("handbook", ["Half the days.", "All the days."]),
        ("rules.md#notice", ["# Notice\nThree months."]),
        ("rules.md#salary", []),
        ("rules.md#L12", ["# Notice\nThree months."]),
    ],
)
def test_a_part_of_a_source_is_not_its_neighbour(name: str, found: list[str]) -> None:
    sources = [
        Evidence("Half the days.", "handbook#part-time"),
        Evidence("All the days.", "handbook#full-time"),
        Evidence("# Notice\nThree months.", "rules.md"),
    ]
    assert found == [e.content for e in Citable([], sources, sources).find(Citation(0, 1, "source", None, name))]
