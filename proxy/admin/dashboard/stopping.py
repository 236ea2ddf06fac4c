"""Tells the pages' streams that the server stops.

uvicorn waits for open responses before it ends the application's lifespan, so a stream without an end would hold every stop up until the
drain is over. The only sign it gives before that is the signal itself, whose handler is therefore wrapped: ours first, then the server's.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType

_SIGNALS = (signal.SIGTERM, signal.SIGINT)


def when_told_to_stop(call: Callable[[], None]) -> None:
    """Call `call` on the running loop at SIGTERM or SIGINT, before whoever handles it now; nothing where nobody does."""
    if threading.current_thread() is not threading.main_thread():
        return
    loop = asyncio.get_running_loop()
    for number in _SIGNALS:
        before = signal.getsignal(number)
        if callable(before) and before is not signal.default_int_handler:
            signal.signal(number, _wrapped(loop, call, before))


def _wrapped(
    loop: asyncio.AbstractEventLoop, call: Callable[[], None], before: Callable[[int, FrameType | None], object]
) -> Callable[[int, FrameType | None], None]:
    def handle(number: int, frame: FrameType | None) -> None:
        if not loop.is_closed():
            loop.call_soon_threadsafe(call)
        before(number, frame)

    return handle
