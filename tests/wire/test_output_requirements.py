"""What a client wants, read from a chat completion's parameters; and that nobody else reads them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import proxy
from proxy.exchange.answers import OutputRequirements
from proxy.testing import make_exchange
from proxy.wire.chat.completions import ChatDialect
from proxy.wire.requests import output_requirements_of

SCHEMA = {"type": "array"}
NAMED = {"name": "list", "description": "A list.", "schema": SCHEMA}


def test_the_dialect_reads_them() -> None:
    wants = ChatDialect().parse_request(b'{"model": "m", "messages": [{"role": "user"}], "n": 2, "max_tokens": 5, "top_p": 0.5}').wants
    assert OutputRequirements(choices=2, max_output_tokens=5, sampling={"top_p": 0.5}) == wants


def test_what_is_sent_is_read_anew_where_a_stage_replaced_it() -> None:
    exchange = make_exchange(n=2)
    exchange.params = {**exchange.params, "tool_choice": "none"}
    assert (OutputRequirements(choices=2), OutputRequirements(choices=2, calls="none")) == (exchange.original.wants, exchange.wants)


# ---- the answer's form ----


@pytest.mark.parametrize(
    ("params", "schema"),
    [
        ({"response_format": {"type": "json_object"}}, None),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}}, None),
        ({"response_format": {"type": "json_schema", "json_schema": NAMED}}, SCHEMA),
        ({"response_format": {"type": "json_object", "schema": SCHEMA}}, SCHEMA),
        ({"response_format": {"type": "json", "value": SCHEMA}}, SCHEMA),
        ({"response_format": {"type": "json_list"}}, True),
        ({"response_format": {"type": "text"}, "guided_json": SCHEMA}, SCHEMA),
        ({"guided_json": '{"type": "array"}'}, SCHEMA),
        ({"guided_json": "{"}, "{"),
        ({"structured_outputs": {"json": SCHEMA}}, SCHEMA),
        ({"structured_outputs": {"json_object": True}}, None),
        ({"json_schema": SCHEMA}, SCHEMA),
        ({"guided_json": SCHEMA, "guided_regex": ".*"}, SCHEMA),
    ],
)
def test_a_client_that_wants_json(params: dict[str, Any], schema: Any) -> None:
    wants = output_requirements_of(params)
    assert ("json", schema) == (wants.form, wants.schema)


@pytest.mark.parametrize(
    "params",
    [
        {"response_format": {"type": "regex", "value": "[0-9]+"}},
        {"response_format": {"type": "structural_tag"}},
        {"guided_regex": "[0-9]+"},
        {"guided_choice": ["yes", "no"]},
        {"guided_grammar": "root ::= x"},
        {"structured_outputs": {"choice": ["yes", "no"]}},
        {"grammar": "root ::= x"},
        {"ebnf": "root ::= x"},
    ],
)
def test_a_client_that_wants_another_form(params: dict[str, Any]) -> None:
    wants = output_requirements_of(params)
    assert ("constrained", None, False) == (wants.form, wants.schema, wants.free_text)


@pytest.mark.parametrize(
    "params",
    [
        {},
        {"response_format": {"type": "text"}, "tool_choice": "auto"},
        {"response_format": None, "tool_choice": None, "function_call": "none", "guided_json": None},
        {"response_format": {}, "structured_outputs": {"whitespace_pattern": " "}, "guided_regex": ""},
        {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto"}}},
    ],
)
def test_a_client_that_wants_words(params: dict[str, Any]) -> None:
    assert output_requirements_of(params).free_text


def test_only_a_named_schema_stands_in_the_prompt() -> None:
    shown = [
        output_requirements_of(p).shown_schema
        for p in ({"response_format": {"type": "json_schema", "json_schema": NAMED}}, {"guided_json": SCHEMA})
    ]
    assert [NAMED, None] == shown


# ---- calls of tools ----


@pytest.mark.parametrize(
    ("params", "calls", "names"),
    [
        ({}, "auto", set()),
        ({"tool_choice": "auto"}, "auto", set()),
        ({"tool_choice": "none"}, "none", set()),
        ({"tool_choice": "required"}, "required", set()),
        ({"tool_choice": "any"}, "required", set()),
        ({"tool_choice": {"type": "function", "function": {"name": "a"}}}, "required", {"a"}),
        ({"tool_choice": {"type": "custom", "custom": {"name": "a"}}}, "required", {"a"}),
        ({"tool_choice": {"type": "tool", "name": "a"}}, "required", {"a"}),
        ({"tool_choice": {"type": "any"}}, "required", set()),
        ({"tool_choice": {"type": "auto"}}, "auto", set()),
        ({"tool_choice": {"type": "none"}}, "none", set()),
        ({"tool_choice": {"type": "web_search_preview"}}, "required", set()),
        ({"tool_choice": {"function": 5, "tools": "x"}}, "required", set()),
        ({"tool_choice": {"type": "allowed_tools", "mode": "required", "tools": [{"name": "a"}, None]}}, "required", {"a"}),
        (
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"function": {"name": "a"}}]}}},
            "auto",
            {"a"},
        ),
        ({"function_call": {"name": "a"}}, "required", {"a"}),
        ({"function_call": "none"}, "none", set()),
        ({"tool_choice": "required", "function_call": "auto"}, "required", set()),
        ({"tool_choice": "auto", "function_call": "none"}, "none", set()),
    ],
)
def test_the_calls_that_a_client_wants(params: dict[str, Any], calls: str, names: set[str]) -> None:
    wants = output_requirements_of(params)
    assert (calls, names) == (wants.calls, wants.chosen_tools)


# ---- numbers ----


@pytest.mark.parametrize(("n", "choices"), [(None, 1), (3, 3), (0, 1), (True, 1), ("2", 2), ("many", 1), ([], 1), (2.0, 2)])
def test_how_many_choices(n: Any, choices: int) -> None:
    assert choices == output_requirements_of({"n": n}).choices


@pytest.mark.parametrize(
    ("params", "limit", "field"),
    [
        ({"max_tokens": 50}, 50, "max_tokens"),
        ({"max_completion_tokens": 60, "max_tokens": 50}, 60, "max_completion_tokens"),
        ({"max_completion_tokens": 0, "max_tokens": 50}, 50, "max_tokens"),
        ({"max_tokens": None}, None, "max_tokens"),
        ({"max_tokens": "many"}, None, "max_tokens"),
        ({"max_tokens": True}, None, "max_tokens"),
        ({"max_tokens": -1}, None, "max_tokens"),
    ],
)
def test_the_limit_of_the_answer_and_its_name(params: dict[str, Any], limit: int | None, field: str) -> None:
    wants = output_requirements_of(params)
    assert (limit, field) == (wants.max_output_tokens, wants.limit_field)


@pytest.mark.parametrize(("options", "told"), [(None, False), ({"include_usage": True}, True), ({"include_usage": 1}, False), ([], False)])
def test_whether_a_stream_tells_the_usage(options: Any, told: bool) -> None:
    assert told == output_requirements_of({"stream_options": options}).stream_usage


NAMES = [
    "response_format",
    "tool_choice",
    "function_call",
    "functions",
    "n",
    "logprobs",
    "top_logprobs",
    "stop",
    "max_tokens",
    "max_completion_tokens",
    "parallel_tool_calls",
    "stream_options",
    "structured_outputs",
    "guided_json",
    "guided_regex",
    "guided_choice",
    "guided_grammar",
    "grammar",
    "json_schema",
    "temperature",
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=3) | st.sampled_from(["none", "any", "json"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(["type", "name", "mode", "tools", "function", "schema", "json_schema", "json", "allowed_tools"]), inner
        )
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from(NAMES), JSON))
def test_whatever_a_client_sends_is_read(params: dict[str, Any]) -> None:
    wants = output_requirements_of(params)
    assert wants.choices >= 1
    assert not (wants.free_text and wants.schema)


# ---- who reads them ----

ROOMS = ("stages", "grounding", "context", "delivery", "observe", "models", "language", "ports", "policy")
OWN = "response_format|tool_choice|structured_outputs|stream_options|parallel_tool_calls|max_completion_tokens|guided_[a-z]+"
"""Names that mean nothing but a parameter."""
READS = re.compile(rf"""\bparams(?:\.get\(|\[)|(?:\.get\(|\[)["'](?:{OWN})["']""")


@pytest.mark.parametrize("room", ROOMS)
def test_no_room_but_the_wire_reads_parameters(room: str) -> None:
    """They would have to know the client's API, and would disagree on what its fields mean."""
    root = Path(proxy.__file__).parent / room
    found = [
        f"{p.relative_to(root)}: {line.strip()}" for p in root.rglob("*.py") for line in p.read_text().splitlines() if READS.search(line)
    ]
    assert [] == found
