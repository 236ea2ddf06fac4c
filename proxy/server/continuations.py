"""Requests that name what was said before instead of bringing it: what is remembered of that is put before their messages.

In: a request with `Request.goes_on_from`. Out: the same with its history, as far as this client's earlier turns came by here, and a verdict
that says how far; after its answer, the turn is kept for the next one. A store that is away is a history that was not seen.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from proxy.context.histories import Histories, turn_of
from proxy.errors import StoreUnavailable
from proxy.exchange import Exchange, Outcome, Request, Verdict
from proxy.exchange.histories import CONVERSATION, History

log = logging.getLogger("groundwire.endpoint")

TIMEOUT_S = 2.0
"""For the store."""
STAGE = "server"
SEEN, NOT_SEEN, NOT_CHANGED = "history_seen", "history_not_seen", "history_not_changed"


class Keeping:
    """An exchange whose turn is to be kept."""

    def __init__(self, has_left: Callable[[], bool]) -> None:
        """`has_left` tells whether its answer has left: from then on its client may go on from it."""
        self.has_left = has_left
        self.done = asyncio.Event()


class Continuations:
    """Of one server."""

    def __init__(self, histories: Histories) -> None:
        self._histories = histories
        self._running: dict[str, set[Keeping]] = {}
        """By client."""

    def begin(self, client: str, has_left: Callable[[], bool]) -> Keeping:
        """An exchange begins that may be kept; `end` follows."""
        keeping = Keeping(has_left)
        self._running.setdefault(client, set()).add(keeping)
        return keeping

    def end(self, client: str, keeping: Keeping) -> None:
        """It is over, kept or not."""
        keeping.done.set()
        running = self._running.get(client, set())
        running.discard(keeping)
        if not running:
            self._running.pop(client, None)

    async def joined(self, request: Request, client: str) -> tuple[Request, Verdict | None]:
        """The request with its history, and what is to be said of that."""
        request = await self._with_items(request, client)
        unseen = {"items": request.unseen_items} if request.unseen_items else {}
        if request.with_history is None:
            return request, Verdict(STAGE, "warn", NOT_SEEN, detail=unseen) if unseen else None
        try:
            async with asyncio.timeout(TIMEOUT_S):
                history = await self._find(request.goes_on_from, client)
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
        leaving = [keeping for keeping in self._running.get(client, ()) if keeping.has_left()]
        try:
            async with asyncio.timeout(TIMEOUT_S):
                await asyncio.gather(*(keeping.done.wait() for keeping in leaving))
                known = await self._histories.items(request.references, client=client)
        except (StoreUnavailable, TimeoutError) as error:
            log.warning("client %s: what a request names cannot be looked up: %s", client, error)
            return request
        return request.with_items(known) if known else request

    async def _find(self, name: str, client: str) -> History:
        leaving = [keeping for keeping in self._running.get(client, ()) if keeping.has_left()]
        history = await self._histories.find(name, client=client)
        surely_all = history.turns and not name.startswith(CONVERSATION)
        if leaving and not surely_all:  # the client has its answer, and the turn is about to be kept
            await asyncio.gather(*(keeping.done.wait() for keeping in leaving))
            history = await self._histories.find(name, client=client)
        return history

    async def keep(self, exchange: Exchange, client: str, *, own: bool) -> None:
        """Remember a turn, for a request that goes on from it; `own` where a stage gave the answer."""
        turn = turn_of(exchange, own=own)
        if turn is None:
            return
        try:
            async with asyncio.timeout(TIMEOUT_S):
                items = {} if own or exchange.upstream_answer is None else exchange.upstream_answer.items
                await self._histories.add(turn, exchange.original.goes_on_from, client=client, items=items)
        except (StoreUnavailable, TimeoutError) as error:
            log.warning("%s: the turn cannot be kept: %s", exchange.id, error)


def unchanged(exchange: Exchange) -> Verdict | None:
    """A warning where stages have changed what the provider holds: the model is asked with it as it was."""
    held = exchange.original.held
    if not held or exchange.messages is exchange.original.messages:
        return None
    here = {id(message) for message in exchange.messages}
    changed = sum(id(message) not in here for message in held)
    return Verdict(STAGE, "warn", code=NOT_CHANGED, detail={"messages": changed}) if changed else None
