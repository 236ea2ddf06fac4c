"""``POST /v1/messages/count_tokens``, answered here where the upstream has no such path.

Reference: https://docs.anthropic.com/en/api/messages-count-tokens
"""

from __future__ import annotations

import orjson

from proxy.exchange import Request
from proxy.wire.messages.requests import read_request


class MessagesCount:
    """Implements `proxy.wire.dialect.TokenCount`."""

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
