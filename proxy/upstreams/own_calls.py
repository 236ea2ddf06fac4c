"""Calls of the proxy's own to a configured upstream: what `chat_model` and `decision_model` have in common.

A call goes through the upstream's own retries and cap, with the upstream's own key; nothing of any client's headers goes with it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping

from proxy.errors import NotFound, UpstreamRefused, UpstreamTimeout, UpstreamUnreachable
from proxy.ports.upstream import Call, Reply
from proxy.upstreams.resilience import Resilient
from proxy.wire.upstream_errors import failure_in

_HEADERS = (("content-type", "application/json"), ("accept", "application/json"))
_MAX_ANSWER_BYTES = 2_000_000
"""Far above any verdict, summary or set of probabilities; ends an upstream that sends on and on."""
_REASON_CHARS = 200


class OwnCalls:
    """Posts to one of `upstreams`; those named in `forwarding` have no key but the client's, and cannot be asked."""

    def __init__(self, upstreams: Mapping[str, Resilient], forwarding: Collection[str] = ()) -> None:
        self._upstreams = upstreams
        self._forwarding = frozenset(forwarding)

    def usable(self, name: str) -> Resilient:
        """The upstream of that name. Raises `NotFound`."""
        if name not in self._upstreams:
            raise NotFound(f"no upstream {name!r} to ask; known: {', '.join(self._upstreams)}", param="upstream")
        if name in self._forwarding:
            message = f"upstream {name} has no key of its own (api_key: forward), so the proxy cannot ask it anything for itself"
            raise NotFound(message, param="upstream")
        return self._upstreams[name]

    async def post(self, upstream: str, path: str, body: bytes, *, timeout_s: float, alone: bool = False) -> bytes:
        """The body of a successful answer; with `alone` no fallback is asked.

        `timeout_s` is for the whole call, its retries included. Raises `NotFound`, `UpstreamRefused`, `UpstreamUnreachable`,
        `UpstreamTimeout`, `Overloaded`.
        """
        asked = self.usable(upstream)
        try:
            async with asyncio.timeout(timeout_s):
                status, answer = await self._ask(asked, Call("POST", path, _HEADERS, body), alone)
        except TimeoutError as error:
            raise UpstreamTimeout(f"upstream {upstream}: no answer to the proxy's own question within {timeout_s:g} s") from error
        if not 200 <= status < 300:
            raise UpstreamRefused(f"upstream {upstream} answered the proxy's own question with status {status}{_reason(answer)}", status)
        return answer

    async def _ask(self, upstream: Resilient, call: Call, alone: bool) -> tuple[int, bytes]:
        reply = await (upstream.send_alone(call) if alone else upstream.send(call, self._upstreams))
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


def _reason(body: bytes) -> str:
    """``: MESSAGE`` of an error's body, shortened; "" without one."""
    message = failure_in(body).message
    return f": {message[:_REASON_CHARS]}" if message else ""
