"""``POST /v1/messages``: the dialect, put together.

Reference: https://docs.anthropic.com/en/api/messages. Parsing checks only what Groundwire itself needs and leaves the rest for the provider
to judge, so that fields, blocks and events newer than this folder pass.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import orjson

from proxy.errors import ProxyError
from proxy.exchange import Answer, Exchange, Request
from proxy.wire.bodies import as_raw, raw_items, withhold
from proxy.wire.dialect import Changes, Dialect
from proxy.wire.messages import answers, events, prompts
from proxy.wire.messages.events import payloads_of
from proxy.wire.messages.own_tools import MessagesFilter
from proxy.wire.messages.requests import read_request
from proxy.wire.messages.shapes import MessagesShapes, asked_of
from proxy.wire.messages.stream import MessagesStream
from proxy.wire.upstream_errors import messages_code, messages_envelope


class MessagesDialect(Dialect):
    """Anthropic's Messages."""

    path = "/messages"
    conversation_field = "messages"
    own_tools = MessagesFilter
    key_headers: tuple[str, ...] = ("x-api-key", "authorization")
    client_header: str = "anthropic-version"

    def error(self, error: ProxyError) -> bytes:
        """Anthropic's envelope."""
        return orjson.dumps(messages_envelope(error))

    def error_code(self, body: bytes) -> str:
        """``error.type``, or what its message says of the prompt's length."""
        return messages_code(body)

    def parse_request(self, body: bytes) -> Request:
        """Raises `InvalidRequest`: not JSON, not an object, or a field of the wrong type."""
        return read_request(body)

    def render_request(self, exchange: Exchange) -> bytes:
        """The client's body when nothing changed; otherwise its pieces with the changed ones written anew."""
        return prompts.render(exchange)

    def parse_answer(self, body: bytes) -> Answer:
        """Raises `ValueError` when the body is no message."""
        fields = orjson.loads(body)
        if not isinstance(fields, dict) or not isinstance(fields.get("content"), list):
            raise ValueError("not a message")
        return MessagesStream.whole(fields)

    def _change(self, raw: dict[str, msgspec.Raw], changes: Changes) -> None:
        blocks = answers.changed_blocks(raw_items(raw["content"]), changes.texts.get(0), changes.arguments.get(0, {}))
        raw["content"] = as_raw(blocks)

    def own_answer(self, exchange: Exchange) -> Answer:
        """A stage's answer as one message."""
        return answers.own_answer(exchange)

    def own_body(self, exchange: Exchange, answer: Answer) -> dict[str, Any]:
        """The message."""
        return answers.own_message(exchange, answer)

    def own_events(self, exchange: Exchange, answer: Answer, verdict: Mapping[str, object] | None) -> bytes:
        """The message's events."""
        message = answers.own_message(exchange, answer)
        usage = {"output_tokens": message["usage"]["output_tokens"]}
        return b"".join(events.encode(payload) for payload in payloads_of(message, usage)) + events.stop(verdict)

    def recogniser(self, exchange: Exchange, body: bytes) -> MessagesShapes:
        """What was asked for is in the `body` as it was sent."""
        return MessagesShapes(asked_of(exchange.original, body, (*exchange.original.tools, *exchange.tools)))

    def refuse_calls(self, exchange: Exchange, own: Collection[str]) -> None:
        """Take the tools `own` out, or forbid all calls."""
        withhold(exchange, own, {"tool_choice": {"type": "none"}})

    def stream(self, *, separate: bool = False) -> MessagesStream:
        """A reader for one streamed answer, whose events do one thing each."""
        return MessagesStream()


class MessagesCount:
    """A path that counts a prompt's tokens: it is passed on, and answered here where the upstream does not know it."""

    path = "/messages/count_tokens"

    def parse(self, body: bytes) -> Request:
        """The prompt that is to be counted; it has no ``max_tokens``. Raises `InvalidRequest`."""
        return read_request(body)

    def missing(self, status: int, body: bytes) -> bool:
        """Whether an upstream's answer says that it has no such path; a model that it does not have it names in the API's envelope."""
        if status not in (404, 405, 501):
            return False
        try:
            return bool(orjson.loads(body)["type"] != "error")
        except (ValueError, LookupError, TypeError):
            return True

    def render(self, tokens: int) -> bytes:
        """The answer."""
        return orjson.dumps({"input_tokens": tokens})
