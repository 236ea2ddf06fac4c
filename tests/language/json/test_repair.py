"""Repairs lose nothing: what is returned parses, says what was written, and right text stays as it is."""

from __future__ import annotations

import ast
import json
import math
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from proxy.language.json.repair import Repaired, read_leniently, repair
from proxy.language.json.schemas import problems_of
from tests.cost import below
from tests.language.json.test_schemas import SEARCH

ANY: dict[str, Any] = {"type": ["object", "array", "string", "number", "boolean", "null"]}


@pytest.mark.parametrize(
    ("text", "mended", "fixes"),
    [
        ('{"a": 1,}', '{"a": 1}', "trailing_comma"),
        ('{"a": [1, 2 , ] ,\n}', '{"a": [1, 2  ] \n}', "trailing_comma"),
        ("{'a': 'x'}", '{"a": "x"}', "quotes"),
        ("{'a': 'say \"x\"'}", '{"a": "say \\"x\\""}', "quotes"),
        ("{'a': 'it\\'s'}", '{"a": "it\'s"}', "quotes escape"),
        ("{“a”: ‘x’}", '{"a": "x"}', "smart_quotes"),
        ("{a: 1, b_2: {$c: 2}}", '{"a": 1, "b_2": {"$c": 2}}', "unquoted_key"),
        ('{"a": True, "b": [None, False]}', '{"a": true, "b": [null, false]}', "python_literal"),
        ('{"a": 1 // one\n, /* two */ "b": 2}# three', '{"a": 1 \n,  "b": 2}', "comment"),
        ('```json\n{"a": 1}\n```', '{"a": 1}', "code_fence"),
        ('\n```\n{"a": "```"}\n``` ', '{"a": "```"}', "code_fence"),
        ('\ufeff{"a":\u00a01}', '{"a":1}', "white_space"),
        ('{"a": "x\ny\t"}', '{"a": "x\\ny\\t"}', "control_character"),
        ('{"a": "it\\\'s \\x41"}', '{"a": "it\'s \\u0041"}', "escape"),
        ('{"a": {"b": [1, {"c": "d"', '{"a": {"b": [1, {"c": "d"}]}}', "closing_bracket"),
        ('"{\\"a\\": 1}"', '{"a": 1}', "wrapped_string"),
        ("'{\"a\": 1}'", '{"a": 1}', "quotes wrapped_string"),
    ],
)
def test_what_has_one_reading_is_mended(text: str, mended: str, fixes: str) -> None:
    assert Repaired(mended, tuple(fixes.split())) == repair(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "Sorry, I cannot.",
        '{"a": "he said "hi" twice"}',
        "{'a': 'it's'}",
        '{"a": }',
        '{"a" 1}',
        '{"a": 1 "b": 2}',
        "{,}",
        "[1,,2]",
        '{"a": NaN}',
        '{"a": undefined}',
        '{"a": 01}',
        '{"a": +1}',
        '{"a": .5}',
        '{"a": 0x10}',
        '{"a": 1_000}',
        '{"a": "C:\\dir"}',
        '{"a": "\\u12"}',
        "{'a': '\\/'}",
        '{"a": 1} {"b": 2}',
        '{"a": 1}}',
        '{"a": [1}',
        "{None: 1}",
        "{1: 2}",
        '{"a": (1, 2)}',
        'x = {"a": 1}',
        'Here it is: {"a": 1}',
        '{"a": "x" + "y"}',
        "/* {",
        '{"a": 1} /*',
        "{'a': \"x'}",
        '{"a": “x"}',
        "'" * 99,
        '{"a": tru}',
    ],
)
def test_what_readers_would_take_differently_is_left_alone(text: str) -> None:
    assert repair(text, ANY) is None


@pytest.mark.parametrize("text", ['{"a": "x', '{"a": 12', '{"a": tru', '{"a":', '{"a"', '{"a": 1,', '{"a": "x\\', '{"a": [1, ', "{", "["])
def test_what_is_cut_inside_a_value_is_not_guessed(text: str) -> None:
    found = repair(text, ANY)
    assert found is None or text in ("{", "[")


