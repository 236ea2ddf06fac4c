"""Responses over a WebSocket: each ``response.create`` is an ordinary streamed exchange, whose events leave as messages.

There is no second path through the policy: a message becomes a request of `serve`, which is the application's own for HTTP, so that keys,
limits, records, checks and the upstream's call are the same. This module has what HTTP leaves to the connection: who may open one, lanes
(`proxy.wire.responses.socket`), what is remembered between responses, and how it ends. Close codes: 1012 where the server stops, 1003 for
binary messages, 1009 for one that is too large, 1008 where the client's key counts no more, 1000 after an hour.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from proxy.errors import (
    InternalError,
    InvalidApiKey,
    InvalidRequest,
    Overloaded,
    PolicyNotAllowed,
    ProxyError,
    RateLimited,
    UpstreamUnreachable,
)
from proxy.ledger import Holding
from proxy.offloop import run_in_thread_if_large
from proxy.ports.upstream import is_event_stream
from proxy.server.cross_origin import origin_of
from proxy.server.handler import Handler, new_id
from proxy.wire import bodies
from proxy.wire.http.asgi import Receive, Scope, Send
from proxy.wire.http.headers import ClientHeaders, RequestHints
from proxy.wire.http.sockets import DRAIN, IDLE, as_http
from proxy.wire.responses import socket as wire
from proxy.wire.responses.events import ENDS, ITEM_DONE, response_of, to_events
from proxy.wire.responses.socket import Create, Past, SocketRefused
from proxy.wire.sse import EventSplitter

log = logging.getLogger("groundwire.socket")

Serve = Callable[[Scope, Receive, Send], Awaitable[None]]
PATH = "/responses"
MAX_AGE_S = 3600.0
"""As the API has it."""
MAX_AT_ONCE, MAX_WAITING = 16, 64
"""Responses under way on one connection, as the API has it, and messages that wait for one."""
MAX_FORGOTTEN = 1_000
"""Names; who goes on from an older one hears from the provider that there is none."""


class Opening(Handler):
    """The handshake: who may ask over HTTP may open a connection, but for web pages that could not read an answer."""

    accepted = False
    origins: Sequence[str] = ()
    """Of pages that may."""

    async def _serve(self, path: str, headers: ClientHeaders, hints: RequestHints) -> None:
        origin = origin_of(self._scope)
        if origin and not {origin, "*"} & set(self.origins):  # a browser lets any page read what comes over a WebSocket
            raise PolicyNotAllowed("pages of this origin may open no WebSocket here (cors.origins)")
        self._known = partial(self._services.clients.identify, *self._credentials(headers.keys))
        self.accepted = True

    async def _conclude(self) -> None:
        """A connection has no record; each of its exchanges has, and so has a refusal."""
        if not self.accepted:
            await super()._conclude()

    def socket(self, serve: Serve, receive: Receive, send: Send, scope: Scope) -> ResponsesSocket:
        """The connection, of the client that opened it."""
        return ResponsesSocket(serve, receive, send, scope, self._holding, self._known)

    def _holding(self) -> Holding:
        holding = Holding(self._services.ledger)
        holding.party = self.party
        return holding


class _Lane:
    """Responses that come one after another."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.task: asyncio.Task[None] | None = None
        """The last one's."""
        self.latest = ""
        """The last response that only the connection remembers."""


