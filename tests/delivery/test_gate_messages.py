"""The gate before a stream whose parts open and close in order: whatever is changed, taken out or blocked, the client gets a message."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

from hypothesis import given, settings
from hypothesis import strategies as st

from proxy.delivery.gate import deliver_gate
from proxy.delivery.tap import Delivery
from proxy.errors import PolicyBlocked
from proxy.exchange import Exchange, Sentence
from proxy.testing import make_exchange
from proxy.wire.messages.dialect import MessagesDialect
from tests.messages import THINKING, read, streamed, text, use

SAID = ("Fine. ", "The tide turns at noon. ", "LIE here. ", "NOISE there. ", "no full stop", "\n\n", "e.g. this")
TEXTS = st.lists(st.sampled_from(SAID), max_size=3).map(lambda parts: text("".join(parts)))
SERVED = {"type": "server_tool_use", "id": "s1", "name": "web_search", "input": {}}
BLOCKS = st.lists(st.one_of(TEXTS, st.sampled_from([THINKING, SERVED])), min_size=1, max_size=5)
CALLS = st.lists(st.sampled_from([use(), use("b", {}, "t2")]), max_size=2)


class Checks:
    """A pipeline that changes and removes sentences by what stands in them, and may refuse one."""

    enforces = True

    def __init__(self, refused: str = "", *, closed: bool = False) -> None:
        self._refused, self._closed = refused, closed
        self.sentences: list[str] = []

    async def sentence(self, exchange: Exchange, sentence: Sentence) -> str:
        await asyncio.sleep(0)
        self.sentences.append(sentence.text)
        if self._refused and self._refused in sentence.text:
            raise PolicyBlocked("no", param="refused")
        said = sentence.text.strip()
        gap = sentence.text[: len(sentence.text) - len(sentence.text.lstrip())]
        return "" if "NOISE" in said else f"{gap}[removed]" if "LIE" in said else sentence.text

    async def answer(self, exchange: Exchange) -> None:
        """Nothing."""

    def closed(self, exchange: Exchange) -> bool:
        """Whether calls wait."""
        return self._closed


class Sent:
    """A client."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    async def start(self, status: int, headers: Any) -> None:
        """Nothing."""

    async def write(self, piece: bytes) -> None:
        self.pieces.append(piece)

    async def end(self, piece: bytes) -> None:
        self.pieces.append(piece)


def delivered(events: list[bytes], checks: Checks) -> tuple[bytes, Exchange]:
    async def chunks() -> AsyncIterator[bytes]:
        for event in events:
            yield event
            await asyncio.sleep(0)

    async def run() -> tuple[bytes, Exchange]:
        client, exchange = Sent(), make_exchange()
        reply = SimpleNamespace(status=200, headers=(), chunks=chunks, close=AsyncMock())
        parts: Any = {"exchange": exchange, "pipeline": checks, "dialect": MessagesDialect(), "reply": reply, "responder": client}
        rest: Any = {"own_headers": lambda verdict: [], "inline": dict, "max_bytes": 10**6, "again": None}
        await deliver_gate(Delivery(**parts, **rest, asked_at=0.0, total_s=60.0))
        return b"".join(client.pieces), exchange

    return asyncio.run(run())


@settings(deadline=None)
@given(BLOCKS, CALLS)
def test_the_client_gets_the_message_with_the_changed_sentences(blocks: list[dict[str, Any]], calls: list[dict[str, Any]]) -> None:
    checks = Checks()
    body, exchange = delivered(streamed(*blocks, *calls), checks)
    got = read(body)
    others = [block for block in (*blocks, *calls) if block["type"] != "text"]
    assert others == [block for block in got["content"] if block["type"] != "text"]
    said = "".join(block["text"] for block in got["content"] if block["type"] == "text")
    assert ("LIE" in str(blocks), False, False) == ("[removed]" in said, "LIE" in said, "NOISE" in said)
    assert exchange.answer is not None
    assert "".join(exchange.answer.text.split()) == "".join(said.split())
    empty = [[block for block in one if block.get("text") == ""] for one in (blocks, got["content"])]
    assert len(empty[1]) <= len(empty[0])


@settings(deadline=None)
@given(BLOCKS, CALLS)
def test_what_no_check_changes_leaves_byte_for_byte(blocks: list[dict[str, Any]], calls: list[dict[str, Any]]) -> None:
    clean = [text(block["text"].replace("LIE", "Yes").replace("NOISE", "Yes")) if block["type"] == "text" else block for block in blocks]
    events = streamed(*clean, *calls)
    body, _ = delivered(events, Checks())
    whole = read(b"".join(events))
    assert whole == read(body)
    kept = [event for event in events if b"text_delta" not in event and b"ping" not in event]
    assert kept == [e + b"\n\n" for e in body.split(b"\n\n") if e and b"text_delta" not in e and b"ping" not in e]


@settings(deadline=None)
@given(BLOCKS, CALLS)
def test_a_refusal_in_mid_answer_still_is_a_message(blocks: list[dict[str, Any]], calls: list[dict[str, Any]]) -> None:
    body, _ = delivered(streamed(*blocks, *calls), Checks(refused="noon"))
    refused = "noon" in str([block for block in blocks if block["type"] == "text"])
    got = read(body)
    assert refused == (got["stop_reason"] == "refusal")
    assert "noon" not in str(got["content"])
    assert not (refused and any(block["type"] == "tool_use" for block in got["content"]))


def test_a_call_does_not_wait_for_a_full_stop() -> None:
    checks = Checks()
    body, _ = delivered(streamed(text("I look it up"), use()), checks)
    assert (["I look it up"], [text("I look it up"), use()]) == (checks.sentences, read(body)["content"])
