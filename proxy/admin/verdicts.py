"""``GET /groundwire/v1/verdicts/{id}?wait_ms=``: what was found of one exchange, for the client whose it was, or the operator.

A streamed answer leaves before its checks are done, and its headers with it: a client asks here for what they could not tell yet. An
exchange of this process wakes whoever waits for its record; one of another worker has a row in the store from its start on, which is looked
at again at growing pauses.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from types import FrameType

import msgspec
from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from proxy.admin.answers import json_answer
from proxy.admin.auth import AdminAuth
from proxy.admin.verdict_answers import ExchangeVerdict, pending, verdict_of
from proxy.config.access import Clients
from proxy.errors import InvalidApiKey, InvalidRequest, NotFound
from proxy.observe.recording import OpenExchanges
from proxy.store.records import PENDING, Record, Records
from proxy.wire.dialect import Dialect
from proxy.wire.http.headers import ResponseHeaders, client_headers
from proxy.wire.http.peers import not_from_here

MAX_WAIT_MS = 30_000
MAX_WAITING, MAX_WAITING_OF_ONE = 256, 32
"""Requests that wait at once in one process, and of those one client's; beyond, a request is answered with what is known now."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.05, 1.0
"""Between two looks at the store for another worker's exchange; each is twice the one before."""


class ClientAccess(Struct, frozen=True):
    """How clients are told apart, and from where they may ask."""

    clients: Clients
    key_headers: Sequence[Sequence[str]] = (("authorization",),)
    """Of each API, the headers that a key may stand in, the one that counts most first."""
    own_machine_routes: frozenset[str] = frozenset()
    """Routes that only this machine's own programs may use."""


def client_access(clients: Clients, dialects: Iterable[Dialect], own_machine_routes: Iterable[str]) -> ClientAccess:
    """Of a server with these."""
    return ClientAccess(clients, [dialect.key_headers for dialect in dialects], frozenset(own_machine_routes))


class _Asker(Struct, frozen=True):
    """Who asks."""

    operator: bool
    clients: frozenset[str]
    """Every name that a request with these headers has, by one API or another."""
    here: bool
    """Whether it is one of this machine's own programs."""

    def may_see(self, client: str, route: str, access: ClientAccess) -> bool:
        """Whether an exchange is its own."""
        return self.operator or (client in self.clients and (self.here or route not in access.own_machine_routes))


class _Wait:
    """A request that waits."""

    def __init__(self) -> None:
        self.news = asyncio.Event()
        self.over = False

    def end(self) -> None:
        """Answer now."""
        self.over = True
        self.news.set()


