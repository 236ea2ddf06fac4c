"""Which place lies in which."""

from __future__ import annotations

import pytest

from proxy.grounding.clashes.values import can_be_in_both


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
    assert (can_be_in_both(one, other), can_be_in_both(other, one)) == (possible, possible)
