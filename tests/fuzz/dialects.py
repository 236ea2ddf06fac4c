"""The targets of OpenAI's Responses and Anthropic's Messages: requests, answers and streams through the whole proxy.

What a client would show is read here, more leniently than the proxy reads, so that the two can disagree: whatever the deltas, the events that
repeat them, or the answer at the stream's end say.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable, Container, Iterator
from dataclasses import dataclass
from typing import Any

from proxy.wire import sse
from proxy.wire.dialect import Dialect
from proxy.wire.messages.dialect import MessagesDialect
from proxy.wire.responses.dialect import ResponsesDialect
from tests.fuzz import mutate
from tests.fuzz.client import parsed, payloads
from tests.fuzz.inside import BLANK, Reader, Response
from tests.fuzz.targets import Through, cut, exact, rng_of, told_otherwise

GROWING = ("delta", "refusal delta", "block")
"""How places begin whose text comes in pieces."""
Texts = list[tuple[str, str]]
"""Where it stands, and what it says; a place that begins with ``refusal`` is one of a refusal."""


@dataclass(slots=True, frozen=True)
class Api:
    """A dialect, and how its clients read."""

    name: str
    dialect: Dialect
    body: bytes
    """A request."""
    answer: bytes
    """A whole answer."""
    shown_of_body: Callable[[Any], Iterator[tuple[str, str]]]
    shown_of_event: Callable[[Any], Iterator[tuple[str, str]]]
    """Of a streamed event."""

    def shown(self, body: bytes, *, streamed: bool) -> Texts:
        """All text that a client would show."""
        if not streamed:
            return [(place, text) for place, text in self.shown_of_body(parsed(body.decode("utf-8", "replace"))) if text]
        found: dict[str, str] = {}
        for number, payload in enumerate(payloads(body)):
            for place, text in self.shown_of_event(parsed(payload)):
                place = place if place.startswith(GROWING) else f"{place}, event {number}"
                found[place] = found.get(place, "") + text
        return [(place, text) for place, text in found.items() if text]


def _objects(value: Any, name: str) -> list[dict[str, Any]]:
    found = value.get(name) if isinstance(value, dict) else None
    return [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []


def _strings(*pairs: tuple[str, Any]) -> Iterator[tuple[str, str]]:
    return ((place, text) for place, text in pairs if isinstance(text, str))


def _of_part(place: str, part: Any) -> Iterator[tuple[str, str]]:
    if isinstance(part, dict) and part.get("type") == "output_text":
        yield from _strings((place, part.get("text")))
    elif isinstance(part, dict) and part.get("type") == "refusal":
        yield from _strings((f"refusal {place}", part.get("refusal")))


def _of_item(place: str, item: Any) -> Iterator[tuple[str, str]]:
    if isinstance(item, dict) and item.get("type") == "message":
        for i, part in enumerate(_objects(item, "content")):
            yield from _of_part(f"{place}.{i}", part)


def _of_response(response: Any, place: str = "body") -> Iterator[tuple[str, str]]:
    for i, item in enumerate(_objects(response, "output")):
        yield from _of_item(f"{place} {i}", item)


def _of_responses_event(event: Any) -> Iterator[tuple[str, str]]:
    kind = event.get("type") if isinstance(event, dict) else None
    if not isinstance(kind, str):
        return
    at = f"{event.get('output_index')}.{event.get('content_index')}"
    if kind == "response.output_text.delta":
        yield from _strings((f"delta {at}", event.get("delta")))
    elif kind == "response.refusal.delta":
        yield from _strings((f"refusal delta {at}", event.get("delta")))
    elif kind == "response.output_text.done":
        yield from _strings((f"done {at}", event.get("text")))
    elif kind == "response.refusal.done":
        yield from _strings((f"refusal done {at}", event.get("refusal")))
    elif kind == "response.content_part.done":
        yield from _of_part(f"part {at}", event.get("part"))
    elif kind == "response.output_item.done":
        yield from _of_item(f"item {event.get('output_index')}", event.get("item"))
    elif kind in ("response.completed", "response.incomplete", "response.failed"):
        yield from _of_response(event.get("response"), kind)


def _of_message(message: Any) -> Iterator[tuple[str, str]]:
    for i, block in enumerate(_objects(message, "content")):
        if block.get("type") == "text":
            yield from _strings((f"block {i}", block.get("text")))


def _of_messages_event(event: Any) -> Iterator[tuple[str, str]]:
    kind = event.get("type") if isinstance(event, dict) else None
    place = f"block {event.get('index')}" if kind else ""
    block, delta = (event.get(name) if kind else None for name in ("content_block", "delta"))
    if kind == "content_block_start" and isinstance(block, dict) and block.get("type") == "text":
        yield from _strings((place, block.get("text")))
    elif kind == "content_block_delta" and isinstance(delta, dict) and delta.get("type") == "text_delta":
        yield from _strings((place, delta.get("text")))


RESPONSES = Api(
    "responses",
    ResponsesDialect(),
    b'{"model":"gpt-5","input":"Where is it?"}',
    b'{"id":"resp_1","object":"response","status":"completed","model":"gpt-5","output":[]}',
    _of_response,
    _of_responses_event,
)
MESSAGES = Api(
    "messages",
    MessagesDialect(),
    b'{"model":"claude-sonnet-4-6","max_tokens":9,"messages":[{"role":"user","content":"Where is it?"}]}',
    b'{"id":"msg_1","type":"message","role":"assistant","model":"claude-sonnet-4-6","content":[],"stop_reason":"end_turn"}',
    _of_message,
    _of_messages_event,
)
APIS = (RESPONSES, MESSAGES)


class _ApiTarget(Through):
    """Of one API."""

    kind = ""

    def __init__(self, api: Api) -> None:
        super().__init__()
        self.api = api
        self.name = self.folder = f"{api.name}-{self.kind}"

    def _send(self, route: str, body: bytes, known: Container[int], *, inline: bool = False) -> Response:
        got = self.proxy.post(route, body, inline=inline, path=self.api.dialect.path)
        assert got.ended, "the response has no end"
        assert got.status in known, f"status {got.status} through {route}"
        return got

    def _check_read(self, body: bytes, *, streamed: bool) -> None:
        """Whatever a client shows of a closed policy's answer has been read."""
        for place, text in self.api.shown(body, streamed=streamed):
            read = (Reader.read.refusals if place.startswith("refusal") else Reader.read.sentences).get("0", "")
            assert text in read, f"what {place} says was delivered and not read"

    def _check_blank(self, body: bytes, *, streamed: bool) -> None:
        """Of an answer of which every sentence was replaced, nothing else is shown."""
        for place, text in self.api.shown(body, streamed=streamed):
            assert not text.replace(BLANK, "").strip(), f"what {place} says was replaced and delivered all the same"


