"""Questions of the proxy's own to a chat model: implements `proxy.ports.ChatModel`.

In: messages in OpenAI's form. Out: the answer's text. The call goes through the upstream's own retries, fallbacks and cap
(`proxy.upstreams.own_calls`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson

from proxy.errors import UpstreamUnreachable
from proxy.exchange import Message
from proxy.upstreams.own_calls import OwnCalls
from proxy.upstreams.resilience import Resilient


class UpstreamChat:
    """Asks one of `upstreams`; those named in `forwarding` have no key but the client's, and cannot be asked."""

    def __init__(self, upstreams: Mapping[str, Resilient], forwarding: Collection[str] = ()) -> None:
        self._calls = OwnCalls(upstreams, forwarding)

    async def complete(
        self, upstream: str, model: str, messages: Sequence[Message], *, params: Mapping[str, Any] | None = None, timeout_s: float = 30.0
    ) -> str:
        """Implements `proxy.ports.ChatModel`. Raises `NotFound`, `UpstreamRefused`, `UpstreamUnreachable`, `UpstreamTimeout`, `Overloaded`.

        `timeout_s` is for the whole call, its retries included.
        """
        body = {**(params or {}), "model": model, "messages": list(messages), "stream": False}
        return _text(upstream, await self._calls.post(upstream, "/chat/completions", orjson.dumps(body), timeout_s=timeout_s))


def _text(upstream: str, body: bytes) -> str:
    """The first choice's text."""
    try:
        content = orjson.loads(body)["choices"][0]["message"]["content"]
    except (ValueError, LookupError, TypeError) as error:
        raise UpstreamUnreachable(f"upstream {upstream}: not a chat completion") from error
    if isinstance(content, list):  # some servers answer in parts
        content = "".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    if not isinstance(content, str) or not content.strip():
        raise UpstreamUnreachable(f"upstream {upstream}: a chat completion without text")
    return content
