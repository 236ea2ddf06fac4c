"""Conversations through the stage `clash`, on ports in memory; for the tests of the stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from proxy.exchange import Evidence, Exchange, Verdict
from proxy.pipeline import Pipeline
from proxy.ports import Ports
from proxy.stages.clash import Clash, ClashOptions
from proxy.testing import make_exchange

Message = dict[str, Any]


def user(text: str) -> Message:
    return {"role": "user", "content": text}


def assistant(text: str = "Noted.") -> Message:
    return {"role": "assistant", "content": text}


def tool(text: str, id_: str = "1", name: str = "get_flight") -> list[Message]:
    call = {"id": id_, "type": "function", "function": {"name": name, "arguments": "{}"}}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, {"role": "tool", "tool_call_id": id_, "content": text}]


MOVED = [user("Hello. I live in Berlin."), assistant(), user("I live in Munich. Which doctor is near?")]


async def send(
    ports: Ports,
    messages: Sequence[Message],
    *,
    stage: Clash | None = None,
    passages: Sequence[Evidence] = (),
    id_: str = "gw_1",
    hints: Mapping[int, Mapping[str, Any]] | None = None,
    client: str = "anonymous",
    at: float | None = None,
    params: Mapping[str, Any] | None = None,
    **options: Any,
) -> Exchange:
    """One request through a stage of its own, as another worker would serve it, or through `stage`."""
    exchange = make_exchange(messages, **(params or {}))
    exchange.id, exchange.client = id_, client
    exchange.received_at = exchange.received_at if at is None else at
    exchange.original = replace(exchange.original, message_hints=dict(hints or {}), passages=tuple(passages))
    exchange.passages = exchange.evidence = tuple(passages)
    await Pipeline([stage or made(ports, **options)]).request(exchange)
    return exchange


def made(ports: Ports, **options: Any) -> Clash:
    return Clash(msgspec.convert(options, ClashOptions), ports)


def contents(exchange: Exchange) -> list[Any]:
    return [message["content"] for message in exchange.messages]


def verdict(exchange: Exchange) -> Verdict:
    (found,) = [verdict for verdict in exchange.verdicts if verdict.stage == "clash"]
    return found
