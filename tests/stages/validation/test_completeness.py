"""Required fields."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.stages.validation.quality import completeness, has

ORDER = {
    "id": 7,
    "customer": {"name": "Ada", "address": {"city": "Graz", "zip": ""}},
    "items": [{"price": 3, "note": None}, {"price": 0, "note": "blue"}],
    "paid": False,
    "tags": [],
    "a.b": "dotted",
}


@pytest.mark.parametrize(
    "path",
    ["id", "customer.name", "customer.address.city", "items[0].price", "items[1].price", "items.1.note", "items.price", "paid", "a.b"],
)
def test_a_field_with_a_value_is_present(path: str) -> None:
    assert has(ORDER, path)


@pytest.mark.parametrize(
    "path",
    ["name", "customer.age", "customer.address.zip", "items[0].note", "items[2].price", "items.note", "tags", "tags.name", "id.x"],
)
def test_missing_null_or_empty_is_not_present(path: str) -> None:
    assert not has(ORDER, path)


def test_two_of_three_fields() -> None:
    metric = completeness(("name", "price", "unit"), {"name": "Tea", "price": 3, "unit": None})
    assert metric.value is not None
    assert 0.67 == round(metric.value, 2)
    assert ["unit"] == metric.detail["missing"]
    assert "2 of 3 required fields, without unit" == metric.detail["reason"]


def test_no_required_fields_is_not_measured() -> None:
    metric = completeness((), {"a": 1})
    assert (None, False) == (metric.value, metric.measured)


def test_a_field_may_stand_in_any_of_the_places_that_are_looked_at() -> None:
    assert 1.0 == completeness(("title", "body"), {"title": "T"}, {"body": "B"}).value


@pytest.mark.parametrize(
    "text",
    ["Release date: 2024-05-01", "- **release_date**: May 2024", "name = x\nRELEASE DATE = today", "> release-date:  1"],
)
def test_a_line_of_a_text_can_hold_a_field(text: str) -> None:
    assert 1.0 == completeness(("release_date",), {}, None, text=text).value


@pytest.mark.parametrize("text", ["release date:", "The release date: unknown to us", "Release dates: 2", '{"release_date": null}', ""])
def test_a_line_without_a_value_holds_none(text: str) -> None:
    assert 0.0 == completeness(("release_date",), {}, None, text=text).value


@given(
    st.dictionaries(st.text("abc", min_size=1, max_size=3), st.one_of(st.none(), st.integers(), st.text(max_size=3)), max_size=6), st.data()
)
def test_a_further_field_never_lowers_the_share(fields: dict[str, Any], data: st.DataObject) -> None:
    required = data.draw(st.lists(st.text("abc", min_size=1, max_size=3), min_size=1, max_size=6))
    before = completeness(required, fields).value
    after = completeness(required, {**fields, required[0]: 1}).value
    assert before is not None
    assert after is not None
    assert 0 <= before <= after <= 1


def test_a_field_asked_for_twice_counts_once() -> None:
    assert 0.5 == completeness(("a", "a", "b"), {"a": 1}).value
