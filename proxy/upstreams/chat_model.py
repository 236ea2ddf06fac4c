"""Questions of the proxy's own to a configured upstream: implements `proxy.ports.ChatModel`.

In: messages in OpenAI's form. Out: the answer's text. The call goes through the upstream's own retries, fallbacks and cap, with the
upstream's own key; nothing of the client's headers goes with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import orjson

from proxy.errors import NotFound, UpstreamRefused, UpstreamTimeout, UpstreamUnreachable
from proxy.exchange import Message
from proxy.ports.upstream import Call, Reply
from proxy.upstreams.resilience import Resilient

_HEADERS = (("content-type", "application/json"), ("accept", "application/json"))
_MAX_ANSWER_BYTES = 2_000_000
"""Far above any verdict or summary; ends an upstream that sends on and on."""


class UpstreamChat:
    """Asks one of `upstreams`; those named in `forwarding` have no key but the client's, and cannot be asked."""

    def __init__(self, upstreams: Mapping[str, Resilient], forwarding: Collection[str] = ()) -> None:
        self._upstreams = upstreams
        self._forwarding = frozenset(forwarding)

    async def complete(
        self, upstream: str, model: str, messages: Sequence[Message], *, params: Mapping[str, Any] | None = None, timeout_s: float = 30.0
    ) -> str:
        """Implements `proxy.ports.ChatModel`. Raises `NotFound`, `UpstreamRefused`, `UpstreamUnreachable`, `UpstreamTimeout`, `Overloaded`.

        `timeout_s` is for the whole call, its retries included.
        """
        asked = self._usable(upstream)
        body = {**(params or {}), "model": model, "messages": list(messages), "stream": False}
        call = Call("POST", "/chat/completions", _HEADERS, orjson.dumps(body))
        try:
            async with asyncio.timeout(timeout_s):
                status, answer = await self._ask(asked, call)
        except TimeoutError as error:
            raise UpstreamTimeout(f"upstream {upstream}: no answer to the proxy's own question within {timeout_s:g} s") from error
        if not 200 <= status < 300:
            raise UpstreamRefused(f"upstream {upstream} answered the proxy's own question with status {status}{_reason(answer)}", status)
        return _text(upstream, answer)

    def _usable(self, name: str) -> Resilient:
        if name not in self._upstreams:
            raise NotFound(f"no upstream {name!r} to ask; known: {', '.join(self._upstreams)}", param="upstream")
        if name in self._forwarding:
            message = f"upstream {name} has no key of its own (api_key: forward), so the proxy cannot ask it anything for itself"
            raise NotFound(message, param="upstream")
        return self._upstreams[name]

    async def _ask(self, upstream: Resilient, call: Call) -> tuple[int, bytes]:
        reply = await upstream.send(call, self._upstreams)
        try:
            return reply.status, await _read(reply)
        finally:
            await reply.close()


async def _read(reply: Reply) -> bytes:
    pieces, size = [], 0
    async for piece in reply.chunks():
        pieces.append(piece)
        size += len(piece)
        if size > _MAX_ANSWER_BYTES:
            raise UpstreamUnreachable(
                f"upstream {reply.upstream}: an answer of more than {_MAX_ANSWER_BYTES} bytes to a question of the proxy's own"
            )
    return b"".join(pieces)


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


def _reason(body: bytes) -> str:
    """``: MESSAGE`` of an OpenAI error body, shortened; "" without one."""
    try:
        message = orjson.loads(body)["error"]["message"]
    except (ValueError, LookupError, TypeError):
        return ""
    return f": {str(message)[:200]}"
