import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.context.lineage import opening_of
from proxy.exchange import Prompt, Request
from proxy.testing import make_exchange
from proxy.wire.chat.completions import ChatDialect

DIALECT = ChatDialect()
BODY: dict[str, Any] = {
    "model": "gpt-4o",
    "stream": True,
    "tools": [{"type": "function", "function": {"name": "look_up"}}],
    "messages": [
        {"role": "system", "content": "Be brief, \u00fcberall."},
        {"role": "user", "content": [{"type": "text", "text": "Which depot is open?"}], "name": "Ines"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": {"name": "look_up", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "a", "content": "Ulm, until six."},
        {"role": "assistant", "content": "Ulm."},
    ],
}


def known(request: Request) -> tuple[object, ...]:
    """What a record says of it."""
    answered = request.answered if request.answered is not None else [m["role"] for m in request.messages].count("assistant")
    return request.model, request.stream, request.size, opening_of("client", "", request.messages), answered


def encoded(**changed: Any) -> bytes:
    return json.dumps({**BODY, **changed}).encode()


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
ROLES = st.sampled_from(("system", "developer", "user", "assistant", "tool"))
CONTENT = st.none() | TEXT | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": TEXT}), max_size=2)


@given(st.lists(st.fixed_dictionaries({"role": ROLES, "content": CONTENT}), min_size=1, max_size=6), st.booleans(), st.booleans())
def test_a_skimmed_request_is_known_by_the_same(messages: list[dict[str, Any]], stream: bool, ascii_only: bool) -> None:
    body = json.dumps({**BODY, "messages": messages, "stream": stream}, ensure_ascii=ascii_only).encode()
    skimmed = DIALECT.skim(body)
    assert skimmed is not None
    assert known(DIALECT.parse_request(body)) == known(skimmed)


@given(st.data())
def test_a_damaged_body_is_not_skimmed(data: st.DataObject) -> None:
    body = bytearray(encoded())
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + 1] = data.draw(st.sampled_from((b"", b'"', b"{", b"]", b",", b"\\", b"0", b"-", b"\x01", b"\xff", b"\xc3", b"null")))
    skimmed = DIALECT.skim(bytes(body))
    assert skimmed is None or known(DIALECT.parse_request(bytes(body))) == known(skimmed)


@pytest.mark.parametrize(
    "changed",
    [
        {"model": ""},
        {"model": 4},
        {"messages": []},
        {"messages": ["Hi"]},
        {"messages": [{"content": "Hi"}]},
        {"messages": [{"role": "user", "content": "Hi", "groundwire": 5}]},
        {"tools": "look_up"},
        {"tools": ["look_up"]},
        {"stream": "yes"},
        {"groundwire": {"context": []}},
        {"messages": [{"role": "user", "content": "Hi", "groundwire": {}}]},
    ],
)
def test_what_is_refused_or_extended_is_not_skimmed(changed: dict[str, Any]) -> None:
    assert DIALECT.skim(encoded(**changed)) is None


def test_what_may_be_nested_too_deep_is_not_skimmed() -> None:
    assert [False, True] == [DIALECT.skim(encoded(x=json.loads("[" * depth + "]" * depth))) is None for depth in (200, 250)]


def test_a_skimmed_request_goes_out_in_its_own_bytes() -> None:
    request, exchange = DIALECT.skim(encoded()), make_exchange()
    assert request is not None
    exchange.original, exchange.prompt = request, Prompt(request.messages, request.tools, request.params)
    assert encoded() == DIALECT.render_request(exchange)