class ResponsesSocket:
    """One connection."""

    def __init__(
        self, serve: Serve, receive: Receive, send: Send, scope: Scope, holding: Callable[[], Holding], known: Callable[[], str]
    ) -> None:
        """`known` raises `ProxyError` where the client may not ask any more: a key can end before its connection does."""
        self._serve, self._receive, self._send, self._scope = serve, receive, send, scope
        self._holding, self._known = holding, known
        self._idle: Callable[[bool], None] = scope.get("extensions", {}).pop(IDLE, lambda idle: None)
        self._lanes: dict[str, _Lane] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._places = asyncio.Semaphore(MAX_AT_ONCE)
        self._pasts: dict[str, tuple[Past, Holding]] = {}
        """By the response's id."""
        self._forgotten: dict[str, None] = {}
        """Responses that nobody knows any more, the last of them."""
        self.gone = asyncio.Event()
        """The client has left."""
        self._closes: tuple[int, str] | None = None
        """With what, once nothing is under way."""
        self._closed = False
        self._until = time.monotonic() + MAX_AGE_S

    async def run(self) -> None:
        """To its end."""
        await self._send({"type": "websocket.accept"})
        self._idle(True)
        try:
            while (message := await self._receive())["type"] != "websocket.disconnect":
                if message["type"] == DRAIN:
                    await self._close_when_done(1012, "the server is stopping")
                elif message["type"] == "websocket.receive":
                    await self._take(message.get("text"))
            self.gone.set()
        except asyncio.CancelledError:  # it has waited long enough for what is under way
            self._closes = 1012, "the server is stopping"
            for task in self._tasks:
                task.cancel()
        finally:
            await self._end()

    async def _end(self) -> None:
        """Wait for what is under way, and give back all that it has."""
        try:
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self._close(*(self._closes or (1000, "")))
        finally:
            for _, room in self._pasts.values():
                room.release()

    async def say(self, event: bytes, lane: str) -> None:
        """Send an event of a lane."""
        if self._closed or self.gone.is_set():
            return
        try:
            await self._send({"type": "websocket.send", "text": wire.in_lane(event, lane)})
        except OSError:
            self.gone.set()

    async def _take(self, text: str | None) -> None:
        """A message came."""
        if text is None:
            await self._close(1003, "text messages only")
            return
        lane = ""
        try:
            kind, fields = await run_in_thread_if_large(len(text), wire.fields_of, text)
            if kind == wire.PROCESSED:
                return
            if kind == wire.STEER:
                await self.say(wire.steer_failed(fields), "")
                return
            lane = wire.lane_of(fields)
            self._begin(wire.create_of(kind, fields), lane, len(text))
        except (ProxyError, SocketRefused) as error:
            log.info("a message is refused: %s", error)
            await self.say(wire.error_of(error), lane)
            if isinstance(error, InvalidApiKey):
                await self._close_when_done(1008, "the key counts no more")
            elif time.monotonic() > self._until:
                await self._close_when_done(1000, "an hour is over")

    def _begin(self, create: Create, name: str, size: int) -> None:
        """Raises `ProxyError`, `SocketRefused`."""
        if self._closes is not None:
            raise Overloaded("the connection is closing: open another one")
        self._known()
        if time.monotonic() > self._until:
            raise wire.connection_limit(int(MAX_AGE_S // 60))
        if len(self._tasks) >= MAX_WAITING:
            raise RateLimited(f"more than {MAX_WAITING} messages wait for their responses: wait for one to end")
        if name not in self._lanes and len(self._lanes.keys() - {""}) >= wire.MAX_NAMED_LANES:
            raise wire.lane_limit()
        room = self._holding()
        if not room.take(size):
            raise Overloaded("the server has no room for this message beside those of other requests; try again in a moment")
        lane = self._lanes.setdefault(name, _Lane(name))
        lane.task = asyncio.create_task(self._respond(lane, create, room, lane.task))
        self._tasks.add(lane.task)
        self._idle(False)

    async def _respond(self, lane: _Lane, create: Create, room: Holding, before: asyncio.Task[None] | None) -> None:
        """One response, when those before it in its lane are over."""
        try:
            if before is not None:
                await asyncio.wait([before])
            async with self._places:
                if not self.gone.is_set():
                    await self._exchange(lane, create, room)
        except (ProxyError, SocketRefused) as error:
            await self.say(wire.error_of(error), lane.name)
        except Exception:
            log.exception("unexpected failure")
            await self.say(wire.error_of(InternalError("an internal error; the server's log has the details")), lane.name)
        finally:
            room.release()
            task = asyncio.current_task()
            self._tasks -= {task} if task is not None else set()
            self._idle(not self._tasks)
            if self._closes is not None and not self._tasks:
                await self._close(*self._closes)

    async def _exchange(self, lane: _Lane, create: Create, room: Holding) -> None:
        """Raises `SocketRefused`, `InvalidRequest`."""
        previous = create.goes_on_from
        if previous in self._forgotten:
            raise wire.previous_not_found(previous)
        past = self._pasts[previous][0] if previous in self._pasts else None
        if not create.generates:
            await self._prepare(lane, create, past)
            return
        body = await run_in_thread_if_large(create.size_behind(past), create.body, past)
        room.release()
        frames = _Frames(self, lane.name, room, keeps_items=not create.stores)
        await self._serve(as_http(self._scope, "POST"), self._asking(body), frames.take)
        await frames.end(self._closes is not None)
        room.release()
        if frames.failed and previous == lane.latest:
            self._forget(lane)
        elif frames.response and not create.stores:
            if (output := frames.output) is not None:
                self._remember(lane, frames.response, await run_in_thread_if_large(len(body), create.conversation, past, output))
            else:
                self._forget(lane)
                self._note_forgotten(frames.response)

    async def _prepare(self, lane: _Lane, create: Create, past: Past | None) -> None:
        """What is only said beforehand goes upstream with the response that goes on from it."""
        now = time.time()
        name = f"resp_{new_id(now)}"
        said = await run_in_thread_if_large(create.size_behind(past), create.conversation, past, ())
        try:
            events = create.encode_prepared(name, now)
        except ValueError as error:
            raise InvalidRequest(f"the message is not valid JSON: {error}") from None
        for event in EventSplitter().feed(events):
            await self.say(event.data or b"", lane.name)
        self._remember(lane, name, said)

    def _asking(self, body: bytes) -> Receive:
        """The messages of the request, and then of the client's leaving."""
        pieces = [body]

        async def receive() -> dict[str, Any]:
            if pieces:
                return {"type": "http.request", "body": pieces.pop(), "more_body": False}
            await self.gone.wait()
            return {"type": "http.disconnect"}

        return receive

    def _remember(self, lane: _Lane, name: str, past: Past) -> None:
        """As its lane's latest; not where there is no room, and then who goes on from it is told to send all."""
        self._forget(lane)
        room = self._holding()
        if room.remember(len(past.items)):
            if name in self._pasts:  # of another lane: not every server gives each response an id of its own
                self._pasts[name][1].release()
            self._forgotten.pop(name, None)
            self._pasts[name] = past, room
            lane.latest = name
        else:
            self._note_forgotten(name)

    def _forget(self, lane: _Lane) -> None:
        name, lane.latest = lane.latest, ""
        if name in self._pasts:
            self._pasts.pop(name)[1].release()
            self._note_forgotten(name)

    def _note_forgotten(self, name: str) -> None:
        self._forgotten[name] = None
        if len(self._forgotten) > MAX_FORGOTTEN:
            del self._forgotten[next(iter(self._forgotten))]

    async def _close_when_done(self, code: int, reason: str) -> None:
        self._closes = code, reason
        if not self._tasks:
            await self._close(code, reason)

    async def _close(self, code: int, reason: str) -> None:
        closed, self._closed = self._closed, True
        if not closed and not self.gone.is_set():
            with suppress(OSError):  # the server has closed it already
                await self._send({"type": "websocket.close", "code": code, "reason": reason})


class _Frames:
    """Takes the response of one exchange, and sends its events as messages."""

    def __init__(self, socket: ResponsesSocket, lane: str, room: Holding, *, keeps_items: bool) -> None:
        """`room` is for the items that are kept."""
        self._socket, self._lane, self._room, self._keeps_items = socket, lane, room, keeps_items
        self._status, self._headers = 0, list[tuple[bytes, bytes]]()
        self._splitter: EventSplitter | None = None
        self._body = bytearray()
        self._items: list[Any] | None = []
        """None once there was no room for them."""
        self._ended = self.failed = False
        self.response = ""
        """The id of the response that has ended well."""
        self.output: list[Any] | None = []
        """None where its items had no room."""

    async def take(self, message: dict[str, Any]) -> None:
        """A message of the response over HTTP."""
        if message["type"] == "http.response.start":
            self._status, self._headers = message["status"], list(message["headers"])
            headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in self._headers]
            if self._status == 200 and is_event_stream(headers):
                self._splitter = EventSplitter()
        elif self._splitter is None:
            self._body += message.get("body", b"")
        else:
            for event in self._splitter.feed(message.get("body", b"")):
                await self._say(event.data)

    async def end(self, stopping: bool) -> None:
        """The response is over: one that broke off ends with an error, as there is no connection whose end would say so."""
        if self._splitter is not None:
            last = self._splitter.finish()
            await self._say(last.data if last is not None else None)
        elif self._status == 200:
            await self._say_whole()
        elif self._status:
            await self._fail(wire.error_of_body(self._status, self._headers, bytes(self._body)))
        if not self._ended:
            words = "the server is stopping" if stopping else "the answer ended before the response did"
            await self._fail(wire.error_of(Overloaded(words) if stopping else UpstreamUnreachable(words)))

    async def _say_whole(self) -> None:
        """A response that came in one piece, as some servers send it though they are asked for a stream."""
        response = bodies.object_in(bytes(self._body)) or {}
        with suppress(ValueError):
            for event in EventSplitter().feed(to_events(response, b"")):
                await self._say(event.data)

    async def _say(self, data: bytes | None) -> None:
        event = bodies.object_in(data) if data is not None else None
        if data is None or event is None or self._ended:
            return
        if event.get("type") == "error":
            await self._fail(wire.error_of_event(event))
            return
        self._note(event, len(data))
        await self._socket.say(data, self._lane)

    def _note(self, event: Mapping[str, Any], size: int) -> None:
        if self._keeps_items and self._items is not None and event.get("type") == ITEM_DONE:
            if self._room.remember(size):
                self._items.append(event.get("item"))
            else:
                self._items = None
        if event.get("type") in ENDS:
            response, self._ended = response_of(event), True
            self.failed = event["type"] == ENDS[-1]
            self.response = "" if self.failed or not isinstance(response.get("id"), str) else response["id"]
            self.output = response.get("output") or self._items

    async def _fail(self, error: bytes) -> None:
        self._ended = self.failed = True
        await self._socket.say(error, self._lane)
