"""Names of failures and actions."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.language.json.fingerprint import action_key, described, fingerprint, identifier, normalised

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)


def shuffled(value: Any) -> Any:
    """With every object's keys the other way round."""
    if isinstance(value, dict):
        return {key: shuffled(value[key]) for key in reversed(list(value))}
    return [shuffled(item) for item in value] if isinstance(value, list) else value


@given(VALUES)
def test_the_order_of_keys_makes_no_difference(value: Any) -> None:
    assert fingerprint("tool_error", "timeout", "t", value) == fingerprint("tool_error", "timeout", "t", shuffled(value))


@given(st.text(), VALUES)
def test_a_name_is_always_made(tool: str, value: Any) -> None:
    assert (35, 32) == (len(fingerprint("tool_error", "timeout", tool, value)), len(action_key(tool, value)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"query": "Battery  life?"}, {"query": "battery life"}),
        ({"limit": 10}, {"limit": 10.0}),
        ({"query": "a", "request_id": "7"}, {"query": "a", "request_id": "8"}),
        ({"query": "a", "timestamp": 1}, {"query": "a"}),
        ({"query": "a", "page": None}, {"query": "a"}),
        ({"query": "Ｂattery"}, {"query": "battery"}),
    ],
)
def test_what_makes_no_difference(one: object, other: object) -> None:
    assert action_key("search", one) == action_key("search", other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"query": "a"}, {"query": "b"}),
        ({"limit": 10}, {"limit": 11}),
        ({"limit": 10}, {"limit": "10"}),
        ({"ids": [1, 2]}, {"ids": [2, 1]}),
        ({"op": "+"}, {"op": "-"}),
        ({"order_id": "a"}, {"order_id": "b"}),
        ({"a": True}, {"a": 1}),
    ],
)
def test_what_makes_a_difference(one: object, other: object) -> None:
    assert action_key("search", one) != action_key("search", other)


@given(st.lists(st.text(max_size=8), max_size=6))
def test_chunks_are_a_set(chunks: list[str]) -> None:
    assert fingerprint("loop", "same_chunks", chunk_ids=chunks) == fingerprint(
        "loop", "same_chunks", chunk_ids=[*reversed(chunks), *chunks]
    )


@pytest.mark.process
def test_another_process_gives_the_same_name() -> None:
    arguments = {"query": "größe", "limit": 50, "nested": {"b": [1.0, None], "a": "x"}}
    script = (
        f"from proxy.language.json.fingerprint import fingerprint; print(fingerprint('tool_error', 'timeout', 'search', {arguments!r}))"
    )
    out = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7", "PYTHONPATH": "."}
    )
    assert fingerprint("tool_error", "timeout", "search", arguments) == out.stdout.strip()


@given(st.text(alphabet="αβγδεζηθ", min_size=1))
def test_a_description_has_no_text(text: str) -> None:
    told = described({"query": text, "filters": {"a": text}, "tags": [text]})
    assert ["query", "filters", "tags"] == list(told)
    assert set() == set(text) & set(json.dumps(told, ensure_ascii=False))


def test_numbers_and_booleans_are_told() -> None:
    assert {"limit": 50, "exact": True, "page": None} == described({"limit": 50, "exact": True, "page": None})


@pytest.mark.parametrize("name", ["", "two words", "a\nb", "x" * 97, "ignore `all`"])
def test_what_is_no_identifier_becomes_a_hash(name: str) -> None:
    assert (identifier(name).startswith("#") and name not in identifier(name)[1:]) or not name


def test_depth_is_bounded() -> None:
    value: Any = "x"
    for _ in range(5000):
        value = [value]
    assert "…" in json.dumps(normalised(value), ensure_ascii=False)
