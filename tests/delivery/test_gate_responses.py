"""The gate before a stream that tells each text several times: whatever is changed, taken out or blocked, all of them say the same."""

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.responses import ResponseStreamEvent
from pydantic import TypeAdapter

from proxy.delivery.gate import deliver_gate
from proxy.delivery.tap import Delivery
from proxy.exchange import Exchange
from proxy.testing import make_exchange
from proxy.wire.responses.dialect import ResponsesDialect
from tests.delivery.test_gate_messages import SAID, Checks, Sent
from tests.responses_api import Item, call_item, decoded, events, reasoning_item, refusal_item, text_item

ADAPTER: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
SERVED = {"id": "ws_1", "type": "web_search_call", "status": "completed", "action": {"type": "search", "query": "x"}}
PARTS = st.lists(st.lists(st.sampled_from(SAID), max_size=3).map("".join), min_size=1, max_size=2)
ITEMS = st.lists(
    st.one_of(
        PARTS.map(lambda texts: text_item(*texts)),
        st.sampled_from([reasoning_item(), SERVED, call_item("weather", '{"a": 1}'), refusal_item("I cannot. LIE here.")]),
    ),
    max_size=5,
)


def delivered(chunks: list[bytes], checks: Checks) -> tuple[bytes, Exchange]:
    async def coming() -> AsyncIterator[bytes]:
        for chunk in chunks:
            yield chunk
            await asyncio.sleep(0)

    sent, exchange = Sent(), make_exchange()
    delivery = Delivery(
        exchange=exchange,
        pipeline=checks,  # type: ignore[arg-type]
        dialect=ResponsesDialect(),
        reply=SimpleNamespace(status=200, headers=[], chunks=coming, close=AsyncMock()),  # type: ignore[arg-type]
        responder=sent,  # type: ignore[arg-type]
        own_headers=lambda verdict: [],
        inline=dict,
        max_bytes=10**6,
        again=lambda: None,  # type: ignore[arg-type, return-value]
        asked_at=0.0,
        total_s=60.0,
    )
    asyncio.run(deliver_gate(delivery))
    return b"".join(sent.pieces), exchange


def checked(body: bytes) -> list[Item]:
    """The events, valid, numbered without a gap, and each inside of what it belongs to."""
    found, open_items, open_parts = decoded(body), set[int](), set[tuple[int, int]]()
    assert list(range(len(found))) == [one["sequence_number"] for one in found]
    for one in found:
        ADAPTER.validate_python(one)
        kind, item, place = one["type"], one.get("output_index"), (one.get("output_index"), one.get("content_index"))
        if kind == "response.output_item.added":
            open_items.add(item)
        elif item is not None:
            assert item in open_items
        if kind == "response.content_part.added":
            open_parts.add(place)  # type: ignore[arg-type]
        elif one.get("content_index") is not None:
            assert place in open_parts
        if kind == "response.content_part.done":
            open_parts.remove(place)  # type: ignore[arg-type]
        elif kind == "response.output_item.done":
            open_items.remove(item)
    assert set() == open_parts
    return found


def tellings(found: list[Item], name: str, kind: str) -> dict[tuple[int, int], set[str]]:
    """For each part everything that is said to be its text."""
    told: dict[tuple[int, int], set[str]] = {}
    deltas: dict[tuple[int, int], str] = {}
    for one in found:
        place = (one.get("output_index", -1), one.get("content_index", -1))
        if one["type"] == f"response.{kind}.delta":
            deltas[place] = deltas.get(place, "") + one["delta"]
        elif one["type"] == f"response.{kind}.done":
            told.setdefault(place, set()).add(one[name])
        elif one["type"] == "response.content_part.done" and name in one["part"]:
            told.setdefault(place, set()).add(one["part"][name])
        elif one["type"] == "response.output_item.done" and one["item"]["type"] == "message":
            for j, part in enumerate(one["item"]["content"]):
                if name in part:
                    told.setdefault((one["output_index"], j), set()).add(part[name])
    for i, item in enumerate(found[-1]["response"]["output"]):
        for j, part in enumerate(item["content"] if item["type"] == "message" else ()):
            if name in part:
                told.setdefault((i, j), set()).add(part[name])
    return {place: texts | {deltas.get(place, "")} for place, texts in told.items()}


@settings(deadline=None, max_examples=40)
@given(ITEMS, st.integers(1, 4))
def test_whatever_is_changed_every_telling_of_a_text_is_the_same(items: list[Item], words: int) -> None:
    checks = Checks()
    body, exchange = delivered(events(*items, words=words), checks)
    found = checked(body)
    assert all(
        len(texts) == 1 for texts in (*tellings(found, "text", "output_text").values(), *tellings(found, "refusal", "refusal").values())
    )
    said = "\n\n".join(next(iter(texts)) for texts in tellings(found, "text", "output_text").values() if next(iter(texts)))
    assert "LIE" not in said
    assert "NOISE" not in said
    assert "".join(checks.sentences) == exchange.upstream_answer.choices[0].text  # type: ignore[union-attr]
    assert [item["type"] for item in items] == [item["type"] for item in found[-1]["response"]["output"]]


@settings(deadline=None, max_examples=40)
@given(ITEMS, st.integers(1, 4), st.sampled_from(["tide", "LIE", "e.g."]))
def test_a_block_anywhere_leaves_a_response_that_is_whole_in_itself(items: list[Item], words: int, refused: str) -> None:
    body, exchange = delivered(events(*items, words=words), Checks(refused))
    found = checked(body)
    blocked = any(refused in part.get("text", "") for item in items if item["type"] == "message" for part in item["content"])
    assert ("response.incomplete" if blocked else "response.completed") == found[-1]["type"]
    assert all(len(texts) == 1 for texts in tellings(found, "text", "output_text").values())
    if blocked:
        assert refused not in "".join(text for texts in tellings(found, "text", "output_text").values() for text in texts)
        assert not [one for one in found if one["type"] == "response.output_item.done" and one["item"]["type"] == "function_call"] or (
            exchange.answer is not None
        )