class ApiRequest(_ApiTarget):
    """A client's body: refused with 400 and an envelope, or sent on byte for byte."""

    kind = "request"
    mutate = staticmethod(mutate.of_json)

    def run(self, data: bytes) -> None:
        """Through a policy without stages, and one that judges."""
        for route in ("tap", "closed-hold"):
            self.proxy.upstream.kind, self.proxy.upstream.pieces = "application/json", [self.api.answer]
            self.proxy.upstream.calls.clear()
            got = self._send(route, data, (200, 400, 413))
            if got.status != 200:
                error = json.loads(got.body)["error"]
                assert {"message", "type", "param", "code"} == set(error), "no envelope"
                assert error["code"], "no code"
                assert not self.proxy.upstream.calls or error["code"] == "policy_blocked", "refused and sent all the same"
            elif b"groundwire" not in data:
                assert self.proxy.upstream.calls[0].body == data, "bytes changed that no policy touches"
        self._written()


class ApiAnswer(_ApiTarget):
    """A provider's answer that is not streamed."""

    kind = "answer"
    mutate = staticmethod(mutate.of_json)

    def run(self, data: bytes) -> None:
        """Untouched, read, refused where it cannot be read, changed."""
        self.proxy.upstream.kind, self.proxy.upstream.pieces = "application/json", [data]
        if told_otherwise(data):
            self._send("tap", self.api.body, range(200, 600))
            return
        assert self._post("tap").body == data, "tap changed bytes"
        assert self._post("hold").body == data, "a policy that only reads changed bytes"
        got = self._post("closed-hold")
        if got.status == 200:
            assert exact(got.body) is not None, "what was written anew is no JSON"
            self._check_read(got.body, streamed=False)
        self._check_blank(self._post("blank-hold").body, streamed=False)
        before = exact(data)
        for route in ("tap", "shout"):
            after = exact(self._post(route, inline=True).body)
            assert before is None or after is not None, f"what left {route} is no JSON"
            if route == "tap" and isinstance(before, dict) and isinstance(after, dict):
                left, kept = ({k: v for k, v in one.items() if k != "groundwire"} for one in (before, after))
                assert left == kept, "a field that no stage changes is gone or changed"
        self._written()

    def _post(self, route: str, *, inline: bool = False) -> Response:
        return self._send(route, self.api.body, (200, 400), inline=inline)


