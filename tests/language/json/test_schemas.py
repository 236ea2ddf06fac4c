"""Values against schemas: what is found, and that no schema and no value, however made, takes long, fetches anything or passes unseen."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.language.json.schemas import CHECK_S, NotChecked, SchemaInvalid, left_out_of, problems_of
from tests.cost import below
from tests.examples import share

SEARCH = {
    "type": "object",
    "properties": {
        "query": {"type": "string"},
        "limit": {"type": "integer", "minimum": 1, "maximum": 50},
        "unit": {"enum": ["celsius", "fahrenheit"]},
        "filters": {"anyOf": [{"type": "object", "properties": {"k": {"type": "number"}}, "required": ["k"]}, {"type": "null"}]},
    },
    "required": ["query"],
    "additionalProperties": False,
}
DRAFTS = [
    ("https://json-schema.org/draft/2020-12/schema", jsonschema.Draft202012Validator),
    ("https://json-schema.org/draft/2019-09/schema", jsonschema.Draft201909Validator),
    ("http://json-schema.org/draft-07/schema#", jsonschema.Draft7Validator),
    ("http://json-schema.org/draft-06/schema#", jsonschema.Draft6Validator),
    ("http://json-schema.org/draft-04/schema#", jsonschema.Draft4Validator),
]


def found(schema: Any, value: Any) -> list[tuple[str, str, str, Any]]:
    return [(p.pointer, p.keyword, p.name, p.expected) for p in problems_of(schema, value)]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = {"c": value}
    return value


def test_a_value_that_matches_has_no_problems() -> None:
    assert () == problems_of(SEARCH, {"query": "x", "limit": 5, "filters": None})


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        ({}, ("", "required", "query", None)),
        ({"query": 1}, ("/query", "type", "query", "string")),
        ({"query": "x", "limit": 0}, ("/limit", "minimum", "limit", 1)),
        ({"query": "x", "unit": "kelvin"}, ("/unit", "enum", "unit", ["celsius", "fahrenheit"])),
        ([], ("", "type", "", "object")),
    ],
)
def test_a_problem_names_the_place_the_keyword_the_property_and_what_is_expected(value: Any, problem: Any) -> None:
    assert [problem] == found(SEARCH, value)


def test_a_name_that_the_model_made_up_is_hashed() -> None:
    problem = problems_of(SEARCH, {"query": "x", "my_secret": 1})[0]
    assert ("", "additionalProperties") == (problem.pointer, problem.keyword)
    assert problem.name.startswith("#")
    assert "secret" not in problem.name
    assert ["query", "limit", "unit", "filters"] == problem.expected
    assert "secret" not in problems_of({"additionalProperties": {"type": "integer"}}, {"my_secret": "x"})[0].pointer


def test_a_pointer_escapes_what_would_end_a_token() -> None:
    assert "/a~1b~0c" == problems_of({"properties": {"a/b~c": {"type": "integer"}}}, {"a/b~c": "x"})[0].pointer


def test_at_most_eight_problems_are_reported_always_the_same() -> None:
    schema, value = {"items": {"type": "integer"}}, ["x"] * 100
    assert [f"/{i}" for i in range(8)] == [p.pointer for p in problems_of(schema, value)]
    assert problems_of(schema, value) == problems_of(schema, value)


def test_a_reference_inside_the_schema_is_followed_also_in_a_circle() -> None:
    tree = {"$ref": "#/$defs/node", "$defs": {"node": {"type": "object", "properties": {"c": {"$ref": "#/$defs/node"}}}}}
    assert () == problems_of(tree, {"c": {"c": {}}})
    assert ["/c/c"] == [p.pointer for p in problems_of(tree, {"c": {"c": 1}})]


@pytest.mark.parametrize(
    "ref", ["http://127.0.0.1:9/schema.json", "file:///etc/hostname", "https://example.com/s#/x", "#/nowhere", "other.json"]
)
def test_a_reference_out_of_the_schema_makes_it_invalid_and_is_not_fetched(ref: str) -> None:
    with pytest.raises(SchemaInvalid):
        problems_of({"$ref": ref}, {})


@pytest.mark.parametrize("schema", [[], "x", 3, {"$ref": "#/$defs/none"}])
def test_what_is_no_schema_is_said_to_be_none_each_time(schema: Any) -> None:
    for _ in range(2):
        with pytest.raises(SchemaInvalid):
            problems_of(schema, {})


@pytest.mark.parametrize(
    ("wrong", "keyword"),
    [
        ({"type": "objekt", "properties": {"a": {}}}, "type"),
        ({"properties": {"a": {"type": "any"}}}, "type"),
        ({"properties": {"a": {"required": True}}}, "required"),
        ({"properties": {"a": {"type": "string", "enum": "x"}}}, "enum"),
        ({"properties": {"a": "string"}}, "a"),
        ({"properties": {"a": {"pattern": "[a-"}}}, "pattern"),
        ({"properties": {"a": {"pattern": r"\cA"}}}, "pattern"),
        ({"properties": {"a": {"pattern": "a" * 3000}}}, "pattern"),
        ({"properties": {"a": {"pattern": "(" * 900 + ")" * 900}}}, "pattern"),
        ({"properties": {"a": {}}, "patternProperties": {"[": {"type": "null"}}}, "patternProperties"),
        ({"properties": {"a": {"items": {"oneOf": [{"type": "strin"}, {"type": "null"}]}}}}, "type"),
    ],
)
def test_a_keyword_that_cannot_be_read_is_left_out_and_the_rest_holds(wrong: dict[str, Any], keyword: str) -> None:
    schema = {
        **wrong,
        "required": ["b"],
        "additionalProperties": False,
        "properties": {"b": {"type": "integer"}, **wrong.get("properties", {})},
    }
    assert left_out_of(schema) == (keyword,)
    assert problems_of(schema, {"a": "x", "b": 1}) == ()
    assert [p.keyword for p in problems_of(schema, {"b": "1"})] == ["type"]
    assert [p.keyword for p in problems_of(schema, {})] == ["required"]


def test_a_schema_of_nothing_that_can_be_read_is_none() -> None:
    with pytest.raises(SchemaInvalid):
        problems_of({"properties": {f"p{i}": {"type": f"t{i}"} for i in range(200)}}, {})


@pytest.mark.parametrize(
    "part",
    [
        {"type": "string", "nullable": True},
        {"type": "string", "enum": ["a"], "nullable": True},
        {"$ref": "#/$defs/text", "nullable": True},
        {"allOf": [{"$ref": "#/$defs/text"}], "nullable": True},
    ],
)
def test_openapis_nullable_allows_null_and_nothing_else(part: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"s": part, "l": {"items": part}}, "$defs": {"text": {"type": "string"}}}
    assert problems_of(schema, {"s": None, "l": [None, "a"]}) == ()
    assert problems_of({**part, "$defs": schema["$defs"]}, None) == ()
    assert {p.keyword for p in problems_of(schema, {"s": 3})} <= {"type", "enum"} != set()
    assert problems_of({"properties": {"s": {"type": "string", "nullable": False}}}, {"s": None}) != ()


def test_a_schema_in_an_older_drafts_form_is_read_without_its_name() -> None:
    assert ["/0"] == [p.pointer for p in problems_of({"items": [{"type": "integer"}]}, ["x"])]
    assert [("", "minimum", "", 3)] == found({"minimum": 3, "exclusiveMinimum": True}, 3)


def test_format_is_not_asserted() -> None:
    assert () == problems_of({"type": "string", "format": "email"}, "nobody")


def test_a_boolean_is_no_number_in_a_list_of_different_values() -> None:
    assert () == problems_of({"uniqueItems": True}, [1, True, {"a": 1}, {"a": True}])
    assert 1 == len(problems_of({"uniqueItems": True}, [{"a": [1]}, {"a": [1.0]}]))


# ---- bounds ----

HOSTILE_PATTERN = {"properties": {"a": {"type": "string", "pattern": "^(a|aa)+$"}}}
BOMB: dict[str, Any] = {"$ref": "#/$defs/x40", "$defs": {"x0": {"type": "integer"}}}
for _i in range(40):
    BOMB["$defs"][f"x{_i + 1}"] = {"anyOf": [{"$ref": f"#/$defs/x{_i}"}] * 2}


@pytest.mark.parametrize(
    ("schema", "value", "reason"),
    [
        pytest.param(HOSTILE_PATTERN, {"a": "a" * 5000 + "b"}, "time", id="pattern"),
        pytest.param({"$schema": DRAFTS[2][0], **HOSTILE_PATTERN}, {"a": "a" * 5000 + "b"}, "time", id="pattern of another draft"),
        pytest.param(
            {"properties": {"b": {**HOSTILE_PATTERN, "$schema": DRAFTS[2][0]}}}, {"b": {"a": "a" * 5000 + "b"}}, "time", id="inside"
        ),
        pytest.param({"patternProperties": {"^(a|aa)+$": {}}}, {"a" * 5000 + "b": 1}, "time", id="patternProperties"),
        pytest.param(
            {"patternProperties": {"^(a|aa)+$": {}}, "additionalProperties": False},
            {"a" * 5000 + "b": 1},
            "time",
            id="additionalProperties",
        ),
        pytest.param(
            {"patternProperties": {"^(a|aa)+$": {}}, "unevaluatedProperties": False}, {"a": 1}, "unsupported", id="unevaluatedProperties"
        ),
        pytest.param(BOMB, "x", "time", id="alternatives of alternatives"),
        pytest.param({"$ref": "#"}, {}, "depth", id="a circle without a step"),
        pytest.param({"properties": {"c": {"$ref": "#"}}, "type": "object"}, nested(900), "depth", id="deep value"),
        pytest.param({"properties": nested(2000)}, {}, "depth", id="deep schema"),
        pytest.param({"enum": list(range(30_000))}, 1, "size", id="large schema"),
        pytest.param({"multipleOf": 1e-320}, 10**400, "failed", id="numbers"),
    ],
)
@pytest.mark.cost
def test_what_cannot_be_judged_in_its_bounds_is_not_checked_and_never_a_match(schema: Any, value: Any, reason: str) -> None:
    for _ in range(2):
        with below(20 * CHECK_S), pytest.raises(NotChecked, match=reason):
            problems_of(schema, value, seconds=0.05 if reason == "time" else 2)


def test_a_long_list_of_objects_that_must_differ_is_judged_in_linear_time() -> None:
    assert () == problems_of({"uniqueItems": True}, [{"a": i} for i in range(20_000)], seconds=2)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "ab", "10"]) | st.floats(-2, 2, width=16),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("abc"), inner, max_size=3),
    max_leaves=6,
)
_TYPE = st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"])


def _keywords(inner: Any) -> Any:
    parts = st.dictionaries(st.sampled_from("abc"), inner, max_size=2)
    some = st.lists(inner, min_size=1, max_size=2)
    return st.fixed_dictionaries(
        {},
        optional={
            "type": _TYPE | st.lists(_TYPE, min_size=1, max_size=2, unique=True),
            "properties": parts,
            "required": st.lists(st.sampled_from("abc"), min_size=1, max_size=2, unique=True),
            "additionalProperties": st.booleans() | inner,
            "patternProperties": st.just({"^a": {"type": "integer"}}),
            "items": inner,
            "anyOf": some,
            "oneOf": some,
            "allOf": some,
            "not": inner,
            "minimum": st.integers(-2, 2),
            "minLength": st.integers(0, 2),
            "maxItems": st.integers(0, 2),
            "pattern": st.sampled_from(["^a", "b$"]),
            "enum": st.lists(JSON, min_size=1, max_size=2, unique_by=repr),
            "uniqueItems": st.booleans(),
        },
    )


SCHEMAS = st.recursive(_keywords(st.just({})), _keywords, max_leaves=6)


@settings(max_examples=share(1.5))
@given(SCHEMAS, JSON, st.sampled_from(DRAFTS))
def test_the_verdict_is_the_librarys_own(schema: Any, value: Any, draft: Any) -> None:
    stock = draft[1](schema)
    try:
        stock.check_schema(schema)
    except jsonschema.SchemaError:
        return
    problems = problems_of({**schema, "$schema": draft[0]}, value)
    assert stock.is_valid(value) == (not problems)
    known = [("/".join(map(str, e.absolute_path)), e.validator) for e in stock.iter_errors(value)]
    assert {("/".join(map(str, p.path)), p.keyword) for p in problems} <= set(known)
    json.dumps([(p.pointer, p.expected, p.schema) for p in problems])