class VerdictsApi:
    """The handler."""

    def __init__(self, records: Records, exchanges: OpenExchanges, access: ClientAccess, headers: ResponseHeaders, auth: AdminAuth) -> None:
        self._records, self._exchanges, self._access, self._headers, self._auth = records, exchanges, access, headers, auth
        self._waits: dict[_Wait, frozenset[str]] = {}
        self._stopping: bool | None = None
        """None until somebody has asked."""

    async def verdict(self, request: Request) -> Response:
        """200 with the verdict, 202 while the checks run. Raises `NotFound` for what is not the asker's."""
        if self._stopping is None:
            self._stopping = False
            call_before_stop(self.end_waits)
        asker, wait_s, record_id = self._asker(request), _wait_s(request), request.path_params["id"]
        record = await self._look(record_id, asker)
        if record is None and wait_s > 0:
            with self._waiting(asker) as wait:
                record = await self._wait_for(record_id, asker, wait_s, wait, request)
        if record is None:
            return _answer(pending(record_id), 202)
        return _answer(verdict_of(record, self._headers), 200)

    def end_waits(self) -> None:
        """The server stops: everyone gets what is known now."""
        self._stopping = True
        for wait in self._waits:
            wait.end()

    def _asker(self, request: Request) -> _Asker:
        """Raises `InvalidApiKey`, `RateLimited`."""
        operator = not self._auth.open and self._auth.knows(request)
        keys = client_headers(request.scope["headers"], raw=True).keys
        names, refusal = set[str](), None
        for headers in self._access.key_headers:
            try:
                names.add(self._access.clients.identify([(name, keys[name]) for name in headers if name in keys], None))
            except InvalidApiKey as error:
                refusal = refusal or error
        if refusal is not None and not names and not operator:
            if keys:
                self._auth.wrong_key(request)
            raise refusal
        return _Asker(operator, frozenset(names), not not_from_here(request.scope))

    async def _look(self, record_id: str, asker: _Asker) -> Record | None:
        """The record; None while the exchange goes on. Raises `NotFound`, `StoreUnavailable`."""
        running = self._exchanges.get(record_id)
        record = None if running is not None else await self._records.get(record_id, bodies=False)
        owned = running or record
        if owned is None or not asker.may_see(owned.client, owned.route, self._access):
            raise NotFound("there is no verdict of this id for this key; it may be past its retention")
        return None if record is not None and record.outcome == PENDING else record

    async def _wait_for(self, record_id: str, asker: _Asker, wait_s: float, wait: _Wait, request: Request) -> Record | None:
        """The record, as soon as it is there; None when the time is over, or nobody waits any more."""
        now = asyncio.get_running_loop().time
        until, pause_s, record = now() + wait_s, _FIRST_PAUSE_S, None
        gone = asyncio.create_task(_ends_with(request, wait))
        try:
            while record is None and not wait.over and (left_s := until - now()) > 0:
                here = self._exchanges.listen(record_id, wait.news)
                with suppress(TimeoutError):
                    async with asyncio.timeout(left_s if here else min(left_s, pause_s)):
                        await wait.news.wait()
                wait.news.clear()
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
                record = await self._look(record_id, asker)
            return record
        finally:
            gone.cancel()

    @contextmanager
    def _waiting(self, asker: _Asker) -> Iterator[_Wait]:
        """A place to wait in; where none is free the wait is over at once."""
        wait, of_one = _Wait(), Counter(self._waits.values())[asker.clients]
        if self._stopping or len(self._waits) >= MAX_WAITING or of_one >= MAX_WAITING_OF_ONE:
            wait.end()
        self._waits[wait] = asker.clients
        try:
            yield wait
        finally:
            del self._waits[wait]


async def _ends_with(request: Request, wait: _Wait) -> None:
    """A client that has left waits no longer."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
    wait.end()


def _wait_s(request: Request) -> float:
    """Of ``wait_ms``, 0 without it. Raises `InvalidRequest`."""
    value = request.query_params.get("wait_ms", "0")
    if not (value.isascii() and value.isdecimal() and len(value) <= 5 and int(value) <= MAX_WAIT_MS):
        raise InvalidRequest(f"wait_ms: expected a whole number of milliseconds from 0 to {MAX_WAIT_MS}", param="wait_ms")
    return int(value) / 1000


def _answer(verdict: ExchangeVerdict, status: int) -> Response:
    answer = json_answer(msgspec.to_builtins(verdict), status)
    answer.headers["cache-control"] = "no-store"
    if status == 202:
        answer.headers["retry-after"] = "1"
    return answer


def call_before_stop(call: Callable[[], None]) -> None:
    """Call `call` on the running loop at SIGTERM or SIGINT, before whoever handles it now; nothing where nobody does.

    uvicorn waits for open responses before it ends the application's lifespan; the only sign that it gives before is the signal itself.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)
        if callable(before) and before is not signal.default_int_handler:
            signal.signal(number, _wrap(loop, call, before))


def _wrap(
    loop: asyncio.AbstractEventLoop, call: Callable[[], None], before: Callable[[int, FrameType | None], object]
) -> Callable[[int, FrameType | None], None]:
    def handle(number: int, frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(call)
        before(number, frame)

    return handle
