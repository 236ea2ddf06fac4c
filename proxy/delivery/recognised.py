"""Under a policy that refuses what it cannot check, what leaves is what was recognised, written anew.

In: an upstream's reply, before anybody reads it. Out: a `Reply` of the same answer: known fields by type, one ``data:`` line an event
and nothing else, no key twice, headers of a list, its content type by the proxy's own writing. So the readers behind it (the dialects' and
every client's) have the same thing before them. What stays behind is counted and named in the record, or, with ``unknown: refuse``, is an
error; so is an answer of which no word is left though it may have had some. An event takes one and a half times what its reader takes (9 µs
beside 6).
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any, NoReturn

import orjson

from proxy.errors import PolicyBlocked
from proxy.exchange import Exchange, Verdict
from proxy.offloop import run_in_thread_if_large
from proxy.ports.upstream import Reply, WrappedReply, is_event_stream, read_whole
from proxy.wire import sse
from proxy.wire.api_errors import envelope, failure_in, failure_of
from proxy.wire.dialect import Recogniser
from proxy.wire.shapes import ABSENT

UNREADABLE = "answer_unreadable"
_HEADERS = frozenset(
    str.split(
        "apim-request-id azureml-model-session cf-ray date request-id retry-after retry-after-ms x-request-id x-should-retry "
        "x-ms-client-request-id x-ms-region x-ms-request-id"
    )
)
"""An upstream's headers that say who served a request and when to come again; SDKs read them."""
_HEADER_BEGINNINGS = ("anthropic-", "openai-", "ratelimit-", "x-ratelimit-")
_MAX_HEADER = 256
_DATE = re.compile(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT")
_LONG_NUMBER = re.compile(rb"\d{17}")
"""What may be more than a double, or 64 bits, hold: `orjson` rounds it."""
_MAX_ERROR_BYTES = 2**20


class Recognised(WrappedReply):
    """Implements `proxy.ports.upstream.Reply` around another."""

    def __init__(
        self, reply: Reply, recogniser: Recogniser, exchange: Exchange, *, refuses: bool, max_bytes: int, count: Callable[[int], None]
    ) -> None:
        """`refuses` makes an error of what is not recognised; `count` counts what stayed behind."""
        super().__init__(reply)
        self._recogniser, self._exchange = recogniser, exchange
        self._refuses, self._count = refuses, count
        self._over = False
        """Whether the end mark has come."""
        self._fine = 200 <= reply.status < 300
        self._streams = self._fine and is_event_stream(reply.headers)
        self._max_bytes = max_bytes if self._fine else _MAX_ERROR_BYTES
        kind = "text/event-stream; charset=utf-8" if self._streams else "application/json"
        kept = [(name, value) for name, value in reply.headers if _is_plain(name, value)]
        self.headers = [*kept, ("content-type", kind)]

    async def chunks(self) -> AsyncIterator[bytes]:
        """The answer, as it comes. Raises `PolicyBlocked`, `UpstreamUnreachable`, `UpstreamTimeout`."""
        if not self._streams:
            yield await self._whole()
            return
        splitter = sse.EventSplitter()
        async for chunk in self._reply.chunks():
            if made := await run_in_thread_if_large(len(chunk), self._events, list(splitter.feed(chunk))):
                yield made
        last = splitter.finish()
        if last is not None and (made := self._events([last])):
            yield made
        self._conclude()

    # ---- one event ----

    def _events(self, events: list[sse.Event]) -> bytes:
        return b"".join([self._event(event) for event in events if event.data is not None])

    def _event(self, event: sse.Event) -> bytes:
        if self._over:
            self._recogniser.reading.leave_out("what follows the end mark")
            return b""
        if event.done:
            self._over = bool(self._recogniser.end_mark)
            return sse.DONE if self._over else b""
        try:
            made = self._encode(self._recogniser.events(self._own_form(_load(event.data or b""))))
        except (ValueError, RecursionError) as error:
            self._refuse(f"an event is not JSON, or nested too deep: {error}")
        self._check()
        return made

    def _own_form(self, fields: Any) -> Any:
        """An event; of an error in another form than the API's, the API's own."""
        if isinstance(fields, dict) and (fields.keys() & {"choices", "type", "candidates"} or isinstance(fields.get("error"), dict)):
            return fields
        failure = failure_of(fields)
        if failure is None:
            return fields
        api, told = self._recogniser.api, envelope(self._recogniser.api, failure, failure.status or 502)
        return {**told["error"], "type": "error"} if api == "responses" else told

    def _encode(self, made: list[dict[str, Any]]) -> bytes:
        named = self._recogniser.api in ("responses", "messages")
        return b"".join([(b"event: " + event["type"].encode() + b"\n" if named else b"") + sse.encode(_dump(event)) for event in made])

    # ---- whole ----

    async def _whole(self) -> bytes:
        body = await read_whole(self._reply, self._max_bytes)
        return await run_in_thread_if_large(len(body), self._answer if self._fine else self._error, body)

    def _answer(self, body: bytes) -> bytes:
        try:
            made = self._recogniser.answer(_load(body))
            written = b"" if made is ABSENT else sse.one_line(_dump(made))
        except (ValueError, RecursionError) as error:
            self._refuse(f"not JSON, or nested too deep: {error}")
        if made is ABSENT:
            self._refuse("not an answer of this API")
        self._conclude()
        return written

    def _error(self, body: bytes) -> bytes:
        """The upstream's own error; of one in another form, its words."""
        try:
            made = self._recogniser.error(_load(body))
            _dump(made if made is not ABSENT else None)
        except (ValueError, RecursionError):
            made = ABSENT
        if made is ABSENT or not isinstance(made.get("error"), dict):
            made = envelope(self._recogniser.api, failure_in(body), self.status)
        return sse.one_line(_dump(made))

    # ---- what stayed behind ----

    def _check(self) -> None:
        if self._refuses and self._recogniser.reading.omissions:
            self._refuse(f"not recognised: {', '.join(self._recogniser.reading.omissions)[:200]}")

    def _conclude(self) -> None:
        """The answer has come to its end: tell what stayed behind."""
        self._check()
        left_out = self._recogniser.reading.omissions
        if not left_out:
            return
        self._count(sum(left_out.values()))
        self._exchange.changes.append({"stage": "upstream", "what": "left out what is not recognised", "fields": dict(left_out)})
        if self._recogniser.reading.lacks_words and not self._recogniser.says:
            self._refuse(f"nothing that is recognised is left of it: {', '.join(left_out)[:200]}")

    def _refuse(self, problem: str) -> NoReturn:
        refuse_unreadable(self._exchange, problem)


def refuse_unreadable(exchange: Exchange, problem: str) -> NoReturn:
    """Raises `PolicyBlocked` for an answer that cannot be checked, and notes why."""
    exchange.verdicts.append(Verdict("upstream", "error", code=UNREADABLE, detail={"problem": problem}))
    raise PolicyBlocked(f"the answer cannot be read whole, and the policy refuses what it cannot check: {problem}", param=UNREADABLE)


def _is_plain(name: str, value: str) -> bool:
    """Whether a header of the upstream's goes on: one of the list that says a word, words with figures (``100, 100;w=60``), or a date."""
    known = name in _HEADERS or name.startswith(_HEADER_BEGINNINGS)
    if not known or len(value) > _MAX_HEADER or not value.isascii() or not value.isprintable():
        return False
    return " " not in value or _DATE.fullmatch(value) is not None or all(any(c.isdigit() for c in word) for word in value.split())


def _load(data: bytes) -> Any:
    """JSON of which every number is what it was. Raises `ValueError`."""
    found = orjson.loads(data)
    return json.loads(data) if _LONG_NUMBER.search(data) else found


def _dump(made: Any) -> bytes:
    """JSON. Raises `ValueError` for what is nested deeper than anybody behind it writes."""
    try:
        return orjson.dumps(made)
    except orjson.JSONEncodeError:  # a number of more than 64 bits, or too deep
        written = json.dumps(made, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    try:
        orjson.dumps(orjson.loads(written))
    except orjson.JSONEncodeError as error:
        raise ValueError("nested too deep") from error
    return written