@pytest.mark.parametrize("text", ['{"a": {"b": "x"', '{"a": [true', '["x", {"y": []'])
def test_no_bracket_is_added_where_a_limit_has_cut_the_text(text: str) -> None:
    assert repair(text, ANY, cut=True) is None
    assert ("closing_bracket",) == repair(text, ANY).fixes  # type: ignore[union-attr]


def test_no_bracket_is_added_where_the_rest_does_not_match() -> None:
    assert repair('{"limit": [true', SEARCH) is None
    assert ('{"query": "x"}', ("closing_bracket",)) == _made(repair('{"query": "x"', SEARCH))


def _made(found: Repaired | None) -> tuple[str, tuple[str, ...]] | None:
    return None if found is None else (found.text, found.fixes)


# ---- values ----


@pytest.mark.parametrize(
    ("text", "mended", "fixes"),
    [
        ('{"query":"x",  "limit" : "10"}', '{"query":"x",  "limit" : 10}', "number_string"),
        ('{"query": "x", "filters": {"k": "-2.50"}}', '{"query": "x", "filters": {"k": -2.50}}', "number_string"),
        ('{"query": "x", "filters": "{\\"k\\": 1.0}"}', '{"query": "x", "filters": {"k": 1.0}}', "wrapped_string"),
        ('{"query": "x", "filters": "{\\"k\\": \\"3\\"}"}', '{"query": "x", "filters": {"k": 3}}', "wrapped_string number_string"),
        ("{'query': 'x', 'limit': '7'}", '{"query": "x", "limit": 7}', "quotes number_string"),
    ],
)
def test_a_string_that_says_what_the_schema_wants_becomes_it(text: str, mended: str, fixes: str) -> None:
    assert (mended, tuple(fixes.split())) == _made(repair(text, SEARCH))


@pytest.mark.parametrize(("value", "mended"), [("true", "true"), ("False", "false")])
def test_a_boolean_in_a_string_becomes_one(value: str, mended: str) -> None:
    assert f"[{mended}]" == repair(f'["{value}"]', {"items": {"type": "boolean"}}).text  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "value", ["", " 10", "10 ", "1e3", "0x1", "ten", "10.0", "010", "1,000", "12345678901234567890", "٣", "yes", "null", "+1"]
)
def test_a_string_that_is_not_exactly_an_integer_stays(value: str) -> None:
    text = json.dumps({"query": "x", "limit": value}, ensure_ascii=False)
    assert (text, ()) == _made(repair(text, SEARCH))


def test_a_single_value_is_not_made_a_list() -> None:
    assert ('{"a": "x"}', ()) == _made(repair('{"a": "x"}', {"properties": {"a": {"type": "array", "items": {"type": "string"}}}}))


def test_a_number_that_belongs_to_another_alternative_stays_as_it_is() -> None:
    schema = {
        "anyOf": [{"properties": {"a": {"type": "integer"}}, "required": ["b"]}, {"properties": {"a": {"type": "string", "maxLength": 1}}}]
    }
    assert ('{"a": "10"}', ()) == _made(repair('{"a": "10"}', schema))


def test_two_values_of_one_name_are_both_mended_or_neither() -> None:
    found = repair('{"a": "1", "a": "2"}', {"properties": {"a": {"type": "integer"}}})
    assert '{"a": 1, "a": 2}' == found.text  # type: ignore[union-attr]


# ---- invariants ----

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES, st.sampled_from([None, 1]), st.booleans())
def test_valid_json_is_returned_byte_for_byte(value: Any, indent: int | None, ascii_only: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=ascii_only)
    assert Repaired(text, ()) == repair(text, ANY)


@given(VALUES)
@example({"a": "it's", 'b"': ['x"y', "\\", "\\'"]})
def test_pythons_way_of_writing_a_value_is_read_as_that_value(value: Any) -> None:
    text = repr(value)
    found = repair(text, ANY)
    assume(found is not None)  # an escape that only Python knows is not guessed
    assert found is not None
    assert ast.literal_eval(text) == json.loads(found.text)