class ApiStream(_ApiTarget):
    """A provider's answer as an event stream, cut anywhere."""

    kind = "stream"
    mutate = staticmethod(mutate.of_stream)

    def run(self, data: bytes) -> None:
        """The parser however it is cut, and every delivery."""
        rng = rng_of(data)
        self._check_cuts(data, rng)
        self.proxy.upstream.kind, self.proxy.upstream.pieces = "text/event-stream", cut(data, rng)
        inline = rng.random() < 0.3
        assert self._post("tap").body.startswith(sse.WholeEvents().feed(data).rstrip(b"\r\n")), "tap changed bytes"
        whole = self._whole(data)
        for route in ("hold", "gate"):
            got = self._post(route, inline=inline)
            self._check_valid(data, got)
            if whole and got.status == 200:
                came, left = self._shown(data), self._shown(got.body)  # what the provider left open may be closed, with the same text
                assert came <= left, f"{route} changed what the client shows"
                assert {text for _, text in came} == {text for _, text in left}, f"{route} added to what the client shows"
                assert inline or route == "gate" or got.body == data, "hold changed bytes"
        for route in ("closed-hold", "closed-gate"):
            got = self._post(route, inline=inline)
            if got.status == 200:
                self._check_read(got.body, streamed=True)
        for route in ("blank-hold", "blank-gate"):
            self._check_blank(self._post(route, inline=inline).body, streamed=True)
        self._written()

    def _post(self, route: str, *, inline: bool = False) -> Response:
        streamed = self.api.body[:-1] + b',"stream":true}'
        return self._send(route, streamed, (200, 400, 502) if "hold" in route else (200,), inline=inline)

    def _shown(self, body: bytes) -> set[tuple[str, str]]:
        """Wherever the events stand: a delivery may cut one in two."""
        return {(place.partition(",")[0], text) for place, text in self.api.shown(body, streamed=True)}

    def _whole(self, data: bytes) -> bool:
        """Whether the proxy finds nothing amiss in it, and what tells of a text says of which."""
        if any(" None" in place or "None " in place or ".None" in place for place, _ in self._shown(data)):
            return False
        stream = self.api.dialect.stream()
        pieces = [*stream.feed(data), *stream.finish()]
        ends = bool(pieces) and pieces[-1].done and sum(piece.done for piece in pieces) == 1
        closed = data.endswith((b"\n\n", b"\r\n\r\n", b"\r\r"))
        return ends and closed and stream.complete and not stream.unreadable and stream.error is None

    def _check_cuts(self, data: bytes, rng: random.Random) -> None:
        expected = None
        for pieces in ([data], cut(data, rng), cut(data, rng)):
            stream = self.api.dialect.stream(separate=True)
            found = [piece.raw for chunk in pieces for piece in stream.feed(chunk)] + [piece.raw for piece in stream.finish()]
            state = found, stream.answer, stream.unreadable, stream.complete, stream.done, stream.error, stream.usage
            expected = expected or state
            assert state == expected, "another cut gives another answer"

    @staticmethod
    def _check_valid(data: bytes, got: Response) -> None:
        """No event leaves as no JSON that did not come so."""
        if got.status != 200:
            assert exact(got.body) is not None, "the error is no JSON"
            return
        known, new = (Counter(payload for payload in payloads(body) if exact(payload) is None) for body in (data, got.body))
        assert not new - known, "an event left that is no JSON"
