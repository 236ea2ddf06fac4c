"""Which place lies in which."""

from __future__ import annotations

import pytest

from proxy.grounding.clashes.places import can_both_hold


@pytest.mark.parametrize(
    ("one", "other", "possible"),
    [
        ("berlin", "germany", True),
        ("munich", "france", False),
        ("brooklyn", "nyc", True),
        ("wien", "vienna", True),
        ("oberursel", "germany", True),
        ("rome", "europe", True),
        ("france", "germany", False),
    ],
)
def test_a_place_lies_in_what_is_around_it(one: str, other: str, possible: bool) -> None:
    assert (can_both_hold(one, other), can_both_hold(other, one)) == (possible, possible)
