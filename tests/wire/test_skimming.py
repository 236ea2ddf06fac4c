"""A skimmed body is known by the same as the parsed one: its record says the same of it, and what is refused is not skimmed."""

import json
import math
import random
from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proxy.context.lineage import opening_of
from proxy.exchange import Prompt, Request
from proxy.testing import make_exchange
from proxy.wire.chat.completions import ChatDialect
from proxy.wire.dialect import Dialect
from proxy.wire.messages.dialect import MessagesDialect
from proxy.wire.responses.dialect import ResponsesDialect
from tests.conftest import Start
from tests.exchanges import recorded
from tests.fuzz import corpus, mutate

Body = dict[str, Any]
CALL = {"type": "function_call", "call_id": "a", "name": "look_up", "arguments": "{}"}
RESULT = {"type": "function_call_output", "call_id": "a", "output": "Ulm, until six."}
USE, USED = {"type": "tool_use", "id": "a", "name": "look_up", "input": {}}, {"type": "tool_result", "tool_use_id": "a", "content": "Ulm."}
TEXT_BLOCK = {"type": "text", "text": "Which depot is open, überall?"}
DIALECTS: Mapping[str, Dialect] = {"chat": ChatDialect(), "responses": ResponsesDialect(), "messages": MessagesDialect()}
BODIES: Mapping[str, Body] = {
    "chat": {
        "model": "gpt-4o",
        "stream": True,
        "tools": [{"type": "function", "function": {"name": "look_up"}}],
        "messages": [
            {"role": "system", "content": "Be brief, überall."},
            {"role": "user", "content": [{"type": "text", "text": "Which depot is open?"}], "name": "Ines"},
            {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "function": {"name": "look_up", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": "a", "content": "Ulm, until six."},
            {"role": "assistant", "content": "Ulm."},
        ],
    },
    "responses": {
        "model": "gpt-4o",
        "stream": True,
        "instructions": "Be brief, überall.",
        "tools": [{"type": "function", "name": "look_up"}],
        "input": [
            {"type": "item_reference", "id": "msg_0"},
            {"role": "developer", "content": "Say where."},
            {"role": "user", "content": [{"type": "input_text", "text": "Which depot is open?"}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            CALL,
            RESULT,
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Ulm."}]},
        ],
    },
    "messages": {
        "model": "claude-sonnet-4-6",
        "stream": True,
        "system": [{"type": "text", "text": "Be brief, überall.", "cache_control": {"type": "ephemeral"}}],
        "tools": [{"name": "look_up", "input_schema": {}}],
        "messages": [
            {"role": "user", "content": [TEXT_BLOCK, {**TEXT_BLOCK, "cache_control": {"type": "ephemeral"}}]},
            {"role": "assistant", "content": [{"type": "thinking", "thinking": "Hm."}, USE]},
            {"role": "user", "content": [USED]},
            {"role": "assistant", "content": "Ulm."},
        ],
    },
}
EVERY = pytest.mark.parametrize("dialect", DIALECTS)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
WORDS = st.none() | TEXT
ROLES = st.sampled_from(("system", "developer", "user", "assistant", "tool"))


def objects(**fields: Any) -> Any:
    return st.fixed_dictionaries({name: kind if isinstance(kind, st.SearchStrategy) else st.just(kind) for name, kind in fields.items()})


BLOCKS = objects(type="text", text=TEXT) | objects(type=st.sampled_from(("image", "thinking", "document")), source=st.just({}))
INNER = st.none() | TEXT | st.lists(objects(type="text", text=TEXT), max_size=2)
BLOCKS |= objects(type="tool_use", id=TEXT, name=TEXT, input=st.just({"n": 1})) | objects(
    type="tool_result", tool_use_id=TEXT, content=INNER
)
KINDS = (
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "web_search_call",
    "reasoning",
    "compaction",
    "function_call_output",
    "new",
)
ITEMS = {
    "chat": objects(role=ROLES, content=WORDS | st.lists(objects(type="text", text=TEXT), max_size=2)),
    "responses": objects(role=ROLES, content=WORDS | st.lists(objects(type="input_text", text=TEXT), max_size=2))
    | objects(type="message", role=ROLES, content=WORDS)
    | objects(type=st.sampled_from(KINDS), call_id=WORDS, role=ROLES, output=WORDS)
    | objects(type=st.sampled_from(KINDS), id=TEXT, content=WORDS),
    "messages": objects(role=ROLES, content=TEXT | st.lists(BLOCKS, max_size=3)),
}


def known(request: Request) -> tuple[object, ...]:
    """What a record says of it."""
    answered = request.answered if request.answered is not None else [m["role"] for m in request.messages].count("assistant")
    return request.model, request.stream, request.size, opening_of("client", "", request.messages), answered


def encoded(dialect: str, **changed: Any) -> bytes:
    return json.dumps({**BODIES[dialect], **changed}).encode()


def conversation(dialect: str, items: list[Any]) -> Body:
    return {DIALECTS[dialect].carries: items}


def agree(dialect: str, body: bytes) -> bool:
    """Whether it was skimmed; raises where that says something else than parsing."""
    skimmed = DIALECTS[dialect].skim(body)
    assert skimmed is None or known(DIALECTS[dialect].parse_request(body)) == known(skimmed)
    return skimmed is not None


def has_infinite_number(body: bytes) -> bool:
    """The one thing that is passed over though it is refused where the conversation is read."""
    numbers: list[float] = []
    json.loads(body, parse_float=lambda text: numbers.append(float(text)), parse_int=lambda text: numbers.append(float(text)))
    return any(math.isinf(number) for number in numbers)


@EVERY
@given(st.data(), st.booleans(), st.booleans())
def test_a_skimmed_request_is_known_by_the_same(dialect: str, data: st.DataObject, stream: bool, ascii_only: bool) -> None:
    items = data.draw(st.lists(ITEMS[dialect], min_size=1, max_size=6))
    body = json.dumps({**BODIES[dialect], **conversation(dialect, items), "stream": stream}, ensure_ascii=ascii_only).encode()
    assert agree(dialect, body)


@EVERY
def test_a_recorded_request_is_skimmed_and_known_by_the_same(dialect: str) -> None:
    read_whole = [one.name for one in recorded(dialect) if not agree(dialect, one.streamed_request)]
    assert {"chat": [], "responses": [], "messages": ["unknown"]}[dialect] == read_whole


@EVERY
def test_a_long_conversation_is_skimmed_and_known_by_the_same(dialect: str) -> None:
    items = BODIES[dialect][DIALECTS[dialect].carries]
    assert agree(dialect, encoded(dialect, **conversation(dialect, items * 200)))


@EVERY
@given(st.data())
def test_a_damaged_body_is_not_skimmed(dialect: str, data: st.DataObject) -> None:
    body = bytearray(encoded(dialect))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at : at + 1] = data.draw(st.sampled_from((b"", b'"', b"{", b"]", b",", b"\\", b"0", b"-", b"\x01", b"\xff", b"\xc3", b"null")))
    agree(dialect, bytes(body))


@EVERY
@given(st.data())
def test_a_key_that_stands_twice_counts_as_it_does_where_all_is_read(dialect: str, data: st.DataObject) -> None:
    names = ("model", "stream", "tools", DIALECTS[dialect].carries, "role", "content", "type", "call_id", "text", "id", "tool_use_id")
    values = (None, 4, "", "user", "assistant", "message", "text", "tool_use", [], [{}], [{"role": "user", "content": "Hi"}], False)
    body = encoded(dialect)
    for _ in range(data.draw(st.integers(1, 2))):
        places = [
            at for at in range(len(body)) if body[at : at + 1] in b"{}" and body[at : at + 2] != b"{}" and body[at - 1 : at + 1] != b"{}"
        ]
        at, name = data.draw(st.sampled_from(places)), json.dumps(data.draw(st.sampled_from(names)))
        spelt = name.replace("e", "\\u0065") if data.draw(st.booleans()) else name
        field = f"{spelt}: {json.dumps(data.draw(st.sampled_from(values)))}".encode()
        body = body[: at + 1] + field + b", " + body[at + 1 :] if body[at : at + 1] == b"{" else body[:at] + b", " + field + body[at:]
    agree(dialect, body)


@EVERY
def test_a_mutated_body_is_known_by_the_same(dialect: str) -> None:
    rng = random.Random(7)
    kept = [*corpus.load(f"{dialect}-request").values(), encoded(dialect)]
    skimmed = 0
    for _ in range(600):
        body = mutate.of_json(rng.choice(kept), rng, kept)
        if DIALECTS[dialect].skim(body) is not None and not has_infinite_number(body):
            skimmed += agree(dialect, body)
    assert skimmed > 100


REFUSED: list[Body] = [
    {"model": ""},
    {"model": 4},
    {"model": None},
    {"tools": "look_up"},
    {"tools": ["look_up"]},
    {"stream": "yes"},
    {"groundwire": {"context": []}},
    {"temperature": "\ud800"},
]
"""Of any dialect, or extended."""
REFUSED_ITEMS: list[Any] = [
    "Hi",
    None,
    {"role": 4, "content": "Hi"},
    {"role": None, "content": "Hi"},
    {"role": "user", "content": "Hi", "groundwire": 5},
    {"role": "user", "content": "Hi", "groundwire": None},
    {"role": "user", "content": "Hi", "groundwire": {}},
    {"role": "user", "content": "\ud800"},
    {"role": "user", "content": "Hi", "other": "\udc00"},
]


@EVERY
@pytest.mark.parametrize("changed", REFUSED, ids=str)
def test_what_is_refused_or_extended_is_not_skimmed(dialect: str, changed: Body) -> None:
    assert DIALECTS[dialect].skim(encoded(dialect, **changed)) is None


@EVERY
@pytest.mark.parametrize("item", REFUSED_ITEMS, ids=str)
def test_a_conversation_with_an_item_that_is_refused_or_extended_is_not_skimmed(dialect: str, item: object) -> None:
    items = BODIES[dialect][DIALECTS[dialect].carries]
    assert DIALECTS[dialect].skim(encoded(dialect, **conversation(dialect, [*items, item]))) is None


@pytest.mark.parametrize(
    "content",
    [
        None,
        4,
        [4],
        [{}],
        [{"type": 4}],
        [{"type": "text"}],
        [{"type": "text", "text": None}],
        [{"type": "tool_use", "id": "a"}],
        [{"type": "tool_result"}],
        [{"type": "tool_result", "tool_use_id": "a", "content": 4}],
        [{"type": "tool_result", "tool_use_id": "a", "content": [{"type": "text"}]}],
    ],
    ids=str,
)
def test_a_block_that_is_refused_is_not_skimmed(content: object) -> None:
    body = encoded("messages", messages=[*BODIES["messages"]["messages"], {"role": "user", "content": content}])
    assert DIALECTS["messages"].skim(body) is None


@EVERY
@pytest.mark.parametrize("times", [1, 60])
def test_what_is_nested_too_deep_is_not_skimmed(dialect: str, times: int) -> None:
    def with_field(depth: int) -> Body:
        return {"x": json.loads("[" * depth + "]" * depth)}

    items = BODIES[dialect][DIALECTS[dialect].carries] * times
    bodies = [
        encoded(dialect, **conversation(dialect, [*items, {"role": "user", "content": "Hi", **with_field(depth)}]), **with_field(beside))
        for depth, beside in ((251, 253), (252, 253), (251, 254))
    ]
    assert [True, False, False] == [agree(dialect, body) for body in bodies]


@EVERY
def test_a_skimmed_request_goes_out_in_its_own_bytes(dialect: str) -> None:
    body, exchange = encoded(dialect), make_exchange()
    request = DIALECTS[dialect].skim(body)
    assert request is not None
    exchange.original, exchange.prompt = request, Prompt(request.messages, request.tools, request.params)
    assert body == DIALECTS[dialect].render_request(exchange)


@EVERY
async def test_a_record_says_the_same_of_what_was_skimmed_and_what_was_read(start: Start, dialect: str) -> None:
    api, told = DIALECTS[dialect], []
    bodies = [one.request for one in recorded(dialect)] + [encoded(dialect), encoded(dialect, **conversation(dialect, ["Hi"]))]
    for keeps in (True, False):
        async with start(policy="name: empty\ndelivery: tap\nstages: []\n", bodies=keeps) as proxy:
            answers = [await proxy.post(body, "/v1" + api.path) for body in bodies]
            records = [await proxy.record(got) for got in answers]
        names = ("model", "run_id", "step_id", "stream", "status", "outcome", "prompt_tokens", "completion_tokens")
        said = [(got.status, got.body if got.status != 200 else b"") for got in answers]
        told.append((said, [[record[name] for name in names] for record in records]))
    assert told[0] == told[1]
