"""Answers as most are: read at once, and read as the others are."""

import json
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.exchange import Answer, Choice, Usage
from proxy.wire.chat.completions import ChatDialect
from proxy.wire.chat.usual_answer import usual_answer

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
ODD: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.just(2**70) | st.floats(-3, 3) | TEXT | st.just([]) | st.just({}) | st.just([{}])
)
NUMBERS = st.integers(0, 99) | st.just(3.0) | ODD
MESSAGE = st.fixed_dictionaries(
    {},
    optional={
        "role": TEXT,
        "content": TEXT | st.none() | ODD,
        "refusal": TEXT | ODD,
        "reasoning_content": TEXT | ODD,
        "reasoning": TEXT | ODD,
        "tool_calls": ODD | st.just([{"id": "a", "function": {"name": "f", "arguments": "{}"}}]),
        "function_call": ODD | st.just({"name": "f", "arguments": "{}"}),
        "audio": ODD | st.just({"transcript": "x"}),
        "annotations": ODD,
    },
)
CHOICE = st.fixed_dictionaries(
    {"message": MESSAGE},
    optional={"index": NUMBERS, "finish_reason": TEXT | ODD, "logprobs": ODD, "text": ODD, "delta": ODD | MESSAGE},
)
USAGE = st.fixed_dictionaries(
    {},
    optional={
        "prompt_tokens": NUMBERS,
        "completion_tokens": NUMBERS,
        "prompt_tokens_details": ODD | st.fixed_dictionaries({}, optional={"cached_tokens": NUMBERS}),
    },
)
BODY = st.fixed_dictionaries(
    {"choices": st.lists(CHOICE | ODD, max_size=3)}, optional={"model": TEXT | ODD, "usage": USAGE | ODD, "id": ODD}
)
USUAL: dict[str, Any] = {
    "id": "chatcmpl-1",
    "model": "gpt-4o",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Ulm, über die B10.", "refusal": None, "annotations": [], "tool_calls": []},
            "logprobs": None,
            "finish_reason": "stop",
        }
    ],
    "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12, "prompt_tokens_details": {"cached_tokens": 3}},
}


def looked_at(body: bytes) -> Answer | None:
    """As every answer was read once; None for what is none."""
    with patch("proxy.wire.chat.completions.usual_answer", lambda body: None):
        try:
            return ChatDialect().parse_answer(body)
        except ValueError:
            return None


def test_an_answer_as_most_are_is_read_at_once() -> None:
    found = usual_answer(json.dumps(USUAL).encode())
    assert Answer((Choice(0, "Ulm, über die B10.", finish_reason="stop"),), "gpt-4o", Usage(7, 5, 3)) == found


@given(BODY, st.booleans())
def test_it_is_read_as_an_answer_that_is_looked_at(answer: dict[str, Any], ascii_only: bool) -> None:
    body = json.dumps(answer, ensure_ascii=ascii_only).encode()
    found = usual_answer(body)
    assert found is None or found == looked_at(body)


@given(st.data())
def test_a_damaged_answer_is_not_read_otherwise(data: st.DataObject) -> None:
    body = bytearray(json.dumps(USUAL, ensure_ascii=data.draw(st.booleans())).encode())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + 1] = data.draw(st.sampled_from((b"", b'"', b"{", b"]", b",", b"\\", b"0", b"-", b"\x01", b"\xff", b"\xc3", b"null")))
    found = usual_answer(bytes(body))
    assert found is None or found == looked_at(bytes(body))


@pytest.mark.parametrize(
    "changed",
    [
        {"text": "said aside"},
        {"delta": {"content": "said aside"}},
        {"logprobs": {"content": []}},
        {"message": {"content": [{"type": "text", "text": "in parts"}]}},
        {"message": {"content": "x", "tool_calls": [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]}},
        {"message": {"content": "x", "audio": {"transcript": "said aloud"}}},
    ],
)
def test_what_is_unusual_is_looked_at(changed: dict[str, Any]) -> None:
    assert usual_answer(json.dumps({**USUAL, "choices": [{**USUAL["choices"][0], **changed}]}).encode()) is None