class _Writer:
    """Writes a value as a careless model would."""

    def __init__(self, draw: Any) -> None:
        self.pick = lambda options: draw(st.sampled_from(options))

    def write(self, value: Any) -> str:
        gap = self.pick(["", " ", "\n", " /* c , } */ ", "// x ]\n", "\u00a0"])
        comma = self.pick(["", ","])
        if isinstance(value, dict):
            inner = ",".join(f"{gap}{self.key(k)}{gap}:{self.write(v)}" for k, v in value.items())
            return f"{{{inner}{comma if value else ''}{gap}}}"
        if isinstance(value, list):
            return f"[{','.join(gap + self.write(v) for v in value)}{comma if value else ''}{gap}]"
        if isinstance(value, str):
            return self.string(value)
        return self.pick([json.dumps(value), str(value)]) if value is None or isinstance(value, bool) else json.dumps(value)

    def key(self, name: str) -> str:
        plain = name.isascii() and name.isidentifier() and name not in ("None", "True", "False", "null", "true", "false", "NaN")
        return name if plain and self.pick([True, False]) else self.string(name)

    def string(self, text: str) -> str:
        quote = self.pick(['"', "'", "“"])
        if quote == '"':
            return json.dumps(text, ensure_ascii=False)
        closing = {"“": "”"}.get(quote, quote)
        body = json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', '"').replace("'", "\\'")
        return quote + body.replace("”", "\\u201d") + closing


@given(VALUES, st.data())
def test_a_careless_way_of_writing_a_value_is_read_as_that_value(value: Any, data: st.DataObject) -> None:
    text = _Writer(data.draw).write(value)
    found = repair(text, ANY)
    assert found is not None
    assert value == json.loads(found.text)


@given(VALUES, st.data())
def test_a_value_cut_short_is_mended_only_into_a_part_of_itself(value: Any, data: st.DataObject) -> None:
    text = json.dumps(value, ensure_ascii=False)
    part = text[: data.draw(st.integers(0, len(text)))]
    found = repair(part, ANY)
    if found is not None:
        assert set(found.fixes) <= {"closing_bracket"}
        assert found.text.startswith(part)
        assert "" == found.text[len(part) :].strip("]}")


@given(st.text(st.sampled_from("{}[]:,\"'“”‘’ab1-.\\/*#`\n nullTrue"), max_size=40))
def test_whatever_comes_out_is_json_and_has_no_words_of_its_own(text: str) -> None:
    found = repair(text, ANY)
    if found is not None:
        json.loads(found.text)
        assert sum(map(str.isdigit, found.text)) <= sum(map(str.isdigit, text))
        assert found == Repaired(found.text, found.fixes)
        assert Repaired(found.text, ()) == repair(found.text, ANY)


@given(st.integers() | st.floats(allow_nan=False, allow_infinity=False))
def test_a_number_from_a_string_is_the_number_it_says(number: float) -> None:
    text = json.dumps({"k": repr(number)})
    found = repair(text, {"properties": {"k": {"type": "number"}}})
    assert found is not None
    if found.fixes:
        assert repr(number) == found.text[6:-1]
        assert math.isclose(number, json.loads(found.text)["k"], rel_tol=0)
        assert () == problems_of({"properties": {"k": {"type": "number"}}}, json.loads(found.text))


@pytest.mark.parametrize(
    "text",
    [
        "[" * 999_999,
        "/*" * 499_999,
        "'" * 999_999,
        "{a:" * 333_333,
        "#\n" * 499_999,
        "`" * 999_999,
        '"' + "\\u0041" * 160_000,
        "1" * 999_999,
        "," * 999_999,
        "//" * 400_000,
        " \u00a0" * 400_000,
        "'\\x" * 300_000,
        "[" + "'a'," * 249_000 + "]",
        "x" * 2_000_000,
    ],
)
@pytest.mark.cost
def test_hostile_text_of_a_megabyte_is_read_in_linear_time(text: str) -> None:
    with below(5):  # well below one on a free machine
        read_leniently(text)
