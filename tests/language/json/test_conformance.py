"""Calls against the tools that were offered, and answers against the JSON that was asked for."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.exchange.answers import OutputRequirements
from proxy.language.json.conformance import Unchecked, check_call, check_response, examine_call, examine_response
from proxy.ports.failures import CODES
from tests.language.json.test_schemas import SEARCH


def tool(name: str, parameters: Any = None) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, **({} if parameters is None else {"parameters": parameters})}}


TOOLS = [tool("search_docs", SEARCH), tool("search_files", SEARCH), tool("now"), {"type": "web_search"}]


@pytest.mark.parametrize("arguments", ['{"query": "x"}', ' {"query":"x","limit":3}\n'])
def test_a_call_that_conforms_is_no_violation(arguments: str) -> None:
    assert check_call("search_docs", arguments, "c1", TOOLS) is None


@pytest.mark.parametrize("arguments", ["", " ", "{}", '{"anything": [1]}'])
def test_a_tool_without_parameters_takes_any_object_and_none_at_all(arguments: str) -> None:
    assert check_call("now", arguments, "c1", TOOLS) is None


def test_no_arguments_are_an_empty_object_to_a_schema() -> None:
    violation = check_call("search_docs", "", "c1", TOOLS)
    assert violation is not None
    assert ("arguments_mismatch", "required", "query") == (violation.code, violation.errors[0].keyword, violation.errors[0].name)


@pytest.mark.parametrize("arguments", ["[]", '"{}"', "false", "3"])
def test_arguments_that_are_no_object_do_not_match(arguments: str) -> None:
    violation = check_call("now", arguments, "c1", TOOLS)
    assert violation is not None
    assert ("arguments_mismatch", [("", "type", "object")]) == (
        violation.code,
        [(e.pointer, e.keyword, e.expected) for e in violation.errors],
    )


@pytest.mark.parametrize("arguments", ["{", "{'query': 'x'}", '{"query": NaN}', '{"query": "x",}', "x", '{"query": "a\nb"}', "\ufeff{}"])
def test_arguments_that_are_not_json(arguments: str) -> None:
    violation = check_call("search_docs", arguments, "c1", TOOLS)
    assert violation is not None
    assert ("invalid_json", "search_docs", "c1", ()) == (violation.code, violation.tool, violation.call_id, violation.errors)


def test_an_unknown_tool_comes_with_the_names_that_are_closest() -> None:
    violation = check_call("serch_docs", "{", "c1", TOOLS)
    assert violation is not None
    assert ("unknown_tool", "search_docs") == (violation.code, violation.known[0])
    assert () == check_call("z", "{}", "c1", TOOLS).known  # type: ignore[union-attr]
    assert () == check_call("z", "{}", "c1", []).known  # type: ignore[union-attr]


def test_a_builtin_tool_of_a_provider_is_known_by_its_type() -> None:
    assert check_call("web_search", "{}", "c1", TOOLS) is None


def test_a_tool_in_another_apis_form_is_known() -> None:
    violation = check_call("f", "{}", "c1", [{"name": "f", "input_schema": {"type": "object", "required": ["a"]}}])
    assert violation is not None
    assert "arguments_mismatch" == violation.code


def test_a_made_up_name_that_is_no_identifier_is_hashed() -> None:
    violation = check_call("please call my wife", "{}", "c1", TOOLS)
    assert violation is not None
    assert violation.tool.startswith("#")


def test_a_wrong_schema_is_said_and_no_violation() -> None:
    tools = [tool("f", {"type": "objekt"})]
    assert Unchecked("schema_invalid", "f", "c1", ("type",)) == examine_call("f", "{}", "c1", tools)
    assert check_call("f", "{}", "c1", tools) is None


def test_null_is_no_arguments() -> None:
    tools = [tool("f", {"type": "object", "properties": {}}), tool("g", {"type": "object", "required": ["a"]})]
    assert check_call("f", "null", "c1", tools) is None
    assert getattr(check_call("g", "null", "c1", tools), "code", "") == "arguments_mismatch"


@pytest.mark.parametrize("text", ['<think>It wants {"a": 2}.</think>\n{"a": 1}', '\n<thinking>x</thinking> {"a": 1}', '{"a": 1}'])
def test_json_is_read_behind_a_thought(text: str) -> None:
    schema = {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}
    assert examine_response(text, OutputRequirements("json", schema)) is None


def test_words_in_front_of_json_are_still_none_of_it() -> None:
    assert getattr(examine_response('Here: {"a": 1}', OutputRequirements("json", {})), "code", "") == "response_not_json"


@pytest.mark.parametrize(("arguments", "reason"), [("[" * 100_000, "depth"), ('"' + "x" * 2_000_001, "size")])
def test_arguments_beyond_all_bounds_are_not_checked(arguments: str, reason: Any) -> None:
    assert Unchecked(reason, "now", "c1") == examine_call("now", arguments, "c1", TOOLS)


# ---- answers ----


@pytest.mark.parametrize("wants", [OutputRequirements(), OutputRequirements("constrained")])
def test_an_answer_that_was_not_asked_for_as_json_may_be_anything(wants: OutputRequirements) -> None:
    assert check_response("Hello.", wants) is None


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ('{"query": "x"}', None),
        ("Hello", "response_not_json"),
        ('```json\n{"query": "x"}\n```', "response_not_json"),
        ("", "response_not_json"),
        ('{"query": 1}', "response_mismatch"),
        ("[]", "response_mismatch"),
    ],
)
def test_an_answer_is_checked_against_its_schema(text: str, code: str | None) -> None:
    violation = check_response(text, OutputRequirements("json", SEARCH))
    assert code == (violation.code if violation else None)


@pytest.mark.parametrize(
    ("schema", "expected"),
    [(None, [None, "response_mismatch", "response_not_json"]), (True, [None, None, "response_not_json"])],
)
def test_without_a_schema_an_answer_is_any_object_or_any_value(schema: Any, expected: list[str | None]) -> None:
    assert expected == [
        getattr(check_response(text, OutputRequirements("json", schema)), "code", None) for text in ('{"a": 1}', "[1]", "{")
    ]


@pytest.mark.parametrize(("schema", "keywords"), [({"type": 3}, ("type",)), ("no schema", ())])
def test_an_answers_wrong_schema_is_said(schema: Any, keywords: tuple[str, ...]) -> None:
    assert Unchecked("schema_invalid", keywords=keywords) == examine_response("{}", OutputRequirements("json", schema))


SECRETS = st.text(st.sampled_from("QXZ"), min_size=6, max_size=9)
VALUES = st.recursive(SECRETS, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(SECRETS, inner, max_size=2), max_leaves=5)


@given(st.dictionaries(SECRETS | st.sampled_from(["query", "limit", "filters", "unit"]), VALUES, max_size=4))
def test_a_violation_holds_no_text_of_the_value(value: Any) -> None:
    violation = check_call("search_docs", msgspec.json.encode(value).decode(), "c1", TOOLS)
    if violation is not None:
        assert violation.code in CODES["schema_violation"]
        written = msgspec.json.encode(violation).decode()
        assert not any(c in written for c in "QXZ")
