"""``POST /v1/messages``: the dialect, put together.

Reference: https://docs.anthropic.com/en/api/messages. Parsing checks only what Groundwire itself needs and leaves the rest for the provider
to judge, so that fields, blocks and events newer than this folder pass.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import orjson

from proxy.errors import ProxyError
from proxy.exchange import Answer, Exchange, Request
from proxy.wire.bodies import withhold
from proxy.wire.messages import answers, events, prompts
from proxy.wire.messages.errors import code_of, envelope
from proxy.wire.messages.own_calls import MessagesCallFilter
from proxy.wire.messages.requests import read_request
from proxy.wire.messages.shapes import MessagesShapes, asked_of
from proxy.wire.messages.stream import MessagesStream


class MessagesDialect:
    """Anthropic's Messages."""

    path = "/messages"
    conversation_field = "messages"
    key_headers: tuple[str, ...] = ("x-api-key", "authorization")
    told_by = "anthropic-version"

    def error(self, error: ProxyError) -> bytes:
        """Anthropic's envelope."""
        return orjson.dumps(envelope(error))

    def error_code(self, body: bytes) -> str:
        """``error.type``, or what its message says of the prompt's length."""
        return code_of(body)

    def parse_request(self, body: bytes) -> Request:
        """Raises `InvalidRequest`: not JSON, not an object, or a field of the wrong type."""
        return read_request(body)

    def render_request(self, exchange: Exchange) -> bytes:
        """The client's body when nothing changed; otherwise its pieces with the changed ones written anew."""
        return prompts.render(exchange)

    def parse_answer(self, body: bytes) -> Answer:
        """Raises `ValueError` when the body is no message."""
        return answers.parse(body)

    def usage_of(self, body: bytes) -> Mapping[str, object] | None:
        """The field ``usage``, if it is an object."""
        fields = orjson.loads(body)
        return fields["usage"] if isinstance(fields.get("usage"), dict) else None

    def render_answer(
        self, body: bytes, before: Answer, after: Answer, verdict: Mapping[str, object] | None, others: Sequence[Mapping[str, object]] = ()
    ) -> bytes:
        """The upstream's own body where nothing changed."""
        return answers.render(body, before, after, verdict, others)

    def own_answer(self, exchange: Exchange) -> Answer:
        """A stage's answer as one message."""
        return answers.own_answer(exchange)

    def render_own(self, exchange: Exchange, verdict: Mapping[str, object] | None) -> tuple[str, bytes]:
        """Content type and bytes of a stage's answer."""
        message = answers.own_message(exchange, exchange.answer or answers.own_answer(exchange))
        if exchange.original.stream:
            sent = b"".join(events.encode(event) for event in events.whole(message))
            return "text/event-stream; charset=utf-8", sent + events.stop(verdict)
        return "application/json", orjson.dumps(message if verdict is None else {**message, "groundwire": verdict})

    def recogniser(self, exchange: Exchange, body: bytes) -> MessagesShapes:
        """What was asked for is in the `body` as it was sent."""
        return MessagesShapes(asked_of(exchange.original, body, (*exchange.original.tools, *exchange.tools)))

    def call_filter(self, exchange: Exchange, *, whole: bool) -> MessagesCallFilter:
        """Where a form was asked for, an answer leaves whole too: text before a call would not be JSON with the text after it."""
        return MessagesCallFilter(whole=whole or exchange.wants.form != "text")

    def refuse_calls(self, exchange: Exchange, own: Collection[str]) -> None:
        """Take the tools `own` out, or forbid all calls."""
        withhold(exchange, own, {"tool_choice": {"type": "none"}})

    def stream(self, *, separate: bool = False) -> MessagesStream:
        """A reader for one streamed answer, whose events do one thing each."""
        return MessagesStream()
