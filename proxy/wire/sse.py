"""Server-sent events, byte for byte: splits a stream into events without changing one.

In: the upstream's chunks, cut anywhere, also inside a UTF-8 character or between CR and LF. Out: `Event`s whose `raw` bytes,
joined, are the stream again. Follows the WHATWG HTML standard, section 9.2.6 (server-sent events, interpreting an event stream).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import orjson
from msgspec import Struct

from proxy.errors import UpstreamUnreachable

MAX_EVENT_BYTES = 32 * 1024 * 1024
"""A single event longer than this is a broken upstream; images inside an event stay well below."""
DONE = b"data: [DONE]\n\n"
KEEP_ALIVE = b": keep-alive\n\n"
_END = re.compile(rb"(?>\r\n|\r|\n)(?>\r\n|\r|\n)")
_EVENT_ENDS = (b"\n\n", b"\r\n\r\n", b"\r\r")
_LINE = re.compile(rb"\r\n|\r|\n")
BOM = b"\xef\xbb\xbf"
_LINE_ENDS = ((b"\xe2\x80\xa8", b"\\u2028"), (b"\xe2\x80\xa9", b"\\u2029"), (b"\xc2\x85", b"\\u0085"))
"""U+2028, U+2029 and NEL, which JSON may have in its texts as they are; the other ends it must escape."""


class Event(Struct, frozen=True):
    """One event with its blank line."""

    raw: bytes
    """As it came."""
    data: bytes | None
    """Its ``data`` lines joined by LF; None for a comment or an event without data."""

    @property
    def done(self) -> bool:
        """Whether this is OpenAI's end mark."""
        return self.data is not None and self.data.strip() == b"[DONE]"


class EventSplitter:
    """Cuts chunks into events. Feed every chunk, then `finish` for what came without a blank line."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._begin = 0
        """Where the first event that has not been given out begins."""
        self._searched_bytes = 0
        self._has_started = False

    def feed(self, chunk: bytes) -> Iterator[Event]:
        """The events that `chunk` completes. Raises `UpstreamUnreachable` when one grows past `MAX_EVENT_BYTES`."""
        self._buffer += chunk
        while True:
            match = _END.search(self._buffer, self._searched_bytes)
            # A CR at the end of what is there may be half of a CRLF.
            end = match.end() if match is not None else 0
            if match is None or (end == len(self._buffer) and self._buffer.endswith(b"\r")):
                break
            raw, self._begin, self._searched_bytes = bytes(self._buffer[self._begin : end]), end, end
            del match  # it holds the buffer
            yield self._event(raw)
        del match, self._buffer[: self._begin]
        self._begin, self._searched_bytes = 0, max(0, len(self._buffer) - 3)
        if len(self._buffer) > MAX_EVENT_BYTES:
            raise UpstreamUnreachable(f"the upstream sent an event of more than {MAX_EVENT_BYTES} bytes")

    def finish(self) -> Event | None:
        """What is left when the stream has ended, with a blank line; the standard discards it, OpenAI's clients read it. None for half an
        event: its data broke off."""
        raw = bytes(self._buffer)
        self._buffer.clear()
        self._searched_bytes = 0
        event = self._event(raw) if raw else None
        if raw.endswith(b"\r\r"):  # whole: only a LF might have come behind it
            return event
        if event is None or (event.data is not None and not event.done and not _is_json(event.data)):
            return None
        return Event(raw.rstrip(b"\r\n") + b"\n\n", event.data)

    def _event(self, raw: bytes) -> Event:
        body = raw if self._has_started else raw.removeprefix(BOM)
        self._has_started = True
        if body.endswith(b"\n\n") and b"\r" not in body:  # the two forms that are nearly all there is: with a name, and without
            at = 1 + body.find(b"\n") if body.startswith(b"event:") else 0
            if body.startswith(b"data: ", at) and body.count(b"\n", at) == 2:
                return Event(raw, body[at + 6 : -2])
        values = [value for line in _LINE.split(body) if (value := _data(line)) is not None]
        return Event(raw, b"\n".join(values) if values else None)


class WholeEvents:
    """Lets the bytes of a stream through up to the end of an event: what breaks off in one can then be followed by another."""

    def __init__(self) -> None:
        self.unfinished = bytearray()
        """The beginning of an event."""

    def feed(self, chunk: bytes) -> bytes:
        """What of the stream may leave. An endless event leaves, too."""
        searched = max(0, len(self.unfinished) - 3)
        self.unfinished += chunk
        end = max(self.unfinished.rfind(mark, searched) + len(mark) if mark in self.unfinished[searched:] else 0 for mark in _EVENT_ENDS)
        if len(self.unfinished) - end > MAX_EVENT_BYTES:
            end = len(self.unfinished)
        leaving = bytes(self.unfinished[:end])
        del self.unfinished[:end]
        return leaving


def _is_json(data: bytes) -> bool:
    try:
        orjson.loads(data)
    except orjson.JSONDecodeError:
        return False
    return True


def _data(line: bytes) -> bytes | None:
    """The value of a ``data`` line, without the one space that may follow the colon."""
    name, _, value = line.partition(b":")
    return value.removeprefix(b" ") if name == b"data" else None


def encode(data: bytes) -> bytes:
    """An event with `data`, JSON, on one line, whatever its reader takes for the end of one."""
    return b"data: " + one_line(data) + b"\n\n"


def encode_json(payload: Mapping[str, Any]) -> bytes:
    """An event with this object as its data."""
    return encode(orjson.dumps(payload))


def one_line(data: bytes) -> bytes:
    """JSON in which nothing ends a line for readers that know more ends than the standard: Python's ``splitlines``, say."""
    for sign, escaped in _LINE_ENDS:
        if sign in data:
            data = data.replace(sign, escaped)
    return data
