"""Authors with a year, links, and parts of a source behind a "#"."""

import pytest

from proxy.exchange import Evidence
from proxy.grounding.citations.citable import Citable
from proxy.grounding.citations.citing import statements_of
from proxy.grounding.citations.written_forms import Citation

PAPERS = [
    Evidence("Naps of 20 minutes restore attention.", "okafor2018.pdf", fields={"authors": "Okafor, B.; Lind, S.", "year": 2018}),
    Evidence("Coffee helps for four hours, as Brandt (2021) measured.", "overview"),
]
PLAIN = [Evidence("The tower is 330 m tall.", "https://example.org/guide.md")]


def cited(text: str, sources: list[Evidence]) -> list[tuple[str, bool]]:
    """Each citation with whether it is of anything that is there."""
    citable = Citable([], sources, sources)
    found = [c for s in statements_of(text, numbered=True, sources=citable) for c in s.citations]
    return [(c.label, citable.knows(c)) for c in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Naps restore attention (Okafor & Lind, 2018).", [("author: Okafor 2018", True)]),
        ("Naps restore attention (see Okafor, 2018, p. 4).", [("author: Okafor 2018", True)]),
        ("Okafor et al. (2018) found that naps help.", [("author: Okafor 2018", True)]),
        ("Kaffee hilft vier Stunden (Brandt, 2021).", [("author: Brandt 2021", True)]),
        ("Según Okafor y otros (2018), la siesta ayuda.", [("author: Okafor 2018", True)]),
        ("Les siestes aident (Okafor et Lind, 2018).", [("author: Okafor 2018", True)]),
        ("Naps restore attention (Okafor, 2012).", [("author: Okafor 2012", False)]),
        ("Naps restore attention (Meyer, 2019; Okafor, 2018).", [("author: Meyer 2019", False), ("author: Okafor 2018", True)]),
        ("Meyer u. a. (2019) zeigen es.", [("author: Meyer 2019", False)]),
        ("It began in winter (May, 2019).", []),
        ("Titanic (1997) is a film.", []),
    ],
)
def test_authors_with_a_year_are_citations_where_sources_have_authors(text: str, expected: list[tuple[str, bool]]) -> None:
    assert expected == cited(text, PAPERS)


@pytest.mark.parametrize("text", ["It opened at the fair (Paris, 1889).", "Smith and Wesson (1852) made it.", "Gladiator (2000) won."])
def test_a_name_with_a_year_is_none_where_no_source_has_authors(text: str) -> None:
    assert [] == cited(text, PLAIN)


def test_several_authors_are_one_anywhere() -> None:
    assert [("author: Meyer 2019", False)] == cited("It is tall (Meyer et al., 2019).", PLAIN)


def test_the_authors_are_no_part_of_what_is_judged() -> None:
    citable = Citable([], PAPERS, PAPERS)
    (statement,) = statements_of("Naps restore attention (Okafor, 2018).", sources=citable)
    assert ["Naps restore attention."] == [claim.text for claim in statement.claims]


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
