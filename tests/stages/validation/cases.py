"""What the tests of the stage `validation` share: a conversation about the weather, a verifier that reads numbers, and short cuts."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

import msgspec

from proxy.errors import StoreUnavailable
from proxy.exchange import Exchange, Message, Verdict
from proxy.exchange.judgements import ClaimPair, Support
from proxy.pipeline import Pipeline
from proxy.ports import Ports
from proxy.stages.validation import Validation, ValidationOptions
from proxy.testing import MemoryFirstSeen, MemoryScratchpad, ScriptedVerifiers, make_exchange, make_ports

NOW = 1714564800.0
ASK = {"role": "user", "content": "What is the weather in Graz today, and which unit is the temperature in?"}
WEATHER = {"city": "Graz", "weather": "sunny with a light wind from the south", "temperature": 21, "unit": "celsius"}
STALE = {**WEATHER, "fetched_at": "2024-04-30T12:00:00Z"}
FRESH = {**WEATHER, "fetched_at": "2024-05-01T11:30:00Z"}
PARTIAL = {**WEATHER, "unit": None}
UNIT = {"get_*": ("city", "temperature", "unit")}
STALE_NOTE = "out of date (24 h old, at most 1 h)"


def call(id_: str, name: str = "get_weather", **arguments: Any) -> Message:
    function = {"name": name, "arguments": json.dumps(arguments or {"city": "Graz"})}
    return {"role": "assistant", "content": None, "tool_calls": [{"id": id_, "type": "function", "function": function}]}


def result(id_: str, content: Any) -> Message:
    return {"role": "tool", "tool_call_id": id_, "content": content if isinstance(content, str | list) else json.dumps(content)}


def asked(*contents: Any) -> list[Message]:
    """A question, and a call with its result for each of `contents`."""
    found: list[Message] = [ASK]
    for i, content in enumerate(contents):
        found += [call(f"c{i}"), result(f"c{i}", content)]
    return found


def by_numbers(pair: ClaimPair) -> Support:
    claimed, there = (set(re.findall(r"\d+", text)) for text in (pair.claim, pair.evidence))
    return Support(0.9, 0.02) if claimed <= there else Support(0.03, 0.95)


def ports_with(**parts: Any) -> Ports:
    return make_ports(**{"verifiers": ScriptedVerifiers(by_numbers), **parts})


def stage(ports: Ports | None = None, **options: Any) -> Validation:
    """One whose operator wants warnings, and nothing older than an hour; what is given counts."""
    wanted = {"action": "annotate", "max_age_s": 3600, **options}
    return Validation(msgspec.convert(wanted, ValidationOptions), ports or ports_with())


def exchange_of(messages: Sequence[Message], at: float = NOW, **hints: Any) -> Exchange:
    exchange = make_exchange(messages)
    exchange.received_at = at
    exchange.original = msgspec.structs.replace(exchange.original, **hints)
    return exchange


async def run(exchange: Exchange, made: Validation | None = None, **options: Any) -> list[Verdict]:
    await Pipeline([made or stage(**options)]).request(exchange)
    return exchange.verdicts


def pieces(exchange: Exchange) -> list[dict[str, Any]]:
    return [piece for verdict in exchange.verdicts for piece in verdict.detail.get("pieces", ())]


def codes(exchange: Exchange) -> list[str]:
    return exchange.warnings


def said(exchange: Exchange, i: int) -> Any:
    return exchange.messages[i]["content"]


class Away(MemoryScratchpad, MemoryFirstSeen):
    def __init__(self) -> None:
        pass

    async def put(self, content: bytes, *, client: str, run_id: str, media_type: str = "text/plain") -> str:
        raise StoreUnavailable("locked")

    async def times(self, run: str, hashes: Sequence[str], now: float, *, client: str) -> list[float]:
        raise StoreUnavailable("locked")
