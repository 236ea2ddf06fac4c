"""What is remembered of conversations that their provider holds: the port, and what of an exchange is kept for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from proxy.exchange import Exchange
from proxy.exchange.histories import RESPONSE, History, PastTurn


class Histories(Protocol):
    """Implemented in `proxy.store.conversations`."""

    async def find(self, name: str, *, client: str) -> History:
        """What is remembered of what is called `name`. Raises `StoreUnavailable`."""

    async def items(self, ids: Sequence[str], *, client: str) -> Mapping[str, Mapping[str, Any]]:
        """Those of the items with these ids that are remembered. Raises `StoreUnavailable`."""

    async def add(self, turn: PastTurn, before: str, *, client: str, items: Mapping[str, Mapping[str, Any]]) -> None:
        """Keep a turn that went on from what is called `before`, "" for nothing, and its answer's `items`. Raises `StoreUnavailable`."""


def turn_of(exchange: Exchange, *, own: bool) -> PastTurn | None:
    """What the request brought, as far as it may be used, and the answer as it left; None where nobody can go on from it."""
    answer, request = exchange.answer, exchange.original
    if answer is None or not answer.id or not answer.choices or not request.keeps:
        return None
    choice = answer.choices[0]
    said: dict[str, Any] = {"role": "assistant", "content": choice.text or choice.refusal or None}
    if choice.tool_calls:
        said["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}} for call in choice.tool_calls
        ]
    brought = exchange.conversation[len(request.messages) - request.brings :] if request.brings else ()
    return PastTurn(RESPONSE + answer.id, (*brought, said), own)
