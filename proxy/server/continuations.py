"""Requests that name what was said before instead of bringing it: what is remembered of that is put before their messages.

In: a request with `Request.goes_on_from`. Out: the same with its history, as far as this client's earlier turns came by here, and a verdict
that says how far; before the last byte of its answer leaves, the turn is kept, so that the next request finds it, whichever worker gets it.
A store that is away is a history that was not seen.
"""

from __future__ import annotations

import logging
from functools import partial
from typing import Any

from proxy.errors import StoreUnavailable
from proxy.exchange import Exchange, Outcome, Request, Verdict
from proxy.exchange.histories import RESPONSE, History, PastTurn
from proxy.ports.deadline import AwakeTimeout, with_one_retry
from proxy.store.conversations import DatabaseHistories

log = logging.getLogger("groundwire.endpoint")

TIMEOUT_S = 5.0
"""For the store, as the store itself gives up: an answer without what came before it is worse than one that is late."""
STAGE = "server"
SEEN, NOT_SEEN, NOT_CHANGED = "history_seen", "history_not_seen", "history_not_changed"


class Continuations:
    """Of one server."""

    def __init__(self, histories: DatabaseHistories) -> None:
        self._histories = histories

    async def joined(self, request: Request, client: str) -> tuple[Request, Verdict | None]:
        """The request with its history, and what is to be said of that."""
        request = await self._with_items(request, client)
        unseen = {"items": request.unseen_items} if request.unseen_items else {}
        if request.with_history is None:
            return request, Verdict(STAGE, "warn", NOT_SEEN, detail=unseen) if unseen else None
        try:
            async with AwakeTimeout(TIMEOUT_S):
                history = await with_one_retry(partial(self._histories.find, request.goes_on_from, client=client))
        except (StoreUnavailable, TimeoutError) as error:
            log.warning("client %s: what a request goes on from cannot be looked up: %s", client, error)
            history = History()
        detail = {"turns": len(history.turns), "messages": sum(len(turn.messages) for turn in history.turns), **unseen}
        whole = history.whole and not unseen
        outcome: Outcome = "unchecked" if whole else "warn"
        return request.with_history(history), Verdict(STAGE, outcome, SEEN if whole else NOT_SEEN, detail=detail)

    async def _with_items(self, request: Request, client: str) -> Request:
        """The request with what is remembered of the items that it only names."""
        if request.with_items is None:
            return request
        try:
            async with AwakeTimeout(TIMEOUT_S):
                known = await with_one_retry(partial(self._histories.items, request.references, client=client))
        except (StoreUnavailable, TimeoutError) as error:
            log.warning("client %s: what a request names cannot be looked up: %s", client, error)
            return request
        return request.with_items(known) if known else request

    async def keep(self, exchange: Exchange, client: str, *, own: bool, translated: bool) -> None:
        """Remember a turn, for a request that goes on from it; `own` where a stage gave the answer, `translated` where it came from a
        server that keeps none.
        """
        turn = turn_of(exchange, own=own, translated=translated)
        if turn is None:
            return
        try:
            async with AwakeTimeout(TIMEOUT_S):
                items = {} if own or exchange.upstream_answer is None else exchange.upstream_answer.items
                await with_one_retry(partial(self._histories.add, turn, exchange.original.goes_on_from, client=client, items=items))
        except (StoreUnavailable, TimeoutError) as error:
            log.warning("%s: the turn cannot be kept: %s", exchange.id, error)


def unchanged(exchange: Exchange) -> Verdict | None:
    """A warning where stages have changed what the provider holds: the model is asked with it as it was."""
    held = exchange.original.server_side_history
    if not held or exchange.messages is exchange.original.messages:
        return None
    here = {id(message) for message in exchange.messages}
    changed = sum(id(message) not in here for message in held)
    return Verdict(STAGE, "warn", code=NOT_CHANGED, detail={"messages": changed}) if changed else None


def turn_of(exchange: Exchange, *, own: bool, translated: bool) -> PastTurn | None:
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
    results = () if translated else exchange.open_results.get(answer.id, ())
    return PastTurn(RESPONSE + answer.id, (*brought, said), own, results)
