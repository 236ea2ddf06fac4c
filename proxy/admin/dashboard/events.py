"""What is new, told to open pages as server-sent events: exchanges, and how much waits for a decision.

The source is the store, so that every worker's exchanges show in every page: each worker asks it once a second, as long as anybody
listens to this worker. An exchange is listed by the time at which its request came but is written when it is over, so the look goes some
minutes back and tells what it has not seen before; a page drops what it has already. The specification of the stream is
https://html.spec.whatwg.org/multipage/server-sent-events.html; a page that comes back gives the last id it has seen.

uvicorn waits for open responses before it ends the application's lifespan, so a stream without an end would hold every stop up until
the drain is over. The only sign it gives before that is the signal itself, whose handler is therefore wrapped (`when_told_to_stop`): ours
first, then the server's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from types import FrameType
from typing import Any

import msgspec

from proxy.admin.dashboard.summaries import summary
from proxy.errors import Overloaded, StoreUnavailable
from proxy.store.records import Records

log = logging.getLogger(__name__)

MAX_LISTENERS = 50
"""Of one worker: a page is one, and looks only while it is seen."""
MAX_AT_ONCE = 100
"""Exchanges that one event tells of; what is beyond it is counted."""
_LOOK_S, _HEARTBEAT_S = 1.0, 15.0
_BACK_S, _BACK_IDS = 600.0, 1000
"""How long an exchange may last and still be noticed, and how many of the newest are told apart."""
_QUEUE = 100
_STOP_S = 2.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT)
_encode = msgspec.json.Encoder(order="deterministic").encode
Counts = Callable[[], Awaitable[dict[str, int]]]


class Feed:
    """One worker's look at the store, shared by its listeners."""

    def __init__(
        self,
        records: Records,
        counts: Counts,
        *,
        look_s: float = _LOOK_S,
        heartbeat_s: float = _HEARTBEAT_S,
        max_listeners: int = MAX_LISTENERS,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._records, self._counts, self._clock = records, counts, clock
        self._look_s, self._heartbeat_s, self._max_listeners = look_s, heartbeat_s, max_listeners
        self._listeners: set[asyncio.Queue[bytes | None]] = set()
        """What each has still to be told; None ends it."""
        self._looking: asyncio.Task[None] | None = None
        self._catching_up: set[asyncio.Task[bytes]] = set()
        self._ended = asyncio.Event()
        self._seen: set[str] | None = None
        self._waiting: dict[str, int] = {}
        self._closed = False

    @property
    def listeners(self) -> int:
        """How many there are now."""
        return len(self._listeners)

    def close(self) -> None:
        """End every stream: the server stops."""
        self._closed = True
        for queue in self._listeners:
            _end(queue)

    async def stop(self) -> None:
        """End every stream, and wait for what is being asked of the store: it is closed next."""
        self.close()
        self._ended.set()
        asking = [task for task in (self._looking, *self._catching_up) if task is not None]
        if asking:
            await asyncio.wait(asking, timeout=_STOP_S)

    def listen(self, after: str = "") -> AsyncIterator[bytes]:
        """The stream of one listener: what came after the record `after`, then what comes. Raises `Overloaded`."""
        if len(self._listeners) >= self._max_listeners or self._closed:
            raise Overloaded("too many pages are open at once; this one goes on without news", headers=(("retry-after", "30"),))
        return self._stream(after)

    async def _stream(self, after: str) -> AsyncIterator[bytes]:
        queue: asyncio.Queue[bytes | None] = asyncio.Queue(_QUEUE)
        self._listeners.add(queue)
        if self._looking is None or self._looking.done():
            self._seen, self._waiting = None, {}
            self._looking = asyncio.create_task(self._look_on(), name="dashboard-feed")
        try:
            yield b"retry: 3000\n\n" + await self._catch_up(after)
            while True:
                try:
                    async with asyncio.timeout(self._heartbeat_s):
                        event = await queue.get()
                except TimeoutError:
                    event = b": still here\n\n"
                if event is None:
                    return
                yield event
        finally:
            self._listeners.discard(queue)

    async def _catch_up(self, after: str) -> bytes:
        """As `_catch_up_event`, in a task of its own: a client that leaves again at once must not break a question to the store off."""
        task = asyncio.create_task(self._catch_up_event(after))
        self._catching_up.add(task)
        task.add_done_callback(self._catching_up.discard)
        return await asyncio.shield(task)

    async def _catch_up_event(self, after: str) -> bytes:
        """What came between the page's making and its listening, and how much waits."""
        try:
            found = [await self._exchanges_event(await self._newer(after))] if after else []
            return b"".join([*found, _event("counts", await self._counts())])
        except StoreUnavailable as error:
            return _event("problem", {"message": str(error)})

    async def _newer(self, after: str) -> list[str]:
        ids = await self._records.ids(self._clock() - _BACK_S, _BACK_IDS)
        return [record_id for record_id in ids if record_id > after][:MAX_AT_ONCE]

    async def _look_on(self) -> None:
        """Look again and again, as long as anybody listens."""
        problem = ""
        while self._listeners and not self._closed:
            try:
                await self._look()
                problem = ""
            except StoreUnavailable as error:
                if str(error) != problem:
                    problem = str(error)
                    self._tell(_event("problem", {"message": problem}))
            except Exception:  # one bad look must not leave every page without news
                log.exception("the dashboard's look at the store failed")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._look_s):
                    await self._ended.wait()

    async def _look(self) -> None:
        ids = await self._records.ids(self._clock() - _BACK_S, _BACK_IDS)
        seen, self._seen = self._seen, set(ids)
        new = [] if seen is None else [record_id for record_id in ids if record_id not in seen]
        if new:
            self._tell(await self._exchanges_event(new[:MAX_AT_ONCE], len(new)))
        waiting = await self._counts()
        if waiting != self._waiting:
            self._waiting = waiting
            self._tell(_event("counts", waiting))

    async def _exchanges_event(self, ids: list[str], number: int | None = None) -> bytes:
        if not ids:
            return b""
        records = await self._records.these(ids)
        return _event("exchanges", {"number": number or len(ids), "exchanges": [summary(record) for record in records]}, ids[0])

    def _tell(self, event: bytes) -> None:
        for queue in list(self._listeners):
            if queue.full():  # it does not read: its page comes back with the last id it has
                self._listeners.discard(queue)
                _end(queue)
            else:
                queue.put_nowait(event)


def _end(queue: asyncio.Queue[bytes | None]) -> None:
    """The end, in place of what a listener has not read."""
    while not queue.empty():
        queue.get_nowait()
    queue.put_nowait(None)


def _event(name: str, data: Any, event_id: str = "") -> bytes:
    """One event; JSON has no line feeds outside of its strings, and escapes those within."""
    head = f"id: {event_id}\n" if event_id else ""
    return f"{head}event: {name}\ndata: ".encode() + _encode(data) + b"\n\n"


# ---- the server stops ----


def when_told_to_stop(call: Callable[[], None]) -> None:
    """Call `call` on the running loop at SIGTERM or SIGINT, before whoever handles it now; nothing where nobody does."""
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
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
