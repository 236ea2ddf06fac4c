import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.language.json.strings import JsonString, strings_of, with_values

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=15
)
DOCUMENTS = (st.lists(VALUES) | st.dictionaries(st.text(), VALUES)).flatmap(
    lambda value: st.builds(
        lambda ascii_only, indent: json.dumps(value, ensure_ascii=ascii_only, indent=indent), st.booleans(), st.sampled_from([None, 2])
    )
)


def test_values_come_with_their_paths_and_spans() -> None:
    text = '{"a": ["x", {"b c": "y\\n"}], "n": 1}'
    assert [JsonString("a[0]", "x", 7, 10), JsonString('a[1]["b c"]', "y\n", 20, 25)] == strings_of(text)


@pytest.mark.parametrize("text", ["", "Paris", '"a"', "3", "{", '{"a": "b"} and more', '{"a": NaN}', "[" * 300 + "]" * 300])
def test_other_text_is_not_json(text: str) -> None:
    assert strings_of(text) is None


@given(DOCUMENTS)
def test_a_span_holds_its_value(text: str) -> None:
    found = strings_of(text)
    assert found is not None
    assert [s.value for s in found] == [json.loads(text[s.start : s.end]) for s in found]


@given(DOCUMENTS, st.data())
def test_a_replacement_keeps_every_other_byte(text: str, data: st.DataObject) -> None:
    found = strings_of(text) or []
    values = data.draw(st.dictionaries(st.integers(0, len(found) - 1), st.text(), max_size=4)) if found else {}
    new = with_values(text, values)
    after = strings_of(new)
    assert after is not None
    assert [values.get(i, s.value) for i, s in enumerate(found)] == [s.value for s in after]
    between = lambda whole, spans: [whole[a.end : b.start] for a, b in itertools.pairwise(spans)]  # noqa: E731
    assert between(text, found) == between(new, after)


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(ValueError, match="not a JSON"):
        with_values("Paris", {})
    with pytest.raises(IndexError):
        with_values("[]", {0: "x"})
