"""Takes out of a stream what only the proxy may say in it: the field ``groundwire``, where a client has asked for the verdict there.

In: an upstream's events. Out: the same, without that field of an event, or of the response or message in one; all others in their bytes.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import orjson

from proxy.ports.upstream import WrappedReply
from proxy.wire import sse
from proxy.wire.bodies import EXTENSION, object_in, object_of

_INSIDE = ("response", "message")
_NAME, _ESCAPE = EXTENSION.encode(), b"\\u"
"""Without either an event has no such field."""


def _without_verdict(event: sse.Event) -> bytes:
    data = event.data
    if data is None or not (_NAME in data or _ESCAPE in data) or (fields := object_in(data)) is None:
        return event.raw
    places = [one for one in (fields, *(object_of(fields.get(name)) for name in _INSIDE)) if EXTENSION in one]
    if not places:
        return event.raw
    for one in places:
        del one[EXTENSION]
    name = event.raw[: event.raw.find(b"\n") + 1] if event.raw.startswith(b"event:") else b""
    return name + sse.encode(orjson.dumps(fields))


class WithoutForeignVerdicts(WrappedReply):
    """The reply's stream."""

    async def chunks(self) -> AsyncIterator[bytes]:
        """As they come, cut at the ends of events."""
        splitter = sse.EventSplitter()
        async for chunk in self._reply.chunks():
            if made := b"".join([_without_verdict(event) for event in splitter.feed(chunk)]):
                yield made
        if (last := splitter.finish()) is not None:
            yield _without_verdict(last)
